"""Metrics of the paper's section 6.3 and of the field, each a function of (z_spec, prediction).

A metric is a number per object and a reduction of these numbers (`METRICS`): rejection curves, bins and the bootstrap
reuse the costly first step. Point metrics judge the redshift that a prediction quotes, `Prediction.z_phot`, unless
`point` names another one. Input with NaN, of different lengths or without objects raises ValueError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from gpzed._types import FloatArray
from gpzed.evaluation import _checks
from gpzed.evaluation._checks import Weights
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


def evaluate(z_spec: ArrayLike, prediction: Prediction, sample_weight: Weights = None) -> dict[str, float]:
    """Return every metric of `METRICS` by name, and the number of objects as ``n``.

    Parameters
    ----------
    z_spec : array-like of shape (n,)
        True redshifts.
    prediction : Prediction
        Predictive distributions of the same n objects.
    sample_weight : array-like of shape (n,), optional
        Weights; equal by default.

    Returns
    -------
    dict of str to float
        ``fr_0.15`` and ``fr_0.05`` are percentages; outliers and coverages are fractions.

    Examples
    --------
    >>> from gpzed.prediction import Prediction
    >>> scores = evaluate([0.5, 0.7], Prediction.gaussian([0.5, 0.6], [0.01, 0.01], [0.01, 0.01]))
    >>> round(scores["rmse"], 4), scores["n"]
    (0.0416, 2)
    """
    z, weight = _checks.truth_and_weights(z_spec, prediction, sample_weight)
    values = per_object_values(list(METRICS), z, prediction)
    scores = {name: METRICS[name].reduce(values[name], weight) for name in METRICS}
    return {**scores, "n": len(z)}


# ---------------------------------------------------------------- a number per object


def normalised_residual(z: FloatArray, prediction: Prediction, point: PointEstimate = "z_phot") -> FloatArray:
    """Return ``(z_spec - z_phot) / (1 + z_spec)``, the sign as in section 6.3 of the paper."""
    if point not in get_args(PointEstimate):
        raise ValueError(f"`point` is {point!r}; expected one of {', '.join(map(repr, get_args(PointEstimate)))}.")
    z_phot: FloatArray = getattr(prediction, point)
    return (z - z_phot) / (1 + z)


def squared_error(z: FloatArray, prediction: Prediction, point: PointEstimate = "z_phot") -> FloatArray:
    """Return ``((z_spec - z_phot) / (1 + z_spec))^2``."""
    return normalised_residual(z, prediction, point) ** 2


def _log_score(z: FloatArray, prediction: Prediction) -> FloatArray:
    return prediction.log_pdf(z)


def _ranked_score(z: FloatArray, prediction: Prediction) -> FloatArray:
    return prediction.crps(z)


def _density_loss(z: FloatArray, prediction: Prediction) -> FloatArray:
    return prediction.squared_density_integral() - 2 * prediction.pdf(z)


def _pit(z: FloatArray, prediction: Prediction) -> FloatArray:
    return prediction.cdf(z)


def _brier_score(z: FloatArray, prediction: Prediction, edges: FloatArray = BRIER_EDGES) -> FloatArray:
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


def _retained(threshold: float, point: PointEstimate = "z_phot") -> PerObject:
    def per_object(z: FloatArray, prediction: Prediction) -> FloatArray:
        return np.where(np.abs(normalised_residual(z, prediction, point)) < threshold, 100.0, 0.0)

    return per_object


def _outlying(threshold: float, point: PointEstimate = "z_phot") -> PerObject:
    def per_object(z: FloatArray, prediction: Prediction) -> FloatArray:
        return (np.abs(normalised_residual(z, prediction, point)) >= threshold).astype(np.float64)

    return per_object


def _covered(level: float) -> PerObject:
    def per_object(z: FloatArray, prediction: Prediction) -> FloatArray:
        return (np.abs(prediction.cdf(z) - 0.5) <= 0.5 * level).astype(np.float64)

    return per_object


# ---------------------------------------------------------------- reductions


def average(values: FloatArray, weight: FloatArray) -> float:
    """Return the weighted mean; objects without weight do not count, not even with a score of -inf."""
    counted = weight > 0
    return float(np.dot(weight[counted], values[counted]) / weight.sum())


def root_average(values: FloatArray, weight: FloatArray) -> float:
    """Return the square root of the weighted mean."""
    return float(np.sqrt(average(values, weight)))


def _weighted_median(values: FloatArray, weight: FloatArray) -> float:
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
    centre = _weighted_median(values, weight)
    return 1.4826 * _weighted_median(np.abs(values - centre), weight)


def _three_sigma_share(values: FloatArray, weight: FloatArray) -> float:
    """Return the share of values farther from 0 than three times their scaled deviation."""
    limit = 3 * scaled_deviation(values, weight)
    return average((np.abs(values) > limit).astype(np.float64), weight)


def _steps(pit: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Return sorted PIT values (n,), the empirical distribution between them (n + 1,), effective n."""
    order = np.argsort(pit)
    height = np.concatenate([[0.0], np.cumsum(weight[order])])
    return pit[order], height / height[-1], float(weight.sum() ** 2 / np.dot(weight, weight))


