"""Scores against the fraction of objects kept, the most certain first (section 7.3 of the paper); FR_e against e."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gpzed._types import FloatArray, IntArray
from gpzed.evaluation import _checks
from gpzed.evaluation._checks import Weights
from gpzed.evaluation.metrics import Metric, lookup, normalised_residual, per_object_values
from gpzed.evaluation.reductions import average, root_average
from gpzed.prediction import Prediction

PAPER_METRICS = ("rmse", "mll", "fr_0.15", "fr_0.05")
"""Metrics of the paper's figure."""
MAX_THRESHOLD, N_THRESHOLDS = 0.2, 201
"""Largest normalised error of the curve of FR_e by default, and its number of points."""

NEAR_TARGET = ("bias", "median_bias", "clipped_mean", "coverage_68", "coverage_95")
"""Metrics of which neither high nor low values are good."""


@dataclass(frozen=True)
class RejectionCurve:
    """A metric of the most certain objects, `values` (g,), as a function of the fraction kept.

    `fractions` (g,) increase; `n_kept` (g,) are the numbers of objects.
    """

    metric: str
    fractions: FloatArray
    n_kept: IntArray
    values: FloatArray

    @property
    def area(self) -> float:
        """Mean of the curve over the range of fractions (the area under it, divided by the range)."""
        return _mean_over(self.fractions, self.values)


@dataclass(frozen=True)
class Improvement:
    """Relative difference of a method to a reference along the fraction kept.

    `values` (g,) are ``100 (method - reference) / |method|`` in per cent, as in the paper's figure; NaN where the
    method's score is zero. `mean` is their average over the range, with the sign turned for scores where higher is
    better: positive means that the reference is better, as in the paper's table.
    """

    metric: str
    fractions: FloatArray
    values: FloatArray
    mean: float


def rejection_curves(
    z_spec: ArrayLike,
    prediction: Prediction,
    metrics: Sequence[str] = PAPER_METRICS,
    *,
    fractions: ArrayLike | None = None,
    sample_weight: Weights = None,
) -> dict[str, RejectionCurve]:
    """Return metrics of the objects with the smallest predicted variance, for each fraction kept.

    Parameters
    ----------
    z_spec, prediction, sample_weight
        As in `evaluate`; fractions count objects, whatever their weights.
    metrics : sequence of str
        Names in `METRICS`; by default those of the paper's figure.
    fractions : array-like of shape (g,), optional
        Fractions kept, by default 1 % to 100 % in steps of 1 %.

    Notes
    -----
    Objects are sorted once; means are cumulative sums, so these cost O(n log n) in all. Medians and PIT
    statistics are computed afresh at each fraction.

    Examples
    --------
    >>> from gpzed.prediction import Prediction
    >>> p = Prediction.gaussian([0.5, 0.6], [0.02, 0.01], [0.02, 0.01])
    >>> rejection_curves([0.5, 0.7], p, ["rmse"], fractions=[0.5, 1.0])["rmse"].values
    array([0.05882353, 0.04159452])
    """
    z, weight = _checks.truth_and_weights(z_spec, prediction, sample_weight)
    if isinstance(metrics, str):
        raise ValueError(f"`metrics` is the string {metrics!r}; give a list of names, [{metrics!r}].")
    kept_fractions = np.arange(1, 101) / 100 if fractions is None else _checks.fractions("fractions", fractions)
    kept_fractions = np.sort(kept_fractions)
    counts = count_kept(len(z), kept_fractions)
    order = order_by_variance(prediction)
    values = per_object_values(metrics, z, prediction)
    return {
        name: RejectionCurve(
            name, kept_fractions, counts, _cumulative(lookup(name), values[name][order], weight[order], counts)
        )
        for name in metrics
    }


def rejection_curve(
    z_spec: ArrayLike,
    prediction: Prediction,
    metric: str = "rmse",
    *,
    fractions: ArrayLike | None = None,
    sample_weight: Weights = None,
) -> RejectionCurve:
    """Return one metric against the fraction kept; see `rejection_curves`.

    Examples
    --------
    >>> from gpzed import Prediction
    >>> from gpzed.evaluation import rejection_curve
    >>> p = Prediction.gaussian([0.42, 0.79, 1.5], 0.001, [0.001, 0.002, 0.05])  # the last is uncertain, and wrong
    >>> curve = rejection_curve([0.4, 0.8, 1.2], p, "rmse", fractions=[1 / 3, 2 / 3, 1.0])
    >>> curve.values.round(4).tolist()
    [0.0143, 0.0108, 0.0792]
    """
    curves = rejection_curves(z_spec, prediction, [metric], fractions=fractions, sample_weight=sample_weight)
    return curves[metric]


