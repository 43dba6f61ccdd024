"""Where training rows come from: arrays in memory, or chunks read again on every pass.

Training asks for few things only (`TrainingData`), so that another source, such as a cluster, can be added
without a change to the mathematics or to the training loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gpzed._types import AnyArray
from gpzed.core.engine import Engine, Rows, StreamEngine, ThreadEngine
from gpzed.model.whitening import Moments, Whitening

MIN_VALIDATION = 10
"""Fewer rows than this cannot choose an iterate: all are trained on, and the evidence alone decides."""
MAX_STREAM_SUBSET = 100_000
"""Rows of a stream that an early stage of training may hold in memory."""
MAX_STREAM_VALIDATION = 50_000
"""Rows of a stream that are held out in memory at most: the score is then good to about 0.005."""


@dataclass(frozen=True)
class Standardisation:
    """Maps raw inputs and targets to those of the model, and predictions back.

    Attributes
    ----------
    whitening : Whitening
    y_mean, y_scale : float
    """

    whitening: Whitening
    y_mean: float
    y_scale: float

    def rows(self, rows: Rows) -> Rows:
        """Standardise inputs and targets; weights pass."""
        X, y, omega = rows
        return self.whitening(X), (y - self.y_mean) / self.y_scale, omega


class TrainingData(Protocol):
    """What training needs of its data."""

    n: int
    d: int

    def identity(self) -> tuple[AnyArray, ...]:
        """Arrays that tell these data from others, for the checkpoint's fingerprint."""
        ...

    def stages(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Rows of each stage of training, of those proposed: what can be held."""
        ...

    def moments(self) -> tuple[Moments, float, float]:
        """Moments of the inputs; weighted mean and standard deviation of the target."""
        ...

    def sample(self, size: int, rng: np.random.Generator) -> Rows:
        """About `size` training rows at random."""
        ...

    def engine(self, map_: Standardisation, width: int, n_threads: int | None, n_rows: int | None = None) -> Engine:
        """Engine over the training rows, or over a fixed random subset of `n_rows` of them."""
        ...

    def validation(self, map_: Standardisation, width: int, n_threads: int | None) -> Engine | None:
        """Engine over the rows held out."""
        ...

    def everything(self, map_: Standardisation, width: int, n_threads: int | None) -> Engine:
        """Engine over all rows that belong to the training set, those held out from it included."""
        ...


def split_rows(rows: Rows, fraction: float, rng: np.random.Generator, shared: float = 0.0) -> tuple[Rows, Rows | None]:
    """Hold out a random `fraction` of rows for validation; none where that would leave too few to judge by.

    A part `shared` of those held out is the same in every split of the same rows, and comes first.
    """
    n = len(rows[1])
    n_valid = round(fraction * n)
    order = rng.permutation(n)
    if n_valid < MIN_VALIDATION:
        return take(rows, order), None
    if shared:
        common = np.random.default_rng(0).permutation(n)[: round(shared * n_valid)]
        order = np.concatenate([common, order[~np.isin(order, common)]])
    return take(rows, order[n_valid:]), take(rows, order[:n_valid])


def take(rows: Rows, index: np.ndarray | slice) -> Rows:
    """Rows by number, mask or slice."""
    X, y, omega = rows
    return X[index], y[index], omega[index]


class ArrayData:
    """Rows in memory, in random order.

    Parameters
    ----------
    train : (X, y, omega)
    valid : (X, y, omega) or None
    valid_is_part : bool
        Whether the rows held out may serve the final posterior of the weights.
    """

    def __init__(self, train: Rows, valid: Rows | None, *, valid_is_part: bool = True) -> None:
        self.train, self.valid, self.valid_is_part = train, valid, valid_is_part
        self.n, self.d = train[0].shape

    def stages(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """See `TrainingData`."""
        return sizes

    def identity(self) -> tuple[AnyArray, ...]:
        """See `TrainingData`."""
        return (*self.train, *(self.valid or ()))

    def moments(self) -> tuple[Moments, float, float]:
        """See `TrainingData`."""
        X, y, omega = self.train
        return Moments.of(X, omega), *target_moments(Moments.of(y[:, None], omega))

    def sample(self, size: int, rng: np.random.Generator) -> Rows:
        """See `TrainingData`."""
        return take(self.train, rng.permutation(self.n)[:size])

    def over(self, rows: Rows, map_: Standardisation, width: int, n_threads: int | None, **options: Any) -> Engine:
        """Engine over rows of this process; a cluster puts another one in its place."""
        return ThreadEngine(*map_.rows(rows), width=width, n_threads=n_threads, **options)

    def engine(self, map_: Standardisation, width: int, n_threads: int | None, n_rows: int | None = None) -> Engine:
        """See `TrainingData`."""
        return self.over(take(self.train, slice(n_rows)), map_, width, n_threads)

    def validation(self, map_: Standardisation, width: int, n_threads: int | None) -> Engine | None:
        """See `TrainingData`."""
        if self.valid is None:
            return None
        return self.over(self.valid, map_, width, n_threads, keep_bytes=0)

    def everything(self, map_: Standardisation, width: int, n_threads: int | None) -> Engine:
        """See `TrainingData`."""
        rows = self.train
        if self.valid is not None and self.valid_is_part:
            X, y, omega = (np.concatenate(pair) for pair in zip(self.train, self.valid, strict=True))
            rows = X, y, omega
        return self.over(rows, map_, width, n_threads, keep_bytes=0)


class StreamData:
    """Rows from a source that can be read again and again, in constant memory.

    Parameters
    ----------
    source : iterable of (X, y, omega)
        The same chunks on every pass.
    fraction : float
        Part of the rows held out, until `MAX_STREAM_VALIDATION` are; ignored if `valid` is given.
    valid : (X, y, omega) or None
    seed : int
        Decides which rows are held out, chunk by chunk.
    """

    def __init__(self, source: Iterable[Rows], fraction: float, valid: Rows | None, seed: int) -> None:
        self.source, self.seed, self.fraction = source, seed, fraction
        self.is_split = valid is None and fraction > 0.0
        self.n, self.d, held, n_all = 0, 0, [], 0
        total: Moments | None = None
        target: Moments | None = None
        n_total = sum(len(y) for _, y, _ in source)
        if round(fraction * n_total) < MIN_VALIDATION:
            self.is_split = False
        self.fraction = min(fraction, MAX_STREAM_VALIDATION / max(n_total, 1))
        for (X, y, omega), is_held in self._marked():
            n_all += len(y)
            if self.is_split:
                held.append(take((X, y, omega), is_held))
                X, y, omega = take((X, y, omega), ~is_held)
            if not len(y):
                continue
            self.n, self.d = self.n + len(y), X.shape[1]
            total = Moments.of(X, omega) if total is None else total + Moments.of(X, omega)
            part = Moments.of(y[:, None], omega)
            target = part if target is None else target + part
        if total is None or target is None:
            raise ValueError("`source` has no row with a positive weight; expected at least 2 rows to train on.")
        self._moments, self._target = total, target
        self.valid = valid
        if self.is_split:
            X, y, omega = (np.concatenate(parts) for parts in zip(*held, strict=True))
            self.valid = (X, y, omega)

    def _marked(self) -> Iterator[tuple[Rows, np.ndarray]]:
        for index, rows in enumerate(self.source):
            rng = np.random.default_rng([self.seed, index])
            yield rows, rng.random(len(rows[1])) < self.fraction

    def _train_rows(self) -> Iterator[Rows]:
        for rows, is_held in self._marked():
            yield take(rows, ~is_held) if self.is_split else rows

    def stages(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """See `TrainingData`; subsets are held in memory, so only small ones."""
        return (*(size for size in sizes[:-1] if size <= MAX_STREAM_SUBSET), sizes[-1])

    def identity(self) -> tuple[AnyArray, ...]:
        """See `TrainingData`."""
        parts = (self._moments, self._target)
        return tuple(array for part in parts for array in (part.mean, part.scatter)) + tuple(self.valid or ())

    def moments(self) -> tuple[Moments, float, float]:
        """See `TrainingData`."""
        return self._moments, *target_moments(self._target)

    def sample(self, size: int, rng: np.random.Generator) -> Rows:
        """See `TrainingData`."""
        share = min(1.0, size / self.n)
        picked = [take(rows, rng.random(len(rows[1])) < share) for rows in self._train_rows()]
        X, y, omega = (np.concatenate(parts) for parts in zip(*picked, strict=True))
        return X, y, omega

    def engine(self, map_: Standardisation, width: int, n_threads: int | None, n_rows: int | None = None) -> Engine:
        """See `TrainingData`."""
        if n_rows is not None and n_rows < self.n:
            rows = self.sample(n_rows, np.random.default_rng(self.seed))
            return ThreadEngine(*map_.rows(rows), width=width, n_threads=n_threads)
        return StreamEngine(_Mapped(self._train_rows, map_), width=width, n_threads=n_threads)

    def validation(self, map_: Standardisation, width: int, n_threads: int | None) -> Engine | None:
        """See `TrainingData`."""
        if self.valid is None:
            return None
        return ThreadEngine(*map_.rows(self.valid), width=width, n_threads=n_threads, keep_bytes=0)

    def everything(self, map_: Standardisation, width: int, n_threads: int | None) -> Engine:
        """See `TrainingData`."""
        source = _Mapped(lambda: iter(self.source), map_) if self.is_split else _Mapped(self._train_rows, map_)
        return StreamEngine(source, width=width, n_threads=n_threads)


class _Mapped:
    """Chunks of a source, standardised on the way."""

    def __init__(self, rows: object, map_: Standardisation) -> None:
        self._rows, self._map = rows, map_

    def __iter__(self) -> Iterator[Rows]:
        return (self._map.rows(rows) for rows in self._rows())  # type: ignore[operator]


def target_moments(moments: Moments) -> tuple[float, float]:
    """Mean of the target and the scale to divide it by."""
    scale = float(np.sqrt(moments.scatter[0, 0] / moments.weight))
    mean = float(moments.mean[0])
    if scale <= 1e-12 * abs(mean):
        scale = 1.0  # all targets equal: nothing to scale
    return mean, scale


def merge_duplicates(rows: Rows) -> Rows:
    """Merge identical rows into one with the sum of their weights, and put rows into an order of their own.

    The likelihood is the same, and the fit no longer depends on the order in which the rows came.
    """
    X, y, omega = rows
    coefficients = np.random.default_rng(0).standard_normal(X.shape[1] + 1)
    key = y * coefficients[0]
    for column, coefficient in zip(X.T, coefficients[1:], strict=True):
        key = key + column * coefficient
    order = np.lexsort((y, *X.T[::-1], key)) if len(y) < 2000 else np.argsort(key, kind="stable")
    X, y, omega = X[order], y[order], omega[order]
    is_new = np.ones(len(y), dtype=bool)
    is_new[1:] = np.any(X[1:] != X[:-1], axis=1) | (y[1:] != y[:-1])
    if is_new.all():
        return X, y, omega
    return X[is_new], y[is_new], np.add.reduceat(omega, np.flatnonzero(is_new))
