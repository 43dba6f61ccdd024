"""Checks of what the evaluation is given: redshifts, weights, bins and fractions."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from gpzed._types import FloatArray
from gpzed.prediction import Prediction
from gpzed.prediction.checks import level, require, vector, weights

__all__ = ["Weights", "edges", "fractions", "level", "truth", "truth_and_weights", "vector", "weights", "width_edges"]

Weights: TypeAlias = ArrayLike | None
MAX_BINS = 10_000
"""More bins than this come from missing-value codes among the values."""


def truth(z_spec: ArrayLike, prediction: Prediction) -> FloatArray:
    """Return spectroscopic redshifts (n,): finite, above -1, as many as predictions and at least one."""
    if len(prediction) == 0:
        raise ValueError("the prediction has no objects; there is nothing to evaluate.")
    z = vector("z_spec", z_spec, len(prediction))
    require(z > -1, z, "z_spec", "is not above -1", "remove missing-value codes")
    return z


def truth_and_weights(
    z_spec: ArrayLike, prediction: Prediction, sample_weight: Weights
) -> tuple[FloatArray, FloatArray]:
    """Return `truth` and `weights`, each of shape (n,)."""
    z = truth(z_spec, prediction)
    return z, weights(sample_weight, len(z))


def edges(name: str, values: ArrayLike) -> FloatArray:
    """Return bin edges: at least two, finite, strictly increasing."""
    array = np.array(values, dtype=np.float64)
    if array.ndim != 1 or len(array) < 2 or not np.isfinite(array).all() or np.any(np.diff(array) <= 0):
        raise ValueError(f"`{name}` must be two or more finite, strictly increasing bin edges; got {array.tolist()}.")
    return array


def fractions(name: str, values: ArrayLike) -> FloatArray:
    """Return fractions (g,), each above 0 and at most 1."""
    array = np.atleast_1d(np.array(values, dtype=np.float64))
    if array.ndim != 1 or array.size == 0 or not np.all((array > 0) & (array <= 1)):
        raise ValueError(f"`{name}` must be fractions above 0 and at most 1; got {array.tolist()}.")
    return array


def width_edges(values: FloatArray, width: float) -> FloatArray:
    """Return edges of uniform bins on multiples of `width` that hold all values."""
    first = np.floor(values.min() / width)
    last = np.floor(values.max() / width) + 1
    if last - first > MAX_BINS:
        raise ValueError(
            f"values from {values.min()} to {values.max()} make {last - first:.0f} bins of width {width}; "
            "give `edges`, or remove missing-value codes."
        )
    bins: FloatArray = np.round(width * np.arange(first, last + 1), 12)
    bins[0], bins[-1] = min(bins[0], values.min()), max(bins[-1], values.max())
    return bins