def _kolmogorov_smirnov(pit: FloatArray, weight: FloatArray) -> float:
    """Return the largest distance between the distribution of PIT values and the uniform."""
    u, height, _ = _steps(pit, weight)
    return float(max((height[1:] - u).max(), (u - height[:-1]).max()))


def _cramer_von_mises(pit: FloatArray, weight: FloatArray) -> float:
    """Return n times the integral of ``(F_n(u) - u)^2``, with the effective n for weights."""
    u, height, n = _steps(pit, weight)
    u = np.concatenate([[0.0], u, [1.0]])
    return float(n * ((u[1:] - height) ** 3 - (u[:-1] - height) ** 3).sum() / 3)


def _anderson_darling(pit: FloatArray, weight: FloatArray) -> float:
    """Return n times the integral of ``(F_n(u) - u)^2 / (u (1 - u))``, exactly, step by step."""
    u, height, n = _steps(np.clip(pit, PIT_CLIP, 1 - PIT_CLIP), weight)
    before, after = height[:-1], height[1:]
    logs = (before**2 - after**2) * np.log(u) + ((1 - after) ** 2 - (1 - before) ** 2) * np.log1p(-u)
    return float(n * (logs.sum() - 1))


# ---------------------------------------------------------------- the table


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric as a number per object, from (z_spec, prediction), and a reduction of (values, weights) to a float."""

    per_object: PerObject
    reduce: Reduction = average
    higher_is_better: bool = False


METRICS: dict[str, Metric] = {
    "rmse": Metric(squared_error, root_average),
    "mll": Metric(_log_score, higher_is_better=True),
    "fr_0.15": Metric(_retained(0.15), higher_is_better=True),
    "fr_0.05": Metric(_retained(0.05), higher_is_better=True),
    "bias": Metric(normalised_residual),
    "sigma_nmad": Metric(normalised_residual, scaled_deviation),
    "outliers_0.15": Metric(_outlying(0.15)),
    "outliers_3sigma": Metric(normalised_residual, _three_sigma_share),
    "crps": Metric(_ranked_score),
    "cde_loss": Metric(_density_loss),
    "brier": Metric(_brier_score),
    "pit_ks": Metric(_pit, _kolmogorov_smirnov),
    "pit_cvm": Metric(_pit, _cramer_von_mises),
    "pit_ad": Metric(_pit, _anderson_darling),
    "coverage_68": Metric(_covered(0.68)),
    "coverage_95": Metric(_covered(0.95)),
}


def lookup(name: str) -> Metric:
    """Return the metric of that name, or list the names there are."""
    if name not in METRICS:
        raise ValueError(f"unknown metric {name!r}; choose from {', '.join(METRICS)}.")
    return METRICS[name]


def per_object_values(names: Sequence[str], z: FloatArray, prediction: Prediction) -> dict[str, FloatArray]:
    """Return the values (n,) of each metric; those that share a function are computed once."""
    done: dict[PerObject, FloatArray] = {}
    for name in names:
        function = lookup(name).per_object
        if function not in done:
            done[function] = function(z, prediction)
    return {name: done[lookup(name).per_object] for name in names}


# ---------------------------------------------------------------- metrics one by one


def _score(metric: Metric, z_spec: ArrayLike, prediction: Prediction, weight: Weights) -> float:
    z, w = _checks.truth_and_weights(z_spec, prediction, weight)
    return metric.reduce(metric.per_object(z, prediction), w)


def mll(z_spec: ArrayLike, prediction: Prediction, *, sample_weight: Weights = None) -> float:
    """Return the mean log density at the true redshift; higher is better, -inf if one lies below its truncation.

    Parameters are those of `evaluate`, here and in all other metrics.

    Examples
    --------
    >>> from gpzed.prediction import Prediction
    >>> round(mll([0.5], Prediction.gaussian([0.5], [0.5], [0.5])), 4)
    -0.9189
    """
    return _score(METRICS["mll"], z_spec, prediction, sample_weight)


def rmse(
    z_spec: ArrayLike, prediction: Prediction, *, sample_weight: Weights = None, point: PointEstimate = "z_phot"
) -> float:
    """Return the root mean square of ``(z_spec - z_phot) / (1 + z_spec)`` (Eq. 6.2)."""
    return _score(Metric(partial(squared_error, point=point), root_average), z_spec, prediction, sample_weight)


def fraction_retained(
    z_spec: ArrayLike,
    prediction: Prediction,
    *,
    threshold: float = 0.15,
    sample_weight: Weights = None,
    point: PointEstimate = "z_phot",
) -> float:
    """Return FR_e, the percentage of objects with ``|z_spec - z_phot| / (1 + z_spec) < threshold``."""
    if not threshold > 0:
        raise ValueError(f"`threshold` is {threshold}; expected a positive number such as 0.15.")
    return _score(Metric(_retained(threshold, point)), z_spec, prediction, sample_weight)


def bias(
    z_spec: ArrayLike, prediction: Prediction, *, sample_weight: Weights = None, point: PointEstimate = "z_phot"
) -> float:
    """Return the mean of ``(z_spec - z_phot) / (1 + z_spec)``: positive where z_phot is too low."""
    return _score(Metric(partial(normalised_residual, point=point)), z_spec, prediction, sample_weight)


def sigma_nmad(
    z_spec: ArrayLike, prediction: Prediction, *, sample_weight: Weights = None, point: PointEstimate = "z_phot"
) -> float:
    """Return 1.4826 median |dz - median(dz)| with ``dz = (z_spec - z_phot) / (1 + z_spec)``."""
    metric = Metric(partial(normalised_residual, point=point), scaled_deviation)
    return _score(metric, z_spec, prediction, sample_weight)


def outlier_fraction(
    z_spec: ArrayLike,
    prediction: Prediction,
    *,
    threshold: float | None = 0.15,
    sample_weight: Weights = None,
    point: PointEstimate = "z_phot",
) -> float:
    """Return the fraction (0 to 1) of objects with ``|z_spec - z_phot| / (1 + z_spec) >= threshold``.

    ``threshold=None`` stands for three times sigma_NMAD of the same objects.
    """
    metric = Metric(partial(normalised_residual, point=point), _three_sigma_share)
    if threshold is not None:
        metric = Metric(_outlying(threshold, point))
    return _score(metric, z_spec, prediction, sample_weight)


def crps(z_spec: ArrayLike, prediction: Prediction, *, sample_weight: Weights = None) -> float:
    """Return the mean continuous ranked probability score, in units of redshift; lower is better."""
    return _score(METRICS["crps"], z_spec, prediction, sample_weight)


def cde_loss(z_spec: ArrayLike, prediction: Prediction, *, sample_weight: Weights = None) -> float:
    r"""Return the conditional density loss :math:`E \int p^2 - 2 E\, p(z_{spec})` (Izbicki & Lee 2017).

    In closed form, truncation included; lower is better.
    """
    return _score(METRICS["cde_loss"], z_spec, prediction, sample_weight)


def brier(
    z_spec: ArrayLike, prediction: Prediction, *, edges: ArrayLike | None = None, sample_weight: Weights = None
) -> float:
    """Return the Brier score, the mean of ``sum_bins (P_bin - 1[z_spec in bin])^2``, from 0 (best) to 2.

    `edges` are by default 0 to 6 in steps of 0.1. The first and the last bin are open: they take all that lies beyond.
    """
    bins = BRIER_EDGES if edges is None else _checks.edges("edges", edges)
    return _score(Metric(partial(_brier_score, edges=bins)), z_spec, prediction, sample_weight)


def pit(z_spec: ArrayLike, prediction: Prediction) -> FloatArray:
    """Return the probability integral transform ``cdf(z_spec)`` of each object, shape (n,)."""
    return prediction.cdf(_checks.truth(z_spec, prediction))


def pit_ks(z_spec: ArrayLike, prediction: Prediction, *, sample_weight: Weights = None) -> float:
    """Return the Kolmogorov-Smirnov distance of the PIT values from the uniform distribution."""
    return _score(METRICS["pit_ks"], z_spec, prediction, sample_weight)


def pit_cvm(z_spec: ArrayLike, prediction: Prediction, *, sample_weight: Weights = None) -> float:
    """Return the Cramer-von Mises statistic of the PIT values, scipy's, which grows with n."""
    return _score(METRICS["pit_cvm"], z_spec, prediction, sample_weight)


def pit_ad(z_spec: ArrayLike, prediction: Prediction, *, sample_weight: Weights = None) -> float:
    """Return the Anderson-Darling statistic A^2 of the PIT values, which grows with n.

    PIT values are kept 2^-53 away from 0 and 1, so that one hopeless outlier cannot make it infinite.
    """
    return _score(METRICS["pit_ad"], z_spec, prediction, sample_weight)


def coverage(z_spec: ArrayLike, prediction: Prediction, *, level: float = 0.68, sample_weight: Weights = None) -> float:
    """Return the fraction (0 to 1) of objects inside their central interval of probability `level`."""
    return _score(Metric(_covered(_checks.level(level))), z_spec, prediction, sample_weight)
