"""Recognise columns by how their names are built: the same words around the name of a band, and again for its error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpzed.catalog.conventions import Kind
from gpzed.catalog.units import UNIT, known_units, parse_unit

_BAND = (
    r"(?:[Ff]\d{3,4}(?:[WMNXwmnx]|LP|lp)?|[RZYJHFKW]\d{3}|I[AB]_?\d{3}|NB_?\d{3,4}|[Ff][Uu][Vv]|[Nn][Uu][Vv]|VIS|vis"
    r"|[Ww][1-4]|[Cc][Hh][1-4]|irac_?[1-4]|IRAC_?[1-4]|[Kk][Ss]|[ugriz]pp?|i2|[uU][sS]|[ugrizyUBVRIZYJHKFGbvjhk])"
)
"""Names of filters: HST and JWST, Roman, medium and narrow bands, GALEX, Euclid, WISE, IRAC, and single letters."""
_INSTRUMENT = (
    r"(?:(?:HSC|CFHT|SC|UVISTA|IRAC|ACS|WFC3|WFC|NIRCAM|NIRISS|MIRI|GALEX|VISTA|UKIDSS|WFCAM|MEGACAM|SUPRIME|SUBARU|"
    r"DECAM|LSST|ROMAN|EUCLID|SDSS|PS1|WISE|SPITZER|KPNO|CTIO|VIMOS|ISAAC|HAWKI|SPLASH|VIRCAM|MUSYC|NEWFIRM|MOSAIC|"
    r"WIRCAM|FOURSTAR|CANDELS)_)"
)
_DELIMITED = re.compile(rf"(?:^|(?<=[_.\- ]))(?:(?i:{_INSTRUMENT}))?{_BAND}(?=$|[_.\- ])")
_GLUED = re.compile(
    rf"(?:^|(?<=^[eEs]_)|(?<=^err_)|(?<=^sig_))(?P<band>{_BAND})(?=(?i:mag|flux|abmag|flx|cmodel|psf|kron|petro|aper|mean|model|auto|err))"
)
_EAZY = re.compile(r"(?P<role>[FE])(?P<band>\d{1,3})")
_ERROR_WORD = re.compile(r"(?<![a-z])(?:err|error|errs|errors|sigma|sig|unc|rms|ivar|invvar|inv_var|e)(?![a-z])")
_ERROR_END = re.compile(r"(?:errors?|err|sigma|ivar|invvar|unc|rms)(?=$|_|\{)")
_DIFFERENCE = re.compile(r"(?:f|fnu|flux|m|mag)_\{band\}")
"""Columns whose errors may be called the same with a d in front: df_u, dmag_u."""
_INVERSE = re.compile(r"ivar|invvar|inv_var", re.IGNORECASE)
_FLUX = re.compile(r"flux|flx|magg|nmgy|(?:^|_)f(?:nu|lux)?_|^f\{|njy|ujy|mjy", re.IGNORECASE)
_NOT_PHOTOMETRY = re.compile(
    r"flag|extinction|(?:^|_)ext(?:_|$)|chi|snr|(?:^|_)sn(?:_|$)|weight|class|mask|radius|fwhm|(?:^|_)ra(?:_|$)|"
    r"(?:^|_)dec(?:_|$)|transmission|nobs|psfsize|depth|ebv|^[an]_?$|ell|mw_|rest|(?:^|_)id(?:_|$)|type|"
    r"limit|offset|_min|_max|lo(?:w|wer)?(?:_|$)|up(?:per)?(?:_|$)|z_?phot|prob|mass|seeing|area|count",
    re.IGNORECASE,
)
_ZERO_POINTS = (
    (re.compile(r"nanomagg|nmgy", re.IGNORECASE), 22.5),
    (re.compile(r"magg", re.IGNORECASE), 0.0),
    (re.compile(r"njy", re.IGNORECASE), 31.4),
    (re.compile(r"ujy|microjy", re.IGNORECASE), 23.9),
    (re.compile(r"mjy", re.IGNORECASE), 16.4),
)
_NANOMAGGIES = 22.5
_MIN_BANDS = 2


@dataclass(frozen=True)
class Family:
    """Columns whose names are alike but for the band, and those of their errors."""

    value: str  # template, with ``{band}``
    error: str  # template; empty if there are no errors
    values: dict[str, str] = field(default_factory=dict)  # column by band
    errors: dict[str, str] = field(default_factory=dict)
    kind: Kind = "magnitude"
    inverse_variance: bool = False
    zero_point: float | None = None

    @property
    def name(self) -> str:
        """How the columns were recognised, for display."""
        return f"{self.value} with {self.error}" if self.error else self.value


def families(columns: Iterable[str], units: Mapping[str, str] | None = None) -> list[Family]:
    """Return all groups of two bands or more with errors beside them, the largest first.

    Examples
    --------
    >>> found = families(["umag", "e_umag", "gmag", "e_gmag", "flux_f435w", "zsp"])
    >>> [(one.name, tuple(one.values)) for one in found]
    [('{band}mag with e_{band}mag', ('u', 'g'))]
    """
    groups = grouped(columns)
    found = []
    for template, values in groups.items():
        if _is_error(template) or _NOT_PHOTOMETRY.search(template.replace("{band}", "")):
            continue
        for other, errors in groups.items():
            bands = [band for band in values if band in errors]
            if other != template and len(bands) >= _MIN_BANDS and _is_error_of(other, template):
                found.append(_family(template, other, {b: values[b] for b in bands}, errors, units or {}))
    return sorted(found, key=lambda one: -len(one.values))


def values_without_errors(columns: Iterable[str]) -> list[Family]:
    """Return groups of columns that look like photometry, though nothing looks like their errors."""
    found = [
        Family(template, "", dict(values), kind="flux" if _FLUX.search(template) else "magnitude")
        for template, values in grouped(columns).items()
        if len(values) >= _MIN_BANDS and not _is_error(template) and not _NOT_PHOTOMETRY.search(template)
    ]
    return sorted(found, key=lambda one: -len(one.values))


def grouped(columns: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return columns by template and band; a column may be in several groups, and groups of one are left out."""
    groups: dict[str, dict[str, str]] = {}
    spelling: dict[str, str] = {}
    for column in columns:
        eazy = _EAZY.fullmatch(column)
        if eazy is not None:
            groups.setdefault(f"{eazy['role']}{{band}}", {})[f"F{eazy['band']}"] = column
            continue
        for found in (*_DELIMITED.finditer(column), *_GLUED.finditer(column)):
            template = f"{column[: found.start()]}{{band}}{column[found.end() :]}"
            key = spelling.setdefault(template.lower(), template)
            groups.setdefault(key, {}).setdefault(found[0], column)
    return {template: bands for template, bands in groups.items() if len(bands) >= _MIN_BANDS}


