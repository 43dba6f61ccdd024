"""Galaxies drawn from evolving luminosity functions of three overlapping kinds."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.integrate import cumulative_trapezoid
from scipy.special import expit, ndtr, ndtri

from gpzed._types import AnyArray, FloatArray
from gpzed.simulate.cosmology import comoving_volume_element, distance_modulus
from gpzed.simulate.instruments import Instrument
from gpzed.simulate.photometry import PhotometryTable, photometry_table
from gpzed.simulate.spectra import MAX_REDDENING

_TRUNCATION = 3.0  # deviates are cut at three standard deviations, so that ages have known bounds
_HEADROOM = 0.4  # magnitudes by which lines and tilt may brighten a galaxy beyond its continuum
_TILT_STD = 0.08
_Z_MIN = 0.01


@dataclass(frozen=True)
class Kind:
    """Luminosity function and stellar content of one kind of galaxy."""

    name: str  # "early", "spiral" or "starburst"
    density: float  # φ* today, per Mpc^3
    characteristic_mag: float  # M* today, in rest-frame r (AB)
    faint_slope: float  # Schechter slope
    brightening: float  # M* brightens by this many magnitudes per unit of ln(1 + z)
    density_power: float  # φ* goes as (1 + z) to this power
    age: tuple[float, float, float, float]  # logit: mean, change with z and per mag brighter than M*, scatter
    reddening: float  # mean E(B-V)

    def mag_at(self, z: FloatArray) -> FloatArray:
        """Return M* at redshift z, of the shape of `z`."""
        return np.asarray(self.characteristic_mag - self.brightening * np.log1p(z), dtype=np.float64)


KINDS = (
    Kind("early", 2.4e-3, -21.20, -0.50, 1.3, -1.8, (2.5, -0.6, 0.20, 0.30), 0.02),
    Kind("spiral", 2.6e-3, -21.00, -1.00, 1.2, -1.2, (0.2, -0.5, 0.15, 0.50), 0.12),
    Kind("starburst", 2.6e-3, -20.30, -1.30, 1.3, -0.8, (-1.5, -0.3, 0.15, 0.60), 0.10),
)
_MAX_BRIGHTER = 3.0  # the age-luminosity relation is flat outside ±3 mag of M*


@dataclass(frozen=True)
class Galaxies:
    """Physical properties, one row per galaxy."""

    z: FloatArray  # (n,)
    kind: npt.NDArray[np.int8]  # (n,) position in `KINDS`: 0 early, 1 spiral, 2 starburst
    absolute_mag: FloatArray  # (n,) rest-frame r magnitude of the attenuated continuum (AB)
    age: FloatArray  # (n,) 0 young to 1 old
    reddening: FloatArray  # (n,) E(B-V)
    lines: FloatArray  # (n, 2) emission-line deviates: strength and excitation
    tilt: FloatArray  # (n,) extra spectral slope

    def take(self, rows: AnyArray) -> Galaxies:
        """Return the galaxies of the given rows (indices or a mask)."""
        return Galaxies(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})


def concatenate(parts: list[Galaxies]) -> Galaxies:
    """Return one record from several, in order."""
    merged: dict[str, Any] = {f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Galaxies)}
    return Galaxies(**merged)


def true_magnitudes(galaxies: Galaxies, table: PhotometryTable) -> FloatArray:
    """Return noise-free AB magnitudes (n, n_bands)."""
    g = galaxies
    relative = table.relative_flux(g.z, g.age, g.reddening, g.lines, g.tilt)
    level = g.absolute_mag + distance_modulus(g.z)
    return np.asarray(level[:, None] - 2.5 * np.log10(relative), dtype=np.float64)


def draw_galaxies(
    n: int, instrument: Instrument, mag_limit: float, rng: np.random.Generator
) -> tuple[Galaxies, FloatArray]:
    """Draw `n` candidates; return those truly brighter than the limit, and their noise-free magnitudes."""
    table = photometry_table(instrument.filters, instrument.z_max)
    density = np.stack([_counts(kind, table, instrument, mag_limit)[0] for kind in KINDS])
    kind_index = rng.choice(len(KINDS), size=n, p=density.sum(axis=1) / density.sum()).astype(np.int8)
    parts = [
        _draw_kind(position, int(np.sum(kind_index == position)), table, instrument, mag_limit, rng)
        for position in range(len(KINDS))
    ]
    galaxies = concatenate(parts).take(rng.permutation(n))
    mag = true_magnitudes(galaxies, table)
    kept = mag[:, instrument.reference_index] < mag_limit
    return galaxies.take(kept), mag[kept]


def _counts(
    kind: Kind, table: PhotometryTable, instrument: Instrument, mag_limit: float
) -> tuple[FloatArray, FloatArray]:
    """Return dN/dz (up to a constant) and the faintest L / L*, both on the table's redshifts."""
    z = table.z
    mean, with_z, with_mag, scatter = kind.age
    spread = _TRUNCATION * scatter + _MAX_BRIGHTER * with_mag
    low, high = expit(mean + with_z * z - spread), expit(mean + with_z * z + spread)
    k_correction = table.brightest_k_correction(instrument.reference_index, low, high) - _HEADROOM
    faintest = mag_limit - distance_modulus(np.maximum(z, _Z_MIN)) - k_correction
    log_x, tail = _schechter_tail(kind.faint_slope)
    ratio = 10.0 ** (-0.4 * (faintest - kind.mag_at(z)))
    ratio = np.clip(ratio, np.exp(log_x[0]), np.exp(log_x[-1]))
    number = np.interp(np.log(ratio), log_x, tail) * kind.density * (1.0 + z) ** kind.density_power
    return np.where(z >= _Z_MIN, number * comoving_volume_element(z), 0.0), ratio


