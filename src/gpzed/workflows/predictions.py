"""Files of predictions read back: distributions, true redshifts where there are any, and other columns."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpzed._types import AnyArray, BoolArray, FloatArray, IntArray
from gpzed.catalog import (
    Catalog,
    CatalogInfo,
    Sentinels,
    address_of,
    catalog_info,
    format_of,
    local_path,
    read_catalog,
)
from gpzed.catalog.conventions import ID_NAMES, REDSHIFT_NAMES
from gpzed.errors import CatalogError, ConfigError, DataWarning, SchemaError
from gpzed.prediction import Prediction
from gpzed.workflows.densities import PARTS, density_columns, make_prediction
from gpzed.workflows.photoz_catalog import PhotozCatalog
from gpzed.workflows.qpfile import is_qp_file, read_qp
from gpzed.workflows.redshifts import Limits, Redshifts, valid_redshifts


@dataclass(frozen=True)
class PredictionSource:
    """Where predictions, and the true redshifts to compare them with, are found.

    Parameters
    ----------
    path : path or PhotozCatalog
        File of `predict`, any with the columns ``z_phot`` and ``z_std``, or one of qp, which codes of RAIL write; or
        what `predict` returned.
    redshift : str, optional
        Column of the true redshift; the one that the file names, or a known name, otherwise.
    id : str, optional
        Column of the identifiers; the one that the file names, or a known name, otherwise.
    min_redshift : float, optional
        Only rows above this redshift; as in training, or above 0, if not given.
    max_redshift : float, optional
        Only rows up to this redshift; as in training, or up to 20, if not given.
    truth : path, optional
        Catalogue with the true redshifts, row by row, for files of qp that have none.
    format : str, optional
        Format of the file, if the suffix does not tell.
    """

    path: str | os.PathLike[str] | PhotozCatalog
    redshift: str | None = None
    id: str | None = None
    min_redshift: float | None = None
    max_redshift: float | None = None
    truth: str | os.PathLike[str] | None = None
    format: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", local_path(self.path))
        object.__setattr__(self, "truth", local_path(self.truth))

    @property
    def name(self) -> str:
        """The path as text."""
        return "the predictions" if isinstance(self.path, PhotozCatalog) else os.fspath(self.path)

    @property
    def files(self) -> list[str | os.PathLike[str]]:
        """The files that are read, with that of densities which the predictions name, if they can be read."""
        given = [file for file in (self.path, self.truth) if isinstance(file, str | os.PathLike)]
        if isinstance(self.path, PhotozCatalog) or not os.path.exists(self.path):
            return given
        with suppress(CatalogError, ConfigError):  # told when it is read
            if not self.is_qp and format_of(self.path, self.format) != "csv":  # which would be read through
                info = catalog_info(self.path, format=self.format)
                given += filter(None, [_beside(info, recorded(info.metadata, "gpzed_pdf", "file"))])
        return given

    @property
    def is_qp(self) -> bool:
        """Whether the file is one of qp."""
        return self.format is None and not isinstance(self.path, PhotozCatalog) and is_qp_file(self.path)

    @property
    def has_limits(self) -> bool:
        """Whether only some redshifts count."""
        return self.min_redshift is not None or self.max_redshift is not None


@dataclass(frozen=True)
class PredictionFile:
    """The rows of a file that have a prediction, and, if asked for, a true redshift."""

    path: str
    n_rows: int  # rows of the file
    rows: IntArray  # (n,) which of them are here, counted from 0
    prediction: Prediction  # the mixture if the file has its components, else one Gaussian per object
    z_spec: FloatArray | None  # (n,) true redshifts, NaN where there is none; None if the file has no such column
    redshift: str | None  # columns of the true redshift and of the identifier
    id: str | None
    found: Redshifts | None  # which rows of the file have a redshift, and why the others have none
    table: Catalog  # the other columns that were asked for, of the same rows
    names: tuple[str, ...]  # all columns of the file
    metadata: Mapping[str, Any]  # what the file says about itself

    @property
    def ids(self) -> AnyArray:
        """Identifiers (n,); the numbers of the rows, from 0, where the file has none."""
        return self.rows if self.id is None else self.table[self.id]

    @property
    def has_truth(self) -> AnyArray:
        """Which objects have a true redshift, shape (n,)."""
        none: AnyArray = np.zeros(len(self.rows), dtype=bool)
        return none if self.z_spec is None else np.isfinite(self.z_spec)


def read_predictions(
    source: PredictionSource | PhotozCatalog | str | os.PathLike[str],
    *,
    need_truth: bool = True,
    columns: Sequence[str] = (),
) -> PredictionFile:
    """Read a file of predictions.

    Parameters
    ----------
    source : PredictionSource, PhotozCatalog or path
    need_truth : bool
        Whether true redshifts are needed: only rows with one are returned, and there must be some.
    columns : sequence of str
        Other columns to read.

    Raises
    ------
    SchemaError
        If a column is missing.
    CatalogError
        If no row is left.

    Examples
    --------
    >>> import gpzed
    >>> from gpzed.simulate import simulate_survey
    >>> table = simulate_survey(400, survey="sdss", random_state=0, only_spectroscopic=True).columns()
    >>> model = gpzed.train(table, n_members=1, n_heads=1, n_basis=5)  # small, to be quick
    >>> gpzed.predict(model, table).write("redshifts.parquet")
    >>> from gpzed.workflows import read_predictions
    >>> file = read_predictions("redshifts.parquet")
    >>> len(file.z_spec), len(file.prediction)
    (400, 400)
    """
    source = source if isinstance(source, PredictionSource) else PredictionSource(source)
    if source.truth is not None and not source.is_qp:
        raise ConfigError(f"'{source.name}' is no file of qp; only for those are true redshifts read elsewhere")
    if isinstance(source.path, PhotozCatalog):
        read = _read_memory(source.path, source, columns)
    else:
        read = _read_densities(source.name) if source.is_qp else _read_columns(source.name, source, columns)
    return _with_truth(read, source, need_truth or source.has_limits, columns)


def _with_truth(read: _Read, source: PredictionSource, need_truth: bool, columns: Sequence[str]) -> PredictionFile:
    column, z = _true_redshifts(read, source, need_truth)
    identifier = _role(read, "id", source.id, ID_NAMES)
    found, keep = None, read.usable
    if z is not None:
        none = recorded(read.metadata, "gpzed_config", "sentinels", "no_redshift")
        sentinels = Sentinels() if none is None else Sentinels(no_redshift=tuple(map(float, none)))
        found = valid_redshifts(z, _limits(read, source), sentinels)
        z = np.where(found.keep, z, np.nan)
        keep = keep & found.keep if need_truth else keep
    if not keep.any():
        both = f"both a redshift in {column!r} and a prediction; nothing to score" if need_truth else "a prediction"
        raise CatalogError(f"'{read.path}': none of {len(keep)} rows has {both}")
    chosen = keep[read.usable]
    others = list(dict.fromkeys(name for name in (identifier, *columns) if name is not None))
    kept = read.table.select(others).take(keep) if others else Catalog({"row": np.flatnonzero(keep)})
    return PredictionFile(
        address_of(read.path), len(keep), np.flatnonzero(keep),
        read.prediction if chosen.all() else read.prediction[chosen],
        None if z is None else z[keep], column, identifier, found, kept, read.names, read.metadata,
    )  # fmt: skip


def _limits(read: _Read, source: PredictionSource) -> Limits:
    """Return which true redshifts count: those that the user wants, else those that the model was trained on."""
    if source.has_limits:
        return Limits.of(source.min_redshift, source.max_redshift, "as asked")
    cuts = recorded(read.metadata, "gpzed_config", "split") or {}
    return Limits.of(cuts.get("min_redshift"), cuts.get("max_redshift"), "as in training")


def _true_redshifts(read: _Read, source: PredictionSource, need_truth: bool) -> tuple[str | None, FloatArray | None]:
    """Return column and values of the true redshifts of all rows, None if there are none."""
    if source.truth is not None:
        return _truth_elsewhere(source.truth, source.redshift, read)
    column = _role(read, "redshift", source.redshift, REDSHIFT_NAMES)
    if column is not None:
        return column, read.table.floats(column)
    if need_truth:
        hint = ", or give a catalogue of them with `truth=`" if source.is_qp else ""
        raise SchemaError(
            f"'{read.path}' has no column of true redshifts that is known by its name "
            f"({', '.join(REDSHIFT_NAMES[:4])}, ...); name it with `redshift=`{hint}"
        )
    return None, None


@dataclass(frozen=True)
class _Read:
    """A file as it is: the prediction of the usable rows, and columns of all rows."""

    path: str
    prediction: Prediction
    usable: BoolArray
    table: Catalog
    names: tuple[str, ...]
    metadata: Mapping[str, Any]


def _read_memory(given: PhotozCatalog, source: PredictionSource, columns: Sequence[str]) -> _Read:
    """Take predictions in memory, with the columns needed of the table that they were made for."""
    names = tuple(dict.fromkeys([*given.table.names, *given.columns]))
    about = _Read(source.name, given.prediction, np.ones(len(given), dtype=bool), Catalog({}), names, given.metadata)
    others = _others(about, source, columns)
    table = given.table.catalog(name for name in others if name not in given.columns)
    return replace(about, table=table.with_columns({name: given[name] for name in others if name in given.columns}))


def _read_columns(path: str, source: PredictionSource, columns: Sequence[str]) -> _Read:
    """Read a file with the columns of `gpzed predict`, and only those needed."""
    info = catalog_info(path, format=source.format)
    for name in ("z_phot", "z_std"):
        if name not in info.names:
            raise SchemaError(
                f"'{info.path}' has no column {name!r}; expected a file written by `gpzed predict`, it has "
                f"{', '.join(info.names[:30])}"
            )
    others = _others(info, source, columns)
    base = ["z_phot", "z_std", *(name for name in ("z_mean", *PARTS) if name in info.names)]
    stored = density_columns(info)
    table = read_catalog(path, columns=list(dict.fromkeys([*base, *stored, *others])), format=source.format)
    values = {name: table.floats(name) for name in base}
    usable = np.isfinite(values["z_phot"]) & (values["z_std"] > 0.0)
    if not usable.any():
        raise CatalogError(f"'{info.path}': none of {len(table)} rows has a prediction")
    rows = {name: array[usable] for name, array in values.items()}
    about = recorded(info.metadata, "gpzed_pdf") or {}
    densities = table.select(stored) if stored else densities_apart(info, about.get("file"))
    prediction = make_prediction(rows, densities, usable, about)
    return _Read(info.path, prediction.changed(point=rows["z_phot"]), usable, table, tuple(info.names), info.metadata)


def densities_apart(info: CatalogInfo, name: Any) -> Catalog:
    """Read the densities of the file beside this one that it names; without it mean and variance must do."""
    path = _beside(info, name)
    if path is None:
        return Catalog({}, n_rows=info.n_rows)
    if not path.exists():
        warnings.warn(
            f"'{path}', with the densities of '{info.path}', is not there: each is taken for a Gaussian; put both "
            "files into one folder",
            DataWarning,
            stacklevel=2,
        )
        return Catalog({}, n_rows=info.n_rows)
    apart = catalog_info(path)
    if apart.n_rows != info.n_rows:
        raise CatalogError(
            f"'{path}' has {apart.n_rows} densities but '{info.path}' has {info.n_rows} rows; give files of one run"
        )
    for key in ("gpzed_model_sha256", "gpzed_input", "gpzed_config"):
        said = [recorded(one.metadata, key) for one in (apart, info)]
        if None not in said and said[0] != said[1]:
            raise CatalogError(
                f"'{path}' is of another run than '{info.path}', which names it: `{key}` is not the same; predict again"
            )
    return read_catalog(path, columns=density_columns(apart))


def _beside(info: CatalogInfo, name: Any) -> Path | None:
    own = Path(name).name if isinstance(name, str) else ""
    return Path(info.path).with_name(own) if own else None


def _read_densities(path: str | os.PathLike[str]) -> _Read:
    """Read a file of qp."""
    stored = read_qp(path)
    table = Catalog(stored.columns, n_rows=len(stored.usable))
    prediction = stored.prediction
    if "z_phot" in table.names:  # what gpzed quoted; other codes have no such column
        prediction = prediction.changed(point=table.floats("z_phot")[stored.usable])
    return _Read(os.fspath(path), prediction, stored.usable, table, tuple(stored.columns), {})


def _truth_elsewhere(truth: str | os.PathLike[str], redshift: str | None, read: _Read) -> tuple[str, FloatArray]:
    """Return column and true redshifts of another catalogue with the same rows."""
    info = catalog_info(truth)
    column = _role(info, "redshift", redshift, REDSHIFT_NAMES)
    if column is None:
        raise SchemaError(
            f"'{info.path}' has no column of true redshifts that is known by its name; name it with `redshift=`"
        )
    if info.n_rows != len(read.usable):
        raise CatalogError(
            f"'{info.path}' has {info.n_rows} rows but '{read.path}' has {len(read.usable)} densities; give the "
            "catalogue that they were made of"
        )
    return column, read_catalog(truth, columns=[column]).floats(column)


def recorded(metadata: Mapping[str, Any], *keys: str) -> Any:
    """Return what `gpzed predict` wrote into a file under nested keys; None if there is no such thing."""
    found: Any = metadata
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
        if isinstance(found, str) and found.startswith("{"):
            found = json.loads(found)
    return found


def _others(about: CatalogInfo | _Read, source: PredictionSource, columns: Sequence[str]) -> list[str]:
    """Return the columns of true redshift and identifier, where known, and the others asked for."""
    roles = _role(about, "redshift", source.redshift, REDSHIFT_NAMES), _role(about, "id", source.id, ID_NAMES)
    wanted = [name for name in (*roles, *columns) if name is not None]
    for name in wanted:
        if name not in about.names:
            raise SchemaError(f"'{about.path}' has no column {name!r}; it has {', '.join(about.names[:30])}")
    return wanted


def _role(info: CatalogInfo | _Read, role: str, given: str | None, known_names: Sequence[str]) -> str | None:
    """Return the column of a role: the one given, the one the file names, or one with a known name."""
    if given is not None:
        if given not in info.names:
            raise SchemaError(f"'{info.path}' has no column {given!r}; it has {', '.join(info.names[:30])}")
        return given
    named = recorded(info.metadata, "gpzed_schema", role)
    if named in info.names:
        return str(named)
    lower = {name.lower(): name for name in reversed(info.names)}
    return next((lower[known] for known in known_names if known in lower), None)
