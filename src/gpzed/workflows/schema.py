"""Which column of a catalogue is what: by what the user says, by training, or by a guess."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpzed._files import reason
from gpzed.catalog import CONVENTIONS, CatalogInfo, PhotometrySchema, catalog_info, format_of, guess_schema
from gpzed.catalog._fits import later_tables
from gpzed.catalog._names import near_misses
from gpzed.catalog.conventions import EBV_NAMES, ID_NAMES
from gpzed.catalog.patterns import families, parse_translate
from gpzed.catalog.schema import find_column
from gpzed.catalog.units import UNIT, check_unit, known_units
from gpzed.config import SchemaConfig
from gpzed.errors import CatalogError, DataWarning, SchemaError
from gpzed.progress import Progress
from gpzed.workflows.cautions import TARGET_UNITS

_ROLES = ("redshift", "redshift_err", "weight", "id", "ebv")
_COLUMN_OPTIONS = ("convention", "mag", "flux", "err", "flag", "translate")
_UNIT_OPTIONS = ("unit", "zero_point")
_GUESS_OPTIONS = (*_COLUMN_OPTIONS[:-1], *_UNIT_OPTIONS, *_ROLES)
_MAX_ARRAYS = 6
"""Columns of arrays that a message names."""
_MIN_BANDS = 2
"""Bands that a catalogue must have of those of training, if this has as many."""


def open_info(path: str | os.PathLike[str], schema: SchemaConfig) -> CatalogInfo:
    """Return columns and number of rows of a catalogue."""
    return catalog_info(path, **schema.access)


@contextmanager
def looking_further(info: CatalogInfo) -> Iterator[None]:
    """Say of a catalogue in which no bands are recognised where else they may be: in arrays, or in another table."""
    try:
        yield
    except SchemaError as error:
        if families(info.names):
            raise
        if info.arrays:
            message = _about_arrays(info.arrays)
        elif info.format == "fits" and (others := later_tables(info.path)):
            listed = ", ".join(f"HDU {number} ({name})" for number, name in others.items())
            message = (
                f"{error.message}. '{info.path}' has other tables: {listed}; gpzed reads the first one. Save the right "
                f"one by itself; with astropy: Table.read('{info.path}', hdu={next(iter(others))}).write('table.fits')"
            )
        else:
            raise
        raise SchemaError(message, predicting=error.predicting) from None


def _about_arrays(arrays: Mapping[str, int]) -> str:
    first, count = next(iter(arrays.items()))
    listed = ", ".join(f"'{name}' of {n}" for name, n in list(arrays.items())[:_MAX_ARRAYS])
    return (
        f"no bands were recognised, but columns are arrays of several numbers per row ({listed}); gpzed takes one "
        f"column per band. Split them; with astropy, where bands are the {count} names: for k, band in "
        f"enumerate(bands): table[f'{first}_{{band}}'] = table['{first}'][:, k]; likewise the errors"
    )


def resolve_schema(
    names: Iterable[str], config: SchemaConfig, units: Mapping[str, str] | None = None
) -> PhotometrySchema:
    """Return the schema of a catalogue from its column names and units and what the configuration says."""
    options: dict[str, Any] = {name: getattr(config, name) for name in _GUESS_OPTIONS}
    if config.translate is not None:
        options["translate"] = parse_translate(_text_of(config.translate))
    if len(config.redshifts) > 1:
        options["redshift"] = config.redshifts[0]
    return guess_schema(names, config.bands, **options, units=units)


def _text_of(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise SchemaError(f"translate file '{path}' cannot be read: {reason(error)}; check the path") from None
    except UnicodeDecodeError:
        raise SchemaError(f"translate file '{path}' is not text; expected lines like 'f_u F12'") from None


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


def refuse_zero_point(schema: PhotometrySchema, config: SchemaConfig) -> None:
    """Raise if a zero point is given for magnitudes, or beside a unit."""
    if config.zero_point is None:
        return
    if config.unit is not None:
        raise SchemaError("`unit` and `zero_point` are both given; one says what the other does: leave one out")
    if schema.kind == "magnitude":
        column = next(iter(schema.values.values()))
        raise SchemaError(
            f"`zero_point` is {config.zero_point:g}, the AB magnitude of flux 1, but column '{column}' is taken for a "
            "magnitude; leave it out, or name columns of fluxes with `flux=`"
        )


def matching_schema(
    names: Iterable[str],
    trained: PhotometrySchema,
    config: SchemaConfig,
    needs_ebv: bool = False,
    units: Mapping[str, str] | None = None,
) -> PhotometrySchema:
    """Return the schema of a catalogue to predict for: that of training where it fits, else a guess of the same bands.

    What the user says of redshift, weight, identifier and E(B-V) replaces those of training one by one; with any option
    about the columns of the photometry, all of it is guessed again. Bands of training that the catalogue does not have,
    or that the user does not name, are absent; the units are those of this catalogue.
    """
    if config.unit is not None:
        check_unit(config.unit)
    found = _matching(list(names), trained, config, needs_ebv, units)
    refuse_zero_point(found, config)
    return found


def _matching(
    columns: list[str],
    trained: PhotometrySchema,
    config: SchemaConfig,
    needs_ebv: bool,
    units: Mapping[str, str] | None,
) -> PhotometrySchema:
    bands = _chosen_bands(trained, config)
    said = any(getattr(config, name) is not None for name in _COLUMN_OPTIONS)
    fitting = _bands_of_training(columns, trained, bands)
    if not said and len(fitting) == len(bands):
        found = _with_roles(columns, trained, config, needs_ebv)
        return _with_units(_without(found, bands), config, units)
    try:
        return _padded(_resolve_like(columns, trained, dataclasses.replace(config, bands=bands), units), trained)
    except SchemaError as error:
        if said or any(getattr(config, role) for role in _ROLES):
            error.predicting = True
            raise
        failure = error
    guessed = _guess_some(columns, trained, bands, config, units)
    if guessed is not None and len(guessed.observed) > len(fitting):
        return guessed
    if len(fitting) >= min(_MIN_BANDS, len(trained.bands)):
        found = _with_roles(columns, _without(trained, fitting), config, needs_ebv)
        return _with_units(found, config, units)
    missing = [name for name in trained.photometry_columns if name not in columns and name != trained.ebv]
    raise SchemaError(
        f"the catalogue lacks {len(missing)} column(s) that the model was trained on, '{missing[0]}' first, and no "
        f"other columns fit its bands {', '.join(trained.bands)}: {failure.message}",
        failure.suggestion,
        predicting=True,
    )


def _chosen_bands(trained: PhotometrySchema, config: SchemaConfig) -> tuple[str, ...]:
    """Return the bands of training that the user wants, all by default, in the order of training."""
    if config.bands is None:
        return trained.bands
    strange = [band for band in config.bands if band not in trained.bands]
    chosen = tuple(band for band in trained.bands if band in config.bands)
    if not chosen:
        raise SchemaError(
            f"`bands` is {', '.join(config.bands)} but the model was trained on {', '.join(trained.bands)}; give some "
            "of these, or leave it out"
        )
    if strange:
        warnings.warn(
            f"bands {', '.join(strange)} are not used: the model was trained on {', '.join(trained.bands)}",
            DataWarning,
            stacklevel=3,
        )
    return chosen


def _bands_of_training(columns: list[str], trained: PhotometrySchema, bands: tuple[str, ...]) -> tuple[str, ...]:
    """Return those bands whose columns are all there under the names of training."""
    return tuple(band for band in bands if band in trained.values and not _lacking(columns, trained, band))


def _lacking(columns: list[str], trained: PhotometrySchema, band: str) -> list[str]:
    """Return the columns of a band that are not there under their names of training; flags may be left out."""
    needed = [trained.values[band], *([trained.errors[band]] if trained.errors else [])]
    return [column for column in needed if column not in columns]


def _without(schema: PhotometrySchema, bands: tuple[str, ...]) -> PhotometrySchema:
    """Return the schema with all bands but these absent."""
    stored = schema.to_dict()
    for key in ("mag", "mag_err", "flux", "flux_err", "flag"):
        stored[key] = {band: column for band, column in stored[key].items() if band in bands}
    stored["absent"] = [band for band in schema.bands if band not in bands]
    return PhotometrySchema.from_dict(stored)


def _padded(schema: PhotometrySchema, trained: PhotometrySchema) -> PhotometrySchema:
    """Return a schema of some of the bands as one of all bands of training."""
    absent = tuple(band for band in trained.bands if band not in schema.bands)
    return dataclasses.replace(schema, bands=trained.bands, absent=absent)


def _guess_some(
    columns: list[str],
    trained: PhotometrySchema,
    bands: tuple[str, ...],
    config: SchemaConfig,
    units: Mapping[str, str] | None,
) -> PhotometrySchema | None:
    """Return a guess of as many of the bands as the catalogue has, or None."""
    try:
        found = resolve_schema(columns, dataclasses.replace(config, bands=None), units).bands
        folded = {band.lower(): band for band in reversed(bands)}
        some = tuple(folded[name.lower()] for name in found if name.lower() in folded)
        some = tuple(band for band in bands if band in some)
        if len(some) < min(_MIN_BANDS, len(trained.bands)):
            return None
        return _padded(_resolve_like(columns, trained, dataclasses.replace(config, bands=some), units), trained)
    except SchemaError:
        return None


def _resolve_like(
    columns: list[str], trained: PhotometrySchema, config: SchemaConfig, units: Mapping[str, str] | None
) -> PhotometrySchema:
    """Return a guess; fluxes whose unit nobody tells are taken to be in that of training."""
    try:
        return resolve_schema(columns, config, units)
    except SchemaError:
        if trained.zero_point is None or config.unit is not None or config.zero_point is not None:
            raise
        return resolve_schema(columns, dataclasses.replace(config, zero_point=trained.zero_point), units)


def absent_bands_text(schema: PhotometrySchema, trained: PhotometrySchema, names: Iterable[str]) -> str:
    """Return which bands a catalogue does not have, and columns that could be meant; empty if it has all."""
    if not schema.absent:
        return ""
    columns, one = list(names), len(schema.absent) == 1
    text = f"band{'' if one else 's'} {', '.join(schema.absent)} of the model {'is' if one else 'are'} not used here"
    lost = [name for band in schema.absent if band in trained.values for name in _lacking(columns, trained, band)]
    if lost:
        text += ", no column " + ", ".join(f"'{name}'" for name in lost)
    free = [name for name in columns if name not in trained.columns and name not in schema.columns]
    near = dict.fromkeys(f"'{hit}'" for name in lost for hit in near_misses(name, free, n=1))
    return text + (f" (is it {', '.join(near)}?)" if near else "")


def _with_units(schema: PhotometrySchema, config: SchemaConfig, units: Mapping[str, str] | None) -> PhotometrySchema:
    """Return the schema with the units of this catalogue where it has any, else those of training."""
    if config.zero_point is not None:
        return dataclasses.replace(schema, zero_point=config.zero_point, units={})
    said = dict.fromkeys(schema.photometry_columns, config.unit) if config.unit is not None else dict(units or {})
    return dataclasses.replace(schema, units={**schema.units, **known_units(said)})


def _with_roles(
    columns: list[str], trained: PhotometrySchema, config: SchemaConfig, needs_ebv: bool
) -> PhotometrySchema:
    """Return the schema of training with the other columns that are given, and without those that are not there."""
    stored = trained.to_dict()
    stored["flag"] = {band: column for band, column in trained.flag.items() if column in columns}
    for role in _ROLES:
        given = getattr(config, role)
        if given is not None:
            stored[role] = find_column(given, columns, role) if given else None
        elif stored[role] not in columns:
            stored[role] = None
    if config.redshift is not None and config.redshift_err is None and stored["redshift"] != trained.redshift:
        stored["redshift_err"] = None  # it belongs to the other redshift
    if stored["id"] is None and config.id is None:
        stored["id"] = _known(columns, ID_NAMES)
    if needs_ebv and stored["ebv"] is None and config.ebv is None:
        stored["ebv"] = _known(columns, EBV_NAMES)
    return PhotometrySchema.from_dict(stored)


def _known(columns: list[str], names: Iterable[str]) -> str | None:
    """Return the first column that has one of some names, whatever its letter case."""
    return next((column for name in names for column in columns if column.lower() == name), None)


def target_access(path: str | os.PathLike[str], config: SchemaConfig) -> dict[str, Any]:
    """Return `format` and `hdf5_group` to open a second catalogue with: the first one's, as far as they apply to it."""
    try:
        format, kind = None, format_of(path)
    except CatalogError:
        format, kind = config.format, format_of(path, config.format)
    return {"format": format, "hdf5_group": config.hdf5_group if kind == "hdf5" else None}


