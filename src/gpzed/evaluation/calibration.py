"""Whether the probabilities are true: PIT histogram, Q-Q, reliability and pulls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gpzed._types import FloatArray
from gpzed.evaluation import _checks
from gpzed.evaluation._checks import Weights
from gpzed.evaluation.reductions import average, root_average, scaled_deviation
from gpzed.prediction import Prediction


@dataclass(frozen=True)
class PitHistogram:
    """Histogram of PIT values: `density` (b,) between `edges` (b + 1,); a calibrated model gives 1 in every bin.

    `error` is the standard deviation of the density in a bin if the model were calibrated. `below` and `above` are the
    fractions of objects with PIT < 1e-4 and > 1 - 1e-4: catastrophic outliers, 1e-4 expected.
    """

    edges: FloatArray
    density: FloatArray
    error: float
    below: float
    above: float


@dataclass(frozen=True)
class QQCurve:
    """Quantiles of the PIT values against those of the uniform distribution.

    `theoretical` (g,) are levels, `empirical` (g,) the PIT values below which these fractions of the objects lie.
    """

    theoretical: FloatArray
    empirical: FloatArray

    @property
    def difference(self) -> FloatArray:
        """Empirical minus theoretical, shape (g,)."""
        return self.empirical - self.theoretical


@dataclass(frozen=True)
class Reliability:
    """Coverage of central intervals: `nominal` (g,) probabilities, and the `actual` (g,) fractions of objects inside.

    `error` (g,) is the binomial standard deviation of `actual` if the model were calibrated.
    """

    nominal: FloatArray
    actual: FloatArray
    error: FloatArray

    @property
    def calibration_error(self) -> float:
        """Mean absolute difference of actual and nominal coverage."""
        return float(np.abs(self.actual - self.nominal).mean())


@dataclass(frozen=True)
class Pulls:
    """``(z_phot - z_spec) / z_std``, with the mean as z_phot: `values` (n,), standard normal for a calibrated Gaussian.

    `mean` and `std` are their weighted moments; `scaled_deviation`, 1.4826 times the median absolute deviation, is the
    width without the outliers.
    """

    values: FloatArray
    mean: float
    std: float
    scaled_deviation: float


def _transform(
    z_spec: ArrayLike, prediction: Prediction, sample_weight: Weights
) -> tuple[FloatArray, FloatArray, float]:
    """Return PIT values (n,), weights (n,) that sum to 1, and the effective number of objects."""
    z, weight = _checks.truth_and_weights(z_spec, prediction, sample_weight)
    weight = weight / weight.sum()
    return prediction.cdf(z), weight, float(1 / np.dot(weight, weight))


def pit_histogram(
    z_spec: ArrayLike, prediction: Prediction, *, bins: int = 20, sample_weight: Weights = None
) -> PitHistogram:
    """Return the histogram of PIT values in `bins` equal bins.

    Examples
    --------
    >>> from gpzed.prediction import Prediction
    >>> p = Prediction.gaussian([0.5, 0.6], [0.01, 0.01], [0.01, 0.01])
    >>> pit_histogram([0.4, 0.7], p, bins=2).density
    array([1., 1.])
    """
    if bins < 1:
        raise ValueError(f"`bins` is {bins}; expected at least one.")
    u, weight, n = _transform(z_spec, prediction, sample_weight)
    counts, edges = np.histogram(u, bins=bins, range=(0.0, 1.0), weights=weight)
    error = float(np.sqrt((bins - 1) / n))
    return PitHistogram(edges, counts * bins, error, float(weight[u < 1e-4].sum()), float(weight[u > 1 - 1e-4].sum()))


def qq_curve(
    z_spec: ArrayLike, prediction: Prediction, *, n_points: int = 99, sample_weight: Weights = None
) -> QQCurve:
    """Return quantiles of the PIT values at `n_points` equally spaced levels inside (0, 1).

    Examples
    --------
    >>> from gpzed import Prediction, evaluation
    >>> p = Prediction.gaussian([0.42, 0.79, 1.5], 0.001, 0.009)
    >>> evaluation.qq_curve([0.4, 0.8, 1.2], p, n_points=3).empirical.round(3).tolist()
    [0.106, 0.421, 0.51]
    """
    if n_points < 1:
        raise ValueError(f"`n_points` is {n_points}; expected at least one.")
    u, weight, _ = _transform(z_spec, prediction, sample_weight)
    levels = np.arange(1, n_points + 1) / (n_points + 1)
    order = np.argsort(u)
    middle = np.cumsum(weight[order]) - 0.5 * weight[order]
    return QQCurve(levels, np.interp(levels, middle, u[order]))


def reliability(
    z_spec: ArrayLike, prediction: Prediction, *, levels: ArrayLike | None = None, sample_weight: Weights = None
) -> Reliability:
    """Return the actual coverage of central intervals, by default at 5 % to 95 % in steps of 5 % and 99 %.

    Examples
    --------
    >>> from gpzed import Prediction, evaluation
    >>> p = Prediction.gaussian([0.42, 0.79, 1.5], 0.001, 0.009)
    >>> evaluation.reliability([0.4, 0.8, 1.2], p, levels=[0.68, 0.95]).actual.round(3).tolist()
    [0.667, 0.667]
    """
    u, weight, n = _transform(z_spec, prediction, sample_weight)
    given = [*(np.arange(1, 20) / 20), 0.99] if levels is None else levels
    nominal = np.sort(_checks.fractions("levels", given))
    distance = 2 * np.abs(u - 0.5)
    order = np.argsort(distance)
    reached = np.concatenate([[0.0], np.cumsum(weight[order])])
    actual = reached[np.searchsorted(distance[order], nominal, side="right")]
    return Reliability(nominal, actual, np.sqrt(nominal * (1 - nominal) / n))


def pulls(z_spec: ArrayLike, prediction: Prediction, *, sample_weight: Weights = None) -> Pulls:
    """Return residuals divided by the predicted standard deviation, and their width.

    Examples
    --------
    >>> from gpzed import Prediction, evaluation
    >>> p = Prediction.gaussian([0.42, 0.79, 1.5], 0.001, 0.009)
    >>> round(evaluation.pulls([0.4, 0.8, 1.2], p).std, 2)
    1.4
    """
    z, weight = _checks.truth_and_weights(z_spec, prediction, sample_weight)
    values = (prediction.mean - z) / prediction.std
    mean = average(values, weight)
    std = root_average((values - mean) ** 2, weight)
    return Pulls(values, mean, std, scaled_deviation(values, weight))
