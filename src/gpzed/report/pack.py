"""Many small whole numbers in few bytes, as text."""

from __future__ import annotations

import base64

import numpy as np

from gpzed._types import AnyArray, FloatArray, IntArray


def varints(values: IntArray) -> bytes:
    """Return whole numbers >= 0 in 7 bits per byte, lowest first, the top bit set where more bytes follow.

    Examples
    --------
    >>> varints(np.array([1, 127, 128])).hex()
    '017f8001'
    """
    left = np.asarray(values, dtype=np.uint64)
    if not len(left):
        return b""
    digits = [left & 0x7F]
    while (left := left >> np.uint64(7)).any():
        digits.append(left & 0x7F)
    table = np.stack(digits, axis=1).astype(np.uint8)  # (n, bytes at most)
    last = np.array(table.shape[1] - 1 - (table[:, ::-1] != 0).argmax(axis=1))
    last[~table.any(axis=1)] = 0
    place = np.arange(table.shape[1])
    table |= np.where(place < last[:, None], 0x80, 0).astype(np.uint8)
    return table[place <= last[:, None]].tobytes()


def as_text(data: bytes) -> str:
    """Return bytes as base64."""
    return base64.b64encode(data).decode("ascii")


def text_of_varints(values: IntArray) -> str:
    """Return whole numbers >= 0 as base64 of `varints`."""
    return as_text(varints(np.asarray(values)))


def shorts(values: FloatArray, low: float, high: float, top: int = 65_535) -> str:
    """Return numbers in two bytes each, little-endian, as base64: `low` is 0 and `high` is `top`.

    Examples
    --------
    >>> base64.b64decode(shorts(np.array([1.0, 3.0]), 1.0, 3.0)).hex()
    '0000ffff'
    """
    scaled = np.rint((np.asarray(values) - low) * (top / (high - low if high > low else 1.0)))
    return as_text(np.clip(scaled, 0, 65_535).astype("<u2").tobytes())


def cells_in_groups(cells: IntArray, groups: IntArray, n_groups: int) -> str:
    """Return which cells the objects of each group fall in, in about a byte per object."""
    parts = []
    order = np.lexsort((cells, groups))
    cuts = np.searchsorted(groups[order], np.arange(n_groups + 1))
    for g in range(n_groups):
        inside = cells[order[cuts[g] : cuts[g + 1]]]
        parts.append(varints(np.array([len(inside)])) + varints(np.diff(inside, prepend=0)))
    return as_text(b"".join(parts))


def floats(values: FloatArray) -> str:
    """Return numbers in single precision, little-endian, as base64."""
    return as_text(np.ascontiguousarray(values, dtype="<f4").tobytes())


def finite(values: AnyArray, digits: int = 6) -> list[float | None]:
    """Return a list for JSON, rounded to significant digits, with None for what is not finite."""
    return [float(f"{v:.{digits}g}") if np.isfinite(v) else None for v in np.asarray(values, dtype=float).tolist()]