def target_schema(
    names: Iterable[str],
    trained: PhotometrySchema,
    config: SchemaConfig,
    needs_ebv: bool,
    units: Mapping[str, str] | None = None,
) -> PhotometrySchema:
    """Return the schema of a target catalogue: that of training where it fits, else by what was said for training."""
    columns = list(names)
    ebv = config.ebv if config.ebv in columns else None
    if all(name in columns for name in trained.photometry_columns if name != trained.ebv):
        return _with_units(_with_roles(columns, trained, SchemaConfig(ebv=ebv), needs_ebv), SchemaConfig(), units)
    said = dataclasses.replace(config, bands=trained.bands, redshift="", weight="", id="", ebv=ebv)
    try:
        return resolve_schema(columns, said, units)
    except SchemaError as error:
        failure = error
    try:  # magnitudes beside fluxes, or the reverse
        return resolve_schema(columns, dataclasses.replace(said, unit=None, zero_point=None), units)
    except SchemaError as error:
        if UNIT in error.suggestion.values():
            raise SchemaError(f"target catalogue: its fluxes have no unit; {TARGET_UNITS}") from None
    raise _lost_bands(columns, trained, config, units) or SchemaError(f"target catalogue: {failure.message}")


def _lost_bands(
    columns: list[str], trained: PhotometrySchema, config: SchemaConfig, units: Mapping[str, str] | None
) -> SchemaError | None:
    """Return the error to raise if the target lacks only some bands; None if it has too few."""
    fitting = _bands_of_training(columns, trained, trained.bands)
    guessed = _guess_some(columns, trained, trained.bands, dataclasses.replace(config, redshift=""), units)
    there = guessed.observed if guessed is not None and len(guessed.observed) > len(fitting) else fitting
    if len(there) < _MIN_BANDS:
        return None
    lost = [band for band in trained.bands if band not in there]
    lacking = [name for band in lost for name in _lacking(columns, trained, band)]
    return SchemaError(
        f"target catalogue: it lacks band{'s' if len(lost) > 1 else ''} {', '.join(lost)} of the training "
        f"catalogue (no column {', '.join(map(repr, lacking))}); add it, or train on the bands that both have",
        {"bands": list(there)},
    )
