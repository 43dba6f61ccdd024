"""Error bars of metrics by the bootstrap over objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpzed._types import FloatArray
from gpzed.evaluation import _checks, _table
from gpzed.prediction import Prediction


@dataclass(frozen=True)
class BootstrapResult:
    """A metric with its sampling error.

    Parameters
    ----------
    value : float
        The metric of the whole sample.
    std : float
        Standard deviation over the resamples.
    low, high : float
        Ends of the central 68 % of the resamples.
    resamples : ndarray of shape (n_resamples,)
        The metric of every resample.
    """

    value: float
    std: float
    low: float
    high: float
    resamples: FloatArray


def bootstrap(
    metric: str | Callable[..., float],
    z_spec: npt.ArrayLike,
    prediction: Prediction,
    *,
    sample_weight: npt.ArrayLike | None = None,
    n_resamples: int = 200,
    random_state: int | np.random.Generator | None = None,
    **options: Any,
) -> BootstrapResult:
    """Return a metric with error bars from resampling the objects with replacement.

    Parameters
    ----------
    metric : str or callable
        A name in `METRICS` (cheap: the per-object values are computed once), or a function
        ``metric(z_spec, prediction, sample_weight=..., **options)``.
    z_spec : array-like of shape (n,)
        True redshifts.
    prediction : Prediction
        Predictive distributions of the same n objects.
    sample_weight : array-like of shape (n,), optional
        Weights, resampled with the objects.
    n_resamples : int
        Number of resamples, at least 2.
    random_state : int, Generator or None
        Seed.
    **options
        Passed to a callable `metric`.

    Returns
    -------
    BootstrapResult

    Examples
    --------
    >>> from gpzed.prediction import Prediction
    >>> p = Prediction.gaussian([0.5, 0.6, 0.7], [0.01] * 3, [0.01] * 3)
    >>> bootstrap("bias", [0.5, 0.6, 0.7], p, random_state=0).std
    0.0
    """
    z, weight = _checks.truth_and_weights(z_spec, prediction, sample_weight)
    _check_resamples(n_resamples)
    rng = np.random.default_rng(random_state)
    if callable(metric):
        score = _direct(metric, z, prediction, weight, options)
    else:
        if options:
            raise ValueError(f"options {sorted(options)} need a callable `metric`, not the name {metric!r}.")
        score = _reduced(_table.lookup(metric), z, prediction, weight)
    resamples = np.array([score(_draw(rng, weight)) for _ in range(n_resamples)])
    return _summary(score(np.arange(len(z))), resamples)


def bootstrap_metrics(
    z_spec: npt.ArrayLike,
    prediction: Prediction,
    metrics: Sequence[str] | None = None,
    *,
    sample_weight: npt.ArrayLike | None = None,
    n_resamples: int = 100,
    random_state: int | np.random.Generator | None = None,
) -> dict[str, BootstrapResult]:
    """Return many metrics with error bars, all from the same resamples.

    Parameters
    ----------
    z_spec : array-like of shape (n,)
        True redshifts.
    prediction : Prediction
        Predictive distributions of the same n objects.
    metrics : sequence of str, optional
        Names in `METRICS`; all by default.
    sample_weight, n_resamples, random_state
        As in `bootstrap`.

    Returns
    -------
    dict of str to BootstrapResult

    Examples
    --------
    >>> from gpzed.prediction import Prediction
    >>> p = Prediction.gaussian([0.5, 0.6, 0.7], [0.01] * 3, [0.01] * 3)
    >>> bootstrap_metrics([0.5, 0.6, 0.7], p, ["bias"], random_state=0)["bias"].std
    0.0
    """
    z, weight = _checks.truth_and_weights(z_spec, prediction, sample_weight)
    _check_resamples(n_resamples)
    rng = np.random.default_rng(random_state)
    values = _table.per_object_values(list(_table.METRICS if metrics is None else metrics), z, prediction)
    reductions = {name: _table.lookup(name).reduce for name in values}
    drawn: dict[str, list[float]] = {name: [] for name in values}
    for _ in range(n_resamples):
        rows = _draw(rng, weight)
        for name, column in values.items():
            drawn[name].append(reductions[name](column[rows], weight[rows]))
    return {name: _summary(reductions[name](values[name], weight), np.array(drawn[name])) for name in values}


def _check_resamples(n_resamples: int) -> None:
    if n_resamples < 2:
        raise ValueError(f"`n_resamples` is {n_resamples}; expected at least 2.")


def _summary(value: float, resamples: FloatArray) -> BootstrapResult:
    """Return a result; infinite resamples (an impossible object) make the error NaN."""
    if not np.isfinite(resamples).all():
        return BootstrapResult(value, float("nan"), float("nan"), float("nan"), resamples)
    low, high = np.quantile(resamples, [0.16, 0.84])
    return BootstrapResult(value, float(resamples.std(ddof=1)), float(low), float(high), resamples)


def _draw(rng: np.random.Generator, weight: FloatArray) -> npt.NDArray[np.intp]:
    """Return n positions drawn with replacement, again if by chance none of them has any weight."""
    rows = rng.integers(0, len(weight), len(weight))
    while not weight[rows].any():
        rows = rng.integers(0, len(weight), len(weight))
    return rows


Score = Callable[[npt.NDArray[np.intp]], float]


def _reduced(metric: _table.Metric, z: FloatArray, prediction: Prediction, weight: FloatArray) -> Score:
    """Return the metric as a function of positions, reusing the values per object."""
    values = metric.per_object(z, prediction)
    return lambda rows: metric.reduce(values[rows], weight[rows])


def _direct(
    metric: Callable[..., float],
    z: FloatArray,
    prediction: Prediction,
    weight: FloatArray,
    options: dict[str, Any],
) -> Score:
    """Return a user's metric as a function of positions."""
    return lambda rows: metric(z[rows], prediction[rows], sample_weight=weight[rows], **options)
