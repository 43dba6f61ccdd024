"""Blocks of rows, the kernels that work on them, and what is asked of an engine. No mathematics.

A *kernel* is a pure function ``(block, scratch, *arguments) -> tuple of arrays``; an engine applies it, or its compiled
twin (`gpzed.compiled`), to every block and adds up the results. Sums are formed in an order that depends on the data
alone, so that they do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from gpzed._types import FloatArray, IntArray
from gpzed.compiled import over_blocks, substitute

Sums = tuple[FloatArray, ...]
Kernel = Callable[..., Sums]

MAX_GROUPS = 64
"""Partial sums per pass: enough for the threads of a node, few enough to be cheap to add."""
GROUP_BYTES = 64_000_000
"""Memory that the partial sums may take together."""
CACHE_ELEMENTS = 262_144
"""Elements of one array over a block: 2 MB. Smaller ones would stay closer to the core, but every call costs its share
of Python, and threads wait for each other in between (measured)."""


class Summing(Protocol):
    """Whatever can run a kernel over rows."""

    def sum(self, kernel: Kernel, *arguments: Any) -> Sums:
        """Add up ``kernel(block, scratch, *arguments)`` over all blocks."""
        ...


class Engine(Summing, Protocol):
    """What training needs to know of the data: its size, and sums over its rows."""

    n: int
    d: int
    sum_omega: float

    def passes(self) -> Summing:
        """Begin passes that belong together: what kernels keep of a block in the first is there in the next ones.

        Memory may be lost in between, to later passes or with a worker: kernels then compute again.
        """
        ...

    def set_givens(self, kernel: Callable[..., Givens] | None, *arguments: Any) -> None:
        """Let blocks carry what ``kernel(block, scratch, *arguments)`` gives from now on; nothing without a kernel."""
        ...


class Rows(NamedTuple):
    """Rows of data as engines take them."""

    X: FloatArray  # (n, d) inputs; expected ones where they are uncertain
    y: FloatArray  # (n,) targets
    omega: FloatArray  # (n,) weights
    blur: IntArray | None = None  # (n,) how the inputs are uncertain: 0 not at all; all 0 if None
    label_variance: FloatArray | None = None  # (n,) variance of the errors of the targets
    wrong: FloatArray | None = None  # (n,) probability that the target is not that of the row at all


class Labels(NamedTuple):
    """What is known of the targets of a block beyond their values."""

    weight: FloatArray  # (n,) weights of the rows if all targets are right
    variance: FloatArray | None  # (n,) of the errors of the targets
    wrong: FloatArray | None  # (n,) probability that a target is not that of its row at all


class Givens(NamedTuple):
    """What the objective takes as given in the rows of a block, set between stages."""

    v: FloatArray | None = None  # (n,) or (K, n) variance that uncertain inputs add to the noise (of every head)
    trust: FloatArray | None = None  # (n,) probability that the target is right, which multiplies the weight


@dataclass(frozen=True)
class Block:
    """Rows that are processed together, all blurred alike."""

    Xt: FloatArray  # (d, n)
    y: FloatArray  # (n,)
    omega: FloatArray  # (n,)
    blur: int = 0  # how the inputs are uncertain; 0 not at all
    v: FloatArray | None = None  # (n,) or (K, n) variance beside that of the noise (of every head)
    labels: Labels | None = None  # what is known of the targets
    cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)  # of compiled kernels

    def __getstate__(self) -> dict[str, Any]:
        """Return the rows: addresses of compiled kernels hold in this process alone."""
        return {**self.__dict__, "cache": {}}

    def given(self, givens: Givens) -> Block:
        """Return these rows with what the objective takes as given: it adds to the labels' variance and weight."""
        if self.labels is None:
            return replace(self, v=givens.v)
        added, own, trust = givens.v, self.labels.variance, givens.trust
        v = own if added is None else added if own is None else added + own
        weight = self.labels.weight
        return replace(self, v=v, omega=weight if trust is None else weight * trust)

    @classmethod
    def of_inputs(cls, X: FloatArray, blur: int = 0) -> Block:
        """Return a block of inputs (n, d) alone, as predictions need it."""
        return cls(X.T, np.empty(0), np.empty(0), blur)


