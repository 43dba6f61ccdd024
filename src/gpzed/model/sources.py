"""Where training rows come from: memory, a stream, or the workers of a cluster; each member has its own split."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpzed._types import BoolArray
from gpzed.incomplete.patterns import RawRows
from gpzed.model.data import ArrayData, StreamData, TrainingData, merge_duplicates, split_rows
from gpzed.model.inputs import (
    OPTIONAL_PARTS,
    CheckedChunks,
    check_assumed,
    check_rows,
    check_validation,
    is_lazy,
    require_observations,
    validate_table,
)
from gpzed.model.recalibration import MIN_ROWS
from gpzed.model.wrong_labels import settle_rate, with_wrong_rate

if TYPE_CHECKING:
    from gpzed.model.estimator import GPzRegressor

Given = tuple[Any, Any, Any, Any, Any, Any]
"""X, y, sample_weight, X_std, y_std and y_wrong as a caller gave them."""

SHARED_PART = 0.5
"""Part of the held-out rows that all members of a committee have in common, where these serve recalibration."""


@dataclass(frozen=True)
class Source:
    """Training rows of all members: their number `n`, and how `data` splits them for one, by generator and number.

    The first part `shared` of the held-out rows is the same for all members: all of them if 1, none if 0. The part
    `wrong_rate` of the targets of which nothing else is known is taken to be wrong.
    """

    n: int
    data: Callable[[np.random.Generator, int], TrainingData]
    shared: float = 1.0
    wrong_rate: float = 0.0

    def unseen(self, data: TrainingData) -> RawRows | None:
        """Return the rows that no member was trained on, given the data of the first."""
        rows: RawRows | None = getattr(data, "valid", None)
        return None if rows is None else rows.take(slice(round(self.shared * len(rows.y))))


def rows_in_memory(
    model: GPzRegressor, given: Given, validation_data: Any, client: Any, assumed: npt.ArrayLike | None = None
) -> Source:
    """Check rows of this process; with a client, they are sent to the workers of its cluster.

    Every second member does without those that are `assumed`.
    """
    rows = check_rows(model, *given)
    rate = settle_rate(model, rows)
    rows = with_wrong_rate(rows, rate)
    kinds = [rows]
    if assumed is not None:
        if validation_data is None:
            raise ValueError("`assumed` is given without `validation_data`; expected rows that all members hold out.")
        kinds.append(rows.take(np.flatnonzero(~check_assumed(assumed, *given))))
    if model.weighting == "likelihood":
        kinds = [merge_duplicates(each) for each in kinds]
    valid = check_validation(model, validation_data, rows.X_std is not None)
    if valid is not None:
        valid = with_wrong_rate(valid, rate)
    is_part = valid is None
    fraction = model.validation_fraction if is_part else 0.0
    shared = 1.0 if model.n_members == 1 or not is_part else SHARED_PART * _are_shared(model, len(kinds[0].y))

    def data(rng: np.random.Generator, member: int) -> TrainingData:
        train, held = split_rows(kinds[member % len(kinds)], fraction, rng, shared if model.n_members > 1 else 0.0)
        if client is None:
            return ArrayData(train, held if is_part else valid, valid_is_part=is_part)
        from gpzed.distributed.data import SpreadData

        return SpreadData(client, train, held if is_part else valid, valid_is_part=is_part)

    return Source(len(kinds[0].y), data, shared, rate)


def rows_of_collections(model: GPzRegressor, given: Given, validation_data: Any, client: Any) -> Source:
    """Check Dask collections: loaded by the workers of a cluster, or computed on every pass without one."""
    X, y, sample_weight, *others = given
    for name, other in zip(OPTIONAL_PARTS, others, strict=True):
        if other is not None:
            raise TypeError(f"`{name}` is given with a Dask collection; expected delayed chunks with it: `fit_stream`.")
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

    names, rate = _feature_names(model), _known_rate(model)
    d, missing = model.n_features_in_, model._allows_gaps
    loaded = Partitions(client, chunks, d, names, missing=missing, wrong_rate=rate)
    return _reread_rows(model, (loaded.n, loaded.observed, loaded.has_errors), validation_data, loaded.split)


def _chunked_rows(model: GPzRegressor, source: Iterable[Any], validation_data: Any) -> Source:
    names, rate = _feature_names(model), _known_rate(model)
    chunks = CheckedChunks(source, model.n_features_in_, names, missing=model._allows_gaps, wrong_rate=rate)
    return _reread_rows(model, chunks.survey(), validation_data, partial(StreamData, chunks))


def _reread_rows(
    model: GPzRegressor,
    found: tuple[int, BoolArray, bool],
    validation_data: Any,
    split: Callable[[float, RawRows | None, int], TrainingData],
) -> Source:
    """Return rows that are reread on every pass, or kept by workers, given their survey and how they are split."""
    n, observed, has_errors = found
    if n < 2:
        raise ValueError(f"`source` has {n} rows with a positive weight; expected at least 2 to train on.")
    require_observations(observed)
    valid, rate = check_validation(model, validation_data, has_errors), _known_rate(model)
    if valid is not None:
        valid = with_wrong_rate(valid, rate)
    are_shared = _are_shared(model, n)

    def data(rng: np.random.Generator, member: int) -> TrainingData:
        return split(model.validation_fraction, valid, 0 if are_shared else int(rng.integers(2**31)))

    return Source(n, data, float(are_shared or model.n_members == 1 or valid is not None), rate)


def _known_rate(model: GPzRegressor) -> float:
    """Return the rate of wrong labels; with "auto", which takes rows in memory, none are."""
    return 0.0 if model.wrong_labels == "auto" else float(model.wrong_labels)


def _are_shared(model: GPzRegressor, n: int) -> bool:
    """Say whether all members hold out some of n rows in common: for recalibration, if these are enough for it."""
    is_enough = SHARED_PART * model.validation_fraction * n >= MIN_ROWS
    return model.calibrate in ("global", "local") and model.n_members > 1 and is_enough


def _feature_names(model: GPzRegressor) -> list[str] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]