def is_inverse_variance(template: str | None) -> bool:
    """Tell by its name whether a column holds inverse variances."""
    return template is not None and _INVERSE.search(template) is not None


def parse_translate(text: str) -> dict[str, str]:
    """Return the columns of an EAZY translate file by what they are: F12, E12, z_spec, id."""
    found = {}
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if len(words) >= 2:
            found[words[1]] = words[0]
    return found


def _family(
    template: str, other: str, values: dict[str, str], errors: dict[str, str], units: Mapping[str, str]
) -> Family:
    inverse = is_inverse_variance(other)
    stated = [parse_unit(units[column]) for column in values.values() if units.get(column)]
    kinds = {unit.kind for unit in stated if unit is not None}
    is_flux = bool(_FLUX.search(template)) or template == "F{band}" or (inverse and "mag" not in template.lower())
    kind: Kind = kinds.pop() if len(kinds) == 1 else "flux" if is_flux else "magnitude"
    zero_point = next((value for pattern, value in _ZERO_POINTS if pattern.search(template)), None)
    if zero_point is None and inverse:
        zero_point = _NANOMAGGIES  # of SDSS and of the Legacy Surveys, who give inverse variances
    return Family(
        template, other, values, {band: errors[band] for band in values}, kind, inverse,
        zero_point if kind == "flux" else None,
    )  # fmt: skip


