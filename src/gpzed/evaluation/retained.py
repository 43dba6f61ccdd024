"""The fraction of objects retained against the error allowed (the paper's FR_e figure)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpzed._types import FloatArray
from gpzed.evaluation import _checks, _table
from gpzed.prediction import Prediction

MAX_THRESHOLD, N_THRESHOLDS = 0.2, 201
"""Largest normalised error of the curve by default, and its number of points."""


@dataclass(frozen=True)
class RetainedCurve:
    """Percentage of objects with a small error, as a function of what counts as small.

    Parameters
    ----------
    thresholds : ndarray of shape (g,)
        Errors e allowed, increasing.
    values : ndarray of shape (g,)
        FR_e in per cent: objects with ``|z_spec - z_phot| / (1 + z_spec) < e`` (Eq. 6.3).
    """

    thresholds: FloatArray
    values: FloatArray


def retained_curve(
    z_spec: npt.ArrayLike,
    prediction: Prediction,
    *,
    thresholds: npt.ArrayLike | None = None,
    sample_weight: npt.ArrayLike | None = None,
) -> RetainedCurve:
    """Return FR_e for many e at once.

    Parameters
    ----------
    z_spec : array-like of shape (n,)
        True redshifts.
    prediction : Prediction
        Predictive distributions of the same n objects.
    thresholds : array-like of shape (g,), optional
        Errors allowed, by default 0 to 0.2 in steps of 0.001.
    sample_weight : array-like of shape (n,), optional
        Weights; equal by default.

    Returns
    -------
    RetainedCurve

    Examples
    --------
    >>> from gpzed.prediction import Prediction
    >>> p = Prediction.gaussian([0.5, 0.6], [0.01, 0.01], [0.01, 0.01])
    >>> retained_curve([0.5, 0.7], p, thresholds=[0.05, 0.1]).values
    array([ 50., 100.])
    """
    z, weight = _checks.truth_and_weights(z_spec, prediction, sample_weight)
    given = np.linspace(0.0, MAX_THRESHOLD, N_THRESHOLDS) if thresholds is None else thresholds
    allowed = np.sort(np.atleast_1d(np.array(given, dtype=np.float64)))
    if allowed.ndim != 1 or not allowed.size or not np.all(np.isfinite(allowed) & (allowed >= 0)):
        raise ValueError(f"`thresholds` must be finite errors of at least 0; got {allowed.tolist()}.")
    error = np.abs(_table.normalised_residual(z, prediction))
    order = np.argsort(error)
    reached = np.concatenate([[0.0], np.cumsum(weight[order])])
    share = reached[np.searchsorted(error[order], allowed, side="left")] / reached[-1]
    return RetainedCurve(allowed, 100.0 * share)
