"""Heaps in which HDF5 keeps texts and lists of variable length: some damage has its library loop for ever."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np

from gpzed._types import AnyArray, IntArray
from gpzed.errors import CatalogError

_SIGNATURE = b"GCOL\x01"
_HEADER = 16
"""Bytes at the start of a heap (signature, size), and before each of its objects (number, ..., size)."""


def check_heaps(path: Path) -> None:
    """Refuse a file with a heap in which free space, object number 0, has no size: the library never gets past it."""
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        starts, at = [], data.find(_SIGNATURE)
        while at >= 0:
            starts.append(at)
            at = data.find(_SIGNATURE, at + len(_SIGNATURE))
        if starts and _has_endless(data, np.array(starts)):
            raise CatalogError(
                f"'{path}' is damaged: among its texts or lists of variable length is one without an end, which the "
                "HDF5 library would look for for ever; make the file anew, or convert an intact copy of it"
            )


def _has_endless(data: mmap.mmap, starts: IntArray) -> bool:
    """Go through all heaps side by side, object by object, as the library goes through each."""
    content = np.frombuffer(data, np.uint8)

    def numbers(at: IntArray) -> tuple[AnyArray, IntArray]:
        header = content[at[:, None] + np.arange(_HEADER)].view("<u8")
        return header[:, 0] & 0xFFFF, np.minimum(header[:, 1], len(content)).astype(np.int64)

    starts = starts[starts + _HEADER <= len(content)]
    ends = np.minimum(starts + numbers(starts)[1], len(content))
    at = starts + _HEADER
    while True:
        inside = at + _HEADER <= ends
        at, ends = at[inside], ends[inside]
        if not at.size:
            return False
        number, size = numbers(at)
        if np.any((number == 0) & (size == 0)):
            return True
        at = at + np.where(number == 0, size, _HEADER + (size + 7) // 8 * 8)
