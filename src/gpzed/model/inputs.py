"""Checks of what users hand over: tables to matrices, weights, validation rows; every message says what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpzed._types import FloatArray
from gpzed.core.engine import Rows


def as_table(X: Any) -> Any:
    """Turn an astropy Table into a pandas-like mapping that scikit-learn understands; others pass unchanged."""
    if hasattr(X, "colnames") and hasattr(X, "columns") and not hasattr(X, "iloc"):
        return _NamedMatrix(X)
    return X


class _NamedMatrix:
    """Columns of an astropy table as a matrix with names; masked values become NaN."""

    def __init__(self, table: Any) -> None:
        self.columns = np.array(table.colnames, dtype=object)
        columns = []
        for name in table.colnames:
            values: Any = table[name]
            values = getattr(values, "value", values)
            if np.ma.isMaskedArray(values):
                values = np.ma.filled(values.astype(np.float64), np.nan)
            columns.append(np.asarray(values, dtype=np.float64))
        self._matrix = np.stack(columns, axis=1) if columns else np.empty((len(table), 0))
        self.shape = self._matrix.shape

    def __len__(self) -> int:
        return int(self.shape[0])

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> FloatArray:
        return self._matrix if dtype is None else self._matrix.astype(dtype)


def check_weights(sample_weight: npt.ArrayLike | None, n: int) -> FloatArray:
    """Weights as float64 of shape (n,); ones if None.

    Raises
    ------
    ValueError
        If the length is wrong, a weight is negative or not finite, or all are zero.
    """
    if sample_weight is None:
        return np.ones(n)
    omega = np.asarray(sample_weight, dtype=np.float64)
    if omega.ndim == 0:
        omega = np.full(n, float(omega))
    if omega.shape != (n,):
        raise ValueError(f"`sample_weight` has shape {omega.shape}; expected ({n},), one weight per row of X.")
    bad = ~np.isfinite(omega) | (omega < 0.0)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"`sample_weight` has {int(bad.sum())} negative or non-finite values, the first in row {row} "
            f"({omega[row]}); expected weights >= 0. Set the weight of rows to be left out to 0."
        )
    if not omega.any():
        raise ValueError("`sample_weight` is zero for all rows; expected at least two rows with a positive weight.")
    return omega


def drop_weightless(rows: Rows) -> Rows:
    """Leave out rows of weight zero: they have no part in the likelihood."""
    X, y, omega = rows
    used = omega > 0.0
    return rows if used.all() else (X[used], y[used], omega[used])
