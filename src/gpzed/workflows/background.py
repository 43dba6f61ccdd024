"""Three steps side by side: a thread that reads, the caller that computes, a thread that writes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

_END = object()
_SWITCH_SECONDS = 2e-4


def read_ahead(source: Iterable[Any]) -> Iterator[Any]:
    """Read a source in a thread of its own, one item ahead; an error of the source is raised in its place."""
    with ThreadPoolExecutor(1, "gpzed-reader") as thread:
        items = iter(source)
        coming = thread.submit(next, items, _END)
        while (item := coming.result()) is not _END:
            coming = thread.submit(next, items, _END)
            yield item


@contextmanager
def write_behind(write: Callable[[Any], None]) -> Iterator[Callable[[Any], None]]:
    """Give a function that lets a thread of its own `write` an item, as soon as the one before is written.

    An error of `write` is raised by the next call, or when the context ends.
    """
    last: Future[None] | None = None

    def put(item: Any) -> None:
        nonlocal last
        if last is not None:
            last.result()
        last = thread.submit(write, item)

    with ThreadPoolExecutor(1, "gpzed-writer") as thread:
        yield put
        if last is not None:
            last.result()


@contextmanager
def quick_handover() -> Iterator[None]:
    """Let threads take turns with the interpreter more often than usual.

    The threads that compute need it for a moment at every block of rows; a reader that keeps it for the usual 5 ms
    would hold them all up. It helps in most runs on two cores, by up to a third.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, _SWITCH_SECONDS))
    try:
        yield
    finally:
        sys.setswitchinterval(before)
