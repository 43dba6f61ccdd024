"""Training rows on the workers of a Dask cluster: spread from this process, or loaded there from partitions.

Which rows are held out or drawn is decided by their number in the whole, not by the partition they are in (`lottery`):
training does not depend on how the rows are cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from gpzed._types import AnyArray, BoolArray, FloatArray
from gpzed.distributed.connection import require_dask, wait_for_workers
from gpzed.distributed.engine import DaskEngine, attempt, make_shard
from gpzed.engine.blocks import Engine
from gpzed.engine.threads import ThreadEngine
from gpzed.gp.whitening import Moments
from gpzed.incomplete.patterns import ErrorClasses, PatternMoments, RawRows
from gpzed.model.data import (
    MAX_STREAM_SUBSET,
    MAX_STREAM_VALIDATION,
    MIN_VALIDATION,
    ArrayData,
    Standardisation,
    arrays_of,
    target_moments,
)
from gpzed.model.inputs import OPTIONAL_PARTS, check_chunk, kinds_of

KEEP_BYTES = 1_500_000_000
"""Memory of a worker that kernels may keep between two passes, if its limit allows."""
KEEP_SHARE = 0.3
MIN_SPREAD_ROWS = 20_000
"""Fewer rows than this are worked on in this process: sending parameters out takes longer."""
_GOLDEN = 0x9E3779B97F4A7C15


def lottery(seed: int, start: int, n: int) -> FloatArray:
    """Uniform numbers in [0, 1) that belong to the rows numbered from `start` on, whatever part they are read with.

    The counter-based generator splitmix64: the number of a row does not depend on those drawn before it.
    """
    key = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
    z = np.arange(start + 1, start + n + 1, dtype=np.uint64) * np.uint64(_GOLDEN) + key
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = (z ^ (z >> np.uint64(31))) >> np.uint64(11)
    return np.asarray(z.astype(np.float64) * 2.0**-53)


def build_engine(rows: RawRows, map_: Standardisation, width: int, keep_bytes: int | None = None) -> ThreadEngine:
    """Engine over rows of a worker, with all its threads and as much memory as it can spare."""
    worker = require_dask().get_worker()
    limit = worker.memory_manager.memory_limit
    if keep_bytes is None:
        keep_bytes = KEEP_BYTES if limit is None else int(min(KEEP_BYTES, KEEP_SHARE * limit))
    return ThreadEngine(*map_.rows(rows), width=width, n_threads=worker.state.nthreads, keep_bytes=keep_bytes)


class SpreadData(ArrayData):
    """Rows in the memory of this process, spread over the workers of a cluster."""

    def __init__(self, client: Any, train: RawRows, valid: RawRows | None, *, valid_is_part: bool = True) -> None:
        super().__init__(train, valid, valid_is_part=valid_is_part)
        self.client = client
        self._n_shards = len(wait_for_workers(client))  # stays when workers come or go: so do the sums, to the last bit

    def over(self, rows: RawRows, map_: Standardisation, width: int, n_threads: int | None, **options: Any) -> Engine:
        """Engine over rows that are sent to the workers, one shard each; over few rows in this process."""
        if len(rows.y) < MIN_SPREAD_ROWS:
            return super().over(rows, map_, width, n_threads, **options)
        bounds = np.linspace(0, len(rows.y), self._n_shards + 1).astype(int)
        recipes = [
            partial(self._send, index, rows.take(slice(start, stop)), map_, width, options.get("keep_bytes"))
            for index, (start, stop) in enumerate(pairwise(bounds))
        ]
        return DaskEngine(self.client, recipes)

    def _send(self, index: int, rows: RawRows, map_: Standardisation, width: int, keep_bytes: int | None) -> Any:
        homes = wait_for_workers(self.client)
        home = homes[index % len(homes)]
        (sent,) = self.client.scatter([rows], workers=[home], hash=False)
        where = {"workers": [home], "allow_other_workers": True}
        return self.client.submit(make_shard, build_engine, sent, map_, width, keep_bytes, pure=False, **where)


@dataclass(frozen=True)
class Choice:
    """Which rows of the whole are meant."""

    seed: int  # of the held-out rows
    fraction: float  # part of the rows that is held out
    held: bool | None = None  # those held out, the others, or all
    draw: tuple[int, float] | None = None  # seed and share of a random draw among them

    def mask(self, start: int, n: int) -> BoolArray:
        """Return which of the n rows from number `start` on are meant."""
        chosen = np.ones(n, dtype=bool)
        if self.held is not None:
            chosen &= (lottery(self.seed, start, n) < self.fraction) == self.held
        if self.draw is not None:
            chosen &= lottery(self.draw[0], start, n) < self.draw[1]
        return chosen


@dataclass(frozen=True)
class Held:
    """Rows of some neighbouring partitions in the memory of a worker, each partition for itself."""

    parts: tuple[RawRows, ...]

    def __sizeof__(self) -> int:
        """Bytes of the rows, so that Dask sends work to them and not them to the work."""
        return sum(array.nbytes for part in self.parts for array in part if array is not None) + 10_000

    def select(self, starts: Sequence[int], choice: Choice) -> list[RawRows]:
        """Rows that `choice` means, by partition; `starts` has the number of the first row of each."""
        return [part.take(choice.mask(start, len(part.y))) for start, part in zip(starts, self.parts, strict=True)]


def hold(
    indices: Sequence[int], d: int, names: list[str] | None, missing: bool, wrong_rate: float, *chunks: Any
) -> Held:
    """Task: check partitions as they come from their source, and hold their rows."""
    options = (d, names, missing, wrong_rate)
    return Held(tuple(check_chunk(i, chunk, *options) for i, chunk in zip(indices, chunks, strict=True)))


def _sizes(held: Held) -> list[tuple[int, BoolArray, tuple[bool, ...]]]:
    """Rows of each partition, inputs that some of them have, and which optional parts."""
    return [(len(rows.y), np.asarray(np.isfinite(rows.X).any(axis=0)), kinds_of(rows)) for rows in held.parts]


def _select(held: Held, starts: Sequence[int], choice: Choice) -> RawRows:
    return RawRows.join(held.select(starts, choice))


def _summaries(
    held: Held, starts: Sequence[int], choice: Choice, noise: ErrorClasses | None
) -> list[tuple[PatternMoments, Moments]]:
    parts = [part for part in held.select(starts, choice) if len(part.y)]
    return [(PatternMoments.of(part, noise), Moments.of(part.y[:, None], part.omega)) for part in parts]


def _checksum(held: Held, starts: Sequence[int]) -> AnyArray:
    """Sum of the bits of all numbers times the odd number of their row, modulo 2^64: the same however rows are cut."""
    total: AnyArray = np.zeros(0, dtype=np.uint64)
    for start, rows in zip(starts, held.parts, strict=True):
        bits = np.ascontiguousarray(np.column_stack(arrays_of(rows))).view(np.uint64)
        factor = np.arange(start, start + len(rows.y), dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        part = np.sum(bits * factor[:, None], axis=0, dtype=np.uint64)
        total = np.asarray(part if not total.size else total + part)
    return total


def _build(
    held: Held, starts: Sequence[int], choice: Choice, map_: Standardisation, width: int, keep_bytes: int | None
) -> ThreadEngine:
    return build_engine(_select(held, starts, choice), map_, width, keep_bytes)


def _load(client: Any, home: str, indices: list[int], options: tuple[Any, ...], sources: Sequence[Any]) -> Any:
    where = {"workers": [home], "allow_other_workers": True}
    chunks = client.compute(list(sources), **where)
    return client.submit(hold, indices, *options, *chunks, pure=False, **where)


class Partitions:
    """Partitions loaded into the memory of the workers, a group of neighbours on each.

    Each of the delayed `sources` gives the parts of `gpzed.model.inputs.PARTS`. Rows of positive weight are counted in
    `n`; `observed` tells which inputs some row has, `has_errors` whether they come with errors.
    """

    def __init__(
        self,
        client: Any,
        sources: Sequence[Any],
        d: int,
        names: list[str] | None,
        *,
        missing: bool = False,
        wrong_rate: float = 0.0,
    ) -> None:
        self.client, self.d = client, d
        homes = wait_for_workers(client)
        n_groups = min(len(homes), len(sources))
        bounds = np.linspace(0, len(sources), n_groups + 1).astype(int)
        options = (d, names, missing, wrong_rate)
        self._recipes: list[Callable[[], Any]] = [
            partial(_load, client, home, list(range(start, stop)), options, sources[start:stop])
            for home, (start, stop) in zip(homes, pairwise(bounds), strict=False)
        ]
        self._groups = [recipe() for recipe in self._recipes]
        described = self.ask(_sizes, with_starts=False)
        self.observed = np.any([seen for group in described for _, seen, _ in group], axis=0)
        kinds = {kinds for group in described for n, _, kinds in group if n} or {(False,) * len(OPTIONAL_PARTS)}
        for name, found in zip(OPTIONAL_PARTS, zip(*kinds, strict=True), strict=True):
            if len(set(found)) > 1:
                raise ValueError(f"some chunks of `source` have `{name}` and others have not; give it in all or none.")
        self.has_errors, _, self.has_doubts = next(iter(kinds))
        sizes = [[n for n, _, _ in group] for group in described]
        edges = iter(np.concatenate([[0], np.cumsum([size for group in sizes for size in group])]).tolist())
        self._starts = [[next(edges) for _ in group] for group in sizes]
        self.n = next(edges)

    def _restore(self) -> None:
        for index, group in enumerate(self._groups):
            if group.status in ("cancelled", "lost", "error"):
                self._groups[index] = self._recipes[index]()

    def ask(self, task: Callable[..., Any], *arguments: Any, with_starts: bool = True) -> list[Any]:
        """Results of a task on every group of partitions, in order."""

        def work() -> list[Any]:
            client = self.client
            starts: list[Any] = [(s,) for s in self._starts] if with_starts else [()] * len(self._groups)
            futures = [
                client.submit(task, group, *start, *arguments, pure=False)
                for group, start in zip(self._groups, starts, strict=True)
            ]
            gathered: list[Any] = client.gather(futures)
            return gathered

        found: list[Any] = attempt(self.client, work, self._restore)
        return found

    def engine(self, choice: Choice, map_: Standardisation, width: int, keep_bytes: int | None) -> DaskEngine:
        """Engine over the rows that `choice` means, where they are."""

        def make(index: int) -> Any:
            self._restore()
            arguments = (self._groups[index], self._starts[index], choice, map_, width, keep_bytes)
            return self.client.submit(make_shard, _build, *arguments, pure=False)

        return DaskEngine(self.client, [partial(make, index) for index in range(len(self._groups))])

    def split(self, fraction: float, valid: RawRows | None, seed: int) -> PartitionedData:
        """Return the rows as one member sees them, some held out."""
        return PartitionedData(self, fraction, valid, seed)


class PartitionedData:
    """Rows that the workers of a cluster have loaded; see `TrainingData` for the methods.

    Without rows `valid`, a `fraction` is held out, at most `MAX_STREAM_VALIDATION` rows.
    """

    def __init__(self, partitions: Partitions, fraction: float, valid: RawRows | None, seed: int) -> None:
        self.partitions, self.seed, self.valid = partitions, seed, valid
        self.d, n = partitions.d, partitions.n
        self.is_split = valid is None and round(fraction * n) >= MIN_VALIDATION
        share = min(fraction, MAX_STREAM_VALIDATION / n) if self.is_split else 0.0
        self._all, self._train = Choice(seed, share), Choice(seed, share, held=False)
        if self.is_split:
            self.valid = RawRows.join(partitions.ask(_select, Choice(seed, share, held=True)))
        self.has_errors, self.has_doubts = partitions.has_errors, partitions.has_doubts
        self._summary, self._target = self._summarise(None)
        self.n = n - (len(self.valid.y) if self.is_split and self.valid is not None else 0)

    def _summarise(self, noise: ErrorClasses | None) -> tuple[PatternMoments, Moments]:
        parts = [pair for group in self.partitions.ask(_summaries, self._train, noise) for pair in group]
        total, target = parts[0]
        for summary, moments in parts[1:]:
            total, target = total + summary, target + moments
        return total.with_held_out(self.valid, noise), target

    def stages(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """See `TrainingData`."""
        return sizes

    def identity(self) -> tuple[AnyArray, ...]:
        """See `TrainingData`; does not depend on how the rows are cut into partitions."""
        parts = [part for part in self.partitions.ask(_checksum) if part.size]
        return (np.asarray(np.sum(parts, axis=0, dtype=np.uint64)), *arrays_of(self.valid))

    def summary(self, noise: ErrorClasses | None) -> tuple[PatternMoments, float, float]:
        """See `TrainingData`."""
        summary = self._summary if noise is None else self._summarise(noise)[0]
        return summary, *target_moments(self._target)

    def sample(self, size: int, rng: np.random.Generator) -> RawRows:
        """See `TrainingData`."""
        return self._draw(size, int(rng.integers(2**31)))

    def _draw(self, size: int, seed: int) -> RawRows:
        choice = Choice(self.seed, self._train.fraction, False, (seed, min(1.0, size / self.n)))
        return RawRows.join(self.partitions.ask(_select, choice))

    def engine(self, map_: Standardisation, width: int, n_threads: int | None, n_rows: int | None = None) -> Engine:
        """See `TrainingData`; a small subset is fetched into this process."""
        if n_rows is None or n_rows >= self.n:
            return self.partitions.engine(self._train, map_, width, None)
        if n_rows <= MAX_STREAM_SUBSET:
            return ThreadEngine(*map_.rows(self._draw(n_rows, self.seed + 1)), width=width, n_threads=n_threads)
        choice = Choice(self.seed, self._train.fraction, False, (self.seed + 1, n_rows / self.n))
        return self.partitions.engine(choice, map_, width, None)

    def validation(self, map_: Standardisation, width: int, n_threads: int | None) -> Engine | None:
        """See `TrainingData`."""
        if self.valid is None:
            return None
        return ThreadEngine(*map_.rows(self.valid), width=width, n_threads=n_threads, keep_bytes=0)

    def everything(self, map_: Standardisation, width: int, n_threads: int | None) -> Engine:
        """See `TrainingData`."""
        return self.partitions.engine(self._all, map_, width, 0)
