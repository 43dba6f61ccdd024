"""Photon noise in flux, non-detections and the spectroscopic success rate."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from gpzed._types import BoolArray, FloatArray
from gpzed.simulate.instruments import Instrument
from gpzed.simulate.population import Galaxies

ZERO_POINT = 31.4  # AB magnitude of 1 nJy
MEASURED, NOT_DETECTED, NOT_OBSERVED = 0, 1, 2
_MAG_PER_LN = 2.5 / np.log(10.0)


def flux_from_mag(mag: FloatArray) -> FloatArray:
    """Return the fluxes of AB magnitudes, in nJy."""
    return np.asarray(10.0 ** (-0.4 * (mag - ZERO_POINT)), dtype=np.float64)


def flux_std(flux: FloatArray, instrument: Instrument) -> FloatArray:
    """Return the standard deviation of the flux noise.

    Equation 5 of Ivezić et al. (2019), σ² = σ_sys² + (0.04 - γ) x + γ x² with x = f5 / f, multiplied
    by f² so that it holds for fluxes down to zero.
    """
    depth = flux_from_mag(np.array(instrument.depths))
    sky = np.array(instrument.sky_factors)
    source = np.maximum(flux, 0.0)
    variance = (instrument.systematic_error * source) ** 2 + (0.04 - sky) * source * depth + sky * depth**2
    return np.asarray(np.sqrt(variance), dtype=np.float64)


def detection_flux(instrument: Instrument, detection_snr: float) -> FloatArray:
    """Return the flux of each band (nJy) at which the signal-to-noise ratio reaches `detection_snr`."""
    depth = flux_from_mag(np.array(instrument.depths))
    sky = np.array(instrument.sky_factors)
    quadratic = 1.0 / detection_snr**2 - instrument.systematic_error**2
    linear = 0.04 - sky
    root = linear + np.sqrt(linear**2 + 4.0 * quadratic * sky)
    return np.asarray(depth * root / (2.0 * quadratic), dtype=np.float64)


def to_magnitudes(flux: FloatArray, std: FloatArray, measured: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return AB magnitudes and errors of fluxes in nJy, NaN where nothing was measured."""
    safe = np.where(measured, flux, 1.0)
    mag = np.where(measured, ZERO_POINT - 2.5 * np.log10(safe), np.nan)
    mag_err = np.where(measured, _MAG_PER_LN * std / safe, np.nan)
    return mag, mag_err


def spectroscopic_success(galaxies: Galaxies, true_mag: FloatArray, instrument: Instrument) -> FloatArray:
    """Return the probability that a galaxy of this noise-free reference magnitude has a spectroscopic redshift."""
    failure = np.ones(true_mag.shape)
    for programme in instrument.follow_ups:
        completeness = np.array(programme.completeness)[galaxies.kind]
        if programme.z_start > 0.0:
            completeness = completeness * expit((galaxies.z - programme.z_start) / 0.03)
        failure *= 1.0 - completeness * expit((programme.limit - true_mag) / programme.width)
    start, end, remaining = instrument.desert
    inside = expit((galaxies.z - start) / 0.04) * expit((end - galaxies.z) / 0.04)
    return np.asarray((1.0 - failure) * (1.0 - (1.0 - remaining) * inside), dtype=np.float64)
