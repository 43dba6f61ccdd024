"""Everything the page shows, computed at each position of its slider: how many of the objects are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpzed._types import AnyArray, FloatArray, IntArray
from gpzed.evaluation import rejection_curves, reliability, uncertainty_boxes
from gpzed.evaluation.binned import parts_to_show
from gpzed.evaluation.display import HEADINGS, shown
from gpzed.evaluation.rejection import count_kept, order_by_variance
from gpzed.evaluation.selection import expected_squared_error
from gpzed.prediction import Prediction
from gpzed.report.pack import cells_in_groups, finite, floats

PERCENT = np.arange(1, 101)
"""Percentages kept: the positions of the slider."""
MAX_POINTS = 1500
"""Up to this many objects are all drawn as points; in larger samples only outliers are, at most this many."""
OUTLIER = 0.15
"""Normalised error from which on an object counts as an outlier."""
PIT_BINS = 20
MAX_DENSITIES, DENSITY_POINTS = 400, 121
"""Densities summed for n(z) in each group of one per cent, and points of the grid."""
BIN_WIDTH, MAX_BINS = 0.1, 40
"""Redshift bins of bias and variance: the paper's width, and their largest number."""
SCORES = tuple(name for name, _, _ in HEADINGS if name != "n")


@dataclass(frozen=True)
class PointTable:
    """What the page says about single objects: values to show, such as magnitudes, and their errors, by heading."""

    ids: AnyArray  # (n,)
    columns: Mapping[str, FloatArray] = field(default_factory=dict)
    errors: Mapping[str, FloatArray] = field(default_factory=dict)  # under the same headings, where there are any


@dataclass(frozen=True)
class ReportData:
    """One set of predictions, ready for the page, in plain JSON types."""

    content: dict[str, Any]


@dataclass(frozen=True)
class _Sample:
    """Objects with the first position of the slider at which each is kept, from 0."""

    z: FloatArray | None
    prediction: Prediction
    order: IntArray
    counts: IntArray
    position: IntArray


def prepare(
    name: str,
    prediction: Prediction,
    z_spec: FloatArray | None = None,
    points: PointTable | None = None,
    about: Mapping[str, Any] | None = None,
) -> ReportData:
    """Compute what the page shows of one set of predictions.

    Parameters
    ----------
    name : str
        Of the set.
    prediction : Prediction
        Of n objects.
    z_spec : ndarray of shape (n,), optional
        True redshifts of all; without them there are no scores.
    points : PointTable, optional
        What to say about single objects.
    about : mapping, optional
        Facts for the head of the page, in plain JSON types.
    """
    n = len(prediction)
    order = order_by_variance(prediction)
    counts = count_kept(n, PERCENT / 100)
    position = np.empty(n, dtype=np.intp)
    position[order] = np.searchsorted(counts, np.arange(n), side="right")
    sample = _Sample(z_spec, prediction, order, counts, position)
    content: dict[str, Any] = {
        "name": name,
        "n": n,
        "truth": z_spec is not None,
        "about": dict(about or {}),
        "kept": counts.tolist(),
        "max_std": finite(np.sqrt(prediction.variance[order][counts - 1])),
        "expected_rmse": finite(np.sqrt(np.cumsum(expected_squared_error(prediction)[order])[counts - 1] / counts)),
        "cells": _cells(sample),
        "density": _density(sample),
        "parts": _parts(sample),
        "points": _points(sample, points),
    }
    if z_spec is not None:
        content |= {"scores": _scores(sample), "pit": _pit(sample), "bias": _bias(sample)}
    return ReportData(content)


def _scores(sample: _Sample) -> dict[str, Any]:
    """Return the metrics at each position: numbers for curves, and text as `gpzed evaluate` writes it."""
    assert sample.z is not None
    curves = rejection_curves(sample.z, sample.prediction, SCORES, fractions=PERCENT / 100)
    rows = [
        shown({"n": sample.counts[i], **{name: curves[name].values[i] for name in SCORES}}) for i in range(len(PERCENT))
    ]
    return {
        "values": {name: finite(curve.values) for name, curve in curves.items()},
        "shown": {name: [row[name] for row in rows] for name in ("n", *SCORES)},
    }


