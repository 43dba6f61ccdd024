"""Columns between Arrow and NumPy: nulls become masks, told from NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpzed._types import AnyArray, BoolArray
from gpzed.catalog._format import dtype_name
from gpzed.catalog.lists import Lists


def dtype_of(pa: Any, kind: Any) -> str | None:
    """Return the name of the NumPy dtype an Arrow type becomes, None if it cannot be a column."""
    types = pa.types
    if types.is_dictionary(kind):
        return dtype_of(pa, kind.value_type)
    if types.is_fixed_size_list(kind):
        inner = dtype_of(pa, kind.value_type)
        return None if inner == "str" else inner
    if is_list(pa, kind):
        return dtype_of(pa, kind.value_type)
    if types.is_string(kind) or types.is_large_string(kind):
        return "str"
    if types.is_decimal(kind) or types.is_null(kind):
        return "float64"
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        return dtype_name(_numpy_type(pa, kind))
    if types.is_timestamp(kind):
        return f"datetime64[{kind.unit}]"
    return "datetime64[D]" if types.is_date32(kind) else None


def _numpy_type(pa: Any, kind: Any) -> np.dtype[Any]:
    """Return the NumPy dtype of booleans and numbers; Arrow's own way to it needs pandas in its older versions."""
    types = pa.types
    if types.is_boolean(kind):
        return np.dtype(np.bool_)
    letter = "f" if types.is_floating(kind) else "i" if types.is_signed_integer(kind) else "u"
    return np.dtype(f"{letter}{kind.bit_width // 8}")


def units_of(schema: Any) -> dict[str, str]:
    """Return the units that the fields of an Arrow schema have in their metadata, by column."""
    units = {}
    for item in schema or ():
        said = item.metadata or {}
        unit = (said.get(b"unit") or said.get(b"units") or b"").decode("utf-8", "replace")
        if unit:
            units[item.name] = unit
    return units


def is_list(pa: Any, kind: Any) -> bool:
    """Tell whether an Arrow type is that of lists of numbers, each of its own length."""
    types = pa.types
    if not (types.is_list(kind) or types.is_large_list(kind)):
        return False
    return bool(types.is_integer(kind.value_type) or types.is_floating(kind.value_type))


def to_numpy(pa: Any, column: Any) -> tuple[Any, BoolArray | None]:
    """Return values and mask of an Arrow array; nulls of floats hold NaN, of other kinds zero or nothing."""
    kind = column.type
    if is_list(pa, kind):
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        mask = np.asarray(column.is_null()) if column.null_count else None
        lengths = np.asarray(column.value_lengths().fill_null(0))
        return Lists(to_numpy(pa, column.flatten())[0], np.concatenate([[0], np.cumsum(lengths)])), mask
    if pa.types.is_dictionary(kind):
        return to_numpy(pa, column.cast(kind.value_type))
    if pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return to_numpy(pa, column.cast(pa.float64()))
    if pa.types.is_fixed_size_list(kind):
        return _lists_to_numpy(pa, column)
    mask = np.asarray(column.is_null()) if column.null_count else None
    if mask is not None and not pa.types.is_temporal(kind):
        text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        floats = pa.types.is_floating(kind)
        fill = "" if text else _numpy_type(pa, kind).type(np.nan if floats else 0)
        column = column.fill_null(pa.scalar(fill, type=kind))
    values = column.to_numpy(zero_copy_only=False)
    return values.astype(np.str_) if values.dtype.kind == "O" else values, mask


def _lists_to_numpy(pa: Any, column: Any) -> tuple[AnyArray, BoolArray | None]:
    size = column.type.list_size
    if column.null_count:
        # a null list holds no values: spell them out so that flattening keeps the rows aligned
        rows = [[None] * size if row is None else row for row in column.to_pylist()]
        column = pa.array(rows, type=column.type)
    values, mask = to_numpy(pa, column.flatten())
    shape = len(column), size
    return values.reshape(shape), None if mask is None else mask.reshape(shape)


def to_arrow(pa: Any, values: Any, mask: BoolArray | None, kind: Any = None) -> Any:
    """Return an Arrow array: of lists for a column with several values per row."""
    if isinstance(values, Lists):
        flat = pa.array(values.values, from_pandas=False)
        missing = None if mask is None else pa.array(mask)
        kind = kind or list_type(pa, values.dtype)
        offsets = pa.array(values.offsets, pa.int32())
        return pa.ListArray.from_arrays(offsets, flat, type=kind, mask=missing)
    if values.ndim == 2:
        kind = kind or pa.list_(pa.from_numpy_dtype(values.dtype), values.shape[1])
        flat = to_arrow(pa, values.ravel(), None if mask is None else mask.ravel(), kind.value_type)
        return pa.FixedSizeListArray.from_arrays(flat, type=kind)
    return pa.array(values, mask=mask, type=kind, from_pandas=False)


def list_type(pa: Any, dtype: Any) -> Any:
    """Return the Arrow type of lists of numbers, none of which is missing: readers need not look for nulls."""
    return pa.list_(pa.field("element", pa.from_numpy_dtype(dtype), nullable=False))
