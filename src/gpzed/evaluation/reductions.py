"""Numbers per object reduced to one, with weights: averages, robust widths, distances of PIT values from uniform."""

from __future__ import annotations

import numpy as np

from gpzed._types import BoolArray, FloatArray

PIT_CLIP = 2.0**-53
"""PIT values are kept this far from 0 and 1, for the logarithms of the Anderson-Darling statistic."""
CLIP_SIGMA = 3.0
"""Standard deviations from the mean beyond which DESC's challenge clips errors, until nothing changes."""
MAD_FACTOR, RAIL_MAD_FACTOR = 1.4826, 1.4862
"""From median absolute deviation to standard deviation: of a Gaussian, and as RAIL has it."""


def average(values: FloatArray, weight: FloatArray) -> float:
    """Return the weighted mean; objects without weight do not count, not even with a score of -inf."""
    counted = weight > 0
    return float(np.dot(weight[counted], values[counted]) / weight.sum())


def root_average(values: FloatArray, weight: FloatArray) -> float:
    """Return the square root of the weighted mean."""
    return float(np.sqrt(average(values, weight)))


def weighted_median(values: FloatArray, weight: FloatArray) -> float:
    """Return the median; with unequal weights, where half of the weight lies on either side."""
    if np.all(weight == weight[0]):
        return float(np.median(values))
    order = np.argsort(values, kind="stable")
    rank = np.cumsum(weight[order])
    # Two neighbours are averaged when the half falls exactly between them, as np.median does.
    half = 0.5 * rank[-1]
    left = np.searchsorted(rank, half * (1 - 1e-12))
    right = np.searchsorted(rank, half * (1 + 1e-12), side="right")
    middle = values[order[[left, min(right, len(values) - 1)]]]
    return float(middle.mean())


def scaled_deviation(values: FloatArray, weight: FloatArray) -> float:
    """Return 1.4826 times the median absolute deviation from the median."""
    centre = weighted_median(values, weight)
    return MAD_FACTOR * weighted_median(np.abs(values - centre), weight)


def three_sigma_share(values: FloatArray, weight: FloatArray) -> float:
    """Return the share of values farther from 0 than three times their scaled deviation."""
    limit = 3 * scaled_deviation(values, weight)
    return average((np.abs(values) > limit).astype(np.float64), weight)


def rail_deviation(values: FloatArray, weight: FloatArray) -> float:
    """Return the median absolute deviation from the median times 1.4862, RAIL's sigma_MAD."""
    return RAIL_MAD_FACTOR / MAD_FACTOR * scaled_deviation(values, weight)


def clipped(values: FloatArray, weight: FloatArray) -> BoolArray:
    """Return which values sigma clipping leaves: those within 3 standard deviations of the mean, again and again."""
    left = weight > 0
    while True:
        centre = average(values[left], weight[left])
        width = CLIP_SIGMA * root_average((values[left] - centre) ** 2, weight[left])
        inside = left & (np.abs(values - centre) <= width)
        if not inside.any() or inside.sum() == left.sum():
            return left
        left = inside


def clipped_location(values: FloatArray, weight: FloatArray) -> float:
    """Return the biweight location of the values that sigma clipping leaves."""
    left = clipped(values, weight)
    x, w = values[left], weight[left]
    centre, u = _biweight(x, w, 6.0)
    near = np.abs(u) < 1
    shares = w[near] * (1 - u[near] ** 2) ** 2
    return centre + float(np.dot(shares, x[near] - centre) / shares.sum())


def clipped_scale(values: FloatArray, weight: FloatArray) -> float:
    """Return the biweight scale of the values that sigma clipping leaves."""
    left = clipped(values, weight)
    x, w = values[left], weight[left] / weight[left].sum()
    centre, u = _biweight(x, w, 9.0)
    near = np.abs(u) < 1
    square, w = u[near] ** 2, w[near]
    above = np.dot(w, (x[near] - centre) ** 2 * (1 - square) ** 4)
    return float(np.sqrt(above) / abs(np.dot(w, (1 - square) * (1 - 5 * square))))


def _biweight(values: FloatArray, weight: FloatArray, reach: float) -> tuple[float, FloatArray]:
    """Return the median, and distances from it in units of `reach` times the median absolute deviation."""
    centre = weighted_median(values, weight)
    deviation = weighted_median(np.abs(values - centre), weight)
    return centre, (values - centre) / (reach * (deviation or 1.0))