def _schechter_tail(faint_slope: float) -> tuple[FloatArray, FloatArray]:
    """Return ln(L / L*) and the number of galaxies per φ* brighter than it (Schechter 1976)."""
    log_x = np.linspace(np.log(1e-4), np.log(25.0), 2001)
    x = np.exp(log_x)
    integrand = x ** (faint_slope + 1.0) * np.exp(-x)
    tail = np.asarray(cumulative_trapezoid(integrand[::-1], log_x, initial=0))[::-1]
    return log_x, tail


def _draw_kind(
    position: int, n: int, table: PhotometryTable, instrument: Instrument, mag_limit: float, rng: np.random.Generator
) -> Galaxies:
    kind = KINDS[position]
    counts, ratio = _counts(kind, table, instrument, mag_limit)
    cumulative = np.concatenate([[0.0], np.cumsum(0.5 * (counts[1:] + counts[:-1]))])
    z = np.maximum(np.interp(rng.random(n) * cumulative[-1], cumulative, table.z), _Z_MIN)
    log_x, tail = _schechter_tail(kind.faint_slope)
    faintest = np.interp(np.interp(z, table.z, np.log(ratio)), log_x, tail)
    log_ratio = np.interp(-rng.random(n) * faintest, -tail, log_x)
    brighter = np.clip(2.5 / np.log(10.0) * log_ratio, -_MAX_BRIGHTER, _MAX_BRIGHTER)
    mean, with_z, with_mag, scatter = kind.age
    age = expit(mean + with_z * z + with_mag * brighter + scatter * _normal(rng, n))
    ceiling = -np.expm1(-MAX_REDDENING / kind.reddening)
    return Galaxies(
        z=z,
        kind=np.full(n, position, dtype=np.int8),
        absolute_mag=kind.mag_at(z) - 2.5 / np.log(10.0) * log_ratio,
        age=age,
        reddening=-kind.reddening * np.log1p(-ceiling * rng.random(n)),
        lines=_normal(rng, (n, 2)),
        tilt=_TILT_STD * _normal(rng, n),
    )


def _normal(rng: np.random.Generator, shape: int | tuple[int, ...]) -> FloatArray:
    """Draw standard normals cut at ±3."""
    edge = ndtr(-_TRUNCATION)
    return np.asarray(ndtri(edge + (1.0 - 2.0 * edge) * rng.random(shape)), dtype=np.float64)
