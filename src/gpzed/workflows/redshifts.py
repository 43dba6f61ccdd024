"""Which redshifts of a catalogue can be used: what stands for none, what no galaxy has, what contradicts itself.

The rules, in this order: what stands for no redshift is left out; at 0 or below is a star or a failed fit, and above 20
a mistake, both left out unless the limits say otherwise; a column that is mostly above 20 is refused as one of
velocities; objects that are there twice, with redshifts that differ, are left out altogether.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpzed._types import AnyArray, BoolArray, FloatArray
from gpzed.catalog import Photometry, Sentinels
from gpzed.errors import CatalogError

LOWEST, HIGHEST = 0.0, 20.0
"""Redshifts of galaxies are above the first, and not above the second, unless the user says otherwise."""
DISAGREEMENT = 0.01
"""Two redshifts of one object contradict each other if they differ by more than this, times 1 + z."""
LIGHT_SPEED = 299_792.458


@dataclass(frozen=True)
class Limits:
    """Only redshifts above `low` and up to `high` count."""

    low: float = LOWEST
    high: float = HIGHEST
    origin: str = "by default"  # who says so, for messages

    @classmethod
    def of(cls, low: float | None, high: float | None, origin: str) -> Limits:
        """Return the limits that somebody sets, the usual ones where they are left open."""
        if low is None and high is None:
            return cls()
        return cls(LOWEST if low is None else low, HIGHEST if high is None else high, origin)

    def __str__(self) -> str:
        return f"{self.low:g} < z <= {self.high:g} ({self.origin})"


@dataclass(frozen=True)
class Redshifts:
    """Which rows have a usable redshift, and why the others have not."""

    keep: BoolArray  # (n,)
    causes: dict[str, int]  # rows without a redshift, by what stands in its place
    outside: dict[str, int] = field(default_factory=dict)  # rows with a redshift out of the limits, by which side
    limits: Limits = field(default_factory=Limits)

    @property
    def n_missing(self) -> int:
        """Rows without a redshift."""
        return sum(self.causes.values())

    @property
    def n_outside(self) -> int:
        """Rows with a redshift out of the limits."""
        return sum(self.outside.values())

    def __str__(self) -> str:
        cut = ", ".join(f"{count:,} with {cause}" for cause, count in self.outside.items())
        return f"{self.limits}{f'; left out: {cut}' if cut else ''}"


def valid_redshifts(z: FloatArray, limits: Limits, sentinels: Sentinels) -> Redshifts:
    """Tell redshifts from what stands for none, and from those out of the limits."""
    rules = {"NaN or masked": np.isnan(z), "infinite": np.isinf(z), "<= -1": z <= -1.0}
    for value in sentinels.no_redshift:
        rules[f"= {value:g}"] = np.isclose(z, value, rtol=1e-6, atol=0.0)  # 9.9999 in single precision too
    missing = np.zeros(len(z), dtype=bool)
    causes = _counted(rules, missing)
    sides = {
        "z < 0": (z < 0.0) & (z <= limits.low),
        "z = 0": (z == 0.0) & (z <= limits.low),
        f"z <= {limits.low:g}": z <= limits.low,
        f"z > {limits.high:g}": z > limits.high,
    }
    dropped = missing.copy()
    outside = _counted(sides, dropped)
    return Redshifts(~dropped, causes, outside, limits)


def _counted(rules: dict[str, BoolArray], taken: BoolArray) -> dict[str, int]:
    """Return how many rows the first rule that applies to them is, rows in `taken` apart, which grows."""
    counts = {}
    for cause, found in rules.items():
        new = found & ~taken
        taken |= new
        if new.any():
            counts[cause] = int(new.sum())
    return counts


def refuse_velocities(z: FloatArray, column: str, where: str, unit: str | None) -> None:
    """Raise if a column is one of velocities: by its unit, or because most values are far above any redshift."""
    known = z[np.isfinite(z) & (z > 0.0) & (z < 1e6)]
    is_velocity = unit is not None and unit.replace(" ", "").lower() in ("km/s", "kms-1", "kms**-1", "kms^-1", "m/s")
    if is_velocity or (len(known) and np.mean(known > HIGHEST) > 0.5):
        typical = f"{np.median(known):,.0f}" if len(known) else "none"
        raise CatalogError(
            f"'{where}': column '{column}' is no redshift: its median is {typical}, as of velocities cz in km/s; "
            f"divide it by {LIGHT_SPEED}, or name another column with `redshift=`"
        )


@dataclass(frozen=True)
class Repeats:
    """Rows of objects that are there more than once."""

    contradicting: BoolArray  # (n,) rows of objects with redshifts that differ
    n_objects: int  # objects with redshifts that differ
    n_agreeing: int  # further rows of objects whose redshifts agree
    examples: tuple[str, ...]  # some of the objects with redshifts that differ: their redshifts, with a name


def repeated_objects(photometry: Photometry, z: FloatArray, ids: AnyArray | None) -> Repeats:
    """Find objects with the same identifier, or with the same photometry in two bands or more.

    Identifiers count only where most rows have one of their own; else they name something larger, as a field does.
    """
    n = len(z)
    groups = [_groups_of_photometry(photometry)]
    if ids is not None and n:
        _, group, counts = np.unique(ids, return_inverse=True, return_counts=True)
        if len(counts) > 0.5 * n:
            groups.append(np.where(counts[group.ravel()] > 1, group.ravel(), -1))
    contradicting, agreeing = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    n_objects, examples = 0, []
    for group in groups:
        rows = np.flatnonzero(group >= 0)
        order = rows[np.argsort(group[rows], kind="stable")]
        for one in np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if len(order) else ():
            if np.ptp(z[one]) > DISAGREEMENT * (1.0 + z[one].min()):
                if not contradicting[one].all():
                    n_objects += 1
                    name = f"row {one[0]}" if ids is None else f"{ids[one[0]]}"
                    examples.append(f"{name} (z = {', '.join(f'{value:.4g}' for value in sorted(z[one])[:3])})")
                contradicting[one] = True
            else:
                agreeing[one[1:]] = True
    return Repeats(contradicting, n_objects, int((agreeing & ~contradicting).sum()), tuple(examples[:3]))


def _groups_of_photometry(photometry: Photometry) -> Any:
    """Return a number for every row whose photometry is that of another row, -1 for all others."""
    measured = photometry.measured.sum(axis=1) >= 2
    group = np.full(len(measured), -1)
    rows = np.flatnonzero(measured)
    if not len(rows):
        return group
    values = np.nan_to_num(np.hstack([photometry.values[rows], photometry.errors[rows]]), nan=-1e99)
    hashed = np.ascontiguousarray(values).view(np.dtype((np.void, values.shape[1] * values.itemsize))).ravel()
    _, index, counts = np.unique(hashed, return_inverse=True, return_counts=True)
    group[rows] = np.where(counts[index.ravel()] > 1, index.ravel(), -1)
    return group


def repeats_text(found: Repeats, where: str) -> list[str]:
    """Return what to say about objects that are there more than once."""
    texts, n = [], len(found.contradicting)
    if found.n_objects:
        texts.append(
            f"'{where}': {found.n_objects:,} objects are there more than once with redshifts that differ by more than "
            f"{DISAGREEMENT:g} (1 + z), as {', '.join(found.examples)}; all {int(found.contradicting.sum()):,} rows of "
            "theirs are left out, because nobody knows which is right"
        )
    if found.n_agreeing > 0.05 * n:
        texts.append(
            f"'{where}': {found.n_agreeing:,} of {n:,} rows repeat others: scores of held-out rows will be too good; "
            "keep one row of each object"
        )
    return texts
