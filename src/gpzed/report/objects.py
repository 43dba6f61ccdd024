"""Single objects on the page: where they lie, what was measured, and their densities."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr

from gpzed._types import AnyArray, FloatArray, IntArray
from gpzed.prediction import Prediction
from gpzed.prediction.gridded import GriddedPrediction
from gpzed.report.context import PointTable
from gpzed.report.pack import finite, shorts, text_of_varints
from gpzed.report.sample import OUTLIER, Sample

MAX_POINTS = 4000
"""Up to this many objects are all drawn as points; in larger samples only outliers are."""
MAX_OBJECTS = 600
"""Objects of which the page tells everything, densities included: outliers up to one half of them, others at random."""
KEPT_WEIGHT = 0.995
"""Gaussians are left out once the larger ones have this much of the weight."""
GRID_POINTS = 151
"""Points of densities that are no Gaussians."""


def single_objects(sample: Sample, table: PointTable | None) -> dict[str, Any]:
    """Return what is drawn as points, and the objects of which everything is told.

    Points are all objects of a small sample, else outliers, at random if there are many; each has its place among the
    `objects`, or -1. These are all of a small sample, else outliers, others, and those asked for.
    """
    n, is_outlier = len(sample.prediction), outliers(sample)
    drawn = _some(np.arange(n) if n <= MAX_POINTS else np.flatnonzero(is_outlier), MAX_POINTS)
    ids = np.arange(n) if table is None else table.ids
    told = _chosen(is_outlier, np.isin(ids.astype(str), [] if table is None else list(table.wanted)))
    place = np.full(n, -1)
    place[told] = np.arange(len(told))
    points = _where(sample, drawn) | {
        "all": n <= MAX_POINTS,
        "n_outliers": int(is_outlier.sum()),
        "position": sample.position[drawn].tolist(),
        "object": place[drawn].tolist(),
    }
    objects = _where(sample, told) | {
        "id": [str(identifier) for identifier in ids[told].tolist()],
        "density": _densities(sample.prediction[told]),
    }
    if sample.z is not None:
        objects["z_spec"] = finite(sample.z[told], 5)
    if table is not None:
        objects["columns"] = {name: finite(values[told], 5) for name, values in table.columns.items()}
        objects["errors"] = {name: finite(values[told], 3) for name, values in table.errors.items()}
        if table.flags is not None:
            objects["flags"] = table.flags[told].tolist()
    return {"points": points, "objects": objects}


def _where(sample: Sample, rows: IntArray) -> dict[str, Any]:
    """Return where objects lie on the map, and what is quoted for them."""
    x, y = coordinates(sample)
    return {
        "x": finite(x[rows], 5),
        "y": finite(y[rows], 5),
        "z_phot": finite(sample.prediction.z_phot[rows], 5),
        "std": finite(sample.prediction.std[rows], 3),
        "outlier": outliers(sample)[rows].astype(int).tolist(),
    }


def outliers(sample: Sample) -> AnyArray:
    """Return which objects are outliers, shape (n,); none without true redshifts."""
    if sample.z is None:
        return np.zeros(len(sample.prediction), dtype=bool)
    return np.asarray(np.abs(sample.error) >= OUTLIER)


def coordinates(sample: Sample) -> tuple[FloatArray, FloatArray]:
    """Return true and photometric redshift, or photometric redshift and log10 of its standard deviation."""
    z_phot = sample.prediction.z_phot
    return (z_phot, np.log10(sample.prediction.std)) if sample.z is None else (sample.z, z_phot)


def _some(rows: IntArray, most: int) -> IntArray:
    """Return rows, drawn at random if there are too many of them."""
    return rows if len(rows) <= most else np.sort(np.random.default_rng(0).permutation(rows)[:most])


def _chosen(is_outlier: AnyArray, is_wanted: AnyArray) -> IntArray:
    """Return the rows of which everything is told."""
    if len(is_outlier) <= MAX_OBJECTS:
        return np.arange(len(is_outlier))
    rows = np.flatnonzero(is_wanted)
    rows = np.union1d(rows, _some(np.flatnonzero(is_outlier), MAX_OBJECTS // 2))
    others = np.setdiff1d(np.arange(len(is_outlier)), rows)
    return np.asarray(np.union1d(rows, _some(others, max(MAX_OBJECTS - len(rows), 0))), dtype=np.intp)


def _densities(p: Prediction) -> dict[str, Any]:
    """Return densities: Gaussians in order of weight, or the values on a grid of those that are tables."""
    if isinstance(p, GriddedPrediction):
        grid = np.linspace(p.grid[0], p.grid[-1], GRID_POINTS)
        values = p.pdf_grid(grid)
        top = values.max(axis=1, keepdims=True)
        return {"grid": finite(grid, 6), "values": shorts(values / top, 0.0, 1.0), "top": finite(top[:, 0], 4)}
    order = np.argsort(-p.weights, axis=1, kind="stable")
    weights, means, stds = (np.take_along_axis(a, order, axis=1) for a in (p.weights, p.means, p.component_stds))
    before = np.cumsum(weights, axis=1) - weights
    keep = (before < KEPT_WEIGHT) & (weights > 0)
    above = np.ones_like(weights) if p.lower is None else ndtr((means - p.lower) / stds)
    inside = np.maximum((keep * weights * above).sum(axis=1, keepdims=True), 1e-12)  # what is left is 1 in all
    factors, means, log_stds = (weights / inside)[keep], means[keep], np.log(stds[keep])
    ranges = [(0.0, float(factors.max())), (float(means.min()), float(means.max()))]
    ranges.append((float(log_stds.min()), float(log_stds.max())))
    parts = zip((factors, means, log_stds), ranges, strict=True)
    return {
        "sizes": text_of_varints(keep.sum(axis=1)),
        "ranges": [finite(np.array(ends), 8) for ends in ranges],
        "parts": [shorts(values, *ends) for values, ends in parts],
        "lower": p.lower,
    }
