"""Checks of what goes into a `Prediction`; every message says what, where and what was expected."""

from __future__ import annotations

from typing import Any, SupportsIndex, TypeVar

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from gpzed._types import AnyArray, FloatArray, IntArray

Array = TypeVar("Array", bound=AnyArray)
WEIGHT_SUM_TOLERANCE = 1e-6
"""A float32 softmax misses 1 by about 1e-7; sums this close are renormalised, others are mistakes."""
WEIGHT_SUM_EXACT = 1e-12
"""Rows already normalised to float64 rounding stay untouched, so that slicing never changes a number."""


def as_float(name: str, values: ArrayLike) -> FloatArray:
    """Copy `values` to float64, or say which argument is not numeric."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` is not a rectangular array of numbers ({error}); give floats.") from error


def require(ok: AnyArray, values: AnyArray, name: str, problem: str, expected: str) -> None:
    """Raise ValueError at the first position where `ok` is false."""
    if bool(np.all(ok)):
        return
    bad = ~np.asarray(ok, dtype=np.bool_)
    index = np.argwhere(bad)[0].tolist()
    raise ValueError(
        f"`{name}` {problem}: {values[tuple(index)]} at index {index} ({bad.sum()} of {bad.size} values); {expected}."
    )


def component_array(name: str, values: ArrayLike, shape: tuple[int, ...] | None) -> FloatArray:
    """Return `values` as a finite (n, K) float array of the given shape."""
    array = as_float(name, values)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"`{name}` has shape {array.shape}; expected (n, K) with K >= 1 components per object.")
    if shape is not None and array.shape != shape:
        raise ValueError(f"`{name}` has shape {array.shape} but `weights` has {shape}; give one value per component.")
    require(np.isfinite(array), array, name, "is not finite", "drop or repair these objects first")
    return array


def normalised_weights(values: ArrayLike) -> FloatArray:
    """Return (n, K) weights that are non-negative and sum to 1 in every row."""
    weights = component_array("weights", values, None)
    require(weights >= 0, weights, "weights", "is negative", "mixture weights are probabilities")
    total = weights.sum(axis=1)
    off = np.abs(total - 1)
    problem = "has a row that does not sum to 1"
    require(off <= WEIGHT_SUM_TOLERANCE, total, "weights", problem, "divide each row by its sum")
    rows = off > WEIGHT_SUM_EXACT
    weights[rows] /= total[rows, None]
    return weights


def variances(name: str, values: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """Return (n, K) variances, finite and not negative."""
    array = component_array(name, values, shape)
    require(array >= 0, array, name, "is negative", "variances are squares; check for a sign or a log")
    return array


def per_object(name: str, values: ArrayLike, n: int) -> AnyArray:
    """Return a copy of (n,) values."""
    array: AnyArray = np.array(values)
    if array.shape != (n,):
        raise ValueError(f"`{name}` has shape {array.shape}; expected one value for each of the {n} objects.")
    return array


def vector(name: str, values: ArrayLike, n: int) -> FloatArray:
    """Return `values` as (n,) finite floats, or say what is wrong and where."""
    array: FloatArray = per_object(name, as_float(name, values), n)
    require(np.isfinite(array), array, name, "is not finite", "give only objects with a known value")
    return array


def weights(sample_weight: ArrayLike | None, n: int) -> FloatArray:
    """Return weights (n,): finite, not negative, not all zero; ones by default."""
    if n == 0:
        raise ValueError("the prediction has no objects; there is nothing to average.")
    if sample_weight is None:
        return np.ones(n)
    weight = vector("sample_weight", sample_weight, n)
    require(weight >= 0, weight, "sample_weight", "is negative", "give non-negative weights")
    if not weight.any():
        raise ValueError("`sample_weight` is zero for every object; give at least one a positive weight.")
    return weight


def points(name: str, values: ArrayLike, n: int, hint: str) -> FloatArray:
    """Return `values`, a scalar or one number per object, as an (n,) float array without NaN."""
    array = as_float(name, values)
    if array.shape not in ((), (n,)):
        raise ValueError(f"`{name}` has shape {array.shape}; expected a scalar or ({n},), one value per object. {hint}")
    require(~np.isnan(array), np.atleast_1d(array), name, "is NaN", "remove these objects first")
    return np.array(np.broadcast_to(array, (n,)))


def grid(name: str, values: ArrayLike) -> FloatArray:
    """Return `values` as a non-empty 1-D float array without NaN."""
    array = as_float(name, values)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"`{name}` has shape {array.shape}; expected a non-empty 1-D array of redshifts or levels.")
    require(~np.isnan(array), array, name, "is NaN", "give numbers only")
    return array


def probabilities(name: str, values: ArrayLike, n: int, hint: str) -> FloatArray:
    """Return `points` that are all from 0 to 1."""
    array = points(name, values, n, hint)
    require((array >= 0) & (array <= 1), array, name, "is not a probability", "give values from 0 to 1")
    return array


def level(value: Any) -> float:
    """Return a probability strictly between 0 and 1."""
    number = float(value)
    if not 0 < number < 1:
        raise ValueError(f"`level` is {number}; expected a probability strictly between 0 and 1, such as 0.68.")
    return number


def finite(name: str, value: Any) -> float:
    """Return a finite float."""
    number = float(value)
    if not np.isfinite(number):
        raise ValueError(f"`{name}` is {number}; expected a finite number or None.")
    return number


def coverage(values: ArrayLike, n: int) -> FloatArray:
    """Return (n,) coverage figures between 0 and 1."""
    array: FloatArray = per_object("coverage", values, n).astype(np.float64)
    ok = (array >= 0) & (array <= 1)
    require(ok, array, "coverage", "is outside 0..1", "give a fraction per object")
    return array


def flags(values: ArrayLike, n: int) -> npt.NDArray[np.uint32]:
    """Return (n,) bit flags."""
    array = per_object("flags", values, n)
    if array.size and array.dtype.kind not in "uib":
        raise ValueError(f"`flags` has dtype {array.dtype}; expected integer bit flags.")
    require(array >= 0, array, "flags", "is negative", "give bit flags")
    return array.astype(np.uint32)


def row_index(index: Any, n: int) -> slice | AnyArray:
    """Return a slice, a boolean mask of length n, or integer positions; an integer is a slice of one row."""
    if isinstance(index, SupportsIndex) and not isinstance(index, np.ndarray):
        i = range(n)[index]
        return slice(i, i + 1)
    if isinstance(index, slice):
        return index
    rows: AnyArray = np.asarray(index)
    if rows.size == 0 and rows.dtype.kind == "f":
        rows = rows.astype(np.intp)
    if rows.ndim != 1 or rows.dtype.kind not in "biu":
        raise IndexError(
            f"index has shape {rows.shape} and dtype {rows.dtype}; expected a slice, mask or 1-D positions."
        )
    if rows.dtype.kind == "b" and len(rows) != n:
        raise IndexError(f"mask has {len(rows)} entries but the prediction has {n} objects.")
    return rows


def read_only(array: Array) -> Array:
    """Mark an array as not writeable and return it."""
    array.flags.writeable = False
    return array


def point(name: str, value: Any, known: tuple[str, ...], n: int) -> str | FloatArray:
    """Return the name of a point estimate, or n numbers that are quoted instead."""
    if isinstance(value, str):
        if value not in known:
            raise ValueError(f"`{name}` is {value!r}; expected one of {', '.join(known)}, or one number per object.")
        return value
    return points(name, value, n, "")


def labels(name: str, values: ArrayLike, n_components: int) -> IntArray:
    """Return a whole number for each component."""
    array = np.array(values)
    if array.shape != (n_components,) or array.dtype.kind not in "iu":
        raise ValueError(
            f"`{name}` has shape {array.shape} and dtype {array.dtype}; expected {n_components} whole numbers, one "
            "for each component."
        )
    return array.astype(np.intp)


def member_shares(weights: ArrayLike | None, n: int, n_members: int) -> FloatArray:
    """Return the weights of members as (n, M) rows that sum to 1; equal by default."""
    if weights is None:
        return np.full((n, n_members), 1 / n_members)
    shares = as_float("weights", weights)
    if shares.shape not in ((n_members,), (n, n_members)):
        raise ValueError(f"`weights` has shape {shares.shape}; expected ({n_members},) or ({n}, {n_members}).")
    ok = np.isfinite(shares) & (shares >= 0)
    require(ok, shares, "weights", "is negative or not finite", "give non-negative member weights")
    total = shares.sum(axis=-1, keepdims=True)
    require(total > 0, total, "weights", "sums to zero", "give at least one member a positive weight")
    return np.array(np.broadcast_to(shares / total, (n, n_members)))
