"""Memory of large arrays that is used again: the system clears new pages, which takes a sixth of a prediction."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from gpzed._types import AnyArray, FloatArray

MAX_SPARE = 2**29
"""Bytes that are kept for later arrays at most."""
LEAST = 2**20
"""Bytes from which on it is worth it."""

_spare: list[AnyArray] = []
_lock = threading.Lock()


def recycled(shape: tuple[int, ...]) -> FloatArray:
    """Return an array, content undefined, in the memory of one that is no longer in use, if there is any that fits."""
    size = 8 * int(np.prod(shape, dtype=np.int64))
    if size < LEAST:
        return np.empty(shape)
    with _unless_busy() as is_free:
        fitting = [place for place, one in enumerate(_spare) if size <= one.size <= size + size // 4] if is_free else []
        memory = _spare.pop(fitting[-1]) if fitting else None
    if memory is None:
        memory = np.empty(size, dtype=np.uint8)
    lease = _Lease(memory, shape)
    weakref.finalize(lease, _give_back, memory).atexit = False
    return np.asarray(lease)


class _Lease:
    """What an array and all its views keep alive: no array itself, whose views would hold on to its memory alone."""

    def __init__(self, memory: AnyArray, shape: tuple[int, ...]) -> None:
        place = memory.__array_interface__["data"]
        self.__array_interface__ = {"data": place, "shape": shape, "typestr": np.dtype(np.float64).str, "version": 3}


def _give_back(memory: AnyArray) -> None:
    with _unless_busy() as is_free:
        if is_free:
            _spare.append(memory)
            while sum(one.size for one in _spare) > MAX_SPARE:
                _spare.pop(0)


@contextmanager
def _unless_busy() -> Iterator[bool]:
    """Hold the spare memory, and tell whether it worked; nobody waits for it.

    Python may clear arrays away, and so give memory back, at any moment: in the very thread that is choosing some. And
    a process forked off while another thread holds the lock will never see it free.
    """
    is_free = _lock.acquire(blocking=False)
    try:
        yield is_free
    finally:
        if is_free:
            _lock.release()
