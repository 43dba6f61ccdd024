"""What training and prediction share: from a file and a schema to photometry, redshifts and identity."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpzed._types import BoolArray, FloatArray
from gpzed.catalog import (
    CONVENTIONS,
    Catalog,
    CatalogInfo,
    Photometry,
    PhotometrySchema,
    Sentinels,
    catalog_info,
    extract_photometry,
    format_of,
    guess_schema,
)
from gpzed.catalog.conventions import EBV_NAMES
from gpzed.catalog.schema import find_column
from gpzed.config import SchemaConfig
from gpzed.errors import CatalogError, ConfigError, SchemaError
from gpzed.features import FeatureTransformer
from gpzed.workflows.reporter import Reporter

_ROLES = ("redshift", "weight", "id", "ebv")
_GUESS_OPTIONS = ("convention", "mag", "flux", "err", "flag", "zero_point", *_ROLES)
_PHOTOMETRY_OPTIONS = ("bands", "convention", "mag", "flux", "err", "flag", "zero_point")


def open_info(path: str | os.PathLike[str], schema: SchemaConfig) -> CatalogInfo:
    """Return columns and number of rows of a catalogue."""
    return catalog_info(path, format=schema.format, hdf5_group=schema.hdf5_group)


def resolve_schema(names: Iterable[str], config: SchemaConfig) -> PhotometrySchema:
    """Return the schema of a catalogue from its column names and what the configuration says."""
    options: dict[str, Any] = {name: getattr(config, name) for name in _GUESS_OPTIONS}
    return guess_schema(names, config.bands, **options)


def warn_of_lost_bands(
    names: Iterable[str], schema: PhotometrySchema, config: SchemaConfig, reporter: Reporter
) -> None:
    """Say which bands are left out, where the user did not choose them, because they have no error column."""
    convention = next((known for known in CONVENTIONS if known.name == schema.convention), None)
    if config.bands is not None or convention is None:
        return
    lost = convention.bands_without_errors(names)
    if lost:
        band, column = next(iter(lost.items()))
        reporter.warn(
            f"{len(lost)} band(s) are left out: '{column}' has no error column beside it "
            f"('{convention.errors[0].format(band=band)}'); add one, or choose bands with --bands"
        )


def matching_schema(
    names: Iterable[str], trained: PhotometrySchema, config: SchemaConfig, needs_ebv: bool = False
) -> PhotometrySchema:
    """Return the schema of a catalogue to predict for: that of training where it fits, else a guess of the same bands.

    Parameters
    ----------
    names : iterable of str
        Columns of the catalogue.
    trained : PhotometrySchema
        Of the training catalogue.
    config : SchemaConfig
        What the user says. Columns of redshift, weight, identifier and E(B-V) replace those of training one by one;
        anything said of the photometry has all of it looked for anew.
    needs_ebv : bool
        Whether the inputs are corrected for extinction.
    """
    columns = list(names)
    said = any(getattr(config, name) is not None for name in _PHOTOMETRY_OPTIONS)
    missing = [name for name in trained.photometry_columns if name not in columns and name != trained.ebv]
    if not said and not missing:
        return _with_roles(columns, trained, config, needs_ebv)
    bands = config.bands or trained.bands
    if tuple(bands) != trained.bands:
        raise SchemaError(
            f"`bands` is {list(bands)} but the model was trained on {list(trained.bands)}; give these or leave it out"
        )
    options: dict[str, Any] = {name: getattr(config, name) for name in _GUESS_OPTIONS}
    try:
        return guess_schema(columns, bands, **options)
    except SchemaError as error:
        if said or any(getattr(config, role) for role in _ROLES):
            raise
        raise SchemaError(
            f"the catalogue lacks {len(missing)} column(s) that the model was trained on, {missing[0]!r} first, and no "
            f"other columns fit its bands {', '.join(trained.bands)}: {error}"
        ) from None


def _with_roles(
    columns: list[str], trained: PhotometrySchema, config: SchemaConfig, needs_ebv: bool
) -> PhotometrySchema:
    """Return the schema of training with the other columns that are given, and without those that are not there."""
    stored = trained.to_dict()
    for role in (*_ROLES, "redshift_err"):
        given = getattr(config, role, None)
        if given is not None:
            stored[role] = find_column(given, columns, role) if given else None
        elif stored[role] not in columns:
            stored[role] = None
    if config.redshift is not None and stored["redshift"] != trained.redshift:
        stored["redshift_err"] = None  # it belongs to the other redshift
    if needs_ebv and stored["ebv"] is None and config.ebv is None:
        stored["ebv"] = next((name for known in EBV_NAMES for name in columns if name.lower() == known), None)
    return PhotometrySchema.from_dict(stored)


def target_access(path: str | os.PathLike[str], config: SchemaConfig) -> dict[str, Any]:
    """Return `format` and `hdf5_group` to open a second catalogue with: the first one's, as far as they apply to it."""
    try:
        format, kind = None, format_of(path)
    except CatalogError:
        format, kind = config.format, format_of(path, config.format)
    return {"format": format, "hdf5_group": config.hdf5_group if kind == "hdf5" else None}