@dataclass(frozen=True)
class Scratch:
    """Memory that a kernel may use."""

    buffers: dict[str, FloatArray] = field(default_factory=dict)  # work arrays of this thread, content undefined
    keep: FloatArray | None = None  # memory of this block to fill for the next pass, if the engine grants it
    kept: FloatArray | None = None  # the same memory as the pass before left it

    def array(self, name: str, shape: tuple[int, ...]) -> FloatArray:
        """Return a C-contiguous work array of the given shape; its memory is reused from block to block."""
        size = int(np.prod(shape, dtype=int))
        buffer = self.buffers.get(name)
        if buffer is None or buffer.size < size:
            buffer = self.buffers[name] = np.empty(size)
        return buffer[:size].reshape(shape)

    def array_to_keep(self, name: str, shape: tuple[int, ...]) -> FloatArray:
        """Return an array that lasts until the next pass where memory is granted, a work array otherwise."""
        kept = _piece(self.keep, shape)
        return self.array(name, shape) if kept is None else kept

    def recall(self, shape: tuple[int, ...]) -> FloatArray | None:
        """Return what the pass before kept in an array of this shape; None if nothing was."""
        return _piece(self.kept, shape)


def _piece(memory: FloatArray | None, shape: tuple[int, ...]) -> FloatArray | None:
    size = int(np.prod(shape, dtype=int))
    return None if memory is None or memory.size < size else memory[:size].reshape(shape)


def sum_blocks(
    blocks: Iterable[tuple[Block, Scratch]], kernel: Kernel, arguments: tuple[Any, ...], total: Sums | None = None
) -> Sums | None:
    """Add up a kernel, or its compiled twin, over blocks in order."""
    rows = list(blocks)
    at_once = over_blocks(kernel)
    if rows and at_once is not None and (part := at_once(rows, *arguments)) is not None:
        return add(total, part)
    kernel = substitute(kernel)
    for block, scratch in rows:
        total = add(total, kernel(block, scratch, *arguments))
    return total


def add(total: Sums | None, part: Sums) -> Sums:
    """Add one tuple of sums to another, in place where there is one."""
    if total is None:
        return tuple(np.array(value, dtype=np.float64) for value in part)
    for target, value in zip(total, part, strict=True):
        target += value
    return total


def block_rows(width: int) -> int:
    """Return the rows per block for which one array of `width` numbers per row stays in a core's cache."""
    return int(np.clip(CACHE_ELEMENTS // max(width, 1), 128, 8192))


def cut(rows: Rows, size: int) -> list[Block]:
    """Cut rows into blocks of at most `size`, features first; many of them are alike, so that threads end together.

    Rows that are blurred alike come together.
    """
    X, y, omega = (np.asarray(array, dtype=np.float64, order="C") for array in rows[:3])
    rows = Rows(X, y, omega, *rows[3:])
    blur = rows.blur

    count = -(-len(y) // size)
    if count > 8:
        size = -(-len(y) // (-(-count // 4) * 4))
    if blur is None or not blur.any():
        return [block_of(rows, slice(i, i + size)) for i in range(0, len(y), size)]
    return [block_of(rows, index, int(blur[index[0]])) for index in by_blur(blur, size)]


def block_of(rows: Rows, index: slice | IntArray, blur: int = 0) -> Block:
    """Return some rows, all blurred alike, as a block."""
    block = Block(np.ascontiguousarray(rows.X[index].T), rows.y[index], rows.omega[index], blur)
    if rows.label_variance is None and rows.wrong is None:
        return block
    variance, wrong = (None if array is None else array[index] for array in (rows.label_variance, rows.wrong))
    return replace(block, labels=Labels(block.omega, variance, wrong)).given(Givens())


def by_blur(blur: IntArray, size: int) -> list[IntArray]:
    """Return positions of rows, in groups of at most `size` that are blurred alike."""
    order = np.argsort(blur, kind="stable")
    bounds = np.flatnonzero(np.diff(blur[order])) + 1
    return [
        group[i : i + size]
        for group in np.split(order, bounds)
        for i in range(0, len(group), size)
    ]  # fmt: skip


def groups(blocks: Sequence[Block], width: int) -> list[slice]:
    """Return neighbouring blocks whose sums are added at once: a division that depends on the data alone.

    Blocks that are small because few rows are blurred alike come together, up to the size of an ordinary one.
    """
    n_groups, size = int(np.clip(GROUP_BYTES // (16 * width**2), 8, MAX_GROUPS)), block_rows(width)
    starts, rows = [0] if blocks else [], 0
    for index, n in enumerate(len(block.y) for block in blocks):
        if rows and rows + n > size:
            starts.append(index)
            rows = 0
        rows += n
    chosen = np.linspace(0, len(starts), min(n_groups, len(starts)) + 1).astype(int)
    bounds = np.append(starts, len(blocks))[chosen].astype(int)
    return [slice(i, j) for i, j in pairwise(bounds)]
