"""`Lists`: a column whose rows hold lists of numbers, each of its own length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gpzed._types import AnyArray, IntArray
from gpzed.errors import CatalogError


class Lists:
    """Lists of numbers, one per row, in one flat array; immutable.

    Parameters
    ----------
    values : array-like of shape (total,)
        The numbers of all rows, one after the other.
    offsets : array-like of int of shape (n + 1,)
        Where the numbers of each row begin; the last is the end.

    Examples
    --------
    >>> lists = Lists.from_padded([[0.7, 0.3], [1.0, 0.0]], [2, 1])
    >>> [row.tolist() for row in lists]
    [[0.7, 0.3], [1.0]]
    """

    __slots__ = ("offsets", "values")

    values: AnyArray
    offsets: IntArray

    def __init__(self, values: Any, offsets: Any) -> None:
        flat, ends = np.asarray(values), np.asarray(offsets, dtype=np.int64)
        if flat.ndim != 1 or flat.dtype.kind not in "biuf":
            raise CatalogError(f"lists hold {flat.dtype} of {flat.ndim} dimensions; expected flat numbers")
        if ends.ndim != 1 or not len(ends) or ends[0] < 0 or ends[-1] > len(flat) or (np.diff(ends) < 0).any():
            raise CatalogError("`offsets` of lists must grow, within the values; give one more than there are rows")
        self.values = flat[ends[0] : ends[-1]].view()
        self.offsets = ends - ends[0]
        self.values.flags.writeable = self.offsets.flags.writeable = False

    @classmethod
    def from_padded(cls, values: Any, lengths: Any) -> Lists:
        """Take the first `lengths` (n,) numbers of every row of `values` (n, width)."""
        rows, lengths = np.asarray(values), np.asarray(lengths)
        used = np.arange(rows.shape[1]) < lengths[:, None]
        return cls(rows[used], np.concatenate([[0], np.cumsum(lengths)]))

    @staticmethod
    def concatenate(parts: Sequence[Lists]) -> Lists:
        """Return the rows of all."""
        lengths = np.concatenate([part.lengths for part in parts])
        values = np.concatenate([part.values for part in parts])
        return Lists(values, np.concatenate([[0], np.cumsum(lengths)]))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the numbers."""
        return np.dtype(self.values.dtype)

    @property
    def shape(self) -> tuple[int]:
        """Number of rows; lists have no common length."""
        return (len(self),)

    @property
    def lengths(self) -> IntArray:
        """Numbers in each row, (n,)."""
        return np.asarray(np.diff(self.offsets))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"<Lists of {len(self)} rows, {len(self.values)} numbers ({self.dtype})>"

    def __iter__(self) -> Iterator[AnyArray]:
        for start, stop in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            yield self.values[start:stop]

    def __getitem__(self, rows: Any) -> Lists:
        """Return some of the rows: a slice, an index array or a mask."""
        if isinstance(rows, slice) and rows.step in (None, 1):
            start, stop, _ = rows.indices(len(self))
            return Lists(self.values, self.offsets[start : max(start, stop) + 1])
        picked = np.arange(len(self))[rows]
        lengths = self.lengths[picked]
        ends = np.concatenate([[0], np.cumsum(lengths)])
        at = np.arange(ends[-1]) - np.repeat(ends[:-1], lengths) + np.repeat(self.offsets[:-1][picked], lengths)
        return Lists(self.values[at], ends)

    def padded(self, fill: Any = 0, width: int | None = None) -> AnyArray:
        """Return an array of shape (n, width), of the longest list by default; shorter ones end in `fill`."""
        lengths = self.lengths
        width = int(lengths.max(initial=0)) if width is None else width
        out: AnyArray = np.full((len(self), width), fill, dtype=self.dtype)
        out[np.arange(width) < lengths[:, None]] = self.values
        return out

    def equals(self, other: Any) -> bool:
        """Return whether type, lengths and numbers are the same."""
        return (
            isinstance(other, Lists)
            and self.dtype == other.dtype
            and np.array_equal(self.offsets, other.offsets)
            and np.array_equal(self.values, other.values, equal_nan=self.dtype.kind == "f")
        )
