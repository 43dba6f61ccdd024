"""Everything the page shows, computed at each position of its slider: how many of the objects are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpzed._types import FloatArray
from gpzed.evaluation import rejection_curves, reliability, uncertainty_boxes
from gpzed.evaluation.binned import drawable
from gpzed.evaluation.display import HEADINGS, shown
from gpzed.evaluation.selection import expected_squared_error
from gpzed.prediction import Prediction
from gpzed.report.context import PointTable, cautions, colours
from gpzed.report.objects import coordinates, single_objects
from gpzed.report.pack import cells_in_groups, finite, floats
from gpzed.report.sample import PERCENT, Sample, limits, redshift_bins
from gpzed.report.trends import tomography, trends

PIT_BINS = 20
MIN_SIDE, MAX_SIDE = 120, 260
"""Least and largest number of cells along each axis of the map."""
MAX_DENSITIES, DENSITY_POINTS = 400, 121
"""Densities summed for n(z) in each group of one per cent, and points of the grid."""
SCORES = tuple(name for name, _, _ in HEADINGS if name != "n")


@dataclass(frozen=True)
class ReportData:
    """One set of predictions, ready for the page, in plain JSON types."""

    content: dict[str, Any]


def prepare(
    name: str,
    prediction: Prediction,
    z_spec: FloatArray | None = None,
    table: PointTable | None = None,
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
    table : PointTable, optional
        What is known of the objects beside: ids, photometry, flags, the training set.
    about : mapping, optional
        Facts for the head of the page, in plain JSON types.
    """
    sample = Sample.of(z_spec, prediction)
    counts, variance = sample.counts, prediction.variance[sample.order]
    promised = np.cumsum(expected_squared_error(prediction)[sample.order])[counts - 1] / counts
    content: dict[str, Any] = {
        "name": name,
        "n": len(prediction),
        "truth": z_spec is not None,
        "about": dict(about or {}),
        "kept": counts.tolist(),
        "max_std": finite(np.sqrt(variance[counts - 1])),
        "expected_rmse": finite(np.sqrt(promised)),
        "cells": _cells(sample),
        "density": _density(sample),
        "parts": _parts(sample),
        **single_objects(sample, table),
        "tomography": tomography(sample),
        "cautions": {} if table is None else cautions(sample, table),
        "colours": None if table is None else colours(table),
    }
    if z_spec is not None:
        magnitudes = {} if table is None else table.magnitudes
        content |= {"scores": _scores(sample), "pit": _pit(sample), "trends": trends(sample, magnitudes)}
    return ReportData(content)


def _scores(sample: Sample) -> dict[str, Any]:
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


def _cells(sample: Sample) -> dict[str, Any]:
    """Return a map of the objects: true against predicted redshift, or predicted redshift against log10 sigma."""
    side = int(np.clip(20 * np.ceil(len(sample.prediction) ** 0.25 / 1.4), MIN_SIDE, MAX_SIDE))
    x, y = coordinates(sample)
    x_range, y_range = (limits(x), limits(y)) if sample.z is None else (limits(x, y), limits(x, y))
    column = np.floor((x - x_range[0]) / (x_range[1] - x_range[0]) * side).astype(np.intp)
    row = np.floor((y - y_range[0]) / (y_range[1] - y_range[0]) * side).astype(np.intp)
    inside = (column >= 0) & (column < side) & (row >= 0) & (row < side)
    cell = np.where(inside, row * side + column, side * side)  # the last is for those outside
    log_std = 0.5 * np.log10(sample.prediction.variance[sample.order])
    added = sample.added()
    groups = [log_std[a:b].mean() if b > a else log_std[a - 1] for a, b in added]
    return {
        "side": side,
        "x": list(x_range),
        "y": list(y_range),
        "objects": cells_in_groups(cell, sample.position, len(PERCENT)),
        "log_std": finite(np.array(groups), 4),
    }


def _density(sample: Sample) -> dict[str, Any]:
    """Return the sum of predicted densities of the objects that each position adds, on a grid."""
    z_phot = sample.prediction.z_phot
    low, high = limits(z_phot if sample.z is None else np.concatenate([sample.z, z_phot]))
    grid = np.linspace(low, high, DENSITY_POINTS)
    rng = np.random.default_rng(0)
    sums = np.zeros((len(PERCENT), len(grid)))
    for i, (a, b) in enumerate(sample.added()):
        if b > a:
            rows = np.sort(rng.permutation(sample.order[a:b])[:MAX_DENSITIES])
            sums[i] = (b - a) * sample.prediction[rows].stacked_pdf(grid)
    return {"grid": finite(grid), "sums": floats(sums)}


def _pit(sample: Sample) -> dict[str, Any]:
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


def _parts(sample: Sample) -> dict[str, Any]:
    """Return box-plot statistics of the parts of the standard deviation in bins of redshift."""
    by = sample.prediction.z_phot if sample.z is None else sample.z
    edges = redshift_bins(by)
    boxes = uncertainty_boxes(np.maximum(by, -0.99), sample.prediction, by=by, edges=edges, whiskers=(0.05, 0.95))
    shape = ("low", "q1", "median", "q3", "high")
    parts = {name: box for name, box in drawable(boxes).items() if name != "total"}
    drawn = {name: {item: finite(getattr(box, item), 4) for item in shape} for name, box in parts.items()}
    return {"edges": finite(edges, 10), "boxes": drawn}
