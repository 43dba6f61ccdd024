"""Galaxy spectra as smooth functions of age, dust and redshift; no template files."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from gpzed._types import FloatArray

MAX_REDDENING = 0.8

# Slopes d ln f_ν / d ln λ of the young (age 0) and old (age 1) ends, and where one gives way to the next (Å).
_SLOPE_JOINS = np.array([2100.0, 3600.0, 6000.0, 8500.0])
_YOUNG_SLOPES = np.array([-0.2, 0.25, 0.3, 0.15, 0.0])
_OLD_SLOPES = np.array([1.0, 5.2, 2.7, 1.8, 1.2])
_JOIN_WIDTH = 0.05

LINE_WAVELENGTHS = np.array([3727.4, 4861.3, 4958.9, 5006.8, 6562.8])  # [OII], Hβ, [OIII], [OIII], Hα


def continuum(wavelength: FloatArray, age: FloatArray) -> FloatArray:
    """Return ln of the dust-free stellar f_ν, up to a constant, at rest wavelengths; age 0 is young, 1 old."""
    s = np.asarray(age, dtype=np.float64)[..., None]
    x = np.log(wavelength)
    slopes = [young + s * (old - young) for young, old in zip(_YOUNG_SLOPES, _OLD_SLOPES, strict=True)]
    log_flux = slopes[0] * (x - np.log(5500.0))
    for k, join in enumerate(np.log(_SLOPE_JOINS)):
        bend = np.logaddexp(0.0, (x - join) / _JOIN_WIDTH) * _JOIN_WIDTH
        log_flux = log_flux + (slopes[k + 1] - slopes[k]) * bend
    return np.asarray(log_flux + _features(wavelength, s), dtype=np.float64)


def _features(wavelength: FloatArray, s: FloatArray) -> FloatArray:
    break_4000 = (0.08 + 0.55 * s) * expit((wavelength - 3970.0) / 50.0)
    balmer = (0.15 + 0.4 * s * (1.0 - s)) * expit((wavelength - 3700.0) / 40.0)
    lyman = (2.0 + 4.0 * s) * (expit((wavelength - 912.0) / 6.0) - 1.0)
    mid_uv = 0.35 * s * expit((wavelength - 2640.0) / 30.0)
    g_band = -0.12 * s * np.exp(-0.5 * ((wavelength - 4304.0) / 25.0) ** 2)
    magnesium = -0.10 * s * np.exp(-0.5 * ((wavelength - 5170.0) / 60.0) ** 2)
    return np.asarray(break_4000 + balmer + lyman + mid_uv + g_band + magnesium, dtype=np.float64)


def attenuation_curve(wavelength: FloatArray) -> FloatArray:
    """Return k(λ) = A(λ) / E(B-V) of Calzetti et al. (2000), continued below 0.12 µm."""
    inverse = 1.0e4 / np.maximum(wavelength, 1200.0)  # 1/µm
    blue = 2.659 * (-2.156 + 1.509 * inverse - 0.198 * inverse**2 + 0.011 * inverse**3) + 4.05
    red = 2.659 * (-1.857 + 1.040 * inverse) + 4.05
    curve = np.where(wavelength < 6300.0, blue, red)
    continued = curve + 0.0035 * np.maximum(1200.0 - wavelength, 0.0)
    return np.asarray(np.maximum(continued, 0.0), dtype=np.float64)


def intergalactic_transmission(wavelength: FloatArray, z: FloatArray) -> FloatArray:
    """Return the mean transmission of intergalactic hydrogen at observed wavelengths (Madau 1995)."""
    depth = np.zeros(np.broadcast_shapes(np.shape(wavelength), np.shape(z)))
    lines = ((1216.0, 3.6e-3), (1026.0, 1.7e-3), (973.0, 1.2e-3), (950.0, 9.3e-4))
    for line, strength in lines:
        absorbed = wavelength < line * (1.0 + z)
        depth = depth + np.where(absorbed, strength * (wavelength / line) ** 3.46, 0.0)
    emitted = 1.0 + z
    absorber = np.minimum(np.maximum(wavelength / 912.0, 1.0), emitted)
    photoelectric = (
        0.25 * absorber**3 * (emitted**0.46 - absorber**0.46)
        + 9.4 * absorber**1.5 * (emitted**0.18 - absorber**0.18)
        - 0.7 * absorber**3 * (absorber**-1.32 - emitted**-1.32)
        - 0.023 * (emitted**1.68 - absorber**1.68)
    )
    depth = depth + np.where(wavelength < 912.0 * emitted, np.maximum(photoelectric, 0.0), 0.0)
    return np.asarray(np.exp(-depth), dtype=np.float64)


def line_equivalent_widths(age: FloatArray, z: FloatArray, strength: FloatArray, excitation: FloatArray) -> FloatArray:
    """Return rest-frame equivalent widths in Å, (n, 5), from two normal deviates: all lines, and [OIII] alone."""
    log_halpha = 1.95 - 2.4 * age**2 + 0.8 * np.log10(1.0 + z) + 0.25 * strength
    halpha = 10.0 ** np.minimum(log_halpha, 2.8)
    log_ratio = 0.35 - 0.7 * age + 0.25 * excitation  # [OIII] 5007 / Hβ
    hbeta = 0.22 * halpha
    oiii = hbeta * 10.0 ** np.minimum(log_ratio, 0.8)
    oii = 0.55 * halpha * (0.6 + 0.4 * age)
    return np.stack([oii, hbeta, oiii / 3.0, oiii, halpha], axis=1)