def _is_error(template: str) -> bool:
    plain = template.lower()
    return template == "E{band}" or _ERROR_WORD.search(plain) is not None or _ERROR_END.search(plain) is not None


def _is_error_of(error: str, value: str) -> bool:
    """Tell whether a template is another one with a word for an error in it."""
    plain = _squeezed(value)
    if (value, error) == ("F{band}", "E{band}") or (_DIFFERENCE.match(plain) and _squeezed(error) == f"d{plain}"):
        return True
    if not _is_error(error):
        return False
    lower = error.lower()
    stripped = {_squeezed(_ERROR_WORD.sub("", lower)), _squeezed(_ERROR_END.sub("", lower))}
    if plain in stripped:
        return True
    # f_{band} with e_{band}, flux_{band} with err_{band}, mag_{band} with err_{band}
    shorter = re.sub(r"^(?:f|flux|mag|m|maggies|fnu)_|_(?:f|flux|mag|m|maggies|fnu)$|(?<=\})(?:f|flux|mag)$", "", plain)
    return shorter != plain and shorter in stripped


def _squeezed(template: str) -> str:
    return re.sub(r"[_.\- ]+", "_", template.lower()).strip("_")


def describe_groups(columns: Sequence[str]) -> str:
    """Return what was found in a catalogue, by pattern, and the names that follow none; for messages."""
    groups = sorted(grouped(columns).items(), key=lambda item: -len(item[1]))[:6]
    lines = [f"{template} ({', '.join(bands)})" for template, bands in groups]
    placed = {column for _, bands in groups for column in bands.values()}
    others = [column for column in columns if column not in placed]
    if others:
        more = f", ... ({len(others)} in all)" if len(others) > 12 else ""
        lines.append("others: " + ", ".join(others[:12]) + more)
    return "; ".join(lines)


def options_of(chosen: Family, units: Mapping[str, str], unit: str | None) -> dict[str, Any]:
    """Return the options that choose a group of columns."""
    template = chosen.value
    bands = [band.removeprefix("F") if template == "F{band}" else band for band in chosen.values]
    options: dict[str, Any] = {"bands": bands, "mag" if chosen.kind == "magnitude" else "flux": template}
    if chosen.error:
        options["err"] = chosen.error
    has_units = all(column in known_units(units) for column in chosen.values.values())
    if chosen.kind == "flux" and unit is None and not has_units:
        options |= {"unit": UNIT} if chosen.zero_point is None else {"zero_point": chosen.zero_point}
    return options


def suggestion(
    names: list[str], bands: Sequence[str] | None, units: Mapping[str, str], unit: str | None
) -> dict[str, Any]:
    """Return options that are likely to help: the largest group of columns that looks like photometry."""
    found = [*families(names, units), *values_without_errors(names)]
    if not found:
        return _values_beside_errors(names)
    best = max(found, key=lambda one: len(one.values))
    options = options_of(best, units, unit)
    if not best.error and (error := _beside(best, names)):
        options["err"] = error
    if bands is not None:
        there = {band.lower() for band in options["bands"]}
        options["bands"] = [band for band in bands if band.lower() in there] or options["bands"]
    return options


def _values_beside_errors(names: Sequence[str]) -> dict[str, Any]:
    """Return options where only errors follow a pattern; that the columns beside them are magnitudes is a guess."""
    groups = sorted(grouped(names).items(), key=lambda item: -len(item[1]))
    for template, bands in groups:
        errors = Family(template, "", bands, kind="magnitude")
        if _is_error(template) and (value := _beside(errors, names)):
            return {"bands": list(bands), "mag": value, "err": template}
    return {}


def _beside(values: Family, names: Sequence[str]) -> str:
    """Return the template of other columns with one for every band, at the end or the beginning of their names."""
    first = next(iter(values.values))
    for name in names:
        for template in (name.removesuffix(first) + "{band}", "{band}" + name.removeprefix(first)):
            expected = [template.replace("{band}", band) for band in values.values]
            is_photometry = not _NOT_PHOTOMETRY.search(template.replace("{band}", ""))
            if template != values.value and is_photometry and all(column in names for column in expected):
                return template
    return ""
