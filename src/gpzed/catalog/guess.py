"""Recognise the columns of a catalogue by the naming conventions of the surveys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gpzed.catalog._names import near_misses
from gpzed.catalog.conventions import (
    CONVENTIONS,
    EBV_NAMES,
    ERROR_SUFFIXES,
    ID_NAMES,
    REDSHIFT_NAMES,
    WEIGHT_NAMES,
    Convention,
    canonical_bands,
    wavelength_order,
)
from gpzed.catalog.schema import PhotometrySchema, find_column, listed
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
        AB zero point of fluxes, if not that of the convention.
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
    if mag or flux:
        if bands is None:
            raise SchemaError(f"template {mag or flux!r} needs band names; give them with `bands=`")
        schema = PhotometrySchema.from_templates(
            names, bands, mag=mag, flux=flux, err=err, flag=flag, zero_point=zero_point
        )
    else:
        chosen, found = _choose(names, bands, convention)
        schema = _photometry(names, chosen, found, err, flag, zero_point)
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
    """Return the convention that fits most bands, with the value column of every band."""
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
        raise SchemaError(_nothing_fits(names, bands, considered))
    most = max(len(found) for _, found in fits)
    best = [(item, found) for item, found in fits if len(found) == most]
    if len(best) > 1:
        candidates = "; ".join(f"{item.name!r} ({item.title}: {', '.join(found.values())})" for item, found in best)
        raise SchemaError(
            f"{len(best)} conventions fit equally well, each with {most} bands: {candidates}; "
            f"choose one with `convention={best[0][0].name!r}` or give templates with `mag=` and `err=`"
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
    picked = {band: canonical.get(band, folded.get(band.lower())) for band in bands}
    return {band: column for band, column in picked.items() if column is not None}


def _nothing_fits(names: list[str], bands: Sequence[str] | None, considered: Sequence[Convention]) -> str:
    templates = "; ".join(f"{item.name}: {item.value} with {item.errors[0]}" for item in considered)
    partial = [
        f"{item.name} has only {', '.join(found) if found else 'none'}"
        for item in considered
        if bands is not None and (found := _wanted(item.bands(names), None))
    ]
    what = f"bands {', '.join(bands)}" if bands is not None else f"at least {_MIN_BANDS} bands with errors"
    more = f" ({'; '.join(partial)})" if partial else ""
    return (
        f"no known convention gives {what}{more}; columns seen: {listed(names)}; templates known: {templates}; "
        "give your own with `bands=`, `mag=` (or `flux=` and `zero_point=`) and `err=`"
    )


def _photometry(
    names: list[str],
    chosen: Convention,
    found: dict[str, str],
    err: str | None,
    flag: str | None,
    zero_point: float | None,
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
    return PhotometrySchema(
        tuple(found),
        **stored,
        zero_point=chosen.zero_point if zero_point is None else zero_point,
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
            f"{len(found)} columns could be the redshift: {', '.join(map(repr, found))}; "
            f"choose one with `redshift={found[0]!r}`, or `redshift=''` for none"
        )
    if found:
        return found[0]
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
