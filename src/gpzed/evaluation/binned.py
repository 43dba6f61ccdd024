"""Metrics and uncertainties in bins of redshift, or of magnitude or anything else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpzed._types import FloatArray, IntArray
from gpzed.evaluation import _checks
from gpzed.evaluation._checks import Weights
from gpzed.evaluation.metrics import lookup, per_object_values
from gpzed.evaluation.reductions import average, root_average
from gpzed.evaluation.rejection import count_kept, order_by_variance
from gpzed.prediction import Prediction

PAPER_FRACTIONS = (1.0, 0.75, 0.5, 0.25)
"""Fractions kept in the paper's figure of the bias."""
PAPER_WIDTH = 0.1
"""Width of its bins in redshift."""


@dataclass(frozen=True)
class BinnedMetrics:
    """Metrics in b bins at f fractions kept: `values` by name, each of shape (f, b), NaN in empty bins.

    `errors` has standard errors of those that are means, or roots of means, of the objects.

    `edges` (b + 1,) are those of the bins; `fractions` (f,) those of all objects kept, by smallest predicted variance;
    `counts` (f, b) says how many objects are in each bin.
    """

    edges: FloatArray
    fractions: FloatArray
    counts: IntArray
    values: dict[str, FloatArray]
    errors: dict[str, FloatArray] = field(default_factory=dict)

    @property
    def centers(self) -> FloatArray:
        """Middle of every bin, shape (b,)."""
        return 0.5 * (self.edges[1:] + self.edges[:-1])


NEGLIGIBLE = 1e-6
"""Part of the standard deviation below which a contribution to it is a rounding error, and counts as none."""
FAINTEST = 1e-4
"""Part of the largest standard deviation that figures still show."""
BOX = ("low", "q1", "median", "q3", "high")


@dataclass(frozen=True)
class BoxStatistics:
    """Box-plot statistics in b bins: whiskers `low` and `high`, quartiles and median, each (b,), NaN in empty bins.

    `edges` (b + 1,) are those of the bins, `counts` (b,) the objects in each, `whiskers` the quantiles at which these
    end.
    """

    edges: FloatArray
    counts: IntArray
    low: FloatArray
    q1: FloatArray
    median: FloatArray
    q3: FloatArray
    high: FloatArray
    whiskers: tuple[float, float] = (0.0, 1.0)


def binned_metrics(
    z_spec: ArrayLike,
    prediction: Prediction,
    metrics: Sequence[str] = ("bias", "rmse", "sigma_nmad", "fr_0.15"),
    *,
    by: ArrayLike | None = None,
    edges: ArrayLike | None = None,
    fractions: ArrayLike = PAPER_FRACTIONS,
    sample_weight: Weights = None,
) -> BinnedMetrics:
    """Return metrics in bins, for the fractions of all objects with the smallest predicted variance.

    Parameters
    ----------
    z_spec, prediction, sample_weight
        As in `evaluate`.
    metrics : sequence of str
        Names in `METRICS`.
    by : array-like of shape (n,), optional
        What to bin by, for example a magnitude or z_phot; by default `z_spec`, as in the paper.
    edges : array-like of shape (b + 1,), optional
        Bin edges, by default uniform bins of width 0.1 over the range (the paper's).
    fractions : array-like of shape (f,)
        Fractions kept; objects are rejected over the whole sample, before binning, as in the paper.

    Examples
    --------
    >>> from gpzed.prediction import Prediction
    >>> p = Prediction.gaussian([0.05, 0.15], [0.01, 0.02], [0.01, 0.02])
    >>> binned_metrics([0.05, 0.15], p, ["bias"]).counts
    array([[1, 1],
           [1, 1],
           [1, 0],
           [1, 0]])
    """
    z, weight = _checks.truth_and_weights(z_spec, prediction, sample_weight)
    index, bin_edges = _bins(z, by, edges)
    kept = _checks.fractions("fractions", fractions)
    values = per_object_values(metrics, z, prediction)
    order = order_by_variance(prediction)
    n_bins = len(bin_edges) - 1
    counts = np.zeros((len(kept), n_bins), dtype=np.intp)
    scores = {name: np.full((len(kept), n_bins), np.nan) for name in values}
    errors = {name: scores[name].copy() for name in values if lookup(name).reduce in (average, root_average)}
    for i, k in enumerate(count_kept(len(z), kept)):
        rows = order[:k]
        for b, inside in enumerate(_groups(index[rows], n_bins)):
            chosen = rows[inside]
            counts[i, b] = len(chosen)
            if weight[chosen].any():
                for name, column in scores.items():
                    column[i, b] = lookup(name).reduce(values[name][chosen], weight[chosen])
                for name, column in errors.items():
                    column[i, b] = _standard_error(name, values[name][chosen], weight[chosen])
    return BinnedMetrics(bin_edges, kept, counts, scores, errors)


