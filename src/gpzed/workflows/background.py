"""Three steps side by side: a thread that reads, the caller that computes, a thread that writes."""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_END = object()
_POLL_SECONDS = 0.2
_SWITCH_SECONDS = 2e-4


class _Failure:
    def __init__(self, error: BaseException) -> None:
        self.error = error


class _StoppedError(Exception):
    """The other side has given up."""


@contextlib.contextmanager
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


def _put(line: queue.Queue[Any], item: Any, stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            return line.put(item, timeout=_POLL_SECONDS)
        except queue.Full:
            continue
    raise _StoppedError


def read_ahead(source: Iterable[Any], depth: int = 1) -> Iterator[Any]:
    """Iterate over a source that is read in a thread of its own, up to `depth` items ahead.

    Parameters
    ----------
    source : iterable
    depth : int

    Yields
    ------
    object
        The items, in order; an error of the source is raised in its place.
    """
    line: queue.Queue[Any] = queue.Queue(depth)
    stop = threading.Event()

    def work() -> None:
        try:
            for item in source:
                _put(line, item, stop)
            _put(line, _END, stop)
        except _StoppedError:
            pass
        except BaseException as error:
            with contextlib.suppress(_StoppedError):
                _put(line, _Failure(error), stop)

    thread = threading.Thread(target=work, name="gpzed-reader", daemon=True)
    thread.start()
    try:
        while (item := line.get()) is not _END:
            if isinstance(item, _Failure):
                raise item.error
            yield item
    finally:
        stop.set()
        thread.join()


class WriteBehind:
    """Hand items to a function that runs in a thread of its own, in order; use it as a context.

    Parameters
    ----------
    write : callable
        Called with each item.
    depth : int
        Items that may wait.

    Notes
    -----
    An error of `write` is raised by the next `put`, or when the context ends. If the context ends with an error, items
    that wait are dropped.
    """

    def __init__(self, write: Callable[[Any], None], depth: int = 1) -> None:
        self._write = write
        self._line: queue.Queue[Any] = queue.Queue(depth)
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="gpzed-writer", daemon=True)

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                item = self._line.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
            if item is _END:
                return
            try:
                self._write(item)
            except BaseException as error:
                self._error = error
                self._stop.set()

    def put(self, item: Any) -> None:
        """Hand over an item; waits while too many are under way."""
        try:
            _put(self._line, item, self._stop)
        except _StoppedError:
            if self._error is not None:
                raise self._error from None
            raise

    def __enter__(self) -> WriteBehind:
        self._thread.start()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            with contextlib.suppress(_StoppedError):
                _put(self._line, _END, self._stop)
        else:
            self._stop.set()
        self._thread.join()
        if kind is None and self._error is not None:
            raise self._error
