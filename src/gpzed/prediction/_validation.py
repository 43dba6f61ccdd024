"""Checks of what goes into a `Prediction`; every message says what, where and what was expected."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpzed._types import AnyArray, BoolArray, FloatArray

# A float32 softmax misses 1 by about 1e-7; sums this close are renormalised, others are mistakes.
WEIGHT_SUM_TOLERANCE = 1e-6
# Rows already normalised to float64 rounding stay untouched, so that slicing never changes a number.
WEIGHT_SUM_EXACT = 1e-12


def as_float(name: str, values: npt.ArrayLike) -> FloatArray:
    """Copy `values` to float64, or say which argument is not numeric."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        msg = f"`{name}` is not a rectangular array of numbers ({error}); give floats."
        raise ValueError(msg) from error


def first_index(bad: BoolArray) -> str:
    """Write the first true position as an index, for example ``[3, 1]``."""
    return str([int(i) for i in np.argwhere(bad)[0]])


def require(ok: AnyArray, values: AnyArray, name: str, problem: str, expected: str) -> None:
    """Raise ValueError at the first position where `ok` is false."""
    if bool(np.all(ok)):
        return
    bad = ~np.asarray(ok, dtype=np.bool_)
    index = tuple(np.argwhere(bad)[0])
    msg = (
        f"`{name}` {problem}: {values[index]} at index {first_index(bad)} "
        f"({int(bad.sum())} of {bad.size} values); {expected}."
    )
    raise ValueError(msg)


def component_array(name: str, values: npt.ArrayLike, shape: tuple[int, ...] | None) -> FloatArray:
    """Return `values` as a finite (n, K) float array of the given shape."""
    array = as_float(name, values)
    if array.ndim != 2 or array.shape[1] == 0:
        msg = f"`{name}` has shape {array.shape}; expected (n, K) with K >= 1 components per object."
        raise ValueError(msg)
    if shape is not None and array.shape != shape:
        msg = f"`{name}` has shape {array.shape} but `weights` has {shape}; give one value per component."
        raise ValueError(msg)
    require(np.isfinite(array), array, name, "is not finite", "drop or repair these objects first")
    return array


def normalised_weights(values: npt.ArrayLike) -> FloatArray:
    """Return (n, K) weights that are non-negative and sum to 1 in every row."""
    weights = component_array("weights", values, None)
    require(weights >= 0, weights, "weights", "is negative", "mixture weights are probabilities")
    total = weights.sum(axis=1)
    off = np.abs(total - 1)
    require(
        off <= WEIGHT_SUM_TOLERANCE,
        total,
        "weights",
        "has a row that does not sum to 1",
        "divide each row by its sum",
    )
    rows = off > WEIGHT_SUM_EXACT
    weights[rows] /= total[rows, None]
    return weights


