"""Rows that are reread on every pass, in constant memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gpzed.engine.blocks import Block, Givens, Kernel, Rows, Scratch, Sums, add, block_rows, cut, groups, sum_blocks
from gpzed.engine.threads import Team


class StreamEngine:
    """Rows read chunk by chunk on every pass, the next chunk while the present one is worked on.

    The source gives the same chunks each time it is iterated over; the options are those of `ThreadEngine`.
    """

    def __init__(self, source: Iterable[Rows], *, width: int = 100, n_threads: int | None = None) -> None:
        self._source = source
        self._width = width
        self._team = Team(n_threads)
        self._reader = Team(1)
        self._givens: list[Givens] = []  # of the blocks in order
        self.n, self.d, self.sum_omega = 0, 0, 0.0
        for X, _, omega, *_ in source:
            self.n += X.shape[0]
            self.d = X.shape[1]
            self.sum_omega += float(omega.sum())

    def sum(self, kernel: Kernel, *arguments: Any) -> Sums:
        """Add up ``kernel(block, scratch, *arguments)`` over all blocks of all chunks."""
        total: Sums | None = None
        for blocks in self._chunks():

            def sum_group(chosen: slice, blocks: list[Block] = blocks) -> Sums | None:
                scratch = Scratch(self._team.buffers())
                return sum_blocks(((block, scratch) for block in blocks[chosen]), kernel, arguments)

            for part in self._team.map(sum_group, groups(blocks, self._width)):
                total = add(total, part)
        assert total is not None
        return total

    def passes(self) -> StreamEngine:
        """Begin passes that belong together; a stream keeps nothing between them."""
        return self

    def set_givens(self, kernel: Callable[..., Givens] | None, *arguments: Any) -> None:
        """Let blocks carry what ``kernel(block, scratch, *arguments)`` gives from now on; nothing without a kernel."""
        team = self._team
        if kernel is None:
            self._givens = []
            return
        values: list[Givens] = []
        for blocks in self._chunks():
            values += team.map(lambda block: kernel(block, Scratch(team.buffers()), *arguments), blocks)
        self._givens = values

    def _chunks(self) -> Iterator[list[Block]]:
        """Read the chunks of rows, each cut into blocks with their givens."""
        chunks = iter(self._source)
        count = 0
        pending = self._reader.submit(next, chunks, None)
        while (rows := pending.result()) is not None:
            pending = self._reader.submit(next, chunks, None)
            blocks = cut(rows, block_rows(self._width))
            givens = self._givens[count : count + len(blocks)]
            if givens:
                blocks = [block.given(one) for block, one in zip(blocks, givens, strict=True)]
            count += len(blocks)
            yield blocks
