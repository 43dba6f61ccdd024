"""Every metric as two steps: a number per object, and a reduction of those numbers.

The split lets rejection curves, bins and the bootstrap reuse the costly first step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from gpzed._types import FloatArray
from gpzed.prediction import Prediction

PointEstimate: TypeAlias = Literal["z_phot", "best", "mean", "median", "mode"]
PerObject: TypeAlias = Callable[[FloatArray, Prediction], FloatArray]
Reduction: TypeAlias = Callable[[FloatArray, FloatArray], float]

BRIER_EDGES: FloatArray = np.arange(61, dtype=np.float64) / 10
"""Bins of the Brier score; the outer ones are open, so that every object and all probability fall in some bin."""
BRIER_CHUNK = 1 << 14
"""Objects whose bin probabilities are in memory at once."""
PIT_CLIP = 2.0**-53
"""PIT values are kept this far from 0 and 1, for the logarithms of the Anderson-Darling statistic."""


def point_estimate(prediction: Prediction, point: PointEstimate) -> FloatArray:
    """Return a redshift for each object (n,): what the prediction quotes, or another number from its density."""
    if point not in get_args(PointEstimate):
        raise ValueError(f"`point` is {point!r}; expected one of {', '.join(map(repr, get_args(PointEstimate)))}.")
    z_phot: FloatArray = getattr(prediction, point)
    return z_phot


def normalised_residual(z: FloatArray, prediction: Prediction, point: PointEstimate = "z_phot") -> FloatArray:
    """Return ``(z_spec - z_phot) / (1 + z_spec)``, the sign as in section 6.3 of the paper."""
    return (z - point_estimate(prediction, point)) / (1 + z)


def squared_error(z: FloatArray, prediction: Prediction, point: PointEstimate = "z_phot") -> FloatArray:
    """Return ``((z_spec - z_phot) / (1 + z_spec))^2``."""
    return normalised_residual(z, prediction, point) ** 2


def log_score(z: FloatArray, prediction: Prediction) -> FloatArray:
    """Return the log predictive density at the true redshift."""
    return prediction.log_pdf(z)


def ranked_score(z: FloatArray, prediction: Prediction) -> FloatArray:
    """Return the CRPS of each object."""
    return prediction.crps(z)


def density_loss(z: FloatArray, prediction: Prediction) -> FloatArray:
    """Return ``integral p^2 - 2 p(z_spec)`` (Izbicki & Lee 2017)."""
    return prediction.squared_density_integral() - 2 * prediction.pdf(z)


def brier_score(z: FloatArray, prediction: Prediction, edges: FloatArray = BRIER_EDGES) -> FloatArray:
    """Return the sum over bins of ``(P_bin - 1[z_spec in bin])^2``; the outer bins are open."""
    out = np.empty(len(z))
    inner = edges[1:-1]
    for start in range(0, len(z), BRIER_CHUNK):
        rows = slice(start, start + BRIER_CHUNK)
        n = len(z[rows])
        below = prediction[rows].cdf_grid(inner) if inner.size else np.empty((n, 0))
        probability = np.diff(np.column_stack([np.zeros(n), below, np.ones(n)]), axis=1)
        bins = np.searchsorted(inner, z[rows], side="right")
        out[rows] = (probability**2).sum(axis=1) + 1 - 2 * probability[np.arange(n), bins]
    return out


def probability_transform(z: FloatArray, prediction: Prediction) -> FloatArray:
    """Return the predictive probability below the true redshift (PIT)."""
    return prediction.cdf(z)


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
    return 1.4826 * weighted_median(np.abs(values - centre), weight)


def three_sigma_share(values: FloatArray, weight: FloatArray) -> float:
    """Return the share of values farther from 0 than three times their scaled deviation."""
    limit = 3 * scaled_deviation(values, weight)
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


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric as a number per object and a reduction.

    Parameters
    ----------
    per_object : callable
        (z_spec, prediction) to values of shape (n,).
    reduce : callable
        (values, weights) to a float.
    higher_is_better : bool
        True for scores, False for losses and distances.
    transform : callable, optional
        If given, the metric is ``transform(mean(values))``, so that it can be accumulated.
    """

    per_object: PerObject
    reduce: Reduction
    higher_is_better: bool = False
    transform: Callable[[FloatArray], FloatArray] | None = None


def _retained(threshold: float, point: PointEstimate = "z_phot") -> PerObject:
    def per_object(z: FloatArray, prediction: Prediction) -> FloatArray:
        inside = np.abs(normalised_residual(z, prediction, point)) < threshold
        return np.where(inside, 100.0, 0.0)

    return per_object


def _outlying(threshold: float) -> PerObject:
    def per_object(z: FloatArray, prediction: Prediction) -> FloatArray:
        return (np.abs(normalised_residual(z, prediction)) >= threshold).astype(np.float64)

    return per_object


def _covered(level: float) -> PerObject:
    def per_object(z: FloatArray, prediction: Prediction) -> FloatArray:
        return (np.abs(prediction.cdf(z) - 0.5) <= 0.5 * level).astype(np.float64)

    return per_object


def _identity(values: FloatArray) -> FloatArray:
    return values


def _mean_metric(per_object: PerObject, higher_is_better: bool = False) -> Metric:
    return Metric(per_object, average, higher_is_better, _identity)


METRICS: dict[str, Metric] = {
    "rmse": Metric(squared_error, root_average, False, np.sqrt),
    "mll": _mean_metric(log_score, True),
    "fr_0.15": _mean_metric(_retained(0.15), True),
    "fr_0.05": _mean_metric(_retained(0.05), True),
    "bias": _mean_metric(normalised_residual),
    "sigma_nmad": Metric(normalised_residual, scaled_deviation),
    "outliers_0.15": _mean_metric(_outlying(0.15)),
    "outliers_3sigma": Metric(normalised_residual, three_sigma_share),
    "crps": _mean_metric(ranked_score),
    "cde_loss": _mean_metric(density_loss),
    "brier": _mean_metric(brier_score),
    "pit_ks": Metric(probability_transform, kolmogorov_smirnov),
    "pit_cvm": Metric(probability_transform, cramer_von_mises),
    "pit_ad": Metric(probability_transform, anderson_darling),
    "coverage_68": _mean_metric(_covered(0.68)),
    "coverage_95": _mean_metric(_covered(0.95)),
}


def lookup(name: str) -> Metric:
    """Return the metric of that name, or list the names there are."""
    if name not in METRICS:
        raise ValueError(f"unknown metric {name!r}; choose from {', '.join(METRICS)}.")
    return METRICS[name]


def per_object_values(names: list[str], z: FloatArray, prediction: Prediction) -> dict[str, FloatArray]:
    """Return the values (n,) of each metric; those that share a function are computed once."""
    done: dict[PerObject, FloatArray] = {}
    for name in names:
        function = lookup(name).per_object
        if function not in done:
            done[function] = function(z, prediction)
    return {name: done[lookup(name).per_object] for name in names}
