"""Recognise the columns of a catalogue: by the naming conventions of the surveys, else by how names are built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpzed.catalog._names import near_misses
from gpzed.catalog.conventions import (
    CONVENTIONS,
    EBV_NAMES,
    ERROR_SUFFIXES,
    ID_NAMES,
    REDSHIFT_NAMES,
    SECOND_REDSHIFT_NAMES,
    WEIGHT_NAMES,
    Convention,
    canonical_bands,
    wavelength_order,
)
from gpzed.catalog.patterns import describe_groups, families, grouped, is_inverse_variance, options_of, suggestion
from gpzed.catalog.schema import PhotometrySchema, bands_of, find_column
from gpzed.catalog.units import FLUX_UNITS, UNIT, check_unit, known_units
from gpzed.errors import SchemaError

_MIN_BANDS = 2


def guess_schema(
    columns: Iterable[str],
    bands: Sequence[str] | None = None,
    *,
    convention: str | None = None,
    mag: str | None = None,
    flux: str | None = None,
    err: str | None = None,
    flag: str | None = None,
    zero_point: float | None = None,
    unit: str | None = None,
    units: Mapping[str, str] | None = None,
    translate: Mapping[str, str] | None = None,
    redshift: str | None = None,
    redshift_err: str | None = None,
    weight: str | None = None,
    id: str | None = None,
    ebv: str | None = None,
) -> PhotometrySchema:
    """Guess which column is what from the names alone; everything can be overridden.

    `SchemaError` lists the candidates and how to choose if nothing fits, or several do equally well.

    Parameters
    ----------
    columns : iterable of str
        Columns of the catalogue.
    bands : sequence of str, optional
        Bands to use, in this order; by default all that are found, from blue to red.
    convention : str, optional
        Name of the convention, where several fit (`gpzed.catalog.CONVENTIONS`).
    mag, flux, err, flag : str, optional
        Templates, as in `PhotometrySchema.from_templates`; with `mag` or `flux` no convention is looked for
        and `bands` is needed.
    zero_point : float, optional
        AB zero point of fluxes, whatever units or convention say.
    unit : str, optional
        Unit of the photometry, whatever the catalogue says: "uJy", "nJy", "nanomaggy", "mag".
    units : mapping of str to str, optional
        Units by column, as the catalogue gives them.
    translate : mapping of str to str, optional
        Columns by what EAZY calls them (F12, E12, z_spec, id), as `parse_translate` reads them from its file.
    redshift, redshift_err, weight, id, ebv : str, optional
        Column names; None to guess, "" for none.

    Examples
    --------
    >>> columns = ["objid", "modelMag_u", "modelMagErr_u", "modelMag_g", "modelMagErr_g", "zspec"]
    >>> guess_schema(columns).describe()
    [('convention', 'sdss_model'), ('magnitude u', 'modelMag_u'), ('error u', 'modelMagErr_u'),
     ('magnitude g', 'modelMag_g'), ('error g', 'modelMagErr_g'), ('redshift', 'zspec'), ('id', 'objid')]
    """
    names = list(columns)
    if unit is not None:
        if zero_point is not None:
            raise SchemaError("`unit` and `zero_point` are both given; one says what the other does: leave one out")
        check_unit(unit)
    said = dict.fromkeys(names, unit) if unit is not None else {} if zero_point is not None else dict(units or {})
    if mag or flux:
        if bands is None:
            raise SchemaError(f"template {mag or flux!r} needs band names; give them with `bands=`")
        schema = PhotometrySchema.from_templates(
            names, bands, mag=mag, flux=flux, err=err, flag=flag, zero_point=zero_point, units=said,
            inverse_variance=is_inverse_variance(err),
        )  # fmt: skip
    elif translate is not None:
        schema = _translated(names, bands, translate, zero_point, said)
    else:
        chosen, found = _choose(names, bands, convention)
        if found:
            schema = _photometry(names, chosen, found, err, flag, zero_point, said)
        else:
            schema = _by_pattern(names, bands, err, flag, zero_point, said, unit)
    if translate is not None and redshift is None:
        redshift = translate.get("z_spec")
    taken = set(schema.photometry_columns)
    z = _redshift(names, redshift, taken)
    z_errors = [] if z is None else [z.lower() + suffix for suffix in ERROR_SUFFIXES]
    roles = {
        "redshift": z,
        "redshift_err": _named(names, redshift_err, z_errors, "redshift error"),
        "weight": _named(names, weight, WEIGHT_NAMES, "weight"),
        "id": _named(names, id, ID_NAMES, "identifier"),
        "ebv": _named(names, ebv, EBV_NAMES, "E(B-V)"),
    }
    return PhotometrySchema.from_dict({**schema.to_dict(), **roles})


def _choose(names: list[str], bands: Sequence[str] | None, convention: str | None) -> tuple[Convention, dict[str, str]]:
    """Return the convention that fits most bands, with the value column of every band; no bands if none fits."""
    known = {item.name: item for item in CONVENTIONS}
    if convention is not None and convention not in known:
        near = near_misses(convention, known)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise SchemaError(f"unknown `convention` {convention!r}; {hint}Valid names: {', '.join(known)}")
    considered = CONVENTIONS if convention is None else (known[convention],)
    fits = []
    for item in considered:
        found = _wanted(item.bands(names), bands)
        if len(found) >= (len(bands) if bands is not None else _MIN_BANDS):
            fits.append((item, found))
    if not fits:
        if convention is not None:
            raise SchemaError(_nothing_fits(names, bands, considered))
        return considered[0], {}
    most = max(len(found) for _, found in fits)
    best = [(item, found) for item, found in fits if len(found) == most]
    if len(best) > 1:
        candidates = "; ".join(f"{item.name} ({item.title}: {', '.join(found.values())})" for item, found in best)
        raise SchemaError(
            f"{len(best)} kinds of photometry fit equally well, each with {most} bands: {candidates}; choose one",
            {"convention": best[0][0].name},
        )
    return best[0]


def _wanted(found: dict[str, str], bands: Sequence[str] | None) -> dict[str, str]:
    """Return the value columns by band: all from blue to red, or those asked for in the user's spelling."""
    canonical = dict(zip(canonical_bands(list(found)), found.values(), strict=True))
    if bands is None:
        return {band: canonical[band] for band in wavelength_order(list(canonical))}
    folded: dict[str, str] = {}
    for band, column in canonical.items():
        folded.setdefault(band.lower(), column)
    for band, column in canonical.items():  # g for HSC_g
        folded.setdefault(band.rpartition("_")[2].lower(), column)
    picked = {band: canonical.get(band, folded.get(band.lower())) for band in bands}
    return {band: column for band, column in picked.items() if column is not None}


