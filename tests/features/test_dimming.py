"""Dimmed galaxies: noise, frequencies, redshifts between neighbours, and galaxies that are held out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import trapezoid

from gpzed.catalog.photometry import Photometry, SentinelReport, Status
from gpzed.errors import CatalogError
from gpzed.features.bands import POGSON
from gpzed.features.dimming import UNKNOWN_PART, _observe, dim, explain
from gpzed.features.fluxes import Survey, detection_limit, usable_galaxies
from gpzed.features.labels import Labels
from gpzed.features.library import Galaxies, counts_by_redshift, fit_redshift_prior, interpolated
from gpzed.workflows.target import as_photometry

COLOURS = np.array([[0.8, 0.5, 0.0, -0.2], [0.1, 0.1, 0.0, 0.0]])  # red and blue, against the third band


def survey(magnitudes: np.ndarray, depth: float, rng: np.random.Generator) -> Survey:
    """Fluxes with the same error in every band, that of magnitude `depth`."""
    flux, error = np.exp(-magnitudes / POGSON), np.exp(-depth / POGSON)
    flux = flux + error * rng.standard_normal(flux.shape)
    return Survey(flux, np.full(flux.shape, error), np.zeros(flux.shape, dtype=np.int8))


def sky(n: int, i: tuple[float, float], red: float, depth: float, seed: int) -> tuple[Survey, np.ndarray]:
    """Red galaxies at redshift 0.4 and blue ones at 1, of some magnitudes."""
    rng = np.random.default_rng(seed)
    is_red = rng.random(n) < red
    magnitudes = rng.uniform(*i, n)[:, None] + COLOURS[np.where(is_red, 0, 1)]
    return survey(magnitudes, depth, rng), np.where(is_red, 0.4, 1.0) + 0.01 * rng.standard_normal(n)


def test_a_library_has_as_many_galaxies_at_every_redshift_each_between_neighbours():
    rng = np.random.default_rng(0)
    z = np.where(rng.random(2000) < 0.95, rng.uniform(0.1, 0.5, 2000), rng.uniform(1.0, 1.5, 2000))
    flux = np.exp(-(np.array([1.0, 0.5, 0.0]) * z[:, None] + 20.0) / POGSON)  # colours follow the redshift
    made = interpolated(Galaxies.of(flux, 0.01 * flux, z), 4000, 2, rng)
    share = np.mean(made.z > 0.9)
    assert 0.3 < share < 0.55  # 5 % of the galaxies, but nearly half of the range in log(1 + z)
    assert not np.any((made.z > 0.55) & (made.z < 0.95))  # never across the gap
    expected = -POGSON * np.log(made.flux[:, 0] / made.flux[:, 2])
    np.testing.assert_allclose(expected, made.z, atol=0.01)


def test_counts_by_redshift():
    counts = counts_by_redshift(np.array([0.5] * 100 + [3.0]))
    assert counts[0] == 50.0  # half of a bin goes to its neighbours
    assert counts[-1] == 5.0  # at least


def test_the_prior_follows_the_redshifts_to_fainter_magnitudes():
    rng = np.random.default_rng(1)
    magnitudes = rng.uniform(19.0, 23.0, 4000)
    z = rng.gamma(4.0, 0.1 * np.exp(0.2 * (magnitudes - 21.0)) / 1.0)
    prior = fit_redshift_prior(magnitudes, z, np.ones(len(z)))
    grid = np.linspace(0.001, 8.0, 8000)
    for magnitude in (20.0, 22.0, 25.0):
        density = np.exp(prior.log_density(grid, magnitude))
        assert trapezoid(density, grid) == pytest.approx(1.0, abs=1e-3)
        expected = 0.4 * np.exp(0.2 * (magnitude - 21.0))
        assert trapezoid(grid * density, grid) == pytest.approx(expected, rel=0.06)
    far = [float(prior.log_density(np.array([1.0]), magnitude)[0]) for magnitude in (27.0, 40.0)]
    assert far[0] == far[1]  # extrapolated so far and no farther


def test_frequencies_and_dimming_are_found():
    target, _ = sky(400, (23.9, 24.1), red=0.2, depth=26.5, seed=2)
    library = Galaxies.of(np.exp(-(COLOURS + 23.0) / POGSON), np.full((2, 4), 1e-13), np.array([0.4, 1.0]))
    found = explain(target, library, target.typical_error, np.zeros(2))
    assert found.probability.mean(axis=0)[0] == pytest.approx(0.2, abs=0.05)
    right = np.argmax(found.probability, axis=1)
    dimming = -POGSON * np.log(found.scale[np.arange(400), right])
    assert np.median(dimming) == pytest.approx(1.0, abs=0.02)
    assert found.explained.mean() > 0.99


def test_an_object_unlike_all_galaxies_is_not_explained():
    target, _ = sky(50, (23.9, 24.1), red=0.5, depth=27.0, seed=3)
    flux = target.flux.copy()
    flux[:5, 0] *= 5.0
    library = Galaxies.of(np.exp(-(COLOURS + 23.0) / POGSON), np.full((2, 4), 1e-13), np.array([0.4, 1.0]))
    found = explain(target._replace(flux=flux), library, target.typical_error, np.zeros(2))
    assert not found.explained[:5].any()
    assert found.explained[5:].mean() > 0.95


@pytest.mark.parametrize("own", [0.0, 0.6])
def test_noise_is_added_up_to_that_of_the_target(own: float):
    rng = np.random.default_rng(4)
    n, error = 20_000, 2e-11
    objects = Survey(np.full((n, 2), 1e-9), np.full((n, 2), error), np.zeros((n, 2), dtype=np.int8))
    truth = np.full((n, 2), 4e-9)
    noise = own * error * 4.0  # of the galaxies, a quarter of it after scaling
    galaxies = Galaxies.of(truth + noise * rng.standard_normal((n, 2)), np.full((n, 2), noise), np.ones(n))
    made, scale = _observe(objects, galaxies, np.full(n, 0.25), np.full(2, error), 0, rng)
    np.testing.assert_allclose(made.flux[:, 0], 1e-9)  # that of the object, of which the noise is a part
    assert np.std(made.flux[:, 1]) == pytest.approx(np.sqrt(2.0) * error, rel=0.02)  # of a colour: both bands have it
    assert np.std(scale) == pytest.approx(0.25 * error / 1e-9, rel=0.02)
    np.testing.assert_allclose(made.error, error, rtol=1e-12)


@pytest.mark.parametrize("is_logarithmic", [True, False])
def test_errors_of_faint_magnitudes_are_taken_for_what_they_are(is_logarithmic: bool):
    rng = np.random.default_rng(8)
    error = np.array([1e-10, 2e-10])
    flux = rng.uniform(0.1, 30.0, (3000, 2)) * error
    ratio = error / flux
    errors = 2.5 * np.log10(1.0 + ratio) if is_logarithmic else 2.5 / np.log(10.0) * ratio
    status = np.zeros(flux.shape, dtype=np.int8)
    tally = SentinelReport(("g", "r"), 3000, np.zeros((2, 3), dtype=np.int64), {})
    photometry = Photometry(("g", "r"), -2.5 * np.log10(flux), errors, status, "magnitude", None, None, tally)
    found = Survey.of(photometry)
    assert found.is_logarithmic == is_logarithmic
    np.testing.assert_allclose(found.error, np.broadcast_to(error, flux.shape), rtol=1e-9)
    np.testing.assert_allclose(as_photometry(found, photometry).errors, errors, rtol=1e-9)


def test_the_reference_is_the_band_that_rows_are_selected_by():
    target, _ = sky(3000, (22.5, 24.0), red=0.25, depth=27.0, seed=10)
    magnitudes = -2.5 * np.log10(np.maximum(target.flux, 1e-30))
    for band in (1, 2):
        assert target.take(magnitudes[:, band] < 23.6).reference == band


def test_bands_are_gaps_where_those_of_the_target_are():
    rng = np.random.default_rng(5)
    target, _ = sky(4000, (24.0, 25.0), red=0.5, depth=25.0, seed=5)
    unseen = target.flux < 0.0
    lost = np.zeros_like(unseen)
    lost[:400, 3] = True
    status = np.where(lost, Status.NOT_OBSERVED, np.where(unseen, Status.NOT_DETECTED, Status.MEASURED)).astype(np.int8)
    gaps = status != Status.MEASURED
    target = Survey(np.where(gaps, np.nan, target.flux), np.where(gaps, np.nan, target.error), status)
    assert detection_limit(target, 0) == pytest.approx(0.0, abs=0.05)
    bright, z = sky(2000, (21.0, 23.0), red=0.5, depth=26.0, seed=6)
    made = dim(bright, Labels(z), np.zeros(2000, dtype=bool), target, 4000, rng).survey
    for band in range(3):
        assert np.mean(made.status[:, band] == Status.NOT_DETECTED) == pytest.approx(unseen[:, band].mean(), abs=0.03)
    assert np.isnan(made.flux[made.status != Status.MEASURED]).all()


def test_galaxies_that_are_held_out_and_others_are_never_mixed():
    rng = np.random.default_rng(7)
    training, _ = sky(2000, (20.0, 22.0), red=0.5, depth=26.0, seed=7)
    held = np.arange(2000) % 5 == 0
    z = np.where(held, rng.uniform(1.0, 1.2, 2000), rng.uniform(0.8, 0.9, 2000))
    target, _ = sky(1000, (21.5, 22.5), red=0.5, depth=26.0, seed=8)
    made = dim(training, Labels(z), held, target, 3000, rng)
    assert 0.05 < made.held_out.mean() < 0.6
    known = 1.0 - UNKNOWN_PART * 4.0  # others have a redshift of the prior
    assert np.mean(made.z[made.held_out] > 0.95) > known
    assert np.mean((made.z[~made.held_out] < 0.95) & (made.z[~made.held_out] > 0.75)) > known


def test_dimmed_rows_look_like_the_target_and_have_its_redshifts():
    training, z = sky(3000, (20.0, 22.5), red=0.7, depth=26.0, seed=9)
    target, truth = sky(3000, (22.5, 24.0), red=0.25, depth=26.0, seed=10)
    made = dim(training, Labels(z), np.zeros(3000, dtype=bool), target, 3000, np.random.default_rng(0))
    for level in (0.1, 0.5, 0.9):
        np.testing.assert_allclose(
            np.quantile(made.survey.flux, level, axis=0), np.quantile(target.flux, level, axis=0), rtol=0.1
        )
    assert np.mean(made.z < 0.7) == pytest.approx(np.mean(truth < 0.7), abs=0.08)  # not the 70 % of the training rows
    assert made.unexplained < 0.02
    assert np.median(made.dimming) > 0.5


def test_dimmed_rows_keep_the_errors_and_doubts_of_their_labels():
    training, z = sky(2000, (20.0, 22.5), red=0.5, depth=26.0, seed=9)
    target, _ = sky(1000, (22.5, 24.0), red=0.5, depth=26.0, seed=10)
    labels = Labels(z, np.where(z < 0.7, 0.05, 0.0), np.where(z < 0.7, 0.2, np.nan))
    made = dim(training, labels, np.zeros(2000, dtype=bool), target, 2000, np.random.default_rng(0)).labels
    red = (made.z > 0.3) & (made.z < 0.5) & (made.std > 0.0)
    assert red.mean() > 0.3
    assert np.all((made.std[red] >= 0.05 / np.sqrt(2.0) - 1e-12) & (made.std[red] <= 0.05))
    np.testing.assert_allclose(made.wrong[red], 0.36)  # either of two neighbours
    blue = (made.z > 0.9) & (made.std == 0.0)
    assert np.isnan(made.wrong[blue]).mean() > 0.9
    certain = dim(training, Labels(z), np.zeros(2000, dtype=bool), target, 500, np.random.default_rng(0)).labels
    assert certain.std is None
    assert certain.wrong is None


def test_rows_without_errors_or_bands_cannot_be_dimmed():
    training, z = sky(100, (20.0, 22.0), red=0.5, depth=26.0, seed=11)
    none = np.zeros(100, dtype=bool)
    target, _ = sky(100, (22.0, 24.0), red=0.5, depth=26.0, seed=12)
    without = target._replace(error=np.full(target.error.shape, np.nan))
    with pytest.raises(CatalogError, match="without errors in every band"):
        dim(training, Labels(z), none, without, 100, np.random.default_rng(0))
    status = training.status.copy()
    status[:90, 1] = Status.NOT_OBSERVED
    flux = np.where(status == Status.MEASURED, training.flux, np.nan)
    assert usable_galaxies(training._replace(flux=flux, status=status), 2).sum() == 10
    with pytest.raises(CatalogError, match="fewer than 50 training rows"):
        dim(training._replace(flux=flux, status=status), Labels(z), none, target, 100, np.random.default_rng(0))
