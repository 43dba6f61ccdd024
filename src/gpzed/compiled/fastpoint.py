"""Points of least expected loss in one compiled call (`_points.h`); `gpzed.prediction.point` is the readable form."""

from __future__ import annotations

import ctypes

import numpy as np

from gpzed._types import FloatArray
from gpzed.compiled.fastmath import PointsStruct, library, widest_lanes


def least_loss_points(
    weights: FloatArray,
    means: FloatArray,
    stds: FloatArray,
    nodes: tuple[FloatArray, FloatArray, FloatArray],
    *,
    lower: float | None,
    uncut: float,
    knee: float,
    smallest: float,
    negligible: float,
    tolerance: float,
    newton_steps: int,
    max_steps: int,
) -> FloatArray:
    """Points (n,) of least expected loss of Gaussian mixtures.

    Parameters
    ----------
    weights, means, stds : ndarray of shape (n, K)
        Before the cut.
    nodes : three ndarray of shape (G,)
        Nodes of a quadrature for the standard normal, the probabilities above each, and the weights.
    lower : float or None
        Where densities are cut.
    uncut, knee, smallest, negligible, tolerance, newton_steps, max_steps
        Constants of `gpzed.prediction.point`.
    """
    arrays = [np.ascontiguousarray(a, dtype=np.float64) for a in (weights, means, stds, *nodes)]
    n, K = arrays[0].shape
    out = np.empty(n)
    call = PointsStruct(lanes=widest_lanes(), n=n, K=K, G=len(arrays[3]))
    call.newton_steps, call.max_steps = newton_steps, max_steps
    call.lower, call.uncut = -np.inf if lower is None else lower, uncut
    call.knee, call.smallest, call.negligible, call.tolerance = knee, smallest, negligible, tolerance
    arrays += [np.empty(library().gpzed_points_work_size(ctypes.byref(call))), out]
    for name, array in zip(("weights", "means", "stds", "t", "above", "share", "work", "out"), arrays, strict=True):
        setattr(call, name, array.ctypes.data)
    library().gpzed_points(ctypes.byref(call))
    return out
