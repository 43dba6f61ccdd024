"""A Gaussian density of the inputs, and what it expects of those that are missing given the others."""

from __future__ import annotations

import numpy as np

from gpzed._types import BoolArray, FloatArray

#: Complete rows needed per column to trust a covariance.
ROWS_PER_COLUMN = 5


def fit_gaussian(rows: FloatArray, median: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and covariance of complete rows; with too few of them the median, and no correlations.

    Parameters
    ----------
    rows : ndarray of shape (n, k)
        Rows, incomplete ones (NaN) among them.
    median : ndarray of shape (k,)
        Median of every column.

    Returns
    -------
    mean : ndarray of shape (k,)
    covariance : ndarray of shape (k, k)
    """
    k = rows.shape[1]
    complete = rows[np.isfinite(rows).all(axis=1)]
    if len(complete) < ROWS_PER_COLUMN * k:
        return median.copy(), np.eye(k)
    mean = complete.mean(axis=0)
    centred = complete - mean
    covariance = centred.T @ centred / len(complete)
    variance = np.diagonal(covariance)
    ridge = 1e-9 * np.maximum(variance, 1e-6 * max(float(variance.max()), 1e-12))
    return mean, covariance + np.diag(ridge)


def fill_missing(rows: FloatArray, mean: FloatArray, covariance: FloatArray) -> FloatArray:
    """Replace NaN by the conditional mean given the other columns, row by row.

    Parameters
    ----------
    rows : ndarray of shape (n, k)
    mean : ndarray of shape (k,)
    covariance : ndarray of shape (k, k)

    Returns
    -------
    ndarray of shape (n, k)
        The same array where nothing was missing, else a copy.

    Notes
    -----
    Sums run over columns in a fixed order, one row independent of the next, so that the result does not depend on
    which rows come together.
    """
    missing = np.isnan(rows)
    touched = np.flatnonzero(missing.any(axis=1))
    if not touched.size:
        return rows
    filled = rows.copy()
    patterns, which = np.unique(missing[touched], axis=0, return_inverse=True)
    for index, pattern in enumerate(patterns):
        members = touched[which.ravel() == index]
        filled[np.ix_(members, pattern)] = _conditional_mean(rows[members], pattern, mean, covariance)
    return filled


def _conditional_mean(rows: FloatArray, pattern: BoolArray, mean: FloatArray, covariance: FloatArray) -> FloatArray:
    expected = np.tile(mean[pattern], (len(rows), 1))
    seen = np.flatnonzero(~pattern)
    if not seen.size:
        return expected
    coefficients = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[np.ix_(seen, pattern)])
    for column, row in zip(seen, coefficients, strict=True):
        expected += (rows[:, column] - mean[column])[:, None] * row
    return expected
