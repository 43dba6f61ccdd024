"""Where training rows come from: memory, a stream, or the workers of a cluster; each member splits them anew."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from gpzed.incomplete.patterns import RawRows
from gpzed.model.data import ArrayData, StreamData, TrainingData, split_rows

SHARED_PART = 0.5
"""Part of the held-out rows that all members of a committee have in common, where these serve recalibration."""


class Source(Protocol):
    """Training rows of all members.

    Attributes
    ----------
    n : int
        Number of rows.
    """

    n: int

    def data(self, rng: np.random.Generator) -> TrainingData:
        """Return the rows as one member sees them, some held out."""

    def unseen(self, data: TrainingData) -> RawRows | None:
        """Return the rows that no member was trained on, given the data of the first."""


@runtime_checkable
class RowsOnCluster(Protocol):
    """Rows that the workers of a cluster hold."""

    def split(self, fraction: float, valid: RawRows | None, seed: int) -> TrainingData:
        """Return the rows as one member sees them, some held out."""


class RowsInMemory:
    """Rows of this process; with a client, sent to the workers of its cluster."""

    def __init__(
        self, rows: RawRows, valid: RawRows | None, fraction: float, *, are_shared: bool, client: Any = None
    ) -> None:
        self.rows, self.valid, self.client = rows, valid, client
        self.fraction = fraction if valid is None else 0.0
        self.shared = SHARED_PART if are_shared else 0.0
        self.n = len(rows.y)

    def data(self, rng: np.random.Generator) -> TrainingData:
        """See `Source`."""
        train, held = split_rows(self.rows, self.fraction, rng, self.shared)
        is_part = self.valid is None
        parts = (train, held if is_part else self.valid)
        if self.client is None:
            return ArrayData(*parts, valid_is_part=is_part)
        from gpzed.distributed.data import SpreadData

        return SpreadData(self.client, *parts, valid_is_part=is_part)

    def unseen(self, data: TrainingData) -> RawRows | None:
        """See `Source`."""
        rows: RawRows | None = getattr(data, "valid", None)
        if rows is None or self.valid is not None or not self.shared:
            return rows
        return rows.take(slice(round(self.shared * len(rows.y))))


class ChunkedRows:
    """Rows that are read anew on every pass, or are kept by the workers of a cluster."""

    def __init__(
        self,
        chunks: Iterable[RawRows] | RowsOnCluster,
        n: int,
        valid: RawRows | None,
        fraction: float,
        *,
        are_shared: bool,
    ) -> None:
        self.chunks, self.n, self.valid, self.fraction, self.are_shared = chunks, n, valid, fraction, are_shared

    def data(self, rng: np.random.Generator) -> TrainingData:
        """See `Source`."""
        seed = 0 if self.are_shared else int(rng.integers(2**31))
        if isinstance(self.chunks, RowsOnCluster):
            return self.chunks.split(self.fraction, self.valid, seed)
        return StreamData(self.chunks, self.fraction, self.valid, seed)

    def unseen(self, data: TrainingData) -> RawRows | None:
        """See `Source`."""
        rows: RawRows | None = getattr(data, "valid", None)
        return rows
