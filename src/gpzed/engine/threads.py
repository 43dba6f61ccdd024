"""Rows in memory, worked on by several threads with single-threaded BLAS inside each."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from gpzed._types import FloatArray, IntArray
from gpzed.engine.blocks import Givens, Kernel, Rows, Scratch, Sums, add, block_rows, by_blur, cut, groups, sum_blocks

SPARE_ROWS, SPARE_COLUMNS = 64, 4
"""Rows, and numbers per row, by which the memory kept of a block is larger: kernels fill up vectors and cache lines."""


class ThreadEngine:
    """Rows in memory, blocks spread over threads.

    Parameters
    ----------
    X, y, omega, blur, label_variance, wrong
        As in `Rows`; weights are ones if None.
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
        blur: IntArray | None = None,
        label_variance: FloatArray | None = None,
        wrong: FloatArray | None = None,
        *,
        width: int = 100,
        n_threads: int | None = None,
        keep_bytes: int = 1_500_000_000,
    ) -> None:
        self.n, self.d = X.shape
        omega = np.ones(self.n) if omega is None else omega
        self.sum_omega = float(omega.sum())
        self._blocks = cut(Rows(X, y, omega, blur, label_variance, wrong), block_rows(width))
        self._width, self._n_threads, self._keep_bytes = width, n_threads, keep_bytes
        self._prepare()

    def _prepare(self) -> None:
        """Make what is not stored: threads, groups of blocks, and memory to keep between passes."""
        self._team = Team(self._n_threads)
        self._memory: list[FloatArray | None] = [None] * len(self._blocks)
        self._owner: object = None  # the passes that use it now
        self._groups = groups(self._blocks, self._width)
        sizes = [(self._width + SPARE_COLUMNS) * (len(block.y) + SPARE_ROWS) for block in self._blocks]
        if sizes and 8 * sum(sizes) <= self._keep_bytes:
            memory = np.empty(sum(sizes))  # in one piece, so that the system may use large pages for it
            self._memory = list(np.split(memory, np.cumsum(sizes)[:-1]))

    def __getstate__(self) -> dict[str, Any]:
        """Return the rows and options: a copy on another machine makes its own threads and memory."""
        return {
            name: value
            for name, value in self.__dict__.items()
            if name not in ("_team", "_groups", "_memory", "_owner")
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def sum(self, kernel: Kernel, *arguments: Any) -> Sums:
        """Add up ``kernel(block, scratch, *arguments)`` over all blocks; nothing is kept."""
        return self._sum(kernel, arguments)

    def passes(self) -> ThreadPasses:
        """Begin passes that belong together; memory of earlier ones is theirs now."""
        self._owner = passes = ThreadPasses(self)
        return passes

    def set_givens(self, kernel: Callable[..., Givens] | None, *arguments: Any) -> None:
        """Let blocks carry what ``kernel(block, scratch, *arguments)`` gives from now on; nothing without a kernel."""
        team, run = self._team, kernel or (lambda *_: Givens())
        values = team.map(lambda block: run(block, Scratch(team.buffers()), *arguments), self._blocks)
        self._blocks = [block.given(givens) for block, givens in zip(self._blocks, values, strict=True)]

    def _sum(self, kernel: Kernel, arguments: tuple[Any, ...], keep: bool = False, recall: bool = False) -> Sums:
        team = self._team

        def sum_group(blocks: slice) -> Sums | None:
            buffers = team.buffers()
            memory = self._memory[blocks] if keep or recall else [None] * len(self._blocks[blocks])
            scratch = (Scratch(buffers, keep=one) if keep else Scratch(buffers, kept=one) for one in memory)
            return sum_blocks(zip(self._blocks[blocks], scratch, strict=True), kernel, arguments)

        total: Sums | None = None
        for part in team.map(sum_group, self._groups):
            total = add(total, part)
        assert total is not None
        return total


class ThreadPasses:
    """Passes over the rows of a `ThreadEngine`: the first may keep something of each block, the next ones recall it."""

    def __init__(self, engine: ThreadEngine) -> None:
        self._engine = engine
        self._is_first = True

    def sum(self, kernel: Kernel, *arguments: Any) -> Sums:
        """Add up ``kernel(block, scratch, *arguments)`` over all blocks."""
        owns = self._engine._owner is self
        keep, self._is_first = owns and self._is_first, False
        return self._engine._sum(kernel, arguments, keep=keep, recall=owns and not keep)


class Team:
    """A fixed number of threads that run tasks in order, each thread with its own work arrays."""

    def __init__(self, n_threads: int | None = None) -> None:
        self.n_threads = n_threads or available_threads()
        self._pool = ThreadPoolExecutor(self.n_threads - 1, "gpzed") if self.n_threads > 1 else None
        self._local = threading.local()

    def buffers(self) -> dict[str, FloatArray]:
        """Return the work arrays of the calling thread."""
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

    def map_rows(self, task: Callable[[slice | IntArray, int], None], n: int, blur: IntArray | None, size: int) -> None:
        """Call ``task(rows, blur)`` for all of n rows in groups of at most `size`, each of one blur."""
        if blur is None or not blur.any():
            self.map(lambda start: task(slice(start, min(start + size, n)), 0), range(0, n, size))
        else:
            self.map(lambda rows: task(rows, int(blur[rows[0]])), by_blur(blur, size))

    def submit(self, task: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Run a task beside the caller, even if the team has one thread only."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "gpzed")
        return self._pool.submit(task, *arguments)


def available_threads() -> int:
    """Count the processor cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return os.cpu_count() or 1


_blas_lock = threading.Lock()
_blas_users = 0
_blas_limit: Any = None
_controller: ThreadpoolController | None = None


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


def _take_control() -> None:
    """Let this thread set the limit: threadpoolctl >= 3.7 heeds only the first thread that ever set one."""
    assert _controller is not None
    for library in _controller.lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)
