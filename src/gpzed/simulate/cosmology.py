"""Distances and volumes in a flat universe with matter and a cosmological constant."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.integrate import cumulative_simpson

from gpzed._types import FloatArray

HUBBLE_CONSTANT = 70.0  # km/s/Mpc
MATTER_DENSITY = 0.3
_SPEED_OF_LIGHT = 299_792.458  # km/s
_GRID_MAX, _GRID_STEP = 10.0, 0.001


@lru_cache(maxsize=1)
def _distance_grid() -> tuple[FloatArray, FloatArray]:
    z = np.arange(0.0, _GRID_MAX + _GRID_STEP, _GRID_STEP)
    distance = cumulative_simpson(hubble_distance(z), x=z, initial=0.0)
    return z, np.asarray(distance, dtype=np.float64)


def hubble_distance(z: FloatArray) -> FloatArray:
    """Return c / H(z) in Mpc."""
    expansion = np.sqrt(MATTER_DENSITY * (1.0 + z) ** 3 + 1.0 - MATTER_DENSITY)
    return np.asarray(_SPEED_OF_LIGHT / (HUBBLE_CONSTANT * expansion), dtype=np.float64)


def comoving_distance(z: FloatArray) -> FloatArray:
    """Return the line-of-sight comoving distance in Mpc, for redshifts up to 10."""
    return np.interp(z, *_distance_grid())


def distance_modulus(z: FloatArray) -> FloatArray:
    """Return m - M without K-correction, for redshifts above 0."""
    return np.asarray(5.0 * np.log10((1.0 + z) * comoving_distance(z)) + 25.0, dtype=np.float64)


def comoving_volume_element(z: FloatArray) -> FloatArray:
    """Return dV/dz per steradian, in Mpc^3."""
    return np.asarray(hubble_distance(z) * comoving_distance(z) ** 2, dtype=np.float64)