def _added(counts: IntArray) -> list[tuple[int, int]]:
    """Return first and last (excluded) rank of the objects that each position adds."""
    ends = counts.tolist()
    return list(zip([0, *ends[:-1]], ends, strict=True))


def _limits(*samples: FloatArray) -> tuple[float, float]:
    """Return a range that holds all but a few in a thousand."""
    low, high = np.quantile(np.concatenate(samples), [0.0005, 0.9995])
    margin = 0.04 * max(high - low, 1e-3)
    return (0.0 if 0.0 <= low < 0.15 * high else float(low - margin)), float(high + margin)


def _cells(sample: _Sample) -> dict[str, Any]:
    """Return a map of the objects: true against predicted redshift, or predicted redshift against log10 sigma."""
    n, z_phot = len(sample.prediction), sample.prediction.z_phot
    side = int(np.clip(20 * np.ceil(n**0.25 / 2.0), 60, 200))
    if sample.z is not None:
        x, y = sample.z, z_phot
        x_range = y_range = _limits(x, y)
    else:
        x, y = z_phot, np.log10(sample.prediction.std)
        x_range, y_range = _limits(x), _limits(y)
    column = np.floor((x - x_range[0]) / (x_range[1] - x_range[0]) * side).astype(np.intp)
    row = np.floor((y - y_range[0]) / (y_range[1] - y_range[0]) * side).astype(np.intp)
    inside = (column >= 0) & (column < side) & (row >= 0) & (row < side)
    cell = np.where(inside, row * side + column, side * side)  # the last is for those outside
    log_std = 0.5 * np.log10(sample.prediction.variance[sample.order])
    added = _added(sample.counts)
    groups = [log_std[a:b].mean() if b > a else log_std[a - 1] for a, b in added]
    return {
        "side": side,
        "x": list(x_range),
        "y": list(y_range),
        "objects": cells_in_groups(cell, sample.position, len(PERCENT)),
        "log_std": finite(np.array(groups), 4),
    }


def _density(sample: _Sample) -> dict[str, Any]:
    """Return the sum of predicted densities of the objects that each position adds, on a grid."""
    z_phot = sample.prediction.z_phot
    low, high = _limits(z_phot if sample.z is None else np.concatenate([sample.z, z_phot]))
    grid = np.linspace(low, high, DENSITY_POINTS)
    rng = np.random.default_rng(0)
    sums = np.zeros((len(PERCENT), len(grid)))
    for i, (a, b) in enumerate(_added(sample.counts)):
        if b > a:
            rows = np.sort(rng.permutation(sample.order[a:b])[:MAX_DENSITIES])
            sums[i] = (b - a) * sample.prediction[rows].stacked_pdf(grid)
    return {"grid": finite(grid), "sums": floats(sums)}


def _redshift_bins(values: FloatArray) -> FloatArray:
    """Return edges of bins of 0.1, or wider ones where there would be too many, that hold nearly all values."""
    low, high = np.quantile(values, [0.001, 0.999])
    width = BIN_WIDTH * max(1.0, np.ceil((high - low) / BIN_WIDTH / MAX_BINS))
    first, last = np.floor(low / width), np.floor(high / width) + 1
    edges: FloatArray = np.round(width * np.arange(first, last + 1), 10)
    return edges


