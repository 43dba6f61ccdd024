"""Engines: where blocks of rows live, and how sums over them are added. No mathematics.

A *kernel* is a pure function ``(block, scratch, *arguments) -> tuple of arrays``; an engine applies it to every
block and adds up what comes back. `ThreadEngine` holds the rows in memory, `StreamEngine` reads them anew on
every pass. Sums are formed in an order that depends on the data alone, so results do not depend on the number
of threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from threadpoolctl import ThreadpoolController

from gpzed._types import FloatArray, IntArray

Sums = tuple[FloatArray, ...]


class Rows(NamedTuple):
    """Rows of data as the kernels want them.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        Inputs; expected ones where they are uncertain.
    y : ndarray of shape (n,)
        Targets.
    omega : ndarray of shape (n,)
        Weights.
    kind : ndarray of int of shape (n,), or None
        How the inputs are uncertain: 0 not at all, others as the caller has it. All 0 if None.
    """

    X: FloatArray
    y: FloatArray
    omega: FloatArray
    kind: IntArray | None = None


MAX_GROUPS = 64
"""Partial sums per pass: enough for the threads of a node, few enough to be cheap to add."""
GROUP_BYTES = 64_000_000
"""Memory that the partial sums may take together."""
CACHE_ELEMENTS = 262_144
"""Elements of one array over a block: 2 MB. Smaller ones would stay closer to the core, but every call costs its share
of Python, and threads wait for each other in between (measured)."""

SPARE_ROWS, SPARE_COLUMNS = 64, 4
"""Rows, and numbers per row, by which the memory kept of a block is larger: kernels fill up vectors and cache lines."""


@dataclass
class Scratch:
    """Memory that a kernel may use: per thread, and kept per block between two passes.

    Attributes
    ----------
    buffers : dict
        Work arrays of this thread, by name; their content is not defined at entry.
    kept : ndarray or None
        Memory of this block that survives until the next pass, if the engine grants it.
    """

    buffers: dict[str, FloatArray] = field(default_factory=dict)
    kept: FloatArray | None = None

    def array(self, name: str, shape: tuple[int, ...]) -> FloatArray:
        """Return a C-contiguous work array of the given shape; its memory is reused from block to block."""
        size = int(np.prod(shape, dtype=int))
        buffer = self.buffers.get(name)
        if buffer is None or buffer.size < size:
            buffer = self.buffers[name] = np.empty(size)
        return buffer[:size].reshape(shape)


@dataclass
class Block:
    """Rows that are processed together, all of one kind.

    Attributes
    ----------
    Xt : ndarray of shape (d, n)
    y : ndarray of shape (n,)
    omega : ndarray of shape (n,)
    kept : ndarray or None
        Memory for what the first pass leaves to the second.
    kind : int
        How the inputs are uncertain; 0 not at all.
    v : ndarray of shape (n,), or None
        Variance that uncertain inputs add to the noise; zero if None. A kernel may set it: it stays with the rows.
    """

    Xt: FloatArray
    y: FloatArray
    omega: FloatArray
    kept: FloatArray | None = None
    kind: int = 0
    v: FloatArray | None = None


Kernel = Callable[..., Sums]


class Engine(Protocol):
    """What training needs to know of the data: its size, and sums over its rows.

    Sums that share their first argument (the same object) belong together: what a kernel keeps in one of them is there
    in the next. A first argument that is new begins anew.
    """

    n: int
    d: int
    sum_omega: float

    def sum(self, kernel: Kernel, *arguments: Any) -> Sums:
        """Add up ``kernel(block, scratch, *arguments)`` over all blocks."""
        ...


def block_rows(width: int) -> int:
    """Rows per block such that one array of `width` numbers per row stays in a core's cache."""
    return int(np.clip(CACHE_ELEMENTS // max(width, 1), 128, 8192))


_blas_lock = threading.Lock()
_blas_users = 0
_blas_limit: Any = None
_controller: ThreadpoolController | None = None


def _take_control() -> None:
    """Let this thread set the limit: threadpoolctl >= 3.7 heeds only the first thread that ever set one."""
    assert _controller is not None
    for library in _controller.lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold BLAS at one thread per caller while any engine runs; re-entrant and safe between threads."""
    global _blas_users, _blas_limit, _controller
    with _blas_lock:
        if _blas_users == 0:
            _controller = _controller or ThreadpoolController()
            _take_control()
            _blas_limit = _controller.limit(limits=1, user_api="blas")
        _blas_users += 1
    try:
        yield
    finally:
        with _blas_lock:
            _blas_users -= 1
            if _blas_users == 0:
                _take_control()
                _blas_limit.restore_original_limits()
                _take_control()


def available_threads() -> int:
    """Count the processor cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return os.cpu_count() or 1


def add(total: Sums | None, part: Sums) -> Sums:
    """Add one tuple of sums to another, in place where there is one."""
    if total is None:
        return tuple(np.array(value, dtype=np.float64) for value in part)
    for target, value in zip(total, part, strict=True):
        target += value
    return total


def cut(rows: Rows, size: int) -> list[Block]:
    """Cut rows into blocks of at most `size`, features first; many of them are alike, so that threads end together.

    Rows of one kind come together.
    """
    X, y, omega = (np.asarray(array, dtype=np.float64, order="C") for array in rows[:3])
    kind = Rows(*rows).kind
    count = -(-len(y) // size)
    if count > 8:
        size = -(-len(y) // (-(-count // 4) * 4))
    if kind is None or not kind.any():
        return [
            Block(np.ascontiguousarray(X[i : i + size].T), y[i : i + size], omega[i : i + size])
            for i in range(0, len(y), size)
        ]
    return [
        Block(np.ascontiguousarray(X[index].T), y[index], omega[index], kind=int(kind[index[0]]))
        for index in by_kind(kind, size)
    ]


def by_kind(kind: IntArray, size: int) -> list[IntArray]:
    """Positions of rows, in groups of at most `size` that are of one kind each."""
    order = np.argsort(kind, kind="stable")
    bounds = np.flatnonzero(np.diff(kind[order])) + 1
    return [
        group[i : i + size]
        for group in np.split(order, bounds)
        for i in range(0, len(group), size)
    ]  # fmt: skip


class Team:
    """A fixed number of threads that run tasks in order, each thread with work arrays of its own."""

    def __init__(self, n_threads: int | None = None) -> None:
        self.n_threads = n_threads or available_threads()
        self._pool = ThreadPoolExecutor(self.n_threads - 1, "gpzed") if self.n_threads > 1 else None
        self._local = threading.local()

    def buffers(self) -> dict[str, FloatArray]:
        """Work arrays of the calling thread."""
        if not hasattr(self._local, "buffers"):
            self._local.buffers = {}
        return self._local.buffers  # type: ignore[no-any-return]

    def map(self, task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """Apply `task` to every item, results in order; the caller works, too, and whoever is free takes the next."""
        results: list[Any] = [None] * len(items)
        turns = iter(range(len(items)))  # `next` is atomic

        def work() -> None:
            for index in turns:
                results[index] = task(items[index])

        with single_threaded_blas():
            helpers = min(self.n_threads, len(items)) - 1
            futures = [self._pool.submit(work) for _ in range(helpers)] if self._pool is not None else []
            try:
                work()
            finally:
                for _ in turns:  # after an error nothing is left to take
                    pass
                for future in futures:
                    future.result()
        return results

    def submit(self, task: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Run a task beside the caller, even if the team has one thread only."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "gpzed")
        return self._pool.submit(task, *arguments)


def group(blocks: list[Block], width: int) -> list[list[Block]]:
    """Neighbouring blocks whose sums are added at once: a division that depends on the data alone."""
    n_groups = int(np.clip(GROUP_BYTES // (16 * width**2), 8, MAX_GROUPS))
    bounds = np.linspace(0, len(blocks), min(n_groups, len(blocks)) + 1).astype(int)
    return [blocks[i:j] for i, j in pairwise(bounds)]


def _sum_blocks(
    blocks: list[Block], team: Team, kernel: Kernel, arguments: tuple[Any, ...], recall: bool = True
) -> Sums:
    total: Sums | None = None
    for block in blocks:
        total = add(total, kernel(block, Scratch(team.buffers(), block.kept if recall else None), *arguments))
    assert total is not None
    return total


class ThreadEngine:
    """Rows in memory, blocks spread over threads.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
    omega : ndarray of shape (n,) or None
        Weights; ones if None.
    kind : ndarray of int of shape (n,), or None
        As in `Rows`.
    width : int
        Numbers per row that kernels hold at once (basis functions), for the size of the blocks.
    n_threads : int or None
        All available if None.
    keep_bytes : int
        Memory that kernels may keep between two passes; where it does not suffice they compute again.
    """

    def __init__(
        self,
        X: FloatArray,
        y: FloatArray,
        omega: FloatArray | None = None,
        kind: IntArray | None = None,
        *,
        width: int = 100,
        n_threads: int | None = None,
        keep_bytes: int = 1_500_000_000,
    ) -> None:
        self.n, self.d = X.shape
        omega = np.ones(self.n) if omega is None else omega
        self.sum_omega = float(omega.sum())
        self._blocks = cut(Rows(X, y, omega, kind), block_rows(width))
        self._width, self._n_threads, self._keep_bytes = width, n_threads, keep_bytes
        self._prepare()

    def _prepare(self) -> None:
        """Make what is not stored: threads, memory to keep between passes, groups."""
        self._team = Team(self._n_threads)
        sizes = [(self._width + SPARE_COLUMNS) * (len(block.y) + SPARE_ROWS) for block in self._blocks]
        if sizes and 8 * sum(sizes) <= self._keep_bytes:
            memory = np.empty(sum(sizes))  # in one piece, so that the system may use large pages for it
            stops = np.cumsum(sizes)
            for block, piece in zip(self._blocks, np.split(memory, stops[:-1]), strict=True):
                block.kept = piece
        self._groups = group(self._blocks, self._width)

    def __getstate__(self) -> dict[str, Any]:
        """Return the rows and options: a copy on another machine has threads and work memory of its own."""
        state = {name: value for name, value in self.__dict__.items() if name not in ("_team", "_groups")}
        return {**state, "_blocks": [replace(block, kept=None) for block in self._blocks]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def sum(self, kernel: Kernel, *arguments: Any, recall: bool = True) -> Sums:
        """Add up ``kernel(block, scratch, *arguments)`` over all blocks.

        With `recall` false kernels get no memory of the pass before, and compute again what they need of it.
        """
        total: Sums | None = None
        team = self._team
        for part in team.map(lambda blocks: _sum_blocks(blocks, team, kernel, arguments, recall), self._groups):
            total = add(total, part)
        assert total is not None
        return total


class StreamEngine:
    """Rows read from a source on every pass, in constant memory; the next chunk is read while one is summed.

    Parameters
    ----------
    source : iterable of Rows
        Gives the same chunks of rows each time it is iterated over.
    width : int
        As in `ThreadEngine`.
    n_threads : int or None
        All available if None.
    """

    def __init__(self, source: Iterable[Rows], *, width: int = 100, n_threads: int | None = None) -> None:
        self._source = source
        self._width = width
        self._team = Team(n_threads)
        self._reader = Team(1)
        self._v: dict[int, FloatArray] = {}  # what kernels set, by number of the block
        self.n, self.d, self.sum_omega = 0, 0, 0.0
        for X, _, omega, *_ in source:
            self.n += X.shape[0]
            self.d = X.shape[1]
            self.sum_omega += float(omega.sum())

    def _chunks(self) -> Iterator[Rows]:
        chunks = iter(self._source)
        pending = self._reader.submit(next, chunks, None)
        while (rows := pending.result()) is not None:
            pending = self._reader.submit(next, chunks, None)
            yield rows

    def sum(self, kernel: Kernel, *arguments: Any) -> Sums:
        """Add up ``kernel(block, scratch, *arguments)`` over all blocks of all chunks."""
        total: Sums | None = None
        count = 0
        for rows in self._chunks():
            blocks = cut(rows, block_rows(self._width))
            for index, block in enumerate(blocks, count):
                block.v = self._v.get(index)
            groups = group(blocks, self._width)
            for part in self._team.map(lambda blocks: _sum_blocks(blocks, self._team, kernel, arguments), groups):
                total = add(total, part)
            self._v |= {index: block.v for index, block in enumerate(blocks, count) if block.v is not None}
            count += len(blocks)
        assert total is not None
        return total
