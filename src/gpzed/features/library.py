"""Galaxies that a deeper survey may hold, made from those with known redshifts.

Spectra are rare at faint magnitudes and high redshifts. Where galaxies are few, others like them lie between neighbours
in colour and redshift; a library has as many at every redshift, and a prior says how many a survey has of them at a
magnitude that no spectrum reaches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.spatial import cKDTree
from scipy.special import gammaln

from gpzed._types import BoolArray, FloatArray, IntArray
from gpzed.features.bands import POGSON
from gpzed.features.labels import Labels

N_NEIGHBOURS = 8
"""Neighbours of a galaxy, one of which it is interpolated with."""
COLOUR_SCALE, REDSHIFT_SCALE, MAGNITUDE_SCALE = 0.3, 0.05, 2.0
"""What counts as one unit of distance to a neighbour: part of the spread of a colour; redshift; magnitudes."""
BIN_WIDTH = 0.1
"""In 1 + z, of the bins in which galaxies are counted to have as many at every redshift."""
MIN_PER_BIN = 5
MIN_GALAXIES = 50
"""With fewer galaxies of known redshift there is no library."""
MAX_PRIOR_ROWS = 5000


class Galaxies(NamedTuple):
    """Fluxes, their errors (both dereddened, in units of the flux of magnitude 0) and redshifts of galaxies."""

    flux: FloatArray  # (n, b)
    error: FloatArray  # (n, b)
    z: FloatArray  # (n,)
    z_std: FloatArray  # (n,) standard errors of the redshifts
    wrong: FloatArray  # (n,) probability that they are wrong; NaN where it is not known

    @classmethod
    def of(cls, flux: FloatArray, error: FloatArray, labels: Labels | FloatArray) -> Galaxies:
        """Take galaxies with their labels, or with redshifts that have no errors."""
        labels = labels if isinstance(labels, Labels) else Labels(labels)
        std = np.zeros(len(flux)) if labels.std is None else labels.std
        wrong = np.full(len(flux), np.nan) if labels.wrong is None else labels.wrong
        return cls(flux, error, labels.z, std, wrong)

    @property
    def labels(self) -> Labels:
        """The redshifts with what is known of them."""
        std = self.z_std if self.z_std.any() else None
        return Labels(self.z, std, None if np.isnan(self.wrong).all() else self.wrong)

    def take(self, rows: IntArray | BoolArray) -> Galaxies:
        """Return some of the galaxies."""
        return Galaxies(*(array[rows] for array in self))

    def magnitudes(self, band: int) -> FloatArray:
        """Return the magnitudes in one band; a flux below its error counts as that."""
        return np.asarray(-POGSON * np.log(np.maximum(self.flux[:, band], self.error[:, band])))


def joined_galaxies(parts: list[Galaxies]) -> Galaxies:
    """Return all galaxies of some sets."""
    return Galaxies(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def interpolated(galaxies: Galaxies, n: int, reference: int, rng: np.random.Generator) -> Galaxies:
    """Draw `n` galaxies, as many at every redshift, each somewhere between one that was given and a neighbour of it."""
    density = counts_by_redshift(galaxies.z)
    chosen = rng.choice(len(galaxies.z), n, p=(1.0 / density) / np.sum(1.0 / density))
    place = _places(galaxies, reference)
    k = min(N_NEIGHBOURS, len(galaxies.z) - 1)
    neighbours = cKDTree(place).query(place[chosen], k=k + 1)[1][:, 1:]
    other = neighbours[np.arange(n), rng.integers(k, size=n)]
    part = rng.random(n)[:, None]
    first, second = galaxies.take(chosen), galaxies.take(other)
    brightness = first.flux[:, [reference]], second.flux[:, [reference]]
    mean = np.exp((1.0 - part) * np.log(brightness[0]) + part * np.log(brightness[1]))
    flux = mean * ((1.0 - part) * first.flux / brightness[0] + part * second.flux / brightness[1])
    error = mean * np.hypot((1.0 - part) * first.error / brightness[0], part * second.error / brightness[1])
    part = part[:, 0]
    z_std = np.hypot((1.0 - part) * first.z_std, part * second.z_std)
    wrong = 1.0 - (1.0 - first.wrong) * (1.0 - second.wrong)
    return Galaxies(flux, error, (1.0 - part) * first.z + part * second.z, z_std, wrong)


def _places(galaxies: Galaxies, reference: int) -> FloatArray:
    """Return colours, redshift and magnitude in units in which neighbours are found, (n, b + 1)."""
    magnitudes = np.column_stack([galaxies.magnitudes(j) for j in range(galaxies.flux.shape[1])])
    colours = np.diff(magnitudes, axis=1)
    low, high = np.quantile(colours, (0.16, 0.84), axis=0)
    scaled = colours / np.maximum(COLOUR_SCALE * 0.5 * (high - low), 1e-3)
    return np.column_stack([scaled, galaxies.z / REDSHIFT_SCALE, magnitudes[:, reference] / MAGNITUDE_SCALE])


def counts_by_redshift(z: FloatArray) -> FloatArray:
    """Return how many galaxies have about the redshift of each, at least `MIN_PER_BIN`, (n,)."""
    which = np.floor(np.log1p(z) / BIN_WIDTH).astype(int)
    which -= which.min()
    counts = np.bincount(which).astype(np.float64)
    around = np.convolve(counts, (0.25, 0.5, 0.25))[1:-1]
    return np.asarray(np.maximum(around[which], MIN_PER_BIN))


@dataclass(frozen=True)
class RedshiftPrior:
    """Distribution of redshifts at a magnitude: a gamma distribution whose mean and shape change with magnitude.

    ``log mean = a0 + a1 (m - pivot)``, ``log shape = k0 + k1 (m - pivot)``, with `coefficients` (a0, a1, k0, k1). This
    is how redshifts at magnitudes without spectra are extrapolated from brighter ones, by at most `reach` magnitudes
    beyond the `faintest` with many.
    """

    coefficients: tuple[float, ...]
    pivot: float
    faintest: float
    reach: float = 3.0

    def log_density(self, z: FloatArray, magnitude: float | FloatArray) -> FloatArray:
        """Log density of redshifts at a magnitude."""
        log_mean, log_shape = self._at(magnitude)
        shape = np.exp(log_shape)
        rate = np.exp(log_shape - log_mean)
        positive = np.maximum(z, 1e-3)
        return np.asarray(shape * np.log(rate) - gammaln(shape) + (shape - 1.0) * np.log(positive) - rate * positive)

    def draw(self, magnitude: float, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw redshifts at a magnitude."""
        log_mean, log_shape = self._at(magnitude)
        return rng.gamma(float(np.exp(log_shape)), float(np.exp(log_mean - log_shape)), n)

    def _at(self, magnitude: float | FloatArray) -> tuple[FloatArray, FloatArray]:
        beyond = np.minimum(magnitude, self.faintest + self.reach) - self.pivot
        a0, a1, k0, k1 = self.coefficients
        return np.asarray(a0 + a1 * beyond), np.asarray(np.clip(k0 + k1 * beyond, -1.0, 5.0))


def fit_redshift_prior(magnitudes: FloatArray, z: FloatArray, weights: FloatArray) -> RedshiftPrior:
    """Fit the distribution of redshifts at a magnitude to galaxies with known ones, by weighted maximum likelihood."""
    pivot, faintest = float(np.average(magnitudes, weights=weights)), float(np.quantile(magnitudes, 0.95))

    def objective(values: FloatArray) -> float:
        prior = RedshiftPrior(tuple(float(value) for value in values), pivot, faintest)
        slopes = 0.5 * float(np.sum(np.square(values[[1, 3]] / 0.5)))  # a weak prior: few rows show no slope
        return slopes / len(z) - float(np.average(prior.log_density(z, magnitudes), weights=weights))

    start = np.array([np.log(max(float(z.mean()), 1e-3)), 0.0, 1.0, 0.0])
    result = minimize(objective, start, method="Nelder-Mead", options={"maxiter": 2000, "xatol": 1e-3, "fatol": 1e-5})
    return RedshiftPrior(tuple(float(value) for value in result.x), pivot, faintest)
