"""Densities of inputs and what they mean, for a block of rows in one compiled call."""

from __future__ import annotations

import numpy as np

from gpzed._types import FloatArray
from gpzed.compiled.binding import call, inputs
from gpzed.gp.whitening import Whitening
from gpzed.incomplete.density import Density


def read_density(
    X: FloatArray,
    whitening: Whitening,
    density: Density,
    log_densities: FloatArray,
    levels: FloatArray,
    tail_scale: float,
) -> FloatArray:
    """Return log densities and their levels, (2, n), see `gpzed.model.coverage.read_density`."""
    values = np.empty((2, len(X)))
    call(
        "coverage",
        inputs=inputs(X.T),
        mean=whitening.mean,
        matrix=whitening.matrix,
        g=len(density.weights),
        Ct=density.coefficients,
        n_levels=len(levels),
        log_density=log_densities,
        level=levels,
        tail_scale=tail_scale,
        values=values,
    )
    return values
