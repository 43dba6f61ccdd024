"""Cost weights of training rows: which redshifts, or which photometry, should count more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.spatial import cKDTree

from gpzed._types import FloatArray
from gpzed.errors import CatalogError, ConfigError

WeightMethod = Literal["none", "redshift", "balanced", "column"]
WEIGHT_METHODS: tuple[WeightMethod, ...] = ("none", "redshift", "balanced", "column")

MAX_TARGET_ROWS = 200_000
"""Rows of a target catalogue that are looked at, drawn at random: plenty for a density in a few bands."""

MAX_CAPPINGS = 100
"""Rounds of cutting and scaling at most; each moves the largest weight nearer to its limit."""


@dataclass(frozen=True)
class WeightConfig:
    """How much each training row counts.

    Parameters
    ----------
    method : {"none", "redshift", "balanced", "column"}
        Cost weights: all alike; (1 + z)^-2, for errors relative to 1 + z; inverse density of redshift, so that rare
        ones count more; or the weight column of the schema.
    bin_width : float
        "balanced": width of the bins in redshift that the density is counted in.
    max_weight : float
        "balanced", and weights by a target catalogue: no row counts more than this many times the average.
    """

    method: WeightMethod = "none"
    bin_width: float = 0.1
    max_weight: float = 20.0

    def __post_init__(self) -> None:
        if self.method not in WEIGHT_METHODS:
            raise ConfigError(f"`method` is {self.method!r}; expected one of {', '.join(WEIGHT_METHODS)}")
        if not self.bin_width > 0.0:
            raise ConfigError(f"`bin_width` is {self.bin_width}; expected a width in redshift above 0")
        if not self.max_weight > 1.0:
            raise ConfigError(f"`max_weight` is {self.max_weight}; expected a number above 1")


def normalised(weights: FloatArray, max_weight: float = np.inf) -> FloatArray:
    """Return weights with mean 1, none above `max_weight` times the mean; they must be finite, >= 0 and not all 0.

    Examples
    --------
    >>> import numpy as np
    >>> from gpzed.features import normalised
    >>> normalised(np.array([1.0, 3.0])).tolist()
    [0.5, 1.5]
    """
    bad = ~np.isfinite(weights) | (weights < 0.0)
    if bad.any():
        row = int(np.argmax(bad))
        raise CatalogError(
            f"{int(bad.sum())} training rows have a weight that is negative or missing, the first is row {row} "
            f"({weights[row]}); expected weights >= 0: repair or drop those rows"
        )
    if not weights.any():
        raise CatalogError("all training rows have weight 0; expected some above it")
    capped = weights / weights.mean()
    for _ in range(MAX_CAPPINGS):
        if capped.max() <= max_weight * (1.0 + 1e-6):
            break
        capped = np.minimum(capped, max_weight)
        capped = capped / capped.mean()
    return np.asarray(capped)


def redshift_weights(z: FloatArray) -> FloatArray:
    """Return (1 + z)^-2 with mean 1: errors count relative to 1 + z (cost weights, section 5 of the paper).

    Examples
    --------
    >>> import numpy as np
    >>> from gpzed.features import redshift_weights
    >>> redshift_weights(np.array([0.0, 1.0])).tolist()
    [1.6, 0.4]
    """
    return normalised((1.0 + z) ** -2.0)


def balanced_weights(z: FloatArray, bin_width: float = 0.1, max_weight: float = 20.0) -> FloatArray:
    """Return weights of mean 1 that make every bin in redshift count alike, up to `max_weight` times the mean.

    Examples
    --------
    >>> balanced_weights(np.array([0.05, 0.06, 0.07, 0.55]), bin_width=0.1)
    array([0.67, 0.67, 0.67, 2.  ])
    """
    bins = np.floor(z / bin_width).astype(np.int64)
    _, which, counts = np.unique(bins, return_inverse=True, return_counts=True)
    return normalised(1.0 / counts[which.ravel()], max_weight)


def target_weights(X: FloatArray, X_target: FloatArray, n_neighbours: int = 20, max_weight: float = 20.0) -> FloatArray:
    """Return weights of mean 1 that give training rows the distribution of a target sample.

    The estimator of Lima et al. (2008, MNRAS 390, 118): around each training object the distance to its k-th
    training neighbour is taken, and the target objects within that distance are counted; their number over k is the
    ratio of the densities. Distances are Euclidean after scaling each input by its spread in both samples.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs of the training rows.
    X_target : ndarray of shape (n_target, d)
        Inputs of the target objects.
    n_neighbours : int
        Training neighbours that set the radius.
    max_weight : float
        Limit, relative to the mean.

    Examples
    --------
    >>> import numpy as np
    >>> from gpzed.features import target_weights
    >>> bright, faint = np.linspace(18, 22, 100)[:, None], np.linspace(20, 24, 100)[:, None]
    >>> weights = target_weights(bright, faint)
    >>> bool(weights[-1] > weights[0])
    True
    """
    if len(X_target) == 0:
        raise CatalogError("the target catalogue has no usable rows; expected photometry in the bands of the model")
    scale = np.concatenate([X, X_target]).std(axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    k = min(n_neighbours, len(X) - 1)
    if k < 1:
        return np.ones(len(X))
    own = cKDTree(X / scale)
    radius = own.query(X / scale, k=[k + 1])[0][:, 0]  # the first neighbour is the object itself
    target = cKDTree(X_target / scale)
    counts = target.query_ball_point(X / scale, radius * (1.0 + 1e-12), return_length=True)
    if not counts.any():
        raise CatalogError("no target object resembles any training object; check the bands and zero points of both")
    return normalised(counts.astype(np.float64), max_weight)
