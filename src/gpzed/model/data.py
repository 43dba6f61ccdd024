"""Where training rows come from: arrays in memory, or chunks read again on every pass.

Training asks for few things only (`TrainingData`), so that another source, such as a cluster, can be added
without a change to the mathematics or to the training loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from gpzed._types import AnyArray, FloatArray
from gpzed.engine.blocks import Engine, Rows
from gpzed.engine.stream import StreamEngine
from gpzed.engine.threads import ThreadEngine
from gpzed.gp.whitening import Moments, Whitening, WhiteningMethod, fit_whitening
from gpzed.incomplete.parts import PatternTable, RowParts, parts_with_errors
from gpzed.incomplete.patterns import (
    MIXTURE_ROWS,
    ErrorClasses,
    InputModel,
    PatternMoments,
    RawRows,
    fit_inputs,
    patterns_of,
)

MISSING = 1e6 * np.pi
"""Stands for a missing input where rows are put into order."""
MIN_VALIDATION = 10
"""Fewer rows than this cannot choose an iterate: all are trained on, and the evidence alone decides."""
MAX_STREAM_SUBSET = 100_000
"""Rows of a stream that an early stage of training may hold in memory."""
MAX_STREAM_VALIDATION = 50_000
"""Rows of a stream that are held out in memory at most: the score is then good to about 0.005."""


@dataclass(frozen=True)
class Standardisation:
    """Maps raw inputs and targets to those of the model, and predictions back; `table` serves training only."""

    whitening: Whitening
    y_mean: float
    y_scale: float
    inputs: InputModel
    table: PatternTable | None = None

    def parts(self, X: FloatArray, X_std: FloatArray | None = None) -> tuple[RowParts, PatternTable]:
        """Parts of raw rows, and the blurs of rows among them; in prediction."""
        if X_std is not None:
            return parts_with_errors(X, X_std, self.inputs, self.whitening), self._complete
        if not np.isnan(X).any():
            return RowParts(self.whitening(X)), self._complete
        table = PatternTable(self.inputs, self.whitening, patterns_of(X)[0])
        return table.parts(X), table

    @cached_property
    def _complete(self) -> PatternTable:
        """The table of rows without gaps."""
        return PatternTable(self.inputs, self.whitening, ())

    def expected(self, X: FloatArray, X_std: FloatArray | None = None) -> FloatArray:
        """Whitened inputs (n, d), expected ones where raw inputs are missing or noisy."""
        parts, _ = self.parts(X, X_std)
        return parts.average(parts.X, len(X))

    def rows(self, rows: RawRows) -> Rows:
        """Standardise inputs and targets; the parts of a row with gaps or errors share its weight."""
        assert self.table is not None
        X, blur, row, _, probability, _ = self.table.parts(rows.X, rows.X_std)
        y = (rows.y - self.y_mean) / self.y_scale
        variance = None if rows.y_std is None else (rows.y_std / self.y_scale) ** 2
        if row is None or probability is None:
            return Rows(X, y, rows.omega, None, variance, rows.wrong)
        labels = (None if array is None else array[row] for array in (variance, rows.wrong))
        return Rows(X, y[row], rows.omega[row] * probability, blur, *labels)


class TrainingData(Protocol):
    """What training needs of its data."""

    n: int
    d: int
    has_errors: bool
    """Whether inputs come with standard errors."""
    has_doubts: bool
    """Whether targets may be wrong."""

    def identity(self) -> tuple[AnyArray, ...]:
        """Arrays that tell these data from others, for the checkpoint's fingerprint."""
        ...

    def stages(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Rows of each stage of training, of those proposed: what can be held."""
        ...

    def summary(self, noise: ErrorClasses | None) -> tuple[PatternMoments, float, float]:
        """Moments of the inputs, by pattern and class of errors; weighted mean and standard deviation of the target."""
        ...

    def sample(self, size: int, rng: np.random.Generator) -> RawRows:
        """About `size` training rows at random."""
        ...

    def engine(self, map_: Standardisation, width: int, n_threads: int | None, n_rows: int | None = None) -> Engine:
        """Engine over the training rows, or over a fixed random subset of `n_rows` of them."""
        ...

    def validation(self, map_: Standardisation, width: int, n_threads: int | None) -> Engine | None:
        """Engine over the held-out rows."""
        ...

    def everything(self, map_: Standardisation, width: int, n_threads: int | None) -> Engine:
        """Engine over all rows that belong to the training set, held-out ones included."""
        ...


def fit_standardisation(
    data: TrainingData, whitening: WhiteningMethod, density_components: int | None = None, noise_classes: int = 16
) -> Standardisation:
    """Learn the maps of inputs and target, and what there is to know of inputs that are missing or noisy."""
    noise = sample = None
    if data.has_errors:
        sample = data.sample(MIXTURE_ROWS, np.random.default_rng(0))
        assert sample.X_std is not None
        noise = ErrorClasses.fit(sample.X, sample.X_std, noise_classes)
    summary, y_mean, y_scale = data.summary(noise)
    if sample is None and (density_components not in (None, 1) or not summary.is_complete):
        sample = data.sample(MIXTURE_ROWS, np.random.default_rng(0))
    inputs, single, moments = fit_inputs(summary, noise, sample, density_components)
    map_ = fit_whitening(moments, whitening)
    table = PatternTable(inputs, map_, summary.patterns, single, summary.rare, summary.uncertain_share)
    return Standardisation(map_, y_mean, y_scale, inputs, table)


def density_size(data: TrainingData, noise_classes: int = 16) -> int:
    """Return how many Gaussians held-out rows want in the density of the inputs; one if there are no gaps or errors."""
    return len(fit_standardisation(data, "none", None, noise_classes).inputs.density.weights)


def split_rows(
    rows: RawRows, fraction: float, rng: np.random.Generator, shared: float = 0.0
) -> tuple[RawRows, RawRows | None]:
    """Hold out a random `fraction` of rows for validation; none where that would leave too few to judge by.

    A part `shared` of the held-out rows is the same in every split of the same rows, and comes first.
    """
    n = len(rows.y)
    n_valid = round(fraction * n)
    order = rng.permutation(n)
    if n_valid < MIN_VALIDATION:
        return rows.take(order), None
    if shared:
        common = np.random.default_rng(0).permutation(n)[: round(shared * n_valid)]
        order = np.concatenate([common, order[~np.isin(order, common)]])
    return rows.take(order[n_valid:]), rows.take(order[:n_valid])


class ArrayData:
    """Rows in memory, in random order; `valid_is_part` lets held-out ones serve the final posterior of the weights."""

    def __init__(self, train: RawRows, valid: RawRows | None, *, valid_is_part: bool = True) -> None:
        self.train, self.valid, self.valid_is_part = train, valid, valid_is_part
        self.n, self.d = train.X.shape
        self.has_errors, self.has_doubts = train.X_std is not None, train.wrong is not None

    def stages(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """See `TrainingData`."""
        return sizes

    def identity(self) -> tuple[AnyArray, ...]:
        """See `TrainingData`."""
        return arrays_of(self.train) + arrays_of(self.valid)

    def summary(self, noise: ErrorClasses | None) -> tuple[PatternMoments, float, float]:
        """See `TrainingData`."""
        target = target_moments(Moments.of(self.train.y[:, None], self.train.omega))
        return PatternMoments.of(self.train, noise).with_held_out(self.valid, noise), *target

    def sample(self, size: int, rng: np.random.Generator) -> RawRows:
        """See `TrainingData`."""
        return self.train.take(rng.permutation(self.n)[:size])

    def over(self, rows: RawRows, map_: Standardisation, width: int, n_threads: int | None, **options: Any) -> Engine:
        """Engine over rows of this process; a cluster puts another one in its place."""
        return ThreadEngine(*map_.rows(rows), width=width, n_threads=n_threads, **options)

    def engine(self, map_: Standardisation, width: int, n_threads: int | None, n_rows: int | None = None) -> Engine:
        """See `TrainingData`."""
        return self.over(self.train.take(slice(n_rows)), map_, width, n_threads)

    def validation(self, map_: Standardisation, width: int, n_threads: int | None) -> Engine | None:
        """See `TrainingData`."""
        if self.valid is None:
            return None
        return self.over(self.valid, map_, width, n_threads, keep_bytes=0)

    def everything(self, map_: Standardisation, width: int, n_threads: int | None) -> Engine:
        """See `TrainingData`."""
        rows = self.train
        if self.valid is not None and self.valid_is_part:
            rows = RawRows.join([self.train, self.valid])
        return self.over(rows, map_, width, n_threads, keep_bytes=0)


def arrays_of(rows: RawRows | None) -> tuple[AnyArray, ...]:
    """Arrays that rows consist of."""
    return () if rows is None else tuple(array for array in rows if array is not None)


class StreamData:
    """Rows from a source that can be read again and again, in constant memory.

    A `fraction` of every chunk is held out, by `seed`, until `MAX_STREAM_VALIDATION` rows are; none if `valid` is
    given.
    """

    def __init__(self, source: Iterable[RawRows], fraction: float, valid: RawRows | None, seed: int) -> None:
        self.source, self.seed = source, seed
        n_total = sum(len(rows.y) for rows in source)
        self.is_split = valid is None and round(fraction * n_total) >= MIN_VALIDATION
        self.fraction = min(fraction, MAX_STREAM_VALIDATION / max(n_total, 1))
        self.n, self.d, held, self.has_errors, self.has_doubts = 0, 0, [], False, False
        target: Moments | None = None
        for rows, is_held in self._marked():
            if self.is_split:
                held.append(rows.take(is_held))
                rows = rows.take(~is_held)
            if not len(rows.y):
                continue
            self.n, self.d = self.n + len(rows.y), rows.X.shape[1]
            self.has_errors, self.has_doubts = rows.X_std is not None, rows.wrong is not None
            part = Moments.of(rows.y[:, None], rows.omega)
            target = part if target is None else target + part
        if target is None:
            raise ValueError("`source` has no row with a positive weight; expected at least 2 rows to train on.")
        self._target = target
        self.valid = RawRows.join(held) if self.is_split else valid
        self._summary = self._summarise(None)

    def _summarise(self, noise: ErrorClasses | None) -> PatternMoments:
        total: PatternMoments | None = None
        for rows in self._train_rows():
            if len(rows.y):
                part = PatternMoments.of(rows, noise)
                total = part if total is None else total + part
        assert total is not None
        return total.with_held_out(self.valid, noise)

    def _marked(self) -> Iterator[tuple[RawRows, np.ndarray]]:
        for index, rows in enumerate(self.source):
            rng = np.random.default_rng([self.seed, index])
            yield rows, rng.random(len(rows.y)) < self.fraction

    def _train_rows(self) -> Iterator[RawRows]:
        for rows, is_held in self._marked():
            yield rows.take(~is_held) if self.is_split else rows

    def stages(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """See `TrainingData`; subsets are held in memory, so only small ones."""
        return (*(size for size in sizes[:-1] if size <= MAX_STREAM_SUBSET), sizes[-1])

    def identity(self) -> tuple[AnyArray, ...]:
        """See `TrainingData`."""
        parts = (*(self._summary.moments[pattern] for pattern in sorted(self._summary.moments)), self._target)
        return tuple(array for part in parts for array in (part.mean, part.scatter)) + arrays_of(self.valid)

    def summary(self, noise: ErrorClasses | None) -> tuple[PatternMoments, float, float]:
        """See `TrainingData`."""
        summary = self._summary if noise is None else self._summarise(noise)
        return summary, *target_moments(self._target)

    def sample(self, size: int, rng: np.random.Generator) -> RawRows:
        """See `TrainingData`."""
        share = min(1.0, size / self.n)
        return RawRows.join([rows.take(rng.random(len(rows.y)) < share) for rows in self._train_rows()])

    def engine(self, map_: Standardisation, width: int, n_threads: int | None, n_rows: int | None = None) -> Engine:
        """See `TrainingData`."""
        if n_rows is not None and n_rows < self.n:
            rows = self.sample(n_rows, np.random.default_rng(self.seed))
            return ThreadEngine(*map_.rows(rows), width=width, n_threads=n_threads)
        return StreamEngine(_Standardised(self._train_rows, map_), width=width, n_threads=n_threads)

    def validation(self, map_: Standardisation, width: int, n_threads: int | None) -> Engine | None:
        """See `TrainingData`."""
        if self.valid is None:
            return None
        return ThreadEngine(*map_.rows(self.valid), width=width, n_threads=n_threads, keep_bytes=0)

    def everything(self, map_: Standardisation, width: int, n_threads: int | None) -> Engine:
        """See `TrainingData`."""
        chunks = (lambda: iter(self.source)) if self.is_split else self._train_rows
        return StreamEngine(_Standardised(chunks, map_), width=width, n_threads=n_threads)


@dataclass(frozen=True)
class _Standardised:
    """Chunks of a source, standardised on the way."""

    chunks: Callable[[], Iterator[RawRows]]
    map_: Standardisation

    def __iter__(self) -> Iterator[Rows]:
        return map(self.map_.rows, self.chunks())


def target_moments(moments: Moments) -> tuple[float, float]:
    """Mean of the target and the scale to divide it by."""
    scale = float(np.sqrt(moments.scatter[0, 0] / moments.weight))
    mean = float(moments.mean[0])
    if scale <= 1e-12 * abs(mean):
        scale = 1.0  # all targets equal: nothing to scale
    return mean, scale


def merge_duplicates(rows: RawRows) -> RawRows:
    """Merge identical rows into one with the sum of their weights, and sort the rows.

    The likelihood is the same, and the fit no longer depends on the order of the rows.
    """
    y = rows.y
    labels = [array[:, None] for array in (rows.y_std, rows.wrong) if array is not None]
    X = np.hstack([rows.X, *([] if rows.X_std is None else [rows.X_std]), *labels])
    X = np.where(np.isnan(X), MISSING, X) if np.isnan(X).any() else X
    coefficients = np.random.default_rng(0).standard_normal(X.shape[1] + 1)
    code = y * coefficients[0]
    for column, coefficient in zip(X.T, coefficients[1:], strict=True):
        code = code + column * coefficient
    order = np.lexsort((y, *X.T[::-1], code)) if len(y) < 2000 else np.argsort(code, kind="stable")
    X, y, rows = X[order], y[order], rows.take(order)
    is_new = np.ones(len(y), dtype=bool)
    is_new[1:] = np.any(X[1:] != X[:-1], axis=1) | (y[1:] != y[:-1])
    if is_new.all():
        return rows
    return rows.take(is_new)._replace(omega=np.add.reduceat(rows.omega, np.flatnonzero(is_new)))
