"""The ingredients of the simulator against published numbers and identities."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

from gpzed.simulate.cosmology import comoving_distance, comoving_volume_element, distance_modulus
from gpzed.simulate.instruments import LSST, LSST_FILTERS, SDSS, SDSS_FILTERS
from gpzed.simulate.photometry import photometry_table
from gpzed.simulate.population import KINDS, draw_galaxies
from gpzed.simulate.spectra import (
    attenuation_curve,
    continuum,
    intergalactic_transmission,
    line_equivalent_widths,
)

WAVELENGTHS = np.arange(2000.0, 14000.0)
SDSS_WAVELENGTHS = {"u": 3551, "g": 4686, "r": 6166, "i": 7480, "z": 8932}
SDSS_WIDTHS = {"u": 582, "g": 1263, "r": 1149, "i": 1240}
LSST_WAVELENGTHS = {"u": 3671, "g": 4827, "r": 6223, "i": 7546, "z": 8691, "y": 9712}


@pytest.mark.parametrize("z", [0.05, 0.5, 1.0, 3.0])
def test_distance_is_the_integral_of_the_expansion(z):
    expected, _ = quad(lambda x: 299792.458 / 70.0 / np.sqrt(0.3 * (1 + x) ** 3 + 0.7), 0.0, z)
    distance = comoving_distance(np.array([z]))[0]
    assert distance == pytest.approx(expected, rel=1e-6)
    assert distance_modulus(np.array([z]))[0] == pytest.approx(5 * np.log10((1 + z) * expected * 1e5))


def test_volume_element_is_the_derivative_of_the_volume():
    step = 0.01
    volume = comoving_distance(np.array([0.7 - step, 0.7 + step])) ** 3 / 3.0
    slope = np.diff(volume)[0] / (2 * step)
    assert comoving_volume_element(np.array([0.7]))[0] == pytest.approx(slope, rel=1e-3)


@pytest.mark.parametrize("band", SDSS_FILTERS, ids=lambda band: band.name)
def test_sdss_effective_wavelengths(band):
    assert band.effective_wavelength == pytest.approx(SDSS_WAVELENGTHS[band.name], rel=0.003)
    if band.name in SDSS_WIDTHS:
        above = WAVELENGTHS[band.throughput(WAVELENGTHS) >= 0.5 * band.throughput(WAVELENGTHS).max()]
        assert above[-1] - above[0] == pytest.approx(SDSS_WIDTHS[band.name], rel=0.02)


@pytest.mark.parametrize("band", LSST_FILTERS, ids=lambda band: band.name)
def test_lsst_mean_wavelengths(band):
    mean = np.average(WAVELENGTHS, weights=band.throughput(WAVELENGTHS))
    assert mean == pytest.approx(LSST_WAVELENGTHS[band.name], rel=0.005)


def test_4000_angstrom_break_grows_with_age():
    wavelength = np.arange(3700.0, 4300.0)
    flux = np.exp(continuum(wavelength, np.linspace(0.0, 1.0, 11)))
    red = flux[:, (wavelength > 4050) & (wavelength < 4250)].mean(axis=1)
    blue = flux[:, (wavelength > 3750) & (wavelength < 3950)].mean(axis=1)
    strength = red / blue
    assert np.all(np.diff(strength) > 0)
    assert 1.0 < strength[0] < 1.2
    assert 1.8 < strength[-1] < 2.2


def test_attenuation_curve_is_normalised_and_falls():
    assert attenuation_curve(np.array([5500.0]))[0] == pytest.approx(4.05, abs=0.05)
    wavelength = np.linspace(700.0, 12000.0, 500)
    curve = attenuation_curve(wavelength)
    assert np.all(curve >= 0.0)
    assert np.all(np.diff(curve) < 0.05)


def test_intergalactic_gas_absorbs_only_below_lyman_alpha():
    wavelength = np.array([800.0, 1000.0, 1100.0, 1230.0]) * 4.0
    transmission = intergalactic_transmission(wavelength, np.array(3.0))
    assert transmission[3] == 1.0
    assert 0.5 < transmission[2] < 0.75  # Madau (1995): a third of the flux is lost at z = 3
    assert np.all(np.diff(transmission) > 0)


def test_lines_weaken_with_age():
    age = np.array([0.1, 0.5, 0.9])
    zero = np.zeros(3)
    width = line_equivalent_widths(age, zero, zero, zero)
    assert np.all(np.diff(width, axis=0) < 0)
    np.testing.assert_allclose(width[:, 3], 3.0 * width[:, 2])
    assert 50 < width[0, 4] < 150
    assert width[2, 4] < 2


def test_flat_spectrum_limit_of_the_table():
    """At z = 0 the band that normalises the spectra has a relative flux of one, whatever the galaxy."""
    table = photometry_table(SDSS.filters, SDSS.z_max)
    np.testing.assert_allclose(table.log_flux[0, :, :, 2], 0.0, atol=1e-12)


def test_interpolation_agrees_with_direct_integration():
    table = photometry_table(SDSS.filters, SDSS.z_max)
    z, age, reddening = 0.4137, 0.77, 0.13
    no_lines = np.array([[-60.0, 0.0]])
    got = table.relative_flux(*(np.array([v]) for v in (z, age, reddening)), no_lines, np.zeros(1))[0]
    wavelength = np.exp(np.linspace(np.log(600.0), np.log(12500.0), 20001))
    dust = 10 ** (-0.4 * reddening * attenuation_curve(wavelength))
    spectrum = np.exp(continuum(wavelength, np.array(age))) * dust
    response = SDSS.filters[2].throughput(wavelength)
    norm = np.sum(spectrum * response) / np.sum(response)
    for k, band in enumerate(SDSS.filters):
        response = band.throughput(wavelength * (1 + z))
        expected = (1 + z) * np.sum(spectrum * response) / np.sum(response) / norm
        assert got[k] == pytest.approx(expected, rel=0.01)


def test_red_sequence_moves_with_redshift():
    table = photometry_table(SDSS.filters, SDSS.z_max)
    z = np.array([0.05, 0.2, 0.35, 0.5, 0.7])
    same = np.ones(z.size)
    flux = table.relative_flux(z, 0.92 * same, 0.0 * same, np.zeros((z.size, 2)), 0.0 * same)
    g_r, r_i = (-2.5 * np.log10(flux[:, k] / flux[:, k + 1]) for k in (1, 2))
    assert np.all(np.diff(g_r[:3]) > 0.2)  # the break crosses g
    assert np.all(np.diff(r_i[2:]) > 0.1)  # then r
    assert 0.7 < g_r[0] < 1.0
    assert 1.4 < g_r[2] < 1.8


def test_u_band_drops_out_at_high_redshift():
    table = photometry_table(LSST.filters, LSST.z_max)
    z = np.array([1.5, 3.2])
    flux = table.relative_flux(z, np.full(2, 0.1), np.zeros(2), np.zeros((2, 2)), np.zeros(2))
    u_g = -2.5 * np.log10(flux[:, 0] / flux[:, 1])
    assert abs(u_g[0]) < 0.5
    assert u_g[1] > 1.5


def test_luminosities_follow_the_schechter_function():
    galaxies, _ = draw_galaxies(100_000, SDSS, 20.0, np.random.default_rng(0))
    chosen = (galaxies.kind == 0) & (galaxies.z < 0.2)
    ratio = 10 ** (-0.4 * (galaxies.absolute_mag - KINDS[0].mag_at(galaxies.z)))[chosen]
    bright = ratio[ratio > 0.6]  # complete to z = 0.2 at this limit
    edges = np.array([0.6, 0.8, 1.1, 1.5, 2.0, 3.0])
    counts, _ = np.histogram(bright, edges)
    expected = np.array([quad(lambda x: x**-0.5 * np.exp(-x), low, high)[0] for low, high in pairwise(edges)])
    expected *= counts.sum() / expected.sum()
    assert np.all(np.abs(counts - expected) < 4.0 * np.sqrt(expected))


def test_mix_of_kinds_depends_on_redshift_and_luminosity():
    galaxies, _ = draw_galaxies(60_000, LSST, 25.0, np.random.default_rng(1))
    early = galaxies.kind == 0
    bright = galaxies.absolute_mag < -21.0
    near, far = galaxies.z < 0.8, galaxies.z > 1.2
    assert early[near & bright].mean() > 2.0 * early[far & bright].mean()
    assert early[near & bright].mean() > 2.0 * early[near & ~bright].mean()