def _standard_error(name: str, values: FloatArray, weight: FloatArray) -> float:
    """Return the standard error of a mean of objects, or of the square root of one; NaN for a single object."""
    mean = average(values, weight)
    effective = weight.sum() ** 2 / np.dot(weight, weight)
    if effective <= 1.0 or not np.isfinite(mean):
        return float("nan")
    error = float(np.sqrt(average((values - mean) ** 2, weight) / (effective - 1.0)))
    if lookup(name).reduce is average:
        return error
    return error / (2.0 * np.sqrt(mean)) if mean > 0 else 0.0


def uncertainty_boxes(
    z_spec: ArrayLike,
    prediction: Prediction,
    *,
    by: ArrayLike | None = None,
    edges: ArrayLike | None = None,
    whiskers: tuple[float, float] = (0.0, 1.0),
) -> dict[str, BoxStatistics]:
    """Return box-plot statistics of the ``model``, ``noise``, ``input`` and ``total`` standard deviation in bins.

    `by` and `edges` are as in `binned_metrics`; `whiskers` are quantiles, by default the full range, as in the paper.

    Examples
    --------
    >>> from gpzed import Prediction, evaluation
    >>> p = Prediction.gaussian([0.42, 0.79, 1.5], 0.001, 0.009)
    >>> evaluation.uncertainty_boxes([0.4, 0.8, 1.2], p, edges=[0.0, 1.0, 2.0])["noise"].median.round(4).tolist()
    [0.0949, 0.0949]
    """
    z = _checks.truth(z_spec, prediction)
    low, high = whiskers
    if not 0 <= low <= 0.25 or not 0.75 <= high <= 1:
        raise ValueError(f"`whiskers` is {whiskers}; expected quantiles outside the box, such as (0.05, 0.95).")
    index, bin_edges = _bins(z, by, edges)
    groups = _groups(index, len(bin_edges) - 1)
    counts = np.array([len(g) for g in groups], dtype=np.intp)
    parts = {
        "model": prediction.model_variance,
        "noise": prediction.noise_variance,
        "input": prediction.input_variance,
        "total": prediction.variance,
    }
    boxes = {}
    for name, variance in parts.items():
        std = np.sqrt(np.where(variance > NEGLIGIBLE**2 * prediction.variance, variance, 0.0))
        levels = [low, 0.25, 0.5, 0.75, high]
        quantiles = [np.quantile(std[g], levels) if len(g) else np.full(5, np.nan) for g in groups]
        boxes[name] = replace(BoxStatistics(bin_edges, counts, *np.array(quantiles).T), whiskers=(low, high))
    return boxes


def drawable(boxes: Mapping[str, BoxStatistics]) -> dict[str, BoxStatistics]:
    """Return the parts that a logarithmic axis can show: not rounding errors, and none far below the largest.

    Values below a ten-thousandth of the largest are raised to it, bins whose median is below are empty, and parts
    without any other bin are left out.
    """
    floor = FAINTEST * max((float(np.nanmax(box.high, initial=0.0)) for box in boxes.values()), default=0.0)
    shown = {}
    for name, box in boxes.items():
        seen = box.median > floor
        if seen.any():
            parts: Any = {item: np.where(seen, np.maximum(getattr(box, item), floor), np.nan) for item in BOX}
            shown[name] = replace(box, counts=np.where(seen, box.counts, 0), **parts)
    return shown


def _bins(z: FloatArray, by: ArrayLike | None, edges: ArrayLike | None) -> tuple[IntArray, FloatArray]:
    """Return the bin of each object, -1 outside, and the edges; bins are closed on the left, the last on both sides."""
    values = z if by is None else _checks.vector("by", by, len(z))
    bins = _checks.width_edges(values, PAPER_WIDTH) if edges is None else _checks.edges("edges", edges)
    index = np.searchsorted(bins, values, side="right") - 1
    index[values == bins[-1]] = len(bins) - 2
    return np.where((index >= 0) & (index < len(bins) - 1), index, -1).astype(np.intp), bins


def _groups(index: IntArray, n_bins: int) -> list[IntArray]:
    """Return the positions of the objects in each bin."""
    order = np.argsort(index, kind="stable")
    cuts = np.searchsorted(index[order], np.arange(n_bins + 1))
    return [order[cuts[b] : cuts[b + 1]] for b in range(n_bins)]
