"""Synthetic AB photometry: a table of continuum fluxes, with emission lines added exactly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gpzed._types import AnyArray, FloatArray
from gpzed.simulate.instruments import SDSS_FILTERS, Filter
from gpzed.simulate.spectra import (
    LINE_WAVELENGTHS,
    MAX_REDDENING,
    attenuation_curve,
    continuum,
    intergalactic_transmission,
    line_equivalent_widths,
)

_REST_WAVELENGTHS = np.exp(np.linspace(np.log(600.0), np.log(12500.0), 2001))
_AGES = np.linspace(0.0, 1.0, 15)
_REDDENINGS = np.linspace(0.0, MAX_REDDENING, 9)
_Z_STEP = 0.005
_NORMALISATION = next(band for band in SDSS_FILTERS if band.name == "r")
_TILT_PIVOT = 5500.0  # Å, rest frame


@dataclass(frozen=True)
class PhotometryTable:
    """Continuum fluxes on a grid of redshift, age and reddening."""

    filters: tuple[Filter, ...]  # bands
    log_flux: FloatArray  # (z, age, reddening, band) ln of flux over rest-frame r flux, times 1 + z
    z_max: float  # highest redshift in the table

    @property
    def z(self) -> FloatArray:
        """Redshifts of the first axis."""
        return _redshifts(self.log_flux.shape[0])

    def brightest_k_correction(self, band: int, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return the smallest K-correction over a range of ages and all reddenings, at each redshift of the table."""
        spacing = _AGES[1]
        allowed = (low[:, None] - spacing < _AGES) & (high[:, None] + spacing > _AGES)
        brightest = self.log_flux[..., band].max(axis=2)
        best = np.where(allowed, brightest, -np.inf).max(axis=1)
        return np.asarray(-2.5 / np.log(10.0) * best, dtype=np.float64)

    def relative_flux(
        self, z: FloatArray, age: FloatArray, reddening: FloatArray, lines: FloatArray, tilt: FloatArray
    ) -> FloatArray:
        """Return band fluxes (n, n_bands) over rest-frame r flux; `tilt` is an extra slope d ln f_ν / d ln λ."""
        flux = np.exp(self._interpolate(z, age, reddening))
        flux += self._line_flux(z, age, reddening, lines)
        effective = np.array([band.effective_wavelength for band in self.filters])
        shift = np.log(effective / _TILT_PIVOT) - np.log1p(z)[:, None]
        return np.asarray(flux * np.exp(tilt[:, None] * shift), dtype=np.float64)

    def _interpolate(self, z: FloatArray, age: FloatArray, reddening: FloatArray) -> FloatArray:
        shape = self.log_flux.shape
        positions = (z / _Z_STEP, age / _AGES[1], reddening / _REDDENINGS[1])
        cells = [_cell(p, size) for p, size in zip(positions, shape[:3], strict=True)]
        table = self.log_flux.reshape(-1, shape[3])
        total = np.zeros((z.size, shape[3]))
        for corner in np.ndindex(2, 2, 2):
            index: AnyArray = np.zeros(z.size, dtype=np.intp)
            weight = np.ones(z.size)
            for (low, fraction), size, upper in zip(cells, shape[:3], corner, strict=True):
                index = index * size + low + upper
                weight = weight * (fraction if upper else 1.0 - fraction)
            total += weight[:, None] * table[index]
        return total

    def _line_flux(self, z: FloatArray, age: FloatArray, reddening: FloatArray, lines: FloatArray) -> FloatArray:
        widths = line_equivalent_widths(age, z, lines[:, 0], lines[:, 1])
        pivot = _log_spectra(np.array([_NORMALISATION.effective_wavelength]), age, reddening)
        level = np.exp(_log_spectra(LINE_WAVELENGTHS, age, reddening) - pivot)
        strength = widths * level / LINE_WAVELENGTHS * (1.0 + z)[:, None]  # (n, 5)
        observed = LINE_WAVELENGTHS * (1.0 + z)[:, None]
        columns = [
            np.einsum("nl,nl->n", strength, band.throughput(observed)) / band.log_integral for band in self.filters
        ]
        return np.stack(columns, axis=1)


def _redshifts(size: int) -> FloatArray:
    return np.asarray(np.arange(size) * _Z_STEP, dtype=np.float64)


def _cell(position: FloatArray, size: int) -> tuple[AnyArray, FloatArray]:
    low = np.clip(position.astype(np.intp), 0, size - 2)
    return low, position - low


def _log_spectra(wavelength: FloatArray, age: FloatArray, reddening: FloatArray) -> FloatArray:
    """Return attenuated ln f_ν at given rest wavelengths, shape (n, k)."""
    dust = 0.4 * np.log(10.0) * reddening[..., None] * attenuation_curve(wavelength)
    return np.asarray(continuum(wavelength, age) - dust, dtype=np.float64)


@lru_cache(maxsize=4)
def photometry_table(filters: tuple[Filter, ...], z_max: float) -> PhotometryTable:
    """Integrate the spectra through the filters on the whole grid; cached."""
    age, reddening = (axis.ravel() for axis in np.meshgrid(_AGES, _REDDENINGS, indexing="ij"))
    spectra = np.exp(_log_spectra(_REST_WAVELENGTHS, age, reddening))  # (ages * reddenings, k)
    norm = spectra @ _normalised_response(_NORMALISATION, _REST_WAVELENGTHS)
    n_z = round(z_max / _Z_STEP) + 1
    log_flux = np.empty((n_z, age.size, len(filters)))
    for k, z in enumerate(_redshifts(n_z)):
        observed = _REST_WAVELENGTHS * (1.0 + z)
        response = np.stack([_normalised_response(band, observed) for band in filters], axis=1)
        response *= intergalactic_transmission(observed, np.asarray(z))[:, None] * (1.0 + z)
        log_flux[k] = np.log(np.maximum(spectra @ response / norm[:, None], 1e-10))
    shape = (n_z, _AGES.size, _REDDENINGS.size, len(filters))
    return PhotometryTable(filters, log_flux.reshape(shape), z_max)


def _normalised_response(band: Filter, wavelength: FloatArray) -> FloatArray:
    response = band.throughput(wavelength)
    return np.asarray(response / response.sum(), dtype=np.float64)