def variances(name: str, values: npt.ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """Return (n, K) variances, finite and not negative."""
    array = component_array(name, values, shape)
    require(array >= 0, array, name, "is negative", "variances are squares; check for a sign or a log")
    return array


def per_object(name: str, values: npt.ArrayLike, n: int, dtype: type[np.generic]) -> AnyArray:
    """Return an (n,) array of the given dtype."""
    array: AnyArray = np.array(values)
    if array.shape != (n,):
        msg = f"`{name}` has shape {array.shape}; expected one value for each of the {n} objects."
        raise ValueError(msg)
    if np.dtype(dtype).kind == "u" and array.size and array.dtype.kind not in "uib":
        msg = f"`{name}` has dtype {array.dtype}; expected integer bit flags."
        raise ValueError(msg)
    return array.astype(dtype)


def points(name: str, values: npt.ArrayLike, n: int, hint: str) -> FloatArray:
    """Return `values`, a scalar or one number per object, as an (n,) float array without NaN."""
    array = as_float(name, values)
    if array.shape not in ((), (n,)):
        msg = f"`{name}` has shape {array.shape}; expected a scalar or ({n},), one value per object. {hint}"
        raise ValueError(msg)
    require(~np.isnan(array), np.atleast_1d(array), name, "is NaN", "remove these objects first")
    return np.array(np.broadcast_to(array, (n,)))


def grid(name: str, values: npt.ArrayLike) -> FloatArray:
    """Return `values` as a non-empty 1-D float array without NaN."""
    array = as_float(name, values)
    if array.ndim != 1 or array.size == 0:
        msg = f"`{name}` has shape {array.shape}; expected a non-empty 1-D array of redshifts or levels."
        raise ValueError(msg)
    require(~np.isnan(array), array, name, "is NaN", "give numbers only")
    return array


def level(value: Any) -> float:
    """Return a probability strictly between 0 and 1."""
    number = float(value)
    if not 0 < number < 1:
        msg = f"`level` is {number}; expected a probability strictly between 0 and 1, such as 0.68."
        raise ValueError(msg)
    return number


def finite(name: str, value: Any) -> float:
    """Return a finite float."""
    number = float(value)
    if not np.isfinite(number):
        msg = f"`{name}` is {number}; expected a finite number or None."
        raise ValueError(msg)
    return number


def coverage(values: npt.ArrayLike, n: int) -> FloatArray:
    """Return (n,) coverage figures between 0 and 1."""
    array: FloatArray = per_object("coverage", values, n, np.float64)
    ok = (array >= 0) & (array <= 1)
    require(ok, array, "coverage", "is outside 0..1", "give a fraction per object")
    return array


def flags(values: npt.ArrayLike, n: int) -> npt.NDArray[np.uint32]:
    """Return (n,) bit flags."""
    array = np.array(values)
    if array.size and array.dtype.kind == "i":
        require(array >= 0, array, "flags", "is negative", "give bit flags")
    flags: npt.NDArray[np.uint32] = per_object("flags", values, n, np.uint32)
    return flags


def sample_weight(values: npt.ArrayLike | None, n: int) -> FloatArray:
    """Return (n,) weights, finite, not negative and not all zero; ones by default."""
    if n == 0:
        msg = "the prediction has no objects; there is nothing to average."
        raise ValueError(msg)
    if values is None:
        return np.ones(n)
    weight = per_object("sample_weight", as_float("sample_weight", values), n, np.float64)
    ok = np.isfinite(weight) & (weight >= 0)
    require(ok, weight, "sample_weight", "is negative or not finite", "give non-negative weights")
    if weight.sum() <= 0:
        msg = "`sample_weight` sums to zero; give at least one object a positive weight."
        raise ValueError(msg)
    return weight


def row_index(index: Any, n: int) -> AnyArray:
    """Return a 1-D boolean mask of length n or 1-D integer positions."""
    rows: AnyArray = np.asarray(index)
    if rows.size == 0 and rows.dtype.kind == "f":
        rows = rows.astype(np.intp)
    if rows.ndim != 1 or rows.dtype.kind not in "biu":
        msg = f"index has shape {rows.shape} and dtype {rows.dtype}; expected a slice, mask or 1-D positions."
        raise IndexError(msg)
    if rows.dtype.kind == "b" and len(rows) != n:
        msg = f"mask has {len(rows)} entries but the prediction has {n} objects."
        raise IndexError(msg)
    return rows


def read_only(array: FloatArray) -> FloatArray:
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


def parts(name: str, value: Any, length: int) -> int:
    """Return a whole number that divides `length`, the number of components of one model."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1 or length % value:
        msg = f"`{name}` is {value!r}; expected a divisor of `n_heads`, {length}: parts of a run have the same length."
        raise ValueError(msg)
    return int(value)


def run_length(name: str, value: Any, n_components: int) -> int:
    """Return a whole number from 1 to the number of components."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= n_components:
        msg = f"`{name}` is {value!r}; expected a whole number from 1 to {n_components}, the number of components."
        raise ValueError(msg)
    return int(value)
