"""Predictions of a network, a block of rows in one compiled call: in BLAS a row's result depends on those beside it."""

from __future__ import annotations

import numpy as np

from gpzed._types import FloatArray
from gpzed.compiled.binding import call, inputs
from gpzed.mixture.likelihood import LOG_BETA_RANGE


def moments(layers: tuple[FloatArray, ...], X: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weights, means and noise variances of the heads, see `gpzed.mixture.network.moments`."""
    units = np.array([X.shape[1], *(layer.shape[1] for layer in layers)], dtype=np.int64)
    low, high = LOG_BETA_RANGE
    components = np.empty((3, int(units[-1]) // 3, len(X)))
    call(
        "network",
        inputs=inputs(X.T),
        n_layers=len(layers),
        widest=int(units.max()),
        K=components.shape[1],
        units=units,
        layers=np.concatenate([np.ravel(layer) for layer in layers]),
        min_log_beta=low,
        max_log_beta=high,
        components=components,
    )
    return components[0], components[1], components[2]
