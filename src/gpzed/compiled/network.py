"""Predictions of a network, a block of rows in one compiled call: in BLAS a row's result depends on those beside it.

In training a call takes all steps of a pass over the rows: in NumPy most of a step is Python's own time, with its lock
held.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpzed._types import AnyArray, FloatArray, IntArray
from gpzed.compiled.binding import call, fill, inputs
from gpzed.engine import adam as steps
from gpzed.mixture import network_training as training
from gpzed.mixture.likelihood import LOG_BETA_RANGE
from gpzed.mixture.network import Layers, NetworkRows


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
        layers=_flat(layers),
        min_log_beta=low,
        max_log_beta=high,
        components=components,
    )
    return components[0], components[1], components[2]


def descend(
    adam: steps.Adam, like: Layers, rows: NetworkRows, order: IntArray, dropout: float, seed: int
) -> tuple[float, float]:
    """Take steps by batches of rows, see `gpzed.mixture.network_training.descend`."""
    total, norm = np.zeros(()), np.zeros(())
    call(
        "descent",
        rows=_rows_struct(rows),
        shape=_shape_struct(like),
        adam=adam_struct(adam, order, [adam.advance() for _ in order]),
        seed=seed,
        dropout=dropout,
        decay=training.DECAY,
        theta=adam.theta,
        mean=adam.mean,
        first=adam.first,
        second=adam.second,
        log_likelihood=total,
        norm=norm,
    )
    return float(total), float(norm)


def adam_struct(adam: steps.Adam, order: IntArray, schedule: Sequence[steps.Factors]) -> Any:
    """Return steps by batches of rows, `order` (batches, rows), as a struct."""
    n_batches, size = order.shape
    return fill(
        "adam",
        n_batches=n_batches,
        size=size,
        order=order,
        schedule=np.array(schedule),
        max_norm=steps.MAX_NORM,
        memory=adam.memory,
        forget=1.0 - steps.DECAY,
        epsilon=steps.EPSILON,
    )


def mean_log_likelihood(layers: Layers, rows: NetworkRows) -> float:
    """Score of rows, see `gpzed.mixture.network.mean_log_likelihood`; in single precision, whatever they are."""
    total = np.zeros(())
    call(
        "network_score",
        rows=_rows_struct(rows),
        shape=_shape_struct(layers),
        layers=_flat(layers),
        log_likelihood=total,
    )
    return float(total) / float(rows.omega.sum(dtype=np.float64))


def _rows_struct(rows: NetworkRows) -> Any:
    n, d = rows.X.shape
    return fill("network_rows", n=n, d=d, **rows._asdict())


def _shape_struct(layers: Layers) -> Any:
    low, high = LOG_BETA_RANGE
    units = np.array([len(layers[0]) - 1, *(layer.shape[1] for layer in layers)], dtype=np.int64)
    K = layers[-1].shape[1] // 3
    return fill("network_shape", n_layers=len(layers), K=K, min_log_beta=low, max_log_beta=high, units=units)


def _flat(layers: Layers) -> AnyArray:
    return np.concatenate([np.ravel(layer) for layer in layers])
