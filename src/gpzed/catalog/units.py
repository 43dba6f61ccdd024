"""Units of photometry: what a column's unit says of its scale, and factors from one unit to another."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from gpzed.catalog.conventions import MICROJANSKY_ZERO_POINT, NANOJANSKY_ZERO_POINT, Kind
from gpzed.errors import SchemaError

_JANSKY = 8.9
_PREFIXES = {"": 0, "d": -1, "c": -2, "m": -3, "u": -6, "n": -9, "p": -12, "f": -15, "k": 3}
_MAGNITUDES = {"mag": 1.0, "magnitude": 1.0, "magnitudes": 1.0, "abmag": 1.0, "mag_ab": 1.0, "mmag": 1e-3}
_CGS, _SI = -48.6, -56.1  # erg/s/cm2/Hz and W/m2/Hz
FLUX_UNITS = "nJy, uJy, mJy, Jy, nanomaggy, maggy"
"""The usual units of fluxes, for messages."""
UNIT = "UNIT"
"""What stands for the unit in a suggested call, where nothing tells which it is."""
_PER_WAVELENGTH = re.compile(r"(angstrom|\baa?\b|/um|/nm|micron)", re.IGNORECASE)


@dataclass(frozen=True)
class PhotometricUnit:
    """What a unit of photometry means."""

    kind: Kind
    zero_point: float = 0.0  # AB magnitude of flux 1, of fluxes
    factor: float = 1.0  # magnitudes in one unit, of magnitudes


def parse_unit(text: str) -> PhotometricUnit | None:
    """Return what a unit means for photometry; None if it is none that has an AB zero point (counts, none).

    Examples
    --------
    >>> parse_unit("uJy").zero_point, parse_unit("nanomaggy").zero_point, parse_unit("mag").kind
    (23.9, 22.5, 'magnitude')
    >>> parse_unit("1e-29 erg s-1 cm-2 Hz-1").zero_point
    23.9
    """
    return _parse(" ".join(text.split()))


@lru_cache(maxsize=256)
def _parse(text: str) -> PhotometricUnit | None:
    plain = text.replace("µ", "u").replace("μ", "u").replace("micro", "u").replace("nano", "n").replace("milli", "m")
    power, plain = _leading_number(plain)
    word = re.sub(r"[\s()]|\bab\b", "", plain.lower())
    if word in _MAGNITUDES:
        return PhotometricUnit("magnitude", factor=_MAGNITUDES[word])
    jansky = re.fullmatch(r"([dcmunpfk]?)(?:jy|jansky|janskys)", word)
    maggies = re.fullmatch(r"([munp]?)(maggy|maggies|mgy)", word)
    if jansky is not None:
        zero_point = _JANSKY - 2.5 * _PREFIXES[jansky[1]]
    elif maggies is not None:
        zero_point = -2.5 * _PREFIXES[maggies[1]]
    elif "erg" in word and "hz" in word:
        zero_point = _CGS
    elif word.startswith("w") and "hz" in word and "m" in word:
        zero_point = _SI
    else:
        return _through_astropy(text)
    return PhotometricUnit("flux", round(zero_point - 2.5 * power, 6))


def _leading_number(text: str) -> tuple[float, str]:
    """Return the power of ten that a unit begins with, and the rest: 1e-29, 10-29, 10**-29, 10^-29."""
    found = re.match(r"(?:1(?:\.0*)?e|10(?:\*\*|\^)?)\s*\(?([+-]?\d+)\)?[\s*.]*", text, re.IGNORECASE)
    return (float(found[1]), text[found.end() :]) if found else (0.0, text)


def _through_astropy(text: str) -> PhotometricUnit | None:
    """Ask astropy, where it is installed, about a spelling that is not known here."""
    if _PER_WAVELENGTH.search(text) and re.search(r"erg|\bW\b", text):
        raise SchemaError(
            f"unit '{text}' is a flux per wavelength; fluxes per frequency are needed: convert the columns to uJy, or "
            "to AB magnitudes"
        )
    try:
        import astropy.units as u
    except ImportError:
        return None
    try:
        jansky = float(u.Unit(text).to(u.Jy))
    except (ValueError, TypeError):
        return None
    return PhotometricUnit("flux", _JANSKY - 2.5 * math.log10(jansky))


def name_of(zero_point: float) -> str:
    """Return the unit of fluxes of a zero point, or the zero point itself.

    Examples
    --------
    >>> name_of(31.4), name_of(25.0)
    ('nJy', 'flux of AB zero point 25')
    """
    known = {
        NANOJANSKY_ZERO_POINT: "nJy", MICROJANSKY_ZERO_POINT: "uJy", 16.4: "mJy", _JANSKY: "Jy", 22.5: "nanomaggy",
        0.0: "maggy", _CGS: "erg/s/cm2/Hz",
    }  # fmt: skip
    return next((name for value, name in known.items() if abs(value - zero_point) < 0.05), None) or (
        f"flux of AB zero point {zero_point:g}"
    )


def check_unit(text: str) -> None:
    """Raise if a unit that the user says means nothing for photometry."""
    if parse_unit(text) is None:
        raise SchemaError(f"`unit` is '{text}'; expected mag, {FLUX_UNITS} or the like")


def known_units(units: Mapping[str, str]) -> dict[str, str]:
    """Return those units of columns that mean something for photometry."""
    return {column: unit for column, unit in units.items() if unit and parse_unit(unit) is not None}


def factor_to(unit: str | None, kind: Kind, zero_point: float | None) -> float:
    """Return what values in `unit` are multiplied by: to magnitudes, or to fluxes of `zero_point`."""
    meaning = None if unit is None else parse_unit(unit)
    if meaning is None:
        return 1.0
    if kind == "magnitude":
        return meaning.factor
    return 1.0 if zero_point is None else float(10.0 ** (0.4 * (zero_point - meaning.zero_point)))
