"""Values and errors of each band on the scale of the features: Pogson or asinh magnitudes, dereddened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpzed._types import FloatArray
from gpzed.catalog.photometry import Photometry, Status
from gpzed.features.config import FeatureConfig

POGSON = 2.5 / np.log(10.0)
"""Magnitudes per natural logarithm of flux, 2.5 / ln 10."""


@dataclass(frozen=True)
class BandValues:
    """Photometry on the scale of the features."""

    values: FloatArray  # (n, b) magnitudes of the kind asked for; NaN where there is no measurement
    errors: FloatArray  # (n, b); all NaN if the catalogue has none
    status: npt.NDArray[np.int8]  # (n, b) as in `Photometry`; a flux without a Pogson magnitude is not detected


def softening_of(photometry: Photometry, extinction: FloatArray | None) -> FloatArray:
    """Return each band's softening of asinh magnitudes: the median flux error, in fluxes of magnitude 0."""
    _, error = fluxes_of(photometry, extinction)
    medians = [np.median(column[np.isfinite(column)]) if np.isfinite(column).any() else np.nan for column in error.T]
    return np.array(medians)


def band_values(
    photometry: Photometry,
    config: FeatureConfig,
    softening: Sequence[float] | FloatArray,
    extinction: FloatArray | None,
) -> BandValues:
    """Bring photometry, of magnitudes or of fluxes, to the scale of the features.

    Asinh magnitudes (Lupton, Gunn & Szalay 1999) of flux f with softening b are ``-a (asinh(f / 2b) + ln b)``,
    ``a = 2.5 / ln 10``: magnitudes for bright objects, linear in flux for faint ones, defined for any flux. A
    Pogson magnitude of 33 with an error of 1e4 is a flux of nearly zero with a plain error, and so it stays.
    """
    if config.magnitudes == "asinh":
        flux, error = fluxes_of(photometry, extinction)
        b = np.asarray(softening, dtype=np.float64)
        values = asinh_magnitude(flux, b)
        errors = asinh_error(error, flux, b)
        return BandValues(values, _floored(errors, config), photometry.status)
    if photometry.kind == "magnitude":
        values = photometry.values if extinction is None else photometry.values - extinction
        return BandValues(values, _floored(photometry.errors, config), photometry.status)
    flux, error = fluxes_of(photometry, extinction)
    with np.errstate(invalid="ignore", divide="ignore"):
        positive = flux > 0.0
        values = np.where(positive, -POGSON * np.log(np.where(positive, flux, 1.0)), np.nan)
        errors = np.where(positive, POGSON * error / np.where(positive, flux, 1.0), np.nan)
    unseen = photometry.measured & ~positive
    status = np.where(unseen, np.int8(Status.NOT_DETECTED), photometry.status)
    return BandValues(values, _floored(errors, config), status)


def asinh_magnitude(flux: FloatArray, softening: FloatArray | float) -> FloatArray:
    """Return asinh magnitudes of fluxes in units of the flux of magnitude 0."""
    return np.asarray(-POGSON * (np.arcsinh(flux / (2.0 * softening)) + np.log(softening)))


def asinh_flux(magnitude: FloatArray, softening: FloatArray | float) -> FloatArray:
    """Return the fluxes of asinh magnitudes, in units of the flux of magnitude 0."""
    return np.asarray(2.0 * softening * np.sinh(-magnitude / POGSON - np.log(softening)))


def asinh_error(error: FloatArray, flux: FloatArray, softening: FloatArray | float) -> FloatArray:
    """Return the error of an asinh magnitude, taken at a flux."""
    return np.asarray(POGSON * error / np.hypot(flux, 2.0 * softening))


def _floored(errors: FloatArray, config: FeatureConfig) -> FloatArray:
    return np.maximum(errors, config.min_error)


def fluxes_of(photometry: Photometry, extinction: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return fluxes and errors in units of the flux of magnitude 0, dereddened."""
    if photometry.kind == "flux":
        assert photometry.zero_point is not None
        scale = np.exp(-photometry.zero_point / POGSON)
        flux, error = photometry.values * scale, photometry.errors * scale
    else:
        flux = np.exp(-photometry.values / POGSON)
        error = flux * photometry.errors / POGSON
    if extinction is None:
        return flux, error
    brighter = np.exp(extinction / POGSON)
    return flux * brighter, error * brighter
