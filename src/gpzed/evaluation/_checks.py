"""Checks of what the evaluation is given: redshifts, weights, bins and fractions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpzed._types import FloatArray
from gpzed.prediction import Prediction

MAX_BINS = 10_000
"""More bins than this come from missing-value codes among the values."""


def vector(name: str, values: npt.ArrayLike, n: int) -> FloatArray:
    """Return `values` as (n,) finite floats, or say what is wrong and where."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` is not an array of numbers ({error}); give one float per object.") from error
    if array.ndim != 1:
        raise ValueError(f"`{name}` has shape {array.shape}; expected (n,), one value per object.")
    if len(array) != n:
        raise ValueError(
            f"`{name}` has {len(array)} values but the prediction has {n} objects; give one value per object."
        )
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise ValueError(
            f"`{name}` is not finite: {array[bad[0]]} at index {bad[0]} ({bad.size} of {n} values); "
            "evaluate only objects with a known value."
        )
    return array


def truth(z_spec: npt.ArrayLike, prediction: Prediction) -> FloatArray:
    """Return spectroscopic redshifts (n,): finite, above -1, as many as predictions and at least one."""
    if len(prediction) == 0:
        raise ValueError("the prediction has no objects; there is nothing to evaluate.")
    z = vector("z_spec", z_spec, len(prediction))
    low = np.flatnonzero(z <= -1)
    if low.size:
        raise ValueError(
            f"`z_spec` is {z[low[0]]} at index {low[0]}; redshifts are above -1, is it a missing-value code?"
        )
    return z


def truth_and_weights(
    z_spec: npt.ArrayLike, prediction: Prediction, sample_weight: npt.ArrayLike | None
) -> tuple[FloatArray, FloatArray]:
    """Return `truth` and `weights`, each of shape (n,)."""
    z = truth(z_spec, prediction)
    return z, weights(sample_weight, len(z))


def weights(sample_weight: npt.ArrayLike | None, n: int) -> FloatArray:
    """Return weights (n,): finite, not negative, not all zero; ones by default."""
    if sample_weight is None:
        return np.ones(n)
    w = vector("sample_weight", sample_weight, n)
    low = np.flatnonzero(w < 0)
    if low.size:
        raise ValueError(f"`sample_weight` is negative: {w[low[0]]} at index {low[0]}; give non-negative weights.")
    if not w.any():
        raise ValueError("`sample_weight` is zero for every object; give at least one a positive weight.")
    return w


def edges(name: str, values: npt.ArrayLike) -> FloatArray:
    """Return bin edges: at least two, finite, strictly increasing."""
    array = np.array(values, dtype=np.float64)
    if array.ndim != 1 or len(array) < 2 or not np.isfinite(array).all() or np.any(np.diff(array) <= 0):
        raise ValueError(f"`{name}` must be two or more finite, strictly increasing bin edges; got {array.tolist()}.")
    return array


def fractions(name: str, values: npt.ArrayLike) -> FloatArray:
    """Return fractions (g,), each above 0 and at most 1."""
    array = np.atleast_1d(np.array(values, dtype=np.float64))
    if array.ndim != 1 or array.size == 0 or not np.all((array > 0) & (array <= 1)):
        raise ValueError(f"`{name}` must be fractions above 0 and at most 1; got {array.tolist()}.")
    return array


def level(value: float) -> float:
    """Return a probability strictly between 0 and 1."""
    if not 0 < value < 1:
        raise ValueError(f"`level` is {value}; expected a probability strictly between 0 and 1, such as 0.68.")
    return float(value)


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
