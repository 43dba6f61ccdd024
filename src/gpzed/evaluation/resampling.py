"""Error bars of metrics by the bootstrap over objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpzed._types import FloatArray, IntArray
from gpzed.evaluation import _checks
from gpzed.evaluation._checks import Weights
from gpzed.evaluation.metrics import METRICS, lookup, per_object_values
from gpzed.prediction import Prediction


@dataclass(frozen=True)
class BootstrapResult:
    """A metric with its sampling error: `std` over the `resamples`, whose central 68 % lie from `low` to `high`."""

    value: float
    std: float
    low: float
    high: float
    resamples: FloatArray


def bootstrap(
    metric: str | Callable[..., float],
    z_spec: ArrayLike,
    prediction: Prediction,
    *,
    sample_weight: Weights = None,
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
    z_spec, prediction, sample_weight
        As in `evaluate`; weights are resampled with the objects.
    n_resamples : int
        Number of resamples, at least 2.
    random_state : int, Generator or None
    **options
        Passed to a callable `metric`.

    Examples
    --------
    >>> from gpzed.prediction import Prediction
    >>> p = Prediction.gaussian([0.5, 0.6, 0.7], [0.01] * 3, [0.01] * 3)
    >>> bootstrap("bias", [0.5, 0.6, 0.7], p, random_state=0).std
    0.0
    """
    z, weight = _checks.truth_and_weights(z_spec, prediction, sample_weight)
    if callable(metric):
        function = metric  # for the closure below

        def score(rows: IntArray) -> float:
            return function(z[rows], prediction[rows], sample_weight=weight[rows], **options)

        return _resampled({"": score}, weight, n_resamples, random_state)[""]
    if options:
        raise ValueError(f"options {', '.join(sorted(options))} need a callable `metric`, not the name {metric!r}.")
    return bootstrap_metrics(
        z, prediction, [metric], sample_weight=weight, n_resamples=n_resamples, random_state=random_state
    )[metric]


def bootstrap_metrics(
    z_spec: ArrayLike,
    prediction: Prediction,
    metrics: Sequence[str] | None = None,
    *,
    sample_weight: Weights = None,
    n_resamples: int = 100,
    random_state: int | np.random.Generator | None = None,
) -> dict[str, BootstrapResult]:
    """Return many metrics, all of `METRICS` by default, with error bars from the same resamples; see `bootstrap`.

    Examples
    --------
    >>> from gpzed.prediction import Prediction
    >>> p = Prediction.gaussian([0.5, 0.6, 0.7], [0.01] * 3, [0.01] * 3)
    >>> bootstrap_metrics([0.5, 0.6, 0.7], p, ["bias"], random_state=0)["bias"].std
    0.0
    """
    z, weight = _checks.truth_and_weights(z_spec, prediction, sample_weight)
    values = per_object_values(list(METRICS if metrics is None else metrics), z, prediction)

    def score_of(name: str) -> Callable[[IntArray], float]:
        return lambda rows: lookup(name).reduce(values[name][rows], weight[rows])

    return _resampled({name: score_of(name) for name in values}, weight, n_resamples, random_state)


def _resampled(
    scores: dict[str, Callable[[IntArray], float]],
    weight: FloatArray,
    n_resamples: int,
    random_state: int | np.random.Generator | None,
) -> dict[str, BootstrapResult]:
    """Evaluate scores, functions of positions, for all objects and for resamples of them."""
    if n_resamples < 2:
        raise ValueError(f"`n_resamples` is {n_resamples}; expected at least 2.")
    rng = np.random.default_rng(random_state)
    drawn: dict[str, list[float]] = {name: [] for name in scores}
    for _ in range(n_resamples):
        rows = rng.integers(0, len(weight), len(weight))
        while not weight[rows].any():
            rows = rng.integers(0, len(weight), len(weight))
        for name, score in scores.items():
            drawn[name].append(score(rows))
    everything = np.arange(len(weight))
    return {name: _summary(score(everything), np.array(drawn[name])) for name, score in scores.items()}


def _summary(value: float, resamples: FloatArray) -> BootstrapResult:
    """Return a result; infinite resamples (an impossible object) make the error NaN."""
    if not np.isfinite(resamples).all():
        return BootstrapResult(value, float("nan"), float("nan"), float("nan"), resamples)
    low, high = np.quantile(resamples, [0.16, 0.84])
    return BootstrapResult(value, float(resamples.std(ddof=1)), float(low), float(high), resamples)
