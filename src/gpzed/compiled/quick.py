"""Mixtures without matrices for a block of rows in one compiled call, in single precision."""

from __future__ import annotations

import numpy as np

from gpzed._types import FloatArray
from gpzed.compiled.binding import call, fill, inputs
from gpzed.compiled.heads import outputs_struct
from gpzed.compiled.passes import basis_struct
from gpzed.engine.blocks import Scratch
from gpzed.gp.basis import Gaussians
from gpzed.gp.state import State
from gpzed.gp.whitening import Whitening
from gpzed.mixture.quick import Columns


def fill_columns(
    X: FloatArray,
    whitening: Whitening,
    state: State,
    Theta: FloatArray,
    squares: FloatArray,
    columns: Columns,
    scratch: Scratch,
) -> bool:
    """Predict mixtures into the columns of a committee, see `gpzed.mixture.quick.fill_columns`."""
    assert isinstance(state.basis, Gaussians)
    return call(
        "quick",
        scratch,
        inputs=inputs(X.T),
        mean=whitening.mean,
        matrix=whitening.matrix,
        basis=basis_struct(state.basis, state.k),
        outputs=outputs_struct(squares.shape[1], Theta),
        squares=squares,
        columns=fill("columns", step=columns.weights.shape[1], **columns._asdict()),
    )


def fill_network_columns(
    X: FloatArray,
    whitening: Whitening,
    bounds: tuple[FloatArray, FloatArray],
    layers: tuple[FloatArray, ...],
    columns: Columns,
    scratch: Scratch,
) -> bool:
    """Predict with a network into the columns of a committee, see `gpzed.mixture.network.fill_network_columns`."""
    units = np.array([len(layers[0]) - 1, *(layer.shape[1] for layer in layers)], dtype=np.int64)
    return call(
        "quick_network",
        scratch,
        inputs=inputs(X.T),
        mean=whitening.mean,
        matrix=whitening.matrix,
        lower=bounds[0],
        upper=bounds[1],
        n_layers=len(layers),
        widest=int(units.max()),
        units=units,
        layers=np.concatenate([np.ravel(layer) for layer in layers]),
        outputs=outputs_struct(int(units[-1]) // 3, None),
        columns=fill("columns", step=columns.weights.shape[1], **columns._asdict()),
    )