def _bias(sample: _Sample) -> dict[str, Any]:
    """Return mean error, its standard error and the number of objects in bins of redshift, at each position."""
    assert sample.z is not None
    z, z_phot = sample.z, sample.prediction.z_phot
    error = (z - z_phot) / (1 + z)
    result = {}
    for by, values in (("z_spec", z), ("z_phot", z_phot)):
        edges = _redshift_bins(values)
        n_bins = len(edges) - 1
        index = np.searchsorted(edges, values, side="right") - 1
        inside = (index >= 0) & (index < n_bins)
        slot = sample.position[inside] * n_bins + index[inside]
        sums = [
            np.bincount(slot, weights=w, minlength=len(PERCENT) * n_bins).reshape(-1, n_bins).cumsum(axis=0)
            for w in (np.ones(inside.sum()), error[inside], error[inside] ** 2)
        ]
        count, total, square = sums
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = total / count
            spread = np.sqrt(np.maximum(square / count - mean**2, 0.0) / count)
        result[by] = {
            "edges": finite(edges, 10),
            "count": count.astype(int).tolist(),
            "mean": [finite(row, 4) for row in mean],
            "error": [finite(row, 2) for row in spread],
        }
    return result


def _pit(sample: _Sample) -> dict[str, Any]:
    """Return histogram counts of PIT values and actual coverages of central intervals at each position."""
    assert sample.z is not None
    u = sample.prediction.cdf(sample.z)
    slot = sample.position * PIT_BINS + np.minimum((u * PIT_BINS).astype(np.intp), PIT_BINS - 1)
    counts = np.bincount(slot, minlength=len(PERCENT) * PIT_BINS).reshape(-1, PIT_BINS).cumsum(axis=0)
    nominal = reliability(sample.z[:1], sample.prediction[:1]).nominal
    level = np.searchsorted(nominal, 2 * np.abs(u - 0.5), side="left")  # the first interval that holds the object
    width = len(nominal) + 1
    reached = np.bincount(sample.position * width + level, minlength=len(PERCENT) * width).reshape(-1, width)
    inside = reached.cumsum(axis=0).cumsum(axis=1)[:, :-1]
    return {"counts": counts.tolist(), "nominal": finite(nominal), "inside": inside.tolist()}


def _parts(sample: _Sample) -> dict[str, Any]:
    """Return box-plot statistics of the parts of the standard deviation in bins of redshift."""
    by = sample.prediction.z_phot if sample.z is None else sample.z
    edges = _redshift_bins(by)
    boxes = uncertainty_boxes(np.maximum(by, -0.99), sample.prediction, by=by, edges=edges, whiskers=(0.05, 0.95))
    names = [name for name in parts_to_show(boxes) if name != "total"]
    shape = ("low", "q1", "median", "q3", "high")
    drawn = {name: {item: finite(getattr(boxes[name], item), 4) for item in shape} for name in names}
    return {"edges": finite(edges, 10), "boxes": drawn}


def _points(sample: _Sample, table: PointTable | None) -> dict[str, Any]:
    """Return what is told about single objects: all of a small sample, else outliers drawn at random."""
    n, z_phot = len(sample.prediction), sample.prediction.z_phot
    is_outlier = np.zeros(n, dtype=bool)
    if sample.z is not None:
        is_outlier = np.abs(sample.z - z_phot) / (1 + sample.z) >= OUTLIER
    chosen = np.arange(n) if n <= MAX_POINTS else np.flatnonzero(is_outlier)
    if len(chosen) > MAX_POINTS:
        chosen = np.sort(np.random.default_rng(0).permutation(chosen)[:MAX_POINTS])
    x, y = (sample.z, z_phot) if sample.z is not None else (z_phot, np.log10(sample.prediction.std))
    stored: dict[str, Any] = {
        "all": n <= MAX_POINTS,
        "n_outliers": int(is_outlier.sum()),
        "x": finite(x[chosen], 5),
        "y": finite(y[chosen], 5),
        "z_phot": finite(z_phot[chosen], 5),
        "std": finite(sample.prediction.std[chosen], 3),
        "position": sample.position[chosen].tolist(),
        "outlier": is_outlier[chosen].astype(int).tolist(),
    }
    if table is not None:
        stored["id"] = [str(identifier) for identifier in table.ids[chosen].tolist()]
        stored["columns"] = {name: finite(values[chosen], 5) for name, values in table.columns.items()}
        stored["errors"] = {name: finite(values[chosen], 3) for name, values in table.errors.items()}
    return stored
