"""The brute-force p(z): normalised, calibrated, and explained when misused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.stats import kstest, norm

from gpzed.simulate import simulate_survey, true_pdf
from gpzed.simulate.noise import detection_flux, flux_from_mag, flux_std
from gpzed.simulate.truth import _draw_prior, _log_likelihood


@pytest.mark.parametrize(
    ("selection", "missing_fraction"), [("photometric", 0.0), ("photometric", 0.3), ("spectroscopic", 0.0)]
)
def test_true_redshifts_are_uniform_under_the_true_pdf(selection, missing_fraction):
    survey = simulate_survey(
        600,
        random_state=11,
        missing_fraction=missing_fraction,
        only_spectroscopic=selection == "spectroscopic",
        depth_offset=-1.0 if selection == "spectroscopic" else 0.0,
    )
    rows = np.flatnonzero(survey.true_mag[:, 2] > 19.5)[:250]
    pdf = true_pdf(survey, rows, n_prior=20_000, selection=selection, random_state=12)
    trusted = pdf.effective_samples > 20
    assert trusted.mean() > 0.8
    pit = pdf.cdf_at(survey.z_true[rows])[trusted]
    assert kstest(pit, "uniform").pvalue > 0.01
    assert pit.var() * 12 == pytest.approx(1.0, abs=0.2)


def test_likelihood_is_the_product_over_bands():
    survey = simulate_survey(300, random_state=14, missing_fraction=0.3)
    instrument = survey.instrument
    prior = _draw_prior(1000, instrument, 22.8, "photometric", np.random.default_rng(0))
    seen = set()
    for row in range(12):
        got = _log_likelihood(survey, row, prior, slice(0, 5))
        for j in range(5):
            mean = prior.flux[:, j]
            std = flux_std(mean[None, :], instrument)[0]
            expected = 0.0
            for band, flag in enumerate(survey.flag[row]):
                noise = norm(mean[band], std[band])
                seen.add((int(flag), band == 2))
                if flag == 0:
                    expected += noise.logpdf(survey.flux[row, band]) + 0.5 * np.log(2 * np.pi)
                elif flag == 1:
                    expected += noise.logcdf(detection_flux(instrument, 1.0)[band])
                elif band == instrument.reference_index:
                    expected += noise.logsf(flux_from_mag(np.array(22.0)))
            assert got[j] == pytest.approx(expected, rel=1e-9)
    assert seen == {(0, False), (0, True), (1, False), (2, False), (2, True)}


def test_density_is_normalised_and_sharper_with_more_bands():
    full = simulate_survey(20, random_state=13, magnitude_limit=21.0)
    grid = np.linspace(0.0, 1.2, 201)
    pdf = true_pdf(full, np.arange(20), z_grid=grid, n_prior=5_000, random_state=0)
    assert pdf.density.shape == (20, 201)
    np.testing.assert_allclose(trapezoid(pdf.density, grid, axis=1), 1.0)
    poor = simulate_survey(20, random_state=13, magnitude_limit=21.0, missing_fraction=0.7)
    np.testing.assert_array_equal(poor.z_true, full.z_true)
    broad = true_pdf(poor, np.arange(20), z_grid=grid, n_prior=5_000, random_state=0)
    assert np.median(broad.density.max(axis=1)) < np.median(pdf.density.max(axis=1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"indices": np.array([50])}, r"`indices` runs from 50 to 50; expected 0 to 9"),
        (
            {"indices": np.array([0.5])},
            r"`indices` has shape \(1,\) and type float64; expected a list of row",
        ),
        ({"z_grid": np.array([1.0, 0.0])}, r"`z_grid` must hold at least 2 ascending"),
        ({"n_prior": 10}, r"`n_prior` is 10; expected at least 1000"),
        ({"selection": "bright"}, r"`selection` is 'bright'; choose 'photometric' or 'spectroscopic'"),
    ],
)
def test_bad_arguments_are_explained(arguments, message):
    survey = simulate_survey(10, random_state=0)
    with pytest.raises(ValueError, match=message):
        true_pdf(survey, **({"indices": np.array([0])} | arguments))


def test_a_row_like_nothing_in_the_prior_is_reported():
    survey = simulate_survey(10, random_state=0)
    survey.flux[0, 2] = 1e12
    with pytest.raises(ValueError, match=r"no prior galaxy resembles row 0; raise `n_prior`, now 1000"):
        true_pdf(survey, np.array([0]), n_prior=1000, random_state=0)
