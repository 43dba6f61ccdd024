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
from gpzed.evaluation.reductions import (
    anderson_darling,
    average,
    clipped_location,
    clipped_scale,
    clipped_share,
    cramer_von_mises,
    kolmogorov_smirnov,
    rail_deviation,
    root_average,
    scaled_deviation,
    three_sigma_share,
    two_sample_anderson_darling,
    weighted_median,
)
from gpzed.prediction import Prediction

PointEstimate: TypeAlias = Literal["z_phot", "best", "safe", "mean", "median", "mode"]
PerObject: TypeAlias = Callable[[FloatArray, Prediction], FloatArray]
Reduction: TypeAlias = Callable[[FloatArray, FloatArray], float]

BRIER_EDGES: FloatArray = np.arange(61, dtype=np.float64) / 10
"""Bins of the Brier score; the outer ones are open, so that every object and all probability fall in some bin."""
BRIER_CHUNK = 1 << 14
"""Objects whose bin probabilities are in memory at once."""
ODDS_WIDTH = 1.96 * 0.05
"""ODDS is the probability within this times 1 + z_phot of z_phot: 95 % of a Gaussian with the scatter in dz/(1+z) that
BPZ expects of photometric redshifts by default (Benitez 2000; version 1.99.3 of the program)."""
PIT_ENDS = 1e-4
"""PIT values closer than this to 0 or 1 are those of catastrophic outliers."""


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
    """Return ``(z_phot - z_spec) / (1 + z_spec)``: the sign of the field, not that of section 6.3 of the paper."""
    if point not in get_args(PointEstimate):
        raise ValueError(f"`point` is {point!r}; expected one of {', '.join(map(repr, get_args(PointEstimate)))}.")
    z_phot: FloatArray = getattr(prediction, point)
    return (z_phot - z) / (1 + z)


def squared_error(z: FloatArray, prediction: Prediction, point: PointEstimate = "z_phot") -> FloatArray:
    """Return ``((z_phot - z_spec) / (1 + z_spec))^2``."""
    return normalised_residual(z, prediction, point) ** 2


def _log_score(z: FloatArray, prediction: Prediction) -> FloatArray:
    return prediction.log_pdf(z)


def _ranked_score(z: FloatArray, prediction: Prediction) -> FloatArray:
    return prediction.crps(z)


def _density_loss(z: FloatArray, prediction: Prediction) -> FloatArray:
    return prediction.squared_density_integral() - 2 * prediction.pdf(z)


def _pit(z: FloatArray, prediction: Prediction) -> FloatArray:
    return prediction.cdf(z)


def _pit_outlying(z: FloatArray, prediction: Prediction) -> FloatArray:
    return (np.abs(prediction.cdf(z) - 0.5) > 0.5 - PIT_ENDS).astype(np.float64)


def odds(prediction: Prediction, *, width: float = ODDS_WIDTH) -> FloatArray:
    """Return the ODDS of each object, shape (n,): the probability within ``width (1 + z_phot)`` of z_phot.

    Codes differ in the width, and so do the numbers: compare only those of the same width.

    Examples
    --------
    >>> from gpzed.prediction import Prediction
    >>> odds(Prediction.gaussian([0.0], [0.0], [0.05**2])).round(4)
    array([0.95])
    """
    if not width > 0:
        raise ValueError(f"`width` is {width}; expected a positive number such as {ODDS_WIDTH:g}.")
    z_phot = prediction.z_phot
    reach = width * (1 + z_phot)
    return prediction.cdf(z_phot + reach) - prediction.cdf(z_phot - reach)


def _odds(z: FloatArray, prediction: Prediction) -> FloatArray:
    return odds(prediction)


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


def _far(threshold: float) -> PerObject:
    def per_object(z: FloatArray, prediction: Prediction) -> FloatArray:
        return (np.abs(normalised_residual(z, prediction)) > threshold).astype(np.float64)

    return per_object