def _by_pattern(
    names: list[str],
    bands: Sequence[str] | None,
    err: str | None,
    flag: str | None,
    zero_point: float | None,
    units: dict[str, str],
    unit: str | None,
) -> PhotometrySchema:
    """Return the photometric part of the schema by how the names are built, where no survey is recognised."""
    fits = []
    for one in families(names, units):
        found = _wanted(one.values, bands)
        if len(found) >= (len(bands) if bands is not None else _MIN_BANDS):
            fits.append((one, found))
    if bands is not None and not (err or flag or fits):
        _refuse_bands_without_errors(names, bands, units)
    if err or flag or not fits:
        raise SchemaError(_nothing_fits(names, bands, CONVENTIONS), suggestion(names, bands, units, unit))
    most = max(len(found) for _, found in fits)
    best = [(one, found) for one, found in fits if len(found) == most]
    clear = [(one, found) for one, found in best if one.kind == "magnitude" or one.zero_point is not None]
    best = clear if len(clear) == 1 else best
    chosen, found = best[0]
    if len(best) > 1:
        raise SchemaError(
            f"{len(best)} kinds of photometry fit equally well, each with {most} bands: "
            f"{'; '.join(one.name for one, _ in best)}; choose one",
            options_of(chosen, units, unit),
        )
    by_column = {column: chosen.errors[token] for token, column in chosen.values.items()}
    keys = ("mag", "mag_err") if chosen.kind == "magnitude" else ("flux", "flux_err")
    errors = {band: by_column[column] for band, column in found.items()}
    stored: dict[str, Any] = dict(zip(keys, (found, errors), strict=True))
    if chosen.kind == "flux" and zero_point is None and not all(c in known_units(units) for c in found.values()):
        zero_point = chosen.zero_point
        if zero_point is None:
            raise SchemaError(
                f"fluxes need a unit and the catalogue gives none for {chosen.value}: say it with `unit=`, one of "
                f"{FLUX_UNITS}, or the AB magnitude of flux 1 with `zero_point=`",
                {"unit": UNIT},
            )
    return PhotometrySchema(
        tuple(found),
        **stored,
        zero_point=zero_point,
        units=units,
        inverse_variance=chosen.inverse_variance,
        convention=chosen.name,
    )


def _refuse_bands_without_errors(names: list[str], bands: Sequence[str], units: dict[str, str]) -> None:
    """Raise if all the bands are there, some of them without the error column that the others have."""
    for one in families(names, units):
        columns = grouped(names)[one.value]
        complete, found = _wanted(one.values, bands), _wanted(columns, bands)
        lost = {
            column: band for band, column in columns.items() if column in set(found.values()) - set(complete.values())
        }
        if not complete or len(found) < len(bands):
            continue
        missing = [f"'{one.error.replace('{band}', band)}' beside '{column}'" for column, band in lost.items()]
        raise SchemaError(
            f"no error column for {', '.join(lost.values())}: there is no {', no '.join(missing)}; add it, or leave "
            "the band out",
            {"bands": list(complete)} if len(complete) >= _MIN_BANDS else None,
        )


