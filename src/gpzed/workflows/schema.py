"""Which column of a catalogue is what: by what the user says, by training, or by a guess."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from typing import Any

from gpzed.catalog import CONVENTIONS, CatalogInfo, PhotometrySchema, catalog_info, format_of, guess_schema
from gpzed.catalog.conventions import EBV_NAMES
from gpzed.catalog.schema import find_column
from gpzed.config import SchemaConfig
from gpzed.errors import CatalogError, SchemaError
from gpzed.progress import Progress

_ROLES = ("redshift", "weight", "id", "ebv")
_GUESS_OPTIONS = ("convention", "mag", "flux", "err", "flag", "zero_point", *_ROLES)
_PHOTOMETRY_OPTIONS = ("bands", "convention", "mag", "flux", "err", "flag", "zero_point")


def open_info(path: str | os.PathLike[str], schema: SchemaConfig) -> CatalogInfo:
    """Return columns and number of rows of a catalogue."""
    return catalog_info(path, **schema.access)


def resolve_schema(names: Iterable[str], config: SchemaConfig) -> PhotometrySchema:
    """Return the schema of a catalogue from its column names and what the configuration says."""
    options: dict[str, Any] = {name: getattr(config, name) for name in _GUESS_OPTIONS}
    return guess_schema(names, config.bands, **options)


def warn_of_lost_bands(
    names: Iterable[str], schema: PhotometrySchema, config: SchemaConfig, progress: Progress
) -> None:
    """Say which bands are left out, where the user did not choose them, because they have no error column."""
    convention = next((known for known in CONVENTIONS if known.name == schema.convention), None)
    if config.bands is not None or convention is None:
        return
    lost = convention.bands_without_errors(names)
    if lost:
        band, column = next(iter(lost.items()))
        progress.warn(
            f"{len(lost)} band(s) are left out: '{column}' has no error column beside it "
            f"('{convention.errors[0].format(band=band)}'); add one, or choose bands with --bands"
        )


def matching_schema(
    names: Iterable[str], trained: PhotometrySchema, config: SchemaConfig, needs_ebv: bool = False
) -> PhotometrySchema:
    """Return the schema of a catalogue to predict for: that of training where it fits, else a guess of the same bands.

    What the user says of redshift, weight, identifier and E(B-V) replaces those of training one by one; with any option
    about the photometry, all of it is guessed again.
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
    try:
        return resolve_schema(columns, dataclasses.replace(config, bands=tuple(bands)))
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
    """Return the schema of a target catalogue: that of training where it fits, else by what was said for training."""
    columns = list(names)
    ebv = config.ebv if config.ebv in columns else None
    if all(name in columns for name in trained.photometry_columns if name != trained.ebv):
        return _with_roles(columns, trained, SchemaConfig(ebv=ebv), needs_ebv)
    said = dataclasses.replace(config, bands=trained.bands, redshift="", weight="", id="", ebv=ebv)
    try:
        return resolve_schema(columns, said)
    except SchemaError as error:
        raise SchemaError(f"target catalogue: {error}") from None