def _covered(level: float) -> PerObject:
    def per_object(z: FloatArray, prediction: Prediction) -> FloatArray:
        return (np.abs(prediction.cdf(z) - 0.5) <= 0.5 * level).astype(np.float64)

    return per_object


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
    "outliers_3sigma": Metric(normalised_residual, three_sigma_share),
    "crps": Metric(_ranked_score),
    "cde_loss": Metric(_density_loss),
    "brier": Metric(_brier_score),
    "pit_ks": Metric(_pit, kolmogorov_smirnov),
    "pit_cvm": Metric(_pit, cramer_von_mises),
    "pit_ad": Metric(_pit, anderson_darling),
    "coverage_68": Metric(_covered(0.68)),
    "coverage_95": Metric(_covered(0.95)),
    "odds": Metric(_odds, higher_is_better=True),
    "median_bias": Metric(normalised_residual, weighted_median),
    "clipped_mean": Metric(normalised_residual, clipped_location),
    "clipped_std": Metric(normalised_residual, clipped_scale),
    "outliers_clipped": Metric(normalised_residual, clipped_share),
    "outliers_0.2": Metric(_far(0.2)),
    "sigma_mad": Metric(normalised_residual, rail_deviation),
    "pit_ad_2sample": Metric(_pit, two_sample_anderson_darling),
    "pit_outliers": Metric(_pit_outlying),
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
    """Return the root mean square of ``(z_phot - z_spec) / (1 + z_spec)`` (Eq. 6.2).

    Examples
    --------
    >>> from gpzed import Prediction, evaluation
    >>> p = Prediction.gaussian([0.42, 0.79, 1.5], 0.001, 0.009)
    >>> round(evaluation.rmse([0.4, 0.8, 1.2], p), 4)
    0.0792
    """
    return _score(Metric(partial(squared_error, point=point), root_average), z_spec, prediction, sample_weight)


def fraction_retained(
    z_spec: ArrayLike,
    prediction: Prediction,
    *,
    threshold: float = 0.15,
    sample_weight: Weights = None,
    point: PointEstimate = "z_phot",
) -> float:
    """Return FR_e, the percentage of objects with ``|z_phot - z_spec| / (1 + z_spec) < threshold``.

    Examples
    --------
    >>> from gpzed import Prediction, evaluation
    >>> p = Prediction.gaussian([0.42, 0.79, 1.5], 0.001, 0.009)
    >>> round(evaluation.fraction_retained([0.4, 0.8, 1.2], p, threshold=0.05), 1)
    66.7
    """
    if not threshold > 0:
        raise ValueError(f"`threshold` is {threshold}; expected a positive number such as 0.15.")
    return _score(Metric(_retained(threshold, point)), z_spec, prediction, sample_weight)


def bias(
    z_spec: ArrayLike, prediction: Prediction, *, sample_weight: Weights = None, point: PointEstimate = "z_phot"
) -> float:
    """Return the mean of ``(z_phot - z_spec) / (1 + z_spec)``: positive where z_phot is too high.

    Examples
    --------
    >>> from gpzed import Prediction, evaluation
    >>> p = Prediction.gaussian([0.42, 0.79, 1.5], 0.001, 0.009)
    >>> round(evaluation.bias([0.4, 0.8, 1.2], p), 4)
    0.0484
    """
    return _score(Metric(partial(normalised_residual, point=point)), z_spec, prediction, sample_weight)


def sigma_nmad(
    z_spec: ArrayLike, prediction: Prediction, *, sample_weight: Weights = None, point: PointEstimate = "z_phot"
) -> float:
    """Return ``1.4826 median(|dz - median(dz)|)`` with ``dz = (z_phot - z_spec) / (1 + z_spec)``.

    Examples
    --------
    >>> from gpzed import Prediction, evaluation
    >>> p = Prediction.gaussian([0.42, 0.79, 1.5], 0.001, 0.009)
    >>> round(evaluation.sigma_nmad([0.4, 0.8, 1.2], p), 4)
    0.0294
    """
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
    """Return the fraction (0 to 1) of objects with ``|z_phot - z_spec| / (1 + z_spec) >= threshold``.

    ``threshold=None`` stands for three times sigma_NMAD of the same objects.

    Examples
    --------
    >>> from gpzed import Prediction, evaluation
    >>> p = Prediction.gaussian([0.42, 0.79, 1.5], 0.001, 0.009)
    >>> round(evaluation.outlier_fraction([0.4, 0.8, 1.2], p, threshold=0.1), 3)
    0.333
    """
    metric = Metric(partial(normalised_residual, point=point), three_sigma_share)
    if threshold is not None:
        metric = Metric(_outlying(threshold, point))
    return _score(metric, z_spec, prediction, sample_weight)


def crps(z_spec: ArrayLike, prediction: Prediction, *, sample_weight: Weights = None) -> float:
    """Return the mean continuous ranked probability score, in units of redshift; lower is better.

    Examples
    --------
    >>> from gpzed import Prediction, evaluation
    >>> p = Prediction.gaussian([0.42, 0.79, 1.5], 0.001, 0.009)
    >>> round(evaluation.crps([0.4, 0.8, 1.2], p), 4)
    0.0975
    """
    return _score(METRICS["crps"], z_spec, prediction, sample_weight)


