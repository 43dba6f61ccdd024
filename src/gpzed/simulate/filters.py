"""Broad-band filters as smooth analytic throughput curves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from gpzed._types import FloatArray


@dataclass(frozen=True)
class Filter:
    """A passband with two logistic edges.

    The throughput is expit((λ - blue) / blue_width) expit((red - λ) / red_width): ``blue`` and
    ``red`` are the half-power points and the widths say how soft the edges are. The absolute scale
    does not matter: AB magnitudes are ratios.
    """

    name: str
    blue: float  # half-power wavelength, Å
    red: float
    blue_width: float  # scale of the edge, Å
    red_width: float

    def throughput(self, wavelength: FloatArray) -> FloatArray:
        """Return the throughput per photon, 0 to 1, at observed wavelengths."""
        rise = expit((wavelength - self.blue) / self.blue_width)
        fall = expit((self.red - wavelength) / self.red_width)
        return np.asarray(rise * fall, dtype=np.float64)

    @property
    def log_integral(self) -> float:
        """Integral of throughput over ln λ, which normalises AB fluxes."""
        wavelength, weight = self._quadrature()
        return float(np.sum(self.throughput(wavelength) * weight))

    @property
    def effective_wavelength(self) -> float:
        """Effective wavelength exp(∫ R ln λ dlnλ / ∫ R dlnλ), in Å (Fukugita et al. 1996)."""
        wavelength, weight = self._quadrature()
        response = self.throughput(wavelength) * weight
        return float(np.exp(np.sum(response * np.log(wavelength)) / np.sum(response)))

    @property
    def mean_wavelength(self) -> float:
        """Mean wavelength ∫ R λ dλ / ∫ R dλ, in Å."""
        wavelength, weight = self._quadrature()
        response = self.throughput(wavelength) * weight * wavelength
        return float(np.sum(response * wavelength) / np.sum(response))

    @property
    def full_width(self) -> float:
        """Full width at half of the maximum, in Å."""
        wavelength, _ = self._quadrature()
        response = self.throughput(wavelength)
        above = wavelength[response >= 0.5 * response.max()]
        return float(above[-1] - above[0])

    def _quadrature(self) -> tuple[FloatArray, FloatArray]:
        log_wavelength = np.linspace(np.log(2000.0), np.log(14000.0), 8001)
        step = float(log_wavelength[1] - log_wavelength[0])
        return np.exp(log_wavelength), np.full(log_wavelength.size, step)


# Half-power points follow the published effective wavelengths and widths; see docs/explanation/simulator.md.
SDSS_FILTERS = (
    Filter("u", 3282.0, 3860.0, 60.0, 45.0),
    Filter("g", 4110.0, 5380.0, 100.0, 55.0),
    Filter("r", 5617.0, 6770.0, 50.0, 55.0),
    Filter("i", 6887.0, 8125.0, 55.0, 70.0),
    Filter("z", 8270.0, 9450.0, 70.0, 300.0),
)

LSST_FILTERS = (
    Filter("u", 3390.0, 3990.0, 70.0, 40.0),
    Filter("g", 4120.0, 5530.0, 80.0, 45.0),
    Filter("r", 5520.0, 6910.0, 45.0, 45.0),
    Filter("i", 6910.0, 8185.0, 45.0, 45.0),
    Filter("z", 8185.0, 9225.0, 45.0, 45.0),
    Filter("y", 9235.0, 10080.0, 60.0, 210.0),
)
