"""Redshifts of least expected loss in one compiled call; `gpzed.prediction` has the same in NumPy."""

from __future__ import annotations

from typing import Any

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
    **constants: Any,
) -> FloatArray:
    """Return points (n,) of least expected loss of Gaussian mixtures (n, K), given before the cut at `lower`.

    The nodes are those of a quadrature for the standard normal, with the probability above each and its weight; the
    constants those of `gpzed.prediction.point`.
    """
    n, K = weights.shape
    t, above, share = nodes
    points = np.empty(n)
    bound = -np.inf if lower is None else lower
    arrays: dict[str, Any] = {"weights": weights, "means": means, "stds": stds, "t": t, "above": above, "share": share}
    call("points", n=n, K=K, G=len(t), lower=bound, **constants, **arrays, points=points)
    return points