def cde_loss(z_spec: ArrayLike, prediction: Prediction, *, sample_weight: Weights = None) -> float:
    r"""Return the conditional density loss :math:`E \int p^2 - 2 E\, p(z_{spec})` (Izbicki & Lee 2017).

    In closed form, truncation included; lower is better.

    Examples
    --------
    >>> from gpzed import Prediction, evaluation
    >>> p = Prediction.gaussian([0.42, 0.79, 1.5], 0.001, 0.009)
    >>> round(evaluation.cde_loss([0.4, 0.8, 1.2], p), 3)
    -2.462
    """
    return _score(METRICS["cde_loss"], z_spec, prediction, sample_weight)


def brier(
    z_spec: ArrayLike, prediction: Prediction, *, edges: ArrayLike | None = None, sample_weight: Weights = None
) -> float:
    """Return the Brier score, the mean of ``sum_bins (P_bin - 1[z_spec in bin])^2``, from 0 (best) to 2.

    `edges` are by default 0 to 6 in steps of 0.1. The first and the last bin are open: they take all that lies beyond.

    Examples
    --------
    >>> from gpzed import Prediction, evaluation
    >>> p = Prediction.gaussian([0.42, 0.79, 1.5], 0.001, 0.009)
    >>> round(evaluation.brier([0.4, 0.8, 1.2], p), 3)
    0.795
    """
    bins = BRIER_EDGES if edges is None else _checks.edges("edges", edges)
    return _score(Metric(partial(_brier_score, edges=bins)), z_spec, prediction, sample_weight)


def pit(z_spec: ArrayLike, prediction: Prediction) -> FloatArray:
    """Return the probability integral transform ``cdf(z_spec)`` of each object, shape (n,).

    Examples
    --------
    >>> from gpzed import Prediction, evaluation
    >>> p = Prediction.gaussian([0.42, 0.79, 1.5], 0.001, 0.009)
    >>> evaluation.pit([0.4, 0.8, 1.2], p).round(3).tolist()
    [0.421, 0.54, 0.001]
    """
    return prediction.cdf(_checks.truth(z_spec, prediction))


def pit_ks(z_spec: ArrayLike, prediction: Prediction, *, sample_weight: Weights = None) -> float:
    """Return the Kolmogorov-Smirnov distance of the PIT values from the uniform distribution.

    Examples
    --------
    >>> from gpzed import Prediction, evaluation
    >>> p = Prediction.gaussian([0.42, 0.79, 1.5], 0.001, 0.009)
    >>> round(evaluation.pit_ks([0.4, 0.8, 1.2], p), 3)
    0.46
    """
    return _score(METRICS["pit_ks"], z_spec, prediction, sample_weight)


def pit_cvm(z_spec: ArrayLike, prediction: Prediction, *, sample_weight: Weights = None) -> float:
    """Return the Cramer-von Mises statistic of the PIT values, scipy's, which grows with n.

    Examples
    --------
    >>> from gpzed import Prediction, evaluation
    >>> p = Prediction.gaussian([0.42, 0.79, 1.5], 0.001, 0.009)
    >>> round(evaluation.pit_cvm([0.4, 0.8, 1.2], p), 3)
    0.148
    """
    return _score(METRICS["pit_cvm"], z_spec, prediction, sample_weight)


def pit_ad(z_spec: ArrayLike, prediction: Prediction, *, sample_weight: Weights = None) -> float:
    """Return the Anderson-Darling statistic A^2 of the PIT values, which grows with n.

    PIT values are kept 2^-53 away from 0 and 1, so that one hopeless outlier cannot make it infinite.

    Examples
    --------
    >>> from gpzed import Prediction, evaluation
    >>> p = Prediction.gaussian([0.42, 0.79, 1.5], 0.001, 0.009)
    >>> round(evaluation.pit_ad([0.4, 0.8, 1.2], p), 3)
    1.903
    """
    return _score(METRICS["pit_ad"], z_spec, prediction, sample_weight)


def coverage(z_spec: ArrayLike, prediction: Prediction, *, level: float = 0.68, sample_weight: Weights = None) -> float:
    """Return the fraction (0 to 1) of objects inside their central interval of probability `level`.

    Examples
    --------
    >>> from gpzed import Prediction, evaluation
    >>> p = Prediction.gaussian([0.42, 0.79, 1.5], 0.001, 0.009)
    >>> round(evaluation.coverage([0.4, 0.8, 1.2], p, level=0.95), 3)
    0.667
    """
    return _score(Metric(_covered(_checks.level(level))), z_spec, prediction, sample_weight)
