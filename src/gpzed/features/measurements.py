"""Fluxes and their errors as Gaussian measurements of asinh magnitudes, also where the noise drowns the signal.

An error is one of the flux. In magnitudes it depends on the flux at which it is taken: at a measured one, which noise
has moved, a bright fluctuation gets too small an error and a faint one too large a one. It is taken here at the flux to
be expected, given all bands and what the training rows are like: with f0 that flux and y its magnitude,

    y(f) ~ y(f0) + y'(f0) (f - f0),    error |y'(f0)| sigma,

which is found by iteration, since the expectation depends on the errors. That is where the density of the true
magnitudes, given the fluxes, has its peak. It is skewed, towards faint magnitudes: its mean differs from its peak by
half its variance squared times the third derivative of its logarithm (Laplace), and measurements are moved such that
the mean is the one that they lead to. Where errors are small, magnitudes and errors stay as they are.
"""

from __future__ import annotations

import numpy as np

from gpzed._types import BoolArray, FloatArray
from gpzed.features.bands import POGSON, asinh_flux, asinh_magnitude
from gpzed.incomplete.density import Density

STEPS = 3
"""Iterations; the third already changes little."""
MAX_DISTANCE = 2.0
"""Errors of the flux by which what is expected may differ from what was measured, so that no band is overruled."""
NO_MEASUREMENT = 1e4
"""Magnitudes of error of a band without a measurement: none."""
ROWS_PER_COLUMN = 5
"""Complete rows needed per column to trust a covariance."""


def linearise(
    values: FloatArray, errors: FloatArray, softening: FloatArray, density: Density
) -> tuple[FloatArray, FloatArray]:
    """Take asinh magnitudes and their errors at the flux to be expected."""
    seen, mean = np.isfinite(values), density.mean
    measured, error = np.where(seen, values, mean), np.where(seen, errors, NO_MEASUREMENT)
    flux = asinh_flux(measured, softening)
    sigma = error * _flux_per_magnitude(flux, softening)
    for _ in range(STEPS):
        peak = asinh_flux(density.condition(measured, error).means[:, 0], softening)
        peak = np.clip(peak, flux - MAX_DISTANCE * sigma, flux + MAX_DISTANCE * sigma)
        slope = _flux_per_magnitude(peak, softening)
        moved = asinh_magnitude(peak, softening) + (peak - flux) / slope
        measured, error = np.where(seen, moved, mean), np.where(seen, sigma / slope, NO_MEASUREMENT)
    variance = np.einsum("nii->ni", density.condition(measured, error).covariances[:, 0])
    skew = variance * (4.0 * peak - flux) / (2.0 * POGSON**2 * slope)
    measured = measured + np.clip(skew, -error, error)
    return np.where(seen, measured, np.nan), np.where(seen, error, np.nan)


def _flux_per_magnitude(flux: FloatArray, softening: FloatArray) -> FloatArray:
    return np.asarray(np.hypot(flux, 2.0 * softening) / POGSON)


def depth_of(flux_errors: FloatArray, measured: BoolArray, softening: FloatArray) -> FloatArray:
    """Flux errors of each row in units of the typical ones of training, the median over the bands measured, (n,).

    Where a band is not detected its error is often not known; that of the other bands tells.
    """
    depth = np.ones(len(flux_errors))
    some = measured.any(axis=1)
    depth[some] = np.nanmedian(np.where(measured, flux_errors / softening, np.nan)[some], axis=1)
    return depth


def density_of_rows(rows: FloatArray, median: FloatArray) -> Density:
    """Gaussian density of complete rows; with too few of them the median, and no correlations."""
    k = rows.shape[1]
    complete = rows[np.isfinite(rows).all(axis=1)]
    if len(complete) < ROWS_PER_COLUMN * k:
        return Density.gaussian(median.copy(), np.eye(k))
    mean = complete.mean(axis=0)
    centred = complete - mean
    covariance = centred.T @ centred / len(complete)
    variance = np.diagonal(covariance)
    ridge = 1e-9 * np.maximum(variance, 1e-6 * max(float(variance.max()), 1e-12))
    return Density.gaussian(mean, covariance + np.diag(ridge))