def _translated(
    names: list[str],
    bands: Sequence[str] | None,
    translate: Mapping[str, str],
    zero_point: float | None,
    units: dict[str, str],
) -> PhotometrySchema:
    """Return the photometric part of the schema by a translate file of EAZY; bands are named after their columns."""
    numbers = [key[1:] for key in translate if key[:1] == "F" and key[1:].isdigit() and f"E{key[1:]}" in translate]
    if len(numbers) < _MIN_BANDS:
        raise SchemaError(
            "the translate file names fewer than 2 bands with errors; expected lines like 'f_u F12' and 'e_u E12'"
        )
    columns = [find_column(translate[f"F{number}"], names, f"F{number}") for number in numbers]
    errors = [find_column(translate[f"E{number}"], names, f"E{number}") for number in numbers]
    named = dict(zip(bands_of(columns), zip(columns, errors, strict=True), strict=True))
    lost = [band for band in bands or () if band not in named]
    if lost:
        raise SchemaError(f"the translate file has no band '{lost[0]}'; it has {', '.join(named)}")
    chosen = tuple(bands) if bands is not None else wavelength_order(list(named))
    flux, flux_err = ({band: named[band][k] for band in chosen} for k in (0, 1))
    return PhotometrySchema(
        chosen, flux=flux, flux_err=flux_err, zero_point=zero_point, units=units, convention="EAZY translate file"
    )


def _nothing_fits(names: list[str], bands: Sequence[str] | None, considered: Sequence[Convention]) -> str:
    partial = [
        f"{item.name} has only {', '.join(found) if found else 'none'}"
        for item in considered
        if bands is not None and (found := _wanted(item.bands(names), None))
    ]
    what = f"bands {', '.join(bands)}" if bands is not None else f"at least {_MIN_BANDS} bands with errors"
    more = f" ({'; '.join(partial)})" if partial else ""
    return (
        f"no columns were recognised as {what}{more}. Found: {describe_groups(names)}. Say which they are with "
        "`bands=`, `mag=` or `flux=`, and `err=`, where {band} stands for the band"
    )


def _photometry(
    names: list[str],
    chosen: Convention,
    found: dict[str, str],
    err: str | None,
    flag: str | None,
    zero_point: float | None,
    units: dict[str, str],
) -> PhotometrySchema:
    """Return the photometric part of the schema."""
    lower: dict[str, str] = {}
    for name in names:
        lower.setdefault(name.lower(), name)
    values, errors, flags = found, {}, {}
    before, after = (len(part) for part in chosen.value.split("{band}"))
    for band, column in found.items():
        token = column[before : len(column) - after]
        templates = (err,) if err else chosen.errors
        expected = [template.replace("{band}", token).replace("{BAND}", token.upper()) for template in templates]
        fitting = [lower[name.lower()] for name in expected if name.lower() in lower]
        errors[band] = fitting[0] if fitting else find_column(expected[0], names, f"error of band {band!r}")
        wanted = (flag or chosen.flag or "").replace("{band}", token).replace("{BAND}", token.upper())
        if wanted.lower() in lower:
            flags[band] = lower[wanted.lower()]
    keys = ("mag", "mag_err") if chosen.kind == "magnitude" else ("flux", "flux_err")
    stored: dict[str, Any] = dict(zip(keys, (values, errors), strict=True))
    if zero_point is None and not all(column in known_units(units) for column in values.values()):
        zero_point = chosen.zero_point
    return PhotometrySchema(
        tuple(found),
        **stored,
        zero_point=zero_point,
        units=units,
        flag=flags,
        convention=chosen.name,
    )


def _redshift(names: list[str], given: str | None, taken: set[str]) -> str | None:
    """Return the redshift column: the one given, the only candidate, or `z` if that is not a band."""
    if given is not None:
        return find_column(given, names, "redshift") if given else None
    found = [name for name in names if name.lower() in REDSHIFT_NAMES and name not in taken]
    if len(found) > 1:
        raise SchemaError(
            f"{len(found)} columns could be the redshift: {', '.join(map(repr, found))}; choose one with `redshift=`",
            {"redshift": found[0]},
        )
    if found:
        return found[0]
    second = [name for known in SECOND_REDSHIFT_NAMES for name in names if name.lower() == known and name not in taken]
    if second:
        return second[0]
    bare = [name for name in names if name.lower() == "z" and name not in taken]
    return bare[0] if len(bare) == 1 else None


def _named(names: list[str], given: str | None, candidates: Sequence[str], role: str) -> str | None:
    """Return the column given, or the first candidate that exists."""
    if given is not None:
        return find_column(given, names, role) if given else None
    lower: dict[str, str] = {}
    for name in names:
        lower.setdefault(name.lower(), name)
    return next((lower[name] for name in candidates if name in lower), None)
