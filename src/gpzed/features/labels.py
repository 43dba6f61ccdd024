"""Redshifts as labels: of several columns the best that a row has, its error, and the probability that it is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from gpzed._types import FloatArray, IntArray
from gpzed.gp.labels import LOG_2PI, log_likelihood

MIN_PAIRS = 50
"""Rows with both redshifts from which the errors of the second can be learned."""
ASSUMED_SCATTER, ASSUMED_WRONG = 0.02, 0.05
"""Of (1 + z) and of the rows: what is taken for a further redshift column where there are too few such rows."""
WRONG_SCATTER = 0.3
"""Standard deviation of the difference of redshifts, divided by 1 + z, where one of the two is wrong."""
REACH = 2.5
"""Magnitudes by which errors are extrapolated beyond the rows with both redshifts; they stay constant from there on."""
SLOPE = 1.0
"""Standard deviation of the prior on how ln scatter and logit of the wrong rate change with a magnitude."""
FAINT_WRONG = 0.2
"""Part of the redshifts that may be wrong, at least, at magnitudes beyond the rows with both: galaxies with spectra are
those for which other redshifts are good, too."""
MAX_WRONG = 0.5


@dataclass(frozen=True)
class Labels:
    """Redshifts to learn from, n of them.

    `std` are their standard errors (None: all zero), `wrong` the probability that each is wrong (None: known of none;
    NaN: not known), and `column` says which of the redshift columns each is from, the first being 0.
    """

    z: FloatArray
    std: FloatArray | None = None
    wrong: FloatArray | None = None
    column: IntArray | None = None

    def take(self, rows: Any) -> Labels:
        """Return those of some of the rows."""
        kept = (None if array is None else array[rows] for array in (self.z, self.std, self.wrong, self.column))
        return Labels(*kept)  # type: ignore[arg-type]

    def followed_by(self, other: Labels) -> Labels:
        """Return them with others after them, which count as of the first column."""
        column = None if self.column is None else np.append(self.column, np.zeros(len(other.z), self.column.dtype))
        std, wrong = _one_after_other(self, other, "std", 0.0), _one_after_other(self, other, "wrong", np.nan)
        return Labels(np.append(self.z, other.z), std, wrong, column)


def _one_after_other(first: Labels, second: Labels, name: str, none: float) -> FloatArray | None:
    """Join what two know of their redshifts; None if neither knows anything."""
    parts = [getattr(first, name), getattr(second, name)]
    if parts[0] is None and parts[1] is None:
        return None
    owners = (first, second)
    return np.concatenate([np.full(len(o.z), none) if p is None else p for o, p in zip(owners, parts, strict=True)])


@dataclass(frozen=True)
class LabelErrors:
    """Errors of a redshift column as functions of magnitude m, in (1 + z): learned from rows with a better redshift.

    A redshift is off by `offset` with scatter ``exp(scatter[0] + scatter[1] (m - middle))``, or it is wrong, with the
    probability of logit ``wrong[0] + wrong[1] (m - middle)``, which is at least `FAINT_WRONG` from `faintest` on.
    """

    offset: float
    scatter: tuple[float, float]
    wrong: tuple[float, float]
    middle: float
    limits: tuple[float, float]  # magnitudes between which this holds
    n_pairs: int
    faintest: float = np.inf  # up to where there are rows with both redshifts

    def __call__(self, z: FloatArray, magnitude: FloatArray) -> Labels:
        """Return corrected redshifts with their errors; rows without a magnitude have those of the faintest."""
        m = np.clip(np.nan_to_num(magnitude, nan=self.limits[1]), *self.limits)
        std = np.exp(self.scatter[0] + self.scatter[1] * (m - self.middle)) * (1.0 + z)
        wrong = np.minimum(expit(self.wrong[0] + self.wrong[1] * (m - self.middle)), MAX_WRONG)
        wrong = np.where(m > self.faintest, np.maximum(wrong, FAINT_WRONG), wrong)
        return Labels(z - self.offset * (1.0 + z), std, wrong)

    def to_dict(self) -> dict[str, float]:
        """Return what was learned, at the median magnitude of the rows with both redshifts."""
        return {
            "rows_with_both": self.n_pairs,
            "offset": self.offset,
            "scatter": float(np.exp(self.scatter[0])),
            "wrong": float(expit(self.wrong[0])),
            "magnitude": self.middle,
        }


def learn_errors(z: FloatArray, better: FloatArray, magnitude: FloatArray) -> LabelErrors:
    """Learn the errors of redshifts from rows that have a better one; assume some where these are too few."""
    pairs = np.isfinite(z) & np.isfinite(better) & np.isfinite(magnitude)
    n = int(pairs.sum())
    if n < MIN_PAIRS:
        assumed = float(np.log(ASSUMED_WRONG / (1.0 - ASSUMED_WRONG)))
        return LabelErrors(0.0, (float(np.log(ASSUMED_SCATTER)), 0.0), (assumed, 0.0), 0.0, (-np.inf, np.inf), n)
    delta, m = ((z - better) / (1.0 + better))[pairs], magnitude[pairs]
    middle = float(np.median(m))
    t = m - middle
    log_wrong = -0.5 * (delta / WRONG_SCATTER) ** 2 - np.log(WRONG_SCATTER) - 0.5 * LOG_2PI

    def objective(p: FloatArray) -> float:
        log_std = p[1] + p[2] * t
        right = -0.5 * ((delta - p[0]) * np.exp(-log_std)) ** 2 - log_std - 0.5 * LOG_2PI
        wrong = np.minimum(expit(p[3] + p[4] * t), MAX_WRONG)
        prior = 0.5 * (p[2] ** 2 + p[4] ** 2) / SLOPE**2 + 0.5 * ((p[3] - start[3]) / 3.0) ** 2
        return float((prior - log_likelihood(right, log_wrong, wrong).sum()) / n)

    centre = float(np.median(delta))
    scatter = max(1.4826 * float(np.median(np.abs(delta - centre))), 1e-5)
    far = float(np.clip(np.mean(np.abs(delta - centre) > 5.0 * scatter), 0.002, 0.4))
    start = np.array([centre, np.log(scatter), 0.0, np.log(far / (1.0 - far)), 0.0])
    bounds = [(centre - scatter, centre + scatter), (np.log(1e-6), 0.0), (-3.0, 3.0), (-9.0, 2.0), (-3.0, 3.0)]
    p = minimize(objective, start, method="L-BFGS-B", bounds=bounds).x
    low, high = (float(edge) for edge in np.quantile(m, [0.01, 0.99]))
    scatter_line, wrong_line = (float(p[1]), float(p[2])), (float(p[3]), float(p[4]))
    return LabelErrors(float(p[0]), scatter_line, wrong_line, middle, (low - REACH, high + REACH), n, high)


def combine(first: Labels, others: list[Labels]) -> Labels:
    """Return for each row the first redshift that it has, by the order of the columns."""
    parts = [first, *others]
    z, std = np.full(len(first.z), np.nan), np.zeros(len(first.z))
    wrong, column = np.full(len(z), np.nan), np.zeros(len(z), dtype=np.intp)
    for index, part in enumerate(parts):
        new = np.isnan(z) & np.isfinite(part.z)
        z[new], column[new] = part.z[new], index
        std[new] = 0.0 if part.std is None else part.std[new]
        wrong[new] = np.nan if part.wrong is None else part.wrong[new]
    return Labels(z, std if std.any() else None, None if np.isnan(wrong).all() else wrong, column)
