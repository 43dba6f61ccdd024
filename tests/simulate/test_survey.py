"""The simulated catalogue: columns, noise, flags and selection."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest

from gpzed.simulate import simulate_survey
from gpzed.simulate.noise import detection_flux, flux_from_mag, flux_std, spectroscopic_success


@pytest.fixture(scope="module", params=["sdss", "lsst"])
def survey(request):
    return simulate_survey(20_000, survey=request.param, random_state=5)


def test_columns_and_types(survey):
    columns = survey.columns()
    expected = {
        "id": np.int64,
        "ra": np.float64,
        "dec": np.float64,
        "z_spec": np.float64,
        "spectroscopic": bool,
    }
    for band in survey.bands:
        expected |= {f"mag_{band}": np.float32, f"mag_err_{band}": np.float32, f"flag_{band}": np.int8}
    assert {name: column.dtype for name, column in columns.items()} == expected
    assert all(column.shape == (20_000,) for column in columns.values())
    assert np.unique(columns["id"]).size == 20_000


def test_truth_and_flux_on_request(survey):
    extra = set(survey.columns(truth=True, flux=True)) - set(survey.columns())
    per_band = {f"{name}_{band}" for name in ("true_mag", "flux", "flux_err") for band in survey.bands}
    assert extra == per_band | {"z_true", "true_type", "true_age", "true_ebv"}


def test_z_spec_is_given_only_with_a_spectrum(survey):
    columns = survey.columns(truth=True)
    np.testing.assert_array_equal(np.isfinite(columns["z_spec"]), columns["spectroscopic"])
    chosen = columns["spectroscopic"]
    np.testing.assert_array_equal(columns["z_spec"][chosen], columns["z_true"][chosen])


def test_seed_decides_everything():
    first, again, other = (simulate_survey(500, random_state=s, missing_fraction=0.1) for s in (1, 1, 2))
    for name, column in first.columns(truth=True).items():
        np.testing.assert_array_equal(column, again.columns(truth=True)[name])
    assert not np.array_equal(first.z_true, other.z_true)
    from_generator = simulate_survey(500, random_state=np.random.default_rng(1), missing_fraction=0.1)
    np.testing.assert_array_equal(first.flux, from_generator.flux)


def test_flux_pulls_are_standard_normal(survey):
    true_flux = flux_from_mag(survey.true_mag)
    pull = (survey.flux - true_flux) / flux_std(true_flux, survey.instrument)
    far = survey.true_mag[:, survey.instrument.reference_index] < survey.instrument.limit - 0.7
    for band in range(len(survey.bands)):
        chosen = np.ones(len(survey), bool) if band != survey.instrument.reference_index else far
        assert kstest(pull[chosen, band], "norm").pvalue > 1e-3


def test_error_at_the_depth_is_one_fifth(survey):
    depth = flux_from_mag(np.array(survey.instrument.depths))[None, :]
    ratio = flux_std(depth, survey.instrument) / depth
    np.testing.assert_allclose(ratio, 0.2, rtol=0.01)


def test_detection_flux_has_the_stated_signal_to_noise(survey):
    for snr in (1.0, 5.0):
        limit = detection_flux(survey.instrument, snr)[None, :]
        np.testing.assert_allclose(limit / flux_std(limit, survey.instrument), snr)


def test_flags_tell_why_a_magnitude_is_missing():
    survey = simulate_survey(20_000, random_state=6, missing_fraction=0.2)
    columns = survey.columns(flux=True)
    for band in survey.bands:
        flag = columns[f"flag_{band}"]
        np.testing.assert_array_equal(flag == 0, np.isfinite(columns[f"mag_{band}"]))
        np.testing.assert_array_equal(flag == 0, np.isfinite(columns[f"mag_err_{band}"]))
        np.testing.assert_array_equal(flag == 2, np.isnan(columns[f"flux_{band}"]))
        assert np.mean(flag == 2) == pytest.approx(0.2, abs=0.015)
    assert np.mean(columns["flag_u"] == 1) > 0.05
    assert np.any(columns["flux_u"] < 0)


def test_one_band_is_always_observed():
    survey = simulate_survey(2000, random_state=7, missing_fraction=0.95)
    assert np.all((survey.flag != 2).any(axis=1))


def test_limit_is_on_the_observed_magnitude(survey):
    observed = survey.mag[:, survey.instrument.reference_index]
    assert observed.max() < survey.instrument.limit
    assert survey.true_mag[:, survey.instrument.reference_index].max() > survey.instrument.limit


def test_redshift_ranges():
    sdss = simulate_survey(20_000, survey="sdss", random_state=8)
    lsst = simulate_survey(20_000, survey="lsst", random_state=8)
    assert 0.25 < np.median(sdss.z_true) < 0.45
    assert np.quantile(sdss.z_true, 0.97) < 0.9
    assert 0.7 < np.median(lsst.z_true) < 1.1
    assert np.mean(lsst.z_true > 2) > 0.05


def test_spectroscopic_galaxies_are_brighter_and_incomplete(survey):
    reference = survey.true_mag[:, survey.instrument.reference_index]
    chosen = survey.spectroscopic
    assert np.median(reference[chosen]) < np.median(reference[~chosen]) - 0.5
    assert 0.03 < chosen.mean() < 0.5


def test_success_falls_in_the_redshift_desert(survey):
    reference = survey.true_mag[:, survey.instrument.reference_index]
    start, end, remaining = survey.instrument.desert
    inside, before = (
        spectroscopic_success(replace(survey.galaxies, z=np.full(len(survey), z)), reference, survey.instrument)
        for z in (0.5 * (start + end), start - 0.2)
    )
    np.testing.assert_allclose(inside / before, remaining, rtol=0.05)
    assert before.max() <= 1.0


def test_only_spectroscopic():
    survey = simulate_survey(3000, random_state=9, only_spectroscopic=True)
    assert len(survey) == 3000
    assert survey.spectroscopic.all()
    assert np.isfinite(survey.columns()["z_spec"]).all()


def test_depth_and_limit_can_be_changed():
    shallow = simulate_survey(2000, survey="lsst", random_state=0, depth_offset=-1.0, magnitude_limit=23.0)
    assert shallow.mag[:, 3].max() < 23.0
    deep = simulate_survey(2000, survey="lsst", random_state=0, magnitude_limit=23.0)
    assert np.median(shallow.mag_err[:, 3]) > 1.2 * np.median(deep.mag_err[:, 3])


def test_positions_lie_in_the_patch(survey):
    assert survey.ra.min() >= 150
    assert survey.ra.max() < 170
    assert np.abs(survey.dec).max() <= 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, r"`n` is 0; expected at least 1"),
        ({"survey": "des"}, r"`survey` is 'des'.*choose one of 'sdss', 'lsst'"),
        ({"missing_fraction": 1.0}, r"`missing_fraction` is 1.0; expected a probability"),
        ({"missing_fraction": -0.1}, r"`missing_fraction` is -0.1"),
        ({"detection_snr": 0.0}, r"`detection_snr` is 0.0; expected a signal-to-noise"),
        ({"magnitude_limit": 30.0}, r"`magnitude_limit` is 30.0; .* between 14 and 24 in the r band"),
        ({"depth_offset": float("nan")}, r"`depth_offset` is nan; expected magnitudes"),
    ],
)
def test_bad_arguments_are_explained(arguments, message):
    with pytest.raises(ValueError, match=message):
        simulate_survey(**({"n": 10} | arguments))