def target_schema(
    names: Iterable[str], trained: PhotometrySchema, config: SchemaConfig, needs_ebv: bool
) -> PhotometrySchema:
    """Return the schema of a target catalogue: that of training where it fits, else by what was said for training.

    Parameters
    ----------
    names : iterable of str
        Columns of the target catalogue.
    trained : PhotometrySchema
        Of the training catalogue.
    config : SchemaConfig
        What the user said of the training catalogue.
    needs_ebv : bool
        Whether the inputs are corrected for extinction.
    """
    columns = list(names)
    ebv = config.ebv if config.ebv in columns else None
    if all(name in columns for name in trained.photometry_columns if name != trained.ebv):
        return _with_roles(columns, trained, SchemaConfig(ebv=ebv), needs_ebv)
    said = dataclasses.replace(config, bands=trained.bands, redshift="", weight="", id="", ebv=ebv)
    try:
        return resolve_schema(columns, said)
    except SchemaError as error:
        raise SchemaError(f"target catalogue: {error}") from None


@dataclass(frozen=True)
class Inputs:
    """Inputs of the model for the rows of one table."""

    X: FloatArray
    flags: Any
    photometry: Photometry
    X_std: FloatArray | None = None


def ebv_of(table: Catalog, schema: PhotometrySchema, transformer_needs_it: bool) -> FloatArray | None:
    """Return the E(B-V) column, if there is one and it is needed."""
    return table.floats(schema.ebv) if schema.ebv and transformer_needs_it else None


def make_inputs(
    table: Catalog, schema: PhotometrySchema, sentinels: Sentinels, transformer: FeatureTransformer
) -> Inputs:
    """Return inputs and flags for the rows of a table."""
    photometry = extract_photometry(table, schema, sentinels)
    ebv = ebv_of(table, schema, bool(transformer.config.extinction))
    X, flags, X_std = transformer.transform(photometry, ebv)
    return Inputs(X, flags, photometry, X_std)


def needed_columns(schema: PhotometrySchema, *more: str | None) -> list[str]:
    """Return the columns to read: the photometry and the others named, each once."""
    return list(dict.fromkeys([*schema.photometry_columns, *(name for name in more if name)]))


def require_folder(path: str | os.PathLike[str], what: str) -> None:
    """Refuse an output file in a folder that does not exist, before any work is done."""
    folder = Path(path).parent
    if not folder.is_dir():
        raise ConfigError(f"folder '{folder}' does not exist; create it, or write {what} elsewhere")


def file_hash(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file, or of the files of a folder in the order of their names."""
    digest = hashlib.sha256()
    root = Path(path)
    for file in sorted(p for p in root.rglob("*") if p.is_file()) if root.is_dir() else [root]:
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def table_hash(table: Catalog) -> str:
    """Return the SHA-256 of names and values of the columns of a table."""
    digest = hashlib.sha256()
    for name in table.names:
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(table[name]).tobytes())
    return digest.hexdigest()


def file_identity(path: str | os.PathLike[str]) -> list[list[Any]]:
    """Return name, size and time of change of a file, or of the files of a folder: changes when they do."""
    root = Path(path)
    files = sorted(p for p in root.rglob("*") if p.is_file()) if root.is_dir() else [root]
    return [[str(p.resolve()), p.stat().st_size, p.stat().st_mtime_ns] for p in files]


@dataclass(frozen=True)
class Redshifts:
    """Which rows have a usable redshift, and why the others have not.

    Attributes
    ----------
    keep : ndarray of bool of shape (n,)
    causes : dict of str to int
        Rows without a redshift, by what stands in its place.
    n_outside : int
        Rows with a redshift out of the range asked for.
    """

    keep: BoolArray
    causes: dict[str, int]
    n_outside: int

    @property
    def n_missing(self) -> int:
        """Rows without a redshift."""
        return sum(self.causes.values())


def valid_redshifts(z: FloatArray, low: float | None, high: float | None, sentinels: Sentinels) -> Redshifts:
    """Tell redshifts from what stands for none, and from those at or below `low` and above `high`."""
    rules = {"NaN or masked": np.isnan(z), "infinite": np.isinf(z), "<= -1": z <= -1.0}
    for value in sentinels.no_redshift:
        rules[f"= {value:g}"] = np.isclose(z, value, rtol=1e-6, atol=0.0)  # 9.9999 in single precision too
    missing = np.zeros(len(z), dtype=bool)
    causes = {}
    for cause, found in rules.items():
        new = found & ~missing
        missing |= new
        if new.any():
            causes[cause] = int(new.sum())
    outside = ~missing & ~((z > (-np.inf if low is None else low)) & (z <= (np.inf if high is None else high)))
    return Redshifts(~(missing | outside), causes, int(outside.sum()))