def _cumulative(metric: Metric, values: FloatArray, weight: FloatArray, counts: IntArray) -> FloatArray:
    """Return the metric of the first `counts` values; NaN where these have no weight at all."""
    total = np.cumsum(weight)[counts - 1]
    if metric.reduce in (average, root_average):
        with np.errstate(invalid="ignore", divide="ignore"):
            mean: FloatArray = np.cumsum(np.where(weight > 0, weight * values, 0.0))[counts - 1] / total
            return np.sqrt(mean) if metric.reduce is root_average else mean
    scores = [metric.reduce(values[:k], weight[:k]) if t > 0 else np.nan for k, t in zip(counts, total, strict=True)]
    return np.array(scores)


def relative_improvement(reference: RejectionCurve, method: RejectionCurve) -> Improvement:
    """Return how much better `reference` (GPVC in the paper) is than `method`, with the paper's formula.

    Raises
    ------
    ValueError
        If the curves are of different metrics or fractions, or of a metric such as bias or coverage for which neither
        higher nor lower is better.

    Examples
    --------
    >>> from gpzed import Prediction
    >>> from gpzed.evaluation import rejection_curve, relative_improvement
    >>> z, variances = [0.4, 0.8, 1.2], [0.001, 0.002, 0.05]
    >>> better, worse = (Prediction.gaussian([0.4 + e, 0.8, 1.2 + e], 0.0, variances) for e in (0.02, 0.04))
    >>> found = relative_improvement(rejection_curve(z, better), rejection_curve(z, worse))
    >>> print(f"{found.mean:.0f} %")
    50 %
    """
    if reference.metric != method.metric:
        raise ValueError(f"`reference` is a curve of {reference.metric!r} but `method` of {method.metric!r}.")
    if reference.metric in NEAR_TARGET:
        raise ValueError(f"{reference.metric!r} is best near a target, neither high nor low; compare another metric.")
    if not np.array_equal(reference.fractions, method.fractions):
        raise ValueError("`reference` and `method` have different `fractions`; compute both curves on the same ones.")
    with np.errstate(divide="ignore", invalid="ignore"):
        values = 100 * (method.values - reference.values) / np.abs(method.values)
    values = np.where(np.isfinite(values), values, np.nan)
    sign = -1.0 if lookup(reference.metric).higher_is_better else 1.0
    mean = sign * _mean_over(reference.fractions, values)
    return Improvement(reference.metric, reference.fractions, values, mean)


@dataclass(frozen=True)
class RetainedCurve:
    """FR_e in per cent, `values` (g,), as a function of the error e allowed, `thresholds` (g,), increasing.

    FR_e is the share of objects with ``|z_spec - z_phot| / (1 + z_spec) < e`` (Eq. 6.3).
    """

    thresholds: FloatArray
    values: FloatArray


def retained_curve(
    z_spec: ArrayLike, prediction: Prediction, *, thresholds: ArrayLike | None = None, sample_weight: Weights = None
) -> RetainedCurve:
    """Return FR_e for many e at once, by default from 0 to 0.2 in steps of 0.001.

    Examples
    --------
    >>> from gpzed.prediction import Prediction
    >>> p = Prediction.gaussian([0.5, 0.6], [0.01, 0.01], [0.01, 0.01])
    >>> retained_curve([0.5, 0.7], p, thresholds=[0.05, 0.1]).values
    array([ 50., 100.])
    """
    z, weight = _checks.truth_and_weights(z_spec, prediction, sample_weight)
    given = np.linspace(0.0, MAX_THRESHOLD, N_THRESHOLDS) if thresholds is None else thresholds
    allowed = np.sort(np.atleast_1d(np.array(given, dtype=np.float64)))
    if allowed.ndim != 1 or not allowed.size or not np.all(np.isfinite(allowed) & (allowed >= 0)):
        raise ValueError(f"`thresholds` must be finite errors of at least 0; got {allowed.tolist()}.")
    error = np.abs(normalised_residual(z, prediction))
    order = np.argsort(error)
    reached = np.concatenate([[0.0], np.cumsum(weight[order])])
    share = reached[np.searchsorted(error[order], allowed, side="left")] / reached[-1]
    return RetainedCurve(allowed, 100.0 * share)


def order_by_variance(prediction: Prediction) -> IntArray:
    """Return positions (n,) from the most to the least certain object; ties keep their order."""
    return np.argsort(prediction.variance, kind="stable")


def count_kept(n: int, fractions: FloatArray) -> IntArray:
    """Return how many of n objects each fraction keeps: rounded, and at least one."""
    return np.maximum(1, np.rint(fractions * n)).astype(np.intp)


def _mean_over(x: FloatArray, y: FloatArray) -> float:
    """Return the trapezium integral of y over x, divided by the range of x."""
    usable = np.isfinite(y)
    x, y = x[usable], y[usable]
    if len(x) < 2:
        return float(y.mean()) if len(y) else float("nan")
    return float((0.5 * (y[1:] + y[:-1]) * np.diff(x)).sum() / (x[-1] - x[0]))
