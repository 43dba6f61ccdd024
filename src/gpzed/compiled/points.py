"""Redshifts of least expected loss in one compiled call; `gpzed.prediction` has the same in NumPy."""

from __future__ import annotations

import numpy as np

from gpzed._types import FloatArray
from gpzed.compiled.binding import call


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
    """Return points (n,) of least expected loss of Gaussian mixtures.

    Parameters
    ----------
    weights, means, stds : ndarray of shape (n, K)
        Before the cut.
    nodes : three ndarray of shape (G,)
        Nodes of a quadrature for the standard normal, the probabilities above each, and the weights.
    lower : float or None
        Where densities are cut.
    uncut, knee, smallest, negligible, tolerance, newton_steps, max_steps
        Constants of `gpzed.prediction`.
    """
    n, K = weights.shape
    t, above, share = nodes
    points = np.empty(n)
    call(
        "points",
        n=n,
        K=K,
        G=len(t),
        newton_steps=newton_steps,
        max_steps=max_steps,
        lower=-np.inf if lower is None else lower,
        uncut=uncut,
        knee=knee,
        smallest=smallest,
        negligible=negligible,
        tolerance=tolerance,
        weights=weights,
        means=means,
        stds=stds,
        t=t,
        above=above,
        share=share,
        points=points,
    )
    return points
