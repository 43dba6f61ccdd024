"""Calibration diagnostics on data that are calibrated by construction, and selection rules."""

from __future__ import annotations

import numpy as np
import pytest

from gpzed.evaluation import coverage, pit, pit_histogram, pulls, qq_curve, reliability, rmse, select
from gpzed.prediction import Prediction


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(2)
    std = rng.uniform(0.02, 0.4, 3000)
    mean = rng.uniform(2, 3, 3000)
    return rng.normal(mean, std), Prediction.gaussian(mean, std**2 / 3, 2 * std**2 / 3)


def test_calibrated_model_is_found_calibrated(data):
    z, p = data
    histogram = pit_histogram(z, p)
    assert np.abs(histogram.density - 1).max() < 4.5 * histogram.error
    assert histogram.density.mean() == pytest.approx(1)
    assert histogram.below < 0.002
    assert histogram.above < 0.002
    assert np.abs(qq_curve(z, p).difference).max() < 0.03
    curve = reliability(z, p)
    assert np.abs((curve.actual - curve.nominal) / curve.error).max() < 4.5
    assert curve.calibration_error < 0.02
    pull = pulls(z, p)
    assert pull.mean == pytest.approx(0, abs=0.08)
    assert pull.std == pytest.approx(1, abs=0.06)
    assert pull.scaled_deviation == pytest.approx(1, abs=0.08)


def test_overconfidence_shows(data):
    z, p = data
    narrow = Prediction.gaussian(p.mean, p.variance / 4, 0.0)
    assert pulls(z, narrow).std == pytest.approx(2, abs=0.15)
    assert np.all(reliability(z, narrow).actual < reliability(z, narrow).nominal)
    ends = pit_histogram(z, narrow).density
    assert min(ends[0], ends[-1]) > 2


def test_curves_agree_with_their_definitions(data):
    z, p = data
    curve = reliability(z, p, levels=[0.95, 0.68])
    np.testing.assert_allclose(curve.nominal, [0.68, 0.95])
    for level, actual in zip(curve.nominal, curve.actual, strict=True):
        assert actual == pytest.approx(coverage(z, p, level=level), abs=1e-12)
    u = pit(z, p)
    np.testing.assert_allclose(qq_curve(z, p, n_points=9).empirical, np.quantile(u, np.arange(1, 10) / 10), atol=1e-3)
    weight = (u < 0.5).astype(float)
    assert pit_histogram(z, p, bins=2, sample_weight=weight).density[0] == pytest.approx(2)


def test_calibration_arguments(data):
    z, p = data
    with pytest.raises(ValueError, match="`bins` is 0"):
        pit_histogram(z, p, bins=0)
    with pytest.raises(ValueError, match="`n_points` is 0"):
        qq_curve(z, p, n_points=0)
    with pytest.raises(ValueError, match="`levels` must be fractions"):
        reliability(z, p, levels=[68])
    for function in (pit_histogram, qq_curve, reliability, pulls):
        with pytest.raises(ValueError, match=r"`z_spec` has shape \(1,\)"):
            function([0.5], p)


def test_keep_takes_the_most_certain(data):
    z, p = data
    chosen = select(p, z_spec=z, keep=0.25)
    assert chosen.completeness == 0.25
    assert chosen.mask.sum() == 750
    assert p.std[chosen.mask].max() <= p.std[~chosen.mask].min()
    assert chosen.max_std == pytest.approx(p.std[chosen.mask].max())
    assert chosen.before["rmse"] == pytest.approx(rmse(z, p))
    assert chosen.after["rmse"] == pytest.approx(rmse(z[chosen.mask], p[chosen.mask]))
    assert chosen.after["rmse"] < chosen.before["rmse"]
    np.testing.assert_array_equal(chosen.indices, np.flatnonzero(chosen.mask))


def test_max_std_and_max_rmse(data):
    z, p = data
    by_std = select(p, max_std=0.1)
    np.testing.assert_array_equal(by_std.mask, p.std <= 0.1)
    assert by_std.before == {}
    measured = select(p, z_spec=z, max_rmse=0.03)
    assert measured.after["rmse"] <= 0.03
    one_more = np.argsort(p.variance)[: measured.mask.sum() + 1]
    assert rmse(z[one_more], p[one_more]) > 0.03
    expected = select(p, max_rmse=0.03)
    assert expected.predicted_rmse[1] <= 0.03
    assert expected.completeness == pytest.approx(measured.completeness, abs=0.1)


def test_expected_error_is_that_of_the_quoted_redshift():
    p = Prediction.gaussian([0.7, -0.3], [0.01, 0.04], [0.15, 0.0])  # stds 0.4 and 0.2
    assert select(p, keep=0.5).predicted_rmse[1] == pytest.approx(0.2)  # a negative redshift counts as 0 in 1 + z
    assert select(p[:1], keep=1.0).predicted_rmse[0] == pytest.approx(0.4 / 1.7)
    quoted = p[:1].changed(point=np.array([1.0]))  # 0.3 from the mean: 0.5 in all
    assert select(quoted, keep=1.0).predicted_rmse[0] == pytest.approx(0.5 / 2.0)


def test_criteria_combine(data):
    z, p = data
    both = select(p, z_spec=z, keep=0.9, max_rmse=0.03, min_completeness=0.1)
    assert both.binding == "max_rmse"
    assert select(p, min_completeness=0.5).completeness == 0.5
    assert select(p, keep=1.0, min_completeness=1.0).completeness == 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "no criterion given"),
        ({"keep": 0}, "`keep` must be fractions above 0"),
        ({"keep": 50}, "`keep` must be fractions above 0"),
        ({"max_std": -1}, "`max_std` is -1; expected a positive"),
        ({"max_std": 1e-9}, "no object satisfies `max_std`"),
        ({"keep": 0.2, "min_completeness": 0.5}, "`keep` leaves 600 of 3000 objects, completeness 0.2"),
        ({"keep": 0.2, "z_spec": [1.0]}, r"`z_spec` has shape \(1,\)"),
    ],
)
def test_selection_refuses(data, options, message):
    with pytest.raises(ValueError, match=message):
        select(data[1], **options)


def test_selection_of_nothing(data):
    with pytest.raises(ValueError, match="nothing to select"):
        select(data[1][:0], keep=0.5)
