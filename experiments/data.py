"""The rows that the experiments use: simulated galaxies anywhere, a real catalogue when given one."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from gpzed._files import file_hash
from gpzed._types import FloatArray, IntArray
from gpzed.catalog import Catalog, Photometry, extract_photometry, read_catalog
from gpzed.config import RunConfig
from gpzed.errors import CatalogError, ConfigError
from gpzed.features import fit_transformer, photometry_rows
from gpzed.simulate import simulate_survey
from gpzed.workflows.inputs import needed_columns
from gpzed.workflows.redshifts import Limits, valid_redshifts
from gpzed.workflows.schema import open_info, resolve_schema

PAPER_INPUTS = RunConfig.paper().features
"""Inputs of the paper (section 6.2): magnitudes and the natural logarithms of their errors."""
MIN_ROWS = 100
"""Fewest rows in a set; with fewer the scores say nothing."""


@dataclass(frozen=True)
class Rows:
    """Inputs (n, d) and redshifts (n,) of some galaxies."""

    X: FloatArray
    z: FloatArray

    def __len__(self) -> int:
        return len(self.z)

    def head(self, n: int | None) -> Rows:
        """Return the first n rows; all of them if n is None."""
        return self if n is None else Rows(self.X[:n], self.z[:n])


@dataclass(frozen=True)
class Sets:
    """Rows to train on, to choose the iterate by, and to test on."""

    # train, valid, test: `valid` is empty where the estimators hold out rows themselves
    train: Rows
    valid: Rows
    test: Rows
    names: tuple[str, ...]  # names of the inputs

    @property
    def sha256(self) -> str:
        """Fingerprint of all rows."""
        digest = hashlib.sha256(repr(self.names).encode())
        for rows in (self.train, self.valid, self.test):
            digest.update(np.ascontiguousarray(rows.X).tobytes() + np.ascontiguousarray(rows.z).tobytes())
        return digest.hexdigest()

    @property
    def learning(self) -> Rows:
        """Training and validation rows together, for methods that need no separate ones."""
        return Rows(np.concatenate([self.train.X, self.valid.X]), np.concatenate([self.train.z, self.valid.z]))

    @property
    def validation_data(self) -> tuple[FloatArray, FloatArray] | None:
        """The validation rows as the estimators take them; None if there are none."""
        return (self.valid.X, self.valid.z) if len(self.valid) else None


@dataclass(frozen=True)
class Source:
    """Where the rows come from."""

    size: int = 100_000  # galaxies in each of the three sets; at most so many of a catalogue
    seed: int = 0
    # catalogues with redshifts; empty for the simulator. Without `tests` they are split into three equal sets
    catalogues: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()  # catalogues to test on; the others are then for training alone
    # schema, sentinels and range of redshifts of the catalogues; the rest of it is not used
    config: RunConfig = field(default_factory=RunConfig)
    errors: bool = True  # whether the logarithms of the errors are inputs, as in the paper, beside the magnitudes

    def __post_init__(self) -> None:
        if self.size < MIN_ROWS:
            raise ConfigError(f"`size` is {self.size}; expected at least {MIN_ROWS} galaxies in each set")
        if self.tests and not self.catalogues:
            raise ConfigError("a catalogue to judge by was given, but none to train on; give it with --catalogue")

    def identity(self) -> dict[str, Any]:
        """Return what the rows are, as JSON types; no two different sources have the same."""
        inputs = {} if self.errors else {"errors": False}
        if not self.catalogues:
            return {"simulator": "sdss", "size": self.size, "seed": self.seed, **inputs}
        limits = self.config.split
        return {
            "catalogues": {Path(path).name: file_hash(path) for path in self.catalogues},
            "tests": {Path(path).name: file_hash(path) for path in self.tests},
            "schema": {k: v for k, v in self.config.to_dict()["schema"].items() if v not in (None, "")},
            "redshifts": [limits.min_redshift, limits.max_redshift],
            "size": self.size,
            "seed": self.seed,
            **inputs,
        }


def load_sets(source: Source, cache: str | os.PathLike[str] | None = None) -> Sets:
    """Read or simulate the rows of a source; `cache` is a file to keep simulated rows in, which take a while."""
    if source.catalogues:
        return _from_catalogues(source)
    path = None if cache is None else Path(cache)
    if path is not None and path.exists():
        return _read_cache(path)
    galaxies = simulate_survey(3 * source.size, survey="sdss", random_state=source.seed, only_spectroscopic=True)
    table = Catalog(galaxies.columns())
    schema = resolve_schema(table.names, RunConfig().schema)
    photometry = extract_photometry(table, schema, RunConfig().sentinels)
    bounds = np.arange(4) * source.size
    parts = [np.arange(start, stop) for start, stop in pairwise(bounds)]
    sets = _make_sets(photometry, table.floats("z_spec"), parts, source.errors)
    if path is not None:
        _write_cache(path, sets)
    return sets


def _make_sets(photometry: Photometry, z: FloatArray, parts: Sequence[IntArray], errors: bool) -> Sets:
    """Make the inputs of all rows with what is fitted on the first part, and cut them into sets."""
    transformer = fit_transformer(
        photometry_rows(photometry, parts[0]), dataclasses.replace(PAPER_INPUTS, errors="inputs" if errors else "none")
    )
    X = transformer.transform(photometry).X
    train, valid, test = (Rows(X[part], z[part]) for part in parts)
    return Sets(train, valid, test, transformer.names)


def _from_catalogues(source: Source) -> Sets:
    learn = [_read(path, source.config) for path in source.catalogues]
    judge = [_read(path, source.config) for path in source.tests]
    rng = np.random.default_rng(source.seed)
    photometry, z = _joined([*learn, *judge])
    n_learn = sum(len(redshifts) for _, redshifts in learn)
    order = rng.permutation(n_learn)
    if judge:
        train, valid = order[: source.size], order[:0]
        test = n_learn + rng.permutation(len(z) - n_learn)[: source.size]
    else:
        size = min(source.size, n_learn // 3)
        train, valid, test = order[:size], order[size : 2 * size], order[2 * size : 3 * size]
    if min(len(train), len(test)) < MIN_ROWS:
        raise CatalogError(
            f"{', '.join(source.catalogues)}: {len(train)} rows to train on and {len(test)} to judge by are left; "
            f"expected at least {MIN_ROWS} of each, with redshifts"
        )
    return _make_sets(photometry, z, [np.sort(part) for part in (train, valid, test)], source.errors)


def _read(path: str, config: RunConfig) -> tuple[Photometry, FloatArray]:
    """Return photometry and redshifts of the usable rows of a catalogue."""
    info = open_info(path, config.schema)
    schema = resolve_schema(info.names, config.schema)
    schema.require(info.names, redshift=True)
    columns = needed_columns(schema, schema.redshift)
    table = read_catalog(path, columns=columns, format=config.schema.format, hdf5_group=config.schema.hdf5_group)
    limits = Limits.of(config.split.min_redshift, config.split.max_redshift, "as asked")
    z = table.floats(str(schema.redshift))
    table = table.take(valid_redshifts(z, limits, config.sentinels).keep)
    photometry = extract_photometry(table, schema, config.sentinels)
    measured = np.flatnonzero(photometry.measured.any(axis=1))
    return photometry_rows(photometry, measured), table.floats(str(schema.redshift))[measured]


def _joined(parts: Sequence[tuple[Photometry, FloatArray]]) -> tuple[Photometry, FloatArray]:
    """Return the rows of several catalogues, which must have the same bands, as one."""
    tables = [photometry for photometry, _ in parts]
    first = tables[0]
    for other in tables[1:]:
        if (other.bands, other.kind) != (first.bands, first.kind):
            raise CatalogError(
                f"the catalogues have different photometry ({first.kind} {list(first.bands)} and {other.kind} "
                f"{list(other.bands)}); choose common bands with --bands"
            )
    limits = [table.limit for table in tables if table.limit is not None]
    joined = dataclasses.replace(
        first,
        values=np.concatenate([table.values for table in tables]),
        errors=np.concatenate([table.errors for table in tables]),
        status=np.concatenate([table.status for table in tables]),
        limit=np.concatenate(limits) if len(limits) == len(tables) else None,
    )
    return joined, np.concatenate([z for _, z in parts])


def _write_cache(path: Path, sets: Sets) -> None:
    arrays: dict[str, Any] = {"names": np.array(sets.names)}
    for name in ("train", "valid", "test"):
        rows: Rows = getattr(sets, name)
        arrays |= {f"X_{name}": rows.X, f"z_{name}": rows.z}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.stem}.{os.getpid()}.npz")
    np.savez(partial, **arrays)
    partial.replace(path)


def _read_cache(path: Path) -> Sets:
    with np.load(path, allow_pickle=False) as stored:
        train, valid, test = (Rows(stored[f"X_{name}"], stored[f"z_{name}"]) for name in ("train", "valid", "test"))
        return Sets(train, valid, test, tuple(str(name) for name in stored["names"]))
