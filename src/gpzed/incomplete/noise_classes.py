"""Errors of the inputs: sorted into few classes for training, and judged whether they can be right."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.cluster.vq import kmeans2

from gpzed._types import BoolArray, FloatArray, IntArray
from gpzed.errors import DataWarning

MIN_NOISE = 1e-3
"""Errors below this part of an input's standard deviation are taken for this much: they do not matter."""
MIN_ROOM, ROWS_TO_JUDGE = 0.6, 20
"""Variance in units of that of the errors below which errors cannot be right, and complete rows per input to tell."""


@dataclass(frozen=True)
class NoiseClasses:
    """Errors of the inputs, sorted into few classes.

    Attributes
    ----------
    centres : ndarray of shape (c, d)
        Log standard errors around which the classes lie.
    variances : ndarray of shape (c, d)
        Error variance of each class: the mean of its rows.
    floor : ndarray of shape (d,)
        Smaller standard errors are taken for this much.
    """

    centres: FloatArray
    variances: FloatArray
    floor: FloatArray

    def assign(self, X_std: FloatArray, seen: BoolArray) -> IntArray:
        """Class (n,) of the errors of each row, those of inputs that are not seen left aside."""
        log_std = np.log(np.maximum(np.where(seen, X_std, 1.0), self.floor))
        distances = [np.sum(np.where(seen, log_std - centre, 0.0) ** 2, axis=1) for centre in self.centres]
        return np.asarray(np.argmin(distances, axis=0))


def fit_noise_classes(X: FloatArray, X_std: FloatArray | None, n_classes: int) -> NoiseClasses | None:
    """Sort errors into classes by k-means on their logarithms; None if there are none."""
    if X_std is None:
        return None
    seen = np.isfinite(X)
    with np.errstate(invalid="ignore"):
        scale = np.array([np.std(column[ok]) if ok.any() else 1.0 for column, ok in zip(X.T, seen.T, strict=True)])
    floor = MIN_NOISE * np.where(scale > 0.0, scale, 1.0)
    std = np.maximum(np.where(seen, X_std, np.nan), floor)
    log_std = np.log(std)
    middle = np.array(
        [np.median(column[ok]) if ok.any() else 0.0 for column, ok in zip(log_std.T, seen.T, strict=True)]
    )
    filled = np.where(seen, log_std, middle)
    distinct = np.unique(filled, axis=0)
    size = min(n_classes, len(distinct))
    first = np.argsort(distinct.sum(axis=1), kind="stable")[np.linspace(0, len(distinct) - 1, size).astype(int)]
    centres, label = kmeans2(filled, distinct[first], iter=20, minit="matrix", missing="warn")
    used = [c for c in range(size) if (label == c).any()]
    variances = np.stack([_class_variance(std[label == c] ** 2, centres[c]) for c in used])
    return NoiseClasses(np.ascontiguousarray(centres[used]), variances, floor)


def _class_variance(squares: FloatArray, centre: FloatArray) -> FloatArray:
    count = np.isfinite(squares).sum(axis=0)
    return np.where(count > 0, np.nansum(squares, axis=0) / np.maximum(count, 1), np.exp(2.0 * centre))


def warn_of_large_errors(X: FloatArray, X_std: FloatArray | None) -> None:
    """Warn if errors leave no room for true inputs: in some direction their mean variance exceeds the scatter.

    Complete rows are judged: inputs and errors that are independent have at least the scatter of the errors.
    """
    complete = np.isfinite(X).all(axis=1)
    if X_std is None or complete.sum() < ROWS_TO_JUDGE * X.shape[1]:
        return
    error = np.sqrt(np.mean(X_std[complete] ** 2, axis=0))
    noisy = error > 0.0
    if not noisy.any():
        return
    scatter = np.cov((X[complete][:, noisy] / error[noisy]).T).reshape(int(noisy.sum()), -1)
    room = float(np.linalg.eigvalsh(scatter)[0])
    if room < MIN_ROOM:
        warnings.warn(
            "the errors of the inputs are larger than the scatter of these allows: in one direction it is "
            f"{np.sqrt(max(room, 0.0)):.2f} of what errors alone, independent of each other, would give; expected 1 or "
            "more. Are they overstated, or correlated? Scale `X_std` down or leave it out (`errors` in section "
            "[features]).",
            DataWarning,
            stacklevel=3,
        )