def clipped_share(values: FloatArray, weight: FloatArray) -> float:
    """Return the share of values farther from 0 than three times the scale of `clipped_scale`."""
    limit = CLIP_SIGMA * clipped_scale(values, weight)
    return average((np.abs(values) > limit).astype(np.float64), weight)


def _steps(pit: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Return sorted PIT values (n,), the empirical distribution between them (n + 1,), effective n."""
    order = np.argsort(pit)
    height = np.concatenate([[0.0], np.cumsum(weight[order])])
    return pit[order], height / height[-1], float(weight.sum() ** 2 / np.dot(weight, weight))


def kolmogorov_smirnov(pit: FloatArray, weight: FloatArray) -> float:
    """Return the largest distance between the distribution of PIT values and the uniform."""
    u, height, _ = _steps(pit, weight)
    return float(max((height[1:] - u).max(), (u - height[:-1]).max()))


def cramer_von_mises(pit: FloatArray, weight: FloatArray) -> float:
    """Return n times the integral of ``(F_n(u) - u)^2``, with the effective n for weights."""
    u, height, n = _steps(pit, weight)
    u = np.concatenate([[0.0], u, [1.0]])
    return float(n * ((u[1:] - height) ** 3 - (u[:-1] - height) ** 3).sum() / 3)


def anderson_darling(pit: FloatArray, weight: FloatArray) -> float:
    """Return n times the integral of ``(F_n(u) - u)^2 / (u (1 - u))``, exactly, step by step."""
    u, height, n = _steps(np.clip(pit, PIT_CLIP, 1 - PIT_CLIP), weight)
    before, after = height[:-1], height[1:]
    logs = (before**2 - after**2) * np.log(u) + ((1 - after) ** 2 - (1 - before) ** 2) * np.log1p(-u)
    return float(n * (logs.sum() - 1))


def two_sample_anderson_darling(pit: FloatArray, weight: FloatArray) -> float:
    """Return the normalised Anderson-Darling statistic of PIT values and as many evenly spaced ones (Scholz 1987).

    As `scipy.stats.anderson_ksamp` gives it, ties in the middle of their ranks; weights count by the effective n.
    """
    n = float(weight.sum() ** 2 / np.dot(weight, weight))
    even = np.linspace(0.0, 1.0, max(len(pit), 2))
    values, place = np.unique(np.concatenate([pit, even]), return_inverse=True)
    if len(values) < 3 or n < 3.0:
        return float("nan")
    own = np.bincount(place[: len(pit)], weight * (n / weight.sum()), len(values))
    other = np.bincount(place[len(pit) :], np.full(len(even), n / len(even)), len(values))
    both, total = own + other, 2 * n
    middle = np.cumsum(both) - 0.5 * both
    inner = middle * (total - middle) - 0.25 * total * both
    gaps = ((total * (np.cumsum(part) - 0.5 * part) - middle * n) ** 2 for part in (own, other))
    with np.errstate(invalid="ignore", divide="ignore"):
        terms = np.where(inner > 0, both / total * sum(gaps) / inner, 0.0)
    return float(((total - 1) / total * terms.sum() / n - 1) / _scholz_deviation(n))


def _scholz_deviation(n: float) -> float:
    """Return the standard deviation of the statistic of two equal samples of n, if they are from one distribution."""
    total = round(2 * n)
    ends = 1.0 / np.arange(1, total)
    sums = np.cumsum(ends)
    h, pairs = sums[-1], 2.0 / n
    tail = sums[-1] - sums[: total - 2]  # sum over j > i of 1 / j
    g = float((tail / (total - np.arange(1, total - 1))).sum())
    k = 2
    a = (4 * g - 6) * (k - 1) + (10 - 6 * g) * pairs
    b = (2 * g - 4) * k**2 + 8 * h * k + (2 * g - 14 * h - 4) * pairs - 8 * h + 4 * g - 6
    c = (6 * h + 2 * g - 2) * k**2 + (4 * h - 4 * g + 6) * k + (2 * h - 6) * pairs + 4 * h
    d = (2 * h + 6) * k**2 - 4 * h * k
    variance = (a * total**3 + b * total**2 + c * total + d) / ((total - 1.0) * (total - 2.0) * (total - 3.0))
    return float(np.sqrt(variance))
