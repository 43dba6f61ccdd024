"""What is worth a warning in a catalogue: other units, exchanged or absent bands, objects unlike those of training."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpzed._types import FloatArray
from gpzed.catalog import Catalog, PhotometrySchema, Scale, ScaleSummary
from gpzed.catalog.scale import MAX_ROWS, colour_shifts, exchanged_bands, outside_colours, shifts
from gpzed.catalog.schema import as_template
from gpzed.catalog.units import FLUX_UNITS, UNIT, known_units, name_of
from gpzed.config import SchemaConfig
from gpzed.errors import CatalogError, DataWarning, SchemaError
from gpzed.features import Flag, count_flags

SHARE = 0.2
"""Share of a catalogue that something has to concern to be worth a warning."""
MAX_SHIFT, MAX_BAND_SHIFT = 6.0, 4.0
"""Magnitudes by which no catalogue differs from its training set: in all bands, and in one band against the others."""
NO_MAGNITUDES = (-1.0, 5.0), (40.0, np.inf)
"""Fluxes of galaxies lie here in the usual units, magnitudes never; instrumental ones are lower."""
MAX_NO_MAGNITUDES = 0.1
"""Share of such values in every band that no catalogue of magnitudes has."""
MIN_ROWS = 50
"""Rows below which shares say nothing."""
MAX_EXCESS_SHIFT = 1.0
"""Mean excess of the errors over that of training, in units of their scatter, that speaks of another depth."""


@dataclass(frozen=True)
class Seen:
    """What a catalogue turned out to be like; that of its chunks adds up with ``+``."""

    scale: Scale
    flags: Counter[str]  # objects by flag
    n_rows: int
    cost: tuple[float, float] | None = None  # median z_std of a sample with the absent bands, and without
    excess: tuple[float, int] = (0.0, 0)  # sum of the excess of the errors over that of training, and of how many rows

    def __add__(self, other: Seen) -> Seen:
        excess = self.excess[0] + other.excess[0], self.excess[1] + other.excess[1]
        return Seen(self.scale + other.scale, self.flags + other.flags, self.n_rows + other.n_rows, self.cost, excess)

    @classmethod
    def of(
        cls,
        scale: Scale,
        flags: Any,
        cost: tuple[float, float] | None = None,
        excess: FloatArray | None = None,
    ) -> Seen:
        """Return what the rows of one table are like; `excess` (n,) where it is an input, NaN where it is not known."""
        known = np.zeros(0) if excess is None else excess[np.isfinite(excess)]
        return cls(scale, Counter(count_flags(flags)), len(flags), cost, (float(known.sum()), len(known)))


def warn_all(texts: Iterable[str]) -> tuple[str, ...]:
    """Issue a `DataWarning` for each text, and return them."""
    said = tuple(texts)
    for text in said:
        warnings.warn(text, DataWarning, stacklevel=3)
    return said


def units_are_stated(schema: PhotometrySchema, config: SchemaConfig, units: Mapping[str, str]) -> bool:
    """Tell whether the user or the catalogue says in what units the photometry is."""
    return not without_unit(schema, config, units)


def without_unit(schema: PhotometrySchema, config: SchemaConfig, units: Mapping[str, str]) -> dict[str, str]:
    """Return the columns of photometry without a unit that means something, and what the catalogue says instead."""
    if config.unit is not None or config.zero_point is not None:
        return {}
    known = known_units(units)
    return {column: units.get(column) or "" for column in schema.values.values() if column not in known}


def strange_units(schema: PhotometrySchema, config: SchemaConfig, units: Mapping[str, str]) -> list[str]:
    """Return what to say about fluxes whose unit is none of photometry."""
    columns = [name for name, said in without_unit(schema, config, units).items() if said]
    if schema.zero_point is None or not columns:
        return []
    return [
        f"unit '{units[columns[0]]}' of {', '.join(columns)} is none of photometry: fluxes are taken to be in "
        f"{name_of(schema.zero_point)}; say the right one with `unit=`"
    ]


def refuse_fluxes(table: Catalog, schema: PhotometrySchema, where: str, stated: bool) -> None:
    """Raise if many values in every band cannot be magnitudes although their names say so, and no unit confirms it.

    Every value of a column counts once, so that no number that stands for a missing one decides.
    """
    if schema.kind != "magnitude" or stated:
        return
    step = max(1, -(-len(table) // MAX_ROWS))
    columns = list(schema.values.values())
    shares = [share for column in columns if (share := _no_magnitudes(table.floats(column)[::step])) is not None]
    if not shares or min(shares) <= MAX_NO_MAGNITUDES:
        return
    flux, err = as_template(schema.values), as_template(schema.errors)
    options = {"bands": list(schema.bands), "flux": flux, **({"err": err} if err else {}), "unit": UNIT}
    raise SchemaError(
        f"'{where}': {', '.join(columns)} are taken for magnitudes, but {100 * np.mean(shares):.0f} % of their values "
        "cannot be magnitudes of galaxies; if they are fluxes, name them with `flux=` and say their unit with `unit=`, "
        f"one of {FLUX_UNITS}; if they are magnitudes nevertheless, add `unit=` mag",
        options if flux else None,
    )


def _no_magnitudes(values: FloatArray) -> float | None:
    """Return the share of the values that cannot be magnitudes of galaxies; None if there are too few to tell."""
    known = np.unique(values[np.isfinite(values)])
    strange = np.zeros(len(known), dtype=bool)
    for low, high in NO_MAGNITUDES:
        strange |= (known > low) & (known < high)
    return float(strange.mean()) if len(known) >= MIN_ROWS else None


SAY_THE_UNIT = "say the unit of its photometry with `unit=` (nJy, uJy, nanomaggy, mag, ...)"
"""What to do about a catalogue in other units than training; for a target, see `TARGET_UNITS`."""
TARGET_UNITS = (
    "`unit=` and `zero_point=` are for the training catalogue alone: give the target in the units of that, or as AB "
    "magnitudes, or with units in the file (of astropy: table['flux_g'].unit = 'nJy', written as FITS or ECSV)"
)


def refuse_other_units(
    training: ScaleSummary, scale: Scale, where: str, stated: bool, remedy: str = SAY_THE_UNIT
) -> None:
    """Raise if the photometry is on a scale that no catalogue for this model can have, and nobody says that it is."""
    if stated:
        return
    found = scale.summary()
    shift = shifts(training, found)
    known = np.isfinite(shift)
    if not known.any():
        return
    common = float(np.median(shift[known]))
    if abs(common) > MAX_SHIFT:
        raise CatalogError(
            f"'{where}' is not in the units of the training catalogue: its objects are {_shift(common)} in all bands, "
            f"{_factor(common)}; {remedy}"
        )
    single = shift - common
    worst = int(np.argmax(np.where(known, np.abs(single), 0.0)))
    if known.sum() > 2 and abs(single[worst]) > MAX_BAND_SHIFT:
        raise CatalogError(
            f"'{where}': band {found.bands[worst]} is not in the units of the other bands: compared with them and with "
            f"training it is {_shift(float(single[worst]))}, {_factor(float(single[worst]))}; correct the column, or "
            "leave the band out with `bands=`"
        )


def cautions(training: ScaleSummary, seen: Seen, where: str, absent: str = "") -> list[str]:
    """Return what to say about a catalogue that was predicted; `absent` names bands that it does not have."""
    texts = []
    if absent:
        cost = ""
        if seen.cost is not None:
            grown = 100.0 * (seen.cost[1] / max(seen.cost[0], 1e-9) - 1.0)
            cost = f"; that raises z_std from {seen.cost[0]:.3g} to {seen.cost[1]:.3g} (median, {grown:+.0f} %)"
        texts.append(f"'{where}': {absent}: taken as not observed{cost}")
    texts += _heaps(seen.scale, where)
    texts += _other_errors(*seen.excess, where)
    if seen.n_rows >= MIN_ROWS:
        signs = _signs(training, seen)
        if signs:
            causes = "; ".join(f"({k}) {cause}" for k, cause in enumerate(_causes(training, seen), 1))
            texts.append(f"'{where}' is not like the training catalogue: {', '.join(signs)}. Likely causes: {causes}")
    return texts


def _other_errors(total: float, n: int, where: str) -> list[str]:
    shift = total / max(n, 1)
    if n < MIN_ROWS or abs(shift) < MAX_EXCESS_SHIFT:
        return []
    return [
        f"'{where}': errors are {'larger' if shift > 0 else 'smaller'} than training rows have at the same magnitudes, "
        f"in the mean by {abs(shift):.1f} times their scatter, which the model takes for a property of the objects; if "
        "it is the depth that differs, train with --errors none, or with --errors auto and this catalogue as --target"
    ]


def _heaps(scale: Scale, where: str) -> list[str]:
    found = scale.heaps()
    if found is None:
        return []
    share, shift = found
    return [
        f"'{where}': {100 * share:.0f} % of the rows are in other units than the rest: they are {_shift(shift)} with "
        f"their errors, {_factor(shift)}; bring all rows to one unit"
    ]


def training_cautions(scale: Scale, n_train: int, where: str) -> list[str]:
    """Return what to say about the photometry of a training catalogue."""
    texts = _heaps(scale, where)
    if n_train < 200:
        texts.append(
            f"only {n_train} rows to train on: errors will be large and rough, and few kinds of galaxies covered; "
            "give 1000 or more if there are any"
        )
    for band, counts, status in zip(scale.bands, scale.magnitudes, scale.status, strict=True):
        total = max(int(status.sum()), 1)
        lacking = 1.0 - status[0] / total
        if counts.sum() >= 10 and np.count_nonzero(counts) == 1:
            texts.append(
                f"band {band} has the same magnitude in every row: it tells nothing about redshift; check the column, "
                "or leave the band out"
            )
        if lacking >= 0.6:
            texts.append(
                f"band {band} is missing in {100 * lacking:.0f} % of the training rows: little can be learned from it, "
                f"and objects that have it are predicted from the other {total - int(status[0]):,} rows as well; leave "
                "it out if results are better without"
            )
    return texts


def _signs(training: ScaleSummary, seen: Seen) -> list[str]:
    """Return what more than a fifth of the catalogue shows."""
    n, signs = seen.n_rows, []
    for flag, words in (
        (Flag.OUTSIDE_COVERAGE, "outside the coverage of training"),
        (Flag.CLIPPED_INPUT, "clipped to the range of training"),
    ):
        count = seen.flags.get(str(flag.name), 0)
        if count > SHARE * n:
            signs.append(f"{count:,} of {n:,} objects are {words}")
    for band, before, now in zip(training.bands, training.undetected, seen.scale.summary().undetected, strict=True):
        if now > before + SHARE:
            signs.append(f"{band} is undetected in {100 * now:.0f} % ({100 * before:.0f} % in training)")
    outside = outside_colours(training, seen.scale)
    shifted = colour_shifts(training, seen.scale.summary())
    for j in np.argsort(-np.nan_to_num(outside))[:1]:
        if not outside[j] > SHARE:
            continue
        colour = f"{training.bands[j]}-{training.bands[j + 1]}"
        signs.append(f"{colour} of {100 * outside[j]:.0f} % is beyond 99 % of training ({shifted[j]:+.2f} mag)")
    return signs


def _causes(training: ScaleSummary, seen: Seen) -> list[str]:
    """Return what may be behind that, the likeliest first."""
    found = seen.scale.summary()
    causes = []
    if seen.scale.heaps() is not None:
        causes.append("rows in two units")
    swapped = exchanged_bands(training, found)
    if swapped is not None:
        causes.append(f"the columns of {swapped[0]} and {swapped[1]} are exchanged: they fit training the other way")
    shift = shifts(training, found)
    known = np.isfinite(shift)
    common = float(np.median(shift[known])) if known.any() else 0.0
    single = np.where(known, shift - common, 0.0)
    worst = int(np.argmax(np.abs(single)))
    if swapped is None and known.sum() > 2 and abs(single[worst]) > 0.3:
        causes.append(
            f"band {found.bands[worst]} is {_shift(float(single[worst]))} against the others: another filter, zero "
            "point or magnitude system (Vega)"
        )
    if abs(common) > MAX_SHIFT:
        causes.append(f"the unit that is stated is wrong: all is {_shift(common)}, {_factor(common)}")
    elif common > 0.5:
        causes.append(f"a deeper catalogue, {_shift(common)} in the median: weight training by it with --target")
    elif common < -0.5:
        causes.append(f"objects {_shift(common)}: stars, another unit, or a shallower catalogue")
    more = [now - before for before, now in zip(training.undetected, found.undetected, strict=True)]
    if max(more) > SHARE:
        causes.append(f"{training.bands[int(np.argmax(more))]} is shallower, or its gaps mean something else here")
    causes.append("other apertures or extinction corrections; other kinds of objects than in training")
    return causes


def _shift(shift: float) -> str:
    return f"{abs(shift):.1f} mag {'fainter' if shift > 0 else 'brighter'}"


def _factor(shift: float) -> str:
    """Return a shift as a factor of flux, with the units that it could come from."""
    factor = 10.0 ** (0.4 * abs(shift))
    for power, small, large in ((3, "nJy", "uJy"), (6, "uJy", "Jy"), (9, "nJy", "Jy")):
        if abs(np.log10(factor) - power) < 0.5:
            units = f"{small} for {large}" if shift < 0 else f"{large} for {small}"
            return f"a factor of about {f'1e{power}' if power > 3 else '1000'}, as {units}"
    return f"a factor of about {factor:.0f}" if factor < 1e5 else f"a factor of about {factor:.0e}"
