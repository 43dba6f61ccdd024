"""The objects of a page in the order in which its slider keeps them, and ranges and bins for its figures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpzed._types import FloatArray, IntArray
from gpzed.evaluation.rejection import count_kept, order_by_variance
from gpzed.prediction import Prediction

PERCENT = np.arange(1, 101)
"""Percentages kept: the positions of the slider."""
OUTLIER = 0.15
"""Normalised error from which on an object counts as an outlier."""
BIN_WIDTH, MAX_BINS = 0.1, 40
"""Redshift bins: the paper's width, and their largest number."""


@dataclass(frozen=True)
class Sample:
    """Objects with the first position of the slider at which each is kept, from 0."""

    z: FloatArray | None  # (n,) true redshifts
    prediction: Prediction
    order: IntArray  # (n,) the most certain first
    counts: IntArray  # (100,) objects kept at each position
    position: IntArray  # (n,)

    @classmethod
    def of(cls, z: FloatArray | None, prediction: Prediction) -> Sample:
        """Order the objects of a prediction."""
        n = len(prediction)
        order = order_by_variance(prediction)
        counts = count_kept(n, PERCENT / 100)
        position = np.empty(n, dtype=np.intp)
        position[order] = np.searchsorted(counts, np.arange(n), side="right")
        return cls(z, prediction, order, counts, position)

    @property
    def error(self) -> FloatArray:
        """``(z_phot - z_spec) / (1 + z_spec)``, shape (n,); needs true redshifts."""
        assert self.z is not None
        return (self.prediction.z_phot - self.z) / (1 + self.z)

    def added(self) -> list[tuple[int, int]]:
        """Return first and last (excluded) rank of the objects that each position adds."""
        ends = self.counts.tolist()
        return list(zip([0, *ends[:-1]], ends, strict=True))


def limits(*samples: FloatArray) -> tuple[float, float]:
    """Return a range that holds all but a few in a thousand."""
    low, high = np.quantile(np.concatenate(samples), [0.0005, 0.9995])
    margin = 0.04 * max(high - low, 1e-3)
    return (0.0 if 0.0 <= low < 0.15 * high else float(low - margin)), float(high + margin)


def redshift_bins(values: FloatArray) -> FloatArray:
    """Return edges of bins of 0.1, or wider ones where there would be too many, that hold nearly all values."""
    low, high = np.quantile(values, [0.001, 0.999])
    width = BIN_WIDTH * max(1.0, np.ceil((high - low) / BIN_WIDTH / MAX_BINS))
    first, last = np.floor(low / width), np.floor(high / width) + 1
    edges: FloatArray = np.round(width * np.arange(first, last + 1), 10)
    return edges
