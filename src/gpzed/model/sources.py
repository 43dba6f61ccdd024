"""Where training rows come from: memory, a stream, or the workers of a cluster; each member has its own split."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from gpzed.incomplete.patterns import RawRows
from gpzed.model.data import ArrayData, StreamData, TrainingData, merge_duplicates, split_rows
from gpzed.model.inputs import (
    CheckedChunks,
    check_rows,
    check_validation,
    is_lazy,
    require_observations,
    require_rows,
    validate_table,
)

if TYPE_CHECKING:
    from gpzed.model.estimator import GPzRegressor

Given = tuple[Any, Any, Any, Any]
"""X, y, sample_weight and X_std as a caller gave them."""

SHARED_PART = 0.5
"""Part of the held-out rows that all members of a committee have in common, where these serve recalibration."""


class Source(Protocol):
    """Training rows of all members."""

    @property
    def n(self) -> int:
        """Number of rows."""
        ...

    def data(self, rng: np.random.Generator) -> TrainingData:
        """Return the rows as one member sees them, some held out."""

    def unseen(self, data: TrainingData) -> RawRows | None:
        """Return the rows that no member was trained on, given the data of the first."""


@runtime_checkable
class RowsOnCluster(Protocol):
    """Rows that the workers of a cluster hold."""

    def split(self, fraction: float, valid: RawRows | None, seed: int) -> TrainingData:
        """Return the rows as one member sees them, some held out."""


def rows_in_memory(model: GPzRegressor, given: Given, validation_data: Any, client: Any) -> Source:
    """Check rows of this process; with a client, they are sent to the workers of its cluster."""
    rows = check_rows(model, *given)
    if model.weighting == "likelihood":
        rows = merge_duplicates(rows)
    valid = check_validation(model, validation_data, rows.X_std is not None)
    return _RowsInMemory(rows, valid, model.validation_fraction, _are_shared(model), client)


def rows_of_collections(model: GPzRegressor, given: Given, validation_data: Any, client: Any) -> Source:
    """Check Dask collections: loaded by the workers of a cluster, or computed on every pass without one."""
    X, y, sample_weight, X_std = given
    if X_std is not None:
        raise TypeError("`X_std` is given with a Dask collection; expected delayed chunks with it: `fit_stream`.")
    from gpzed.distributed.collections import partitions, template

    validate_table(model, template(X))
    return _delayed_rows(model, partitions(X, y, sample_weight), validation_data, client)


def rows_of_stream(model: GPzRegressor, source: Iterable[Any], validation_data: Any, client: Any) -> Source:
    """Check chunks of rows that are reread on every pass, or delayed ones that the workers of a cluster load."""
    if iter(source) is source:
        raise TypeError(
            "`source` can be iterated over only once (a generator); training reads it many times. Give a list, "
            "or an object whose __iter__ starts from the beginning."
        )
    first = next(iter(source), None)
    if first is None:
        raise ValueError("`source` has no chunks; expected at least one (X, y) pair.")
    if is_lazy(first):
        from gpzed.distributed.collections import head

        chunks = list(source)
        validate_table(model, head(chunks[0], client), ensure_min_samples=0)
        return _delayed_rows(model, chunks, validation_data, client)
    if client is not None:
        raise TypeError(
            "a `cluster` is given but the chunks of `source` are in this process; expected a list of dask.delayed "
            "chunks, which workers can load. Use `fit` for rows in memory, or leave out `cluster`."
        )
    validate_table(model, first[0], ensure_min_samples=1, ensure_all_finite=model._all_finite)
    return _chunked_rows(model, source, validation_data)


def _delayed_rows(model: GPzRegressor, chunks: list[Any], validation_data: Any, client: Any) -> Source:
    if client is None:
        return _chunked_rows(model, chunks, validation_data)
    from gpzed.distributed.data import Partitions

    is_gap = model.missing == "marginalise"
    loaded = Partitions(client, chunks, model.n_features_in_, _feature_names(model), missing=is_gap)
    valid = check_validation(model, validation_data, loaded.has_errors)
    require_rows(loaded.n)
    require_observations(loaded.observed)
    return _ChunkedRows(loaded, loaded.n, valid, model.validation_fraction, _are_shared(model))


def _chunked_rows(model: GPzRegressor, source: Iterable[Any], validation_data: Any) -> Source:
    is_gap = model.missing == "marginalise"
    chunks = CheckedChunks(source, model.n_features_in_, _feature_names(model), missing=is_gap)
    n, observed, has_errors = chunks.survey()
    require_rows(n)
    require_observations(observed)
    valid = check_validation(model, validation_data, has_errors)
    return _ChunkedRows(chunks, n, valid, model.validation_fraction, _are_shared(model))


def _are_shared(model: GPzRegressor) -> bool:
    """Say whether all members hold out some rows in common, for recalibration."""
    return model.calibrate in ("global", "local") and model.n_members > 1


def _feature_names(model: GPzRegressor) -> list[str] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


@dataclass(frozen=True)
class _RowsInMemory:
    """Rows of this process; with a client, sent to the workers of its cluster."""

    rows: RawRows
    valid: RawRows | None
    fraction: float
    are_shared: bool
    client: Any

    @property
    def n(self) -> int:
        return len(self.rows.y)

    def data(self, rng: np.random.Generator) -> TrainingData:
        is_part = self.valid is None
        shared = SHARED_PART if self.are_shared else 0.0
        train, held = split_rows(self.rows, self.fraction if is_part else 0.0, rng, shared)
        parts = (train, held if is_part else self.valid)
        if self.client is None:
            return ArrayData(*parts, valid_is_part=is_part)
        from gpzed.distributed.data import SpreadData

        return SpreadData(self.client, *parts, valid_is_part=is_part)

    def unseen(self, data: TrainingData) -> RawRows | None:
        rows: RawRows | None = getattr(data, "valid", None)
        if rows is None or self.valid is not None or not self.are_shared:
            return rows
        return rows.take(slice(round(SHARED_PART * len(rows.y))))


@dataclass(frozen=True)
class _ChunkedRows:
    """Rows that are reread on every pass, or kept by the workers of a cluster."""

    chunks: Iterable[RawRows] | RowsOnCluster
    n: int
    valid: RawRows | None
    fraction: float
    are_shared: bool

    def data(self, rng: np.random.Generator) -> TrainingData:
        seed = 0 if self.are_shared else int(rng.integers(2**31))
        if isinstance(self.chunks, RowsOnCluster):
            return self.chunks.split(self.fraction, self.valid, seed)
        return StreamData(self.chunks, self.fraction, self.valid, seed)

    def unseen(self, data: TrainingData) -> RawRows | None:
        rows: RawRows | None = getattr(data, "valid", None)
        return rows
