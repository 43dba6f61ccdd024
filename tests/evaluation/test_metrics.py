"""Metrics against scipy, scoringrules, quadrature and formulas written out."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
import scoringrules
from astropy.stats import biweight_location, biweight_scale
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from gpzed.evaluation import (
    METRICS,
    bias,
    bootstrap,
    brier,
    cde_loss,
    coverage,
    crps,
    evaluate,
    fraction_retained,
    mll,
    odds,
    outlier_fraction,
    pit,
    pit_ad,
    pit_cvm,
    pit_ks,
    rmse,
    sigma_nmad,
)
from gpzed.prediction import Prediction

KEYS = {
    *("rmse", "mll", "fr_0.15", "fr_0.05", "bias", "sigma_nmad", "crps", "cde_loss", "pit_ks"),
    *("coverage_68", "coverage_95", "outliers_0.15", "outliers_3sigma", "pit_cvm", "pit_ad", "brier", "n"),
    *("odds", "median_bias", "clipped_mean", "clipped_std", "outliers_clipped", "outliers_0.2", "sigma_mad"),
    *("pit_ad_2sample", "pit_outliers"),
}


def sample(n=400, seed=0, K=3, lower=None):
    """Redshifts drawn from their own predictions: calibrated by construction."""
    rng = np.random.default_rng(seed)
    p = Prediction(
        rng.dirichlet(np.ones(K), n),
        rng.uniform(0.2, 1.5, (n, K)),
        rng.gamma(2, 0.002, (n, K)),
        rng.gamma(2, 0.004, (n, K)),
        lower=lower,
    )
    return np.maximum(p.sample(1, rng)[:, 0], -0.9), p


def gaussian(n=300, seed=0):
    rng = np.random.default_rng(seed)
    mean, std = rng.uniform(0, 2, n), rng.uniform(0.05, 0.3, n)
    return rng.normal(mean, std).clip(-0.5), mean, std, Prediction.gaussian(mean, std**2 / 3, 2 * std**2 / 3)


def test_paper_metrics_of_section_6_by_hand():
    p = Prediction.gaussian([0.0, 0.8, 3.3], [0.01, 0.02, 0.01], [0.0, 0.02, 0.08])
    z = [0.0, 1.0, 3.0]  # normalised errors 0, -0.1 and 0.075
    assert rmse(z, p) == pytest.approx(np.sqrt((0.1**2 + 0.075**2) / 3))
    assert bias(z, p) == pytest.approx(-0.025 / 3)
    assert [fraction_retained(z, p, threshold=e) for e in (0.05, 0.08, 0.15)] == pytest.approx([100 / 3, 200 / 3, 100])
    assert mll(z, p) == pytest.approx(stats.norm.logpdf(z, [0.0, 0.8, 3.3], [0.1, 0.2, 0.3]).mean(), rel=1e-12)


def test_bias_is_positive_where_the_photometric_redshift_is_high():
    assert bias([1.0], Prediction.gaussian([1.5], [0.1], [0.1])) == pytest.approx(0.25)


def test_challenge_metrics_against_scipy_and_astropy():
    rng = np.random.default_rng(3)
    z = rng.uniform(0.1, 2.0, 900)
    shift = np.where(rng.random(900) < 0.06, rng.normal(0.0, 0.5, 900), rng.normal(0.01, 0.03, 900))
    p = Prediction.gaussian(np.maximum(z + shift * (1 + z), -0.5), 0.0, 0.0008)
    found, dz = evaluate(z, p), (p.z_phot - z) / (1 + z)
    left = stats.sigmaclip(dz, 3, 3)[0]
    assert found["median_bias"] == pytest.approx(np.median(dz))
    assert found["clipped_mean"] == pytest.approx(biweight_location(left), rel=1e-9)
    assert found["clipped_std"] == pytest.approx(biweight_scale(left), rel=1e-9)
    assert found["outliers_clipped"] == pytest.approx(np.mean(np.abs(dz) > 3 * biweight_scale(left)))
    assert 0 < found["outliers_0.2"] == pytest.approx(np.mean(np.abs(dz) > 0.2))
    assert found["sigma_mad"] == pytest.approx(1.4862 * stats.median_abs_deviation(dz))
    u = pit(z, p)
    assert 0 < found["pit_outliers"] == pytest.approx(np.mean((u < 1e-4) | (u > 1 - 1e-4)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of p-values beyond the table
        oracle = stats.anderson_ksamp([u, np.linspace(0, 1, len(u))]).statistic
    assert found["pit_ad_2sample"] == pytest.approx(oracle, rel=1e-9)


def test_errors_all_alike_are_no_outliers():
    found = evaluate([0.5] * 5, Prediction.gaussian([0.5] * 5, [0.01] * 5, [0.01] * 5))
    assert (found["clipped_mean"], found["clipped_std"], found["outliers_clipped"]) == (0.0, 0.0, 0.0)


def test_odds_by_hand():
    p = Prediction([[0.7, 0.3]], [[0.5, 2.0]], [[0.0001, 0.0001]], [[0.0001, 0.0001]]).changed(point=np.array([0.5]))
    assert odds(p)[0] == pytest.approx(0.7, rel=1e-6)
    edge = Prediction([[0.7, 0.3]], [[0.5, 0.5 + 1.5 * 0.09]], [[1e-6, 1e-6]], [[1e-6, 1e-6]])
    assert odds(edge.changed(point=np.array([0.5])))[0] == pytest.approx(1.0, rel=1e-6)  # within 0.098, as in BPZ
    assert odds(p, width=1.5)[0] == pytest.approx(1.0, rel=1e-6)
    assert evaluate([0.5], p)["odds"] == pytest.approx(0.7, rel=1e-6)
    with pytest.raises(ValueError, match="`width` is 0"):
        odds(p, width=0)


def test_robust_metrics():
    z, mean, _, p = gaussian()
    dz = (mean - z) / (1 + z)
    assert sigma_nmad(z, p) == pytest.approx(1.4826 * stats.median_abs_deviation(dz), rel=1e-10)
    assert outlier_fraction(z, p) == pytest.approx(1 - fraction_retained(z, p) / 100)
    three = 3 * sigma_nmad(z, p)
    assert outlier_fraction(z, p, threshold=None) == pytest.approx(np.mean(np.abs(dz) > three))
    assert evaluate(z, p)["outliers_3sigma"] == outlier_fraction(z, p, threshold=None) > 0


def test_mixture_log_score_and_crps_against_scoringrules():
    z, p = sample()
    oracle = scoringrules.crps_mixnorm(z, p.means, p.component_stds, p.weights)
    assert crps(z, p) == pytest.approx(oracle.mean(), rel=1e-10)
    parts = stats.norm.pdf(z[:, None], p.means, p.component_stds)
    assert mll(z, p) == pytest.approx(np.log((p.weights * parts).sum(1)).mean(), rel=1e-10)


@pytest.mark.parametrize("lower", [None, 0.3])
def test_cde_loss_by_quadrature(lower):
    z, p = sample(30, lower=lower)
    grid = np.linspace(-1.5 if lower is None else lower, 4, 40_001)
    density = p.pdf_grid(grid)
    at = [np.interp(v, grid, d, left=0.0) for v, d in zip(z, density, strict=True)]
    oracle = integrate.simpson(density**2, x=grid, axis=1).mean() - 2 * np.mean(at)
    assert cde_loss(z, p) == pytest.approx(oracle, rel=1e-5)


def test_brier_as_defined():
    z, p = sample(25)
    edges = np.array([0.0, 0.5, 0.8, 1.1])
    total = 0.0
    for i in range(len(z)):
        bounds = [-np.inf, 0.5, 0.8, np.inf]
        for a, b in itertools.pairwise(bounds):
            cdf = stats.norm.cdf([[a], [b]], p.means[i], p.component_stds[i]) @ p.weights[i]
            total += (cdf[1] - cdf[0] - float(a <= z[i] < b)) ** 2
    assert brier(z, p, edges=edges) == pytest.approx(total / len(z), rel=1e-10)
    assert brier(z, p, edges=[0.0, 1.0]) == pytest.approx(0, abs=1e-15)
    assert 0 < brier(z, p) < 2


def test_brier_in_chunks(monkeypatch):
    z, p = sample(50)
    whole = brier(z, p)
    monkeypatch.setattr("gpzed.evaluation.metrics.BRIER_CHUNK", 7)
    assert brier(z, p) == pytest.approx(whole, rel=1e-12)


def anderson_by_hand(u):
    u, n = np.sort(u), len(u)
    i = np.arange(1, n + 1)
    return -n - np.sum((2 * i - 1) * (np.log(u) + np.log1p(-u[::-1]))) / n


@pytest.mark.parametrize("shift", [0.0, 0.1])
def test_pit_statistics_against_scipy(shift):
    z, p = sample(seed=3)
    z = z + shift
    u = pit(z, p)
    assert pit_ks(z, p) == pytest.approx(stats.ks_1samp(u, stats.uniform.cdf).statistic, rel=1e-10)
    assert pit_cvm(z, p) == pytest.approx(stats.cramervonmises(u, "uniform").statistic, rel=1e-9)
    assert pit_ad(z, p) == pytest.approx(anderson_by_hand(u), rel=1e-9)


def test_calibrated_predictions_pass():
    z, p = sample(4000, seed=5)
    assert stats.kstest(pit(z, p), "uniform").pvalue > 1e-3
    assert coverage(z, p, level=0.68) == pytest.approx(0.68, abs=0.03)
    lo, hi = p.interval(0.95)
    assert coverage(z, p, level=0.95) == pytest.approx(np.mean((z >= lo) & (z <= hi)))


def test_hopeless_outlier_keeps_anderson_darling_finite():
    p = Prediction.gaussian([0.5, 0.5], [1e-8, 1e-8], [0, 0])
    assert np.isfinite(pit_ad([3.0, 0.1], p))


def test_evaluate_has_all_keys_and_agrees_with_the_functions():
    z, p = sample(lower=0.0)
    scores = evaluate(z, p)
    assert set(scores) == KEYS
    assert scores["n"] == len(z)
    for function in (rmse, mll, bias, sigma_nmad, crps, cde_loss, pit_ks, pit_cvm, pit_ad, brier):
        assert scores[function.__name__] == pytest.approx(function(z, p), rel=1e-12)
    assert scores["fr_0.05"] == pytest.approx(fraction_retained(z, p, threshold=0.05))
    assert scores["coverage_95"] == pytest.approx(coverage(z, p, level=0.95))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), name=st.sampled_from(sorted(set(METRICS) - {"pit_cvm", "pit_ad", "pit_ad_2sample"})))
def test_integer_weights_equal_repeated_objects(seed, name):
    z, p = sample(31, seed)
    repeat = np.random.default_rng(seed).integers(0, 4, 31)
    repeat[0] = 1
    rows = np.repeat(np.arange(31), repeat)
    weighted = evaluate(z, p, sample_weight=repeat)[name]
    assert weighted == pytest.approx(evaluate(z[rows], p[rows])[name], rel=1e-9, abs=1e-12)


def test_equal_weights_equal_none():
    z, p = sample(50)
    plain, weighted = evaluate(z, p), evaluate(z, p, sample_weight=np.full(50, 0.3))
    assert weighted == pytest.approx(plain, rel=1e-10)


def test_zero_weight_silences_an_impossible_object():
    p = Prediction.gaussian([0.5, 0.5], 0.1, 0.1, lower=0.0)
    assert mll([0.5, -0.1], p) == -np.inf
    assert np.isfinite(mll([0.5, -0.1], p, sample_weight=[1, 0]))


def test_other_point_estimates():
    z, p = sample()
    assert rmse(z, p, point="median") == pytest.approx(np.sqrt(np.mean(((z - p.median) / (1 + z)) ** 2)))
    assert sigma_nmad(z, p, point="mode") != sigma_nmad(z, p)
    with pytest.raises(ValueError, match="`point` is 'average'; expected one of 'z_phot', 'best'"):
        bias(z, p, point="average")


@pytest.mark.parametrize("name", ["bias", "rmse", "sigma_nmad", "pit_ks"])
def test_bootstrap_error_bars(name):
    z, _, _, p = gaussian(1000)
    result = bootstrap(name, z, p, n_resamples=300, random_state=0)
    assert result.value == evaluate(z, p)[name]
    assert result.low < result.high
    if name == "bias":
        dz = (z - p.mean) / (1 + z)
        assert result.std == pytest.approx(dz.std() / np.sqrt(1000), rel=0.15)
    again = bootstrap(name, z, p, n_resamples=300, random_state=0)
    np.testing.assert_array_equal(again.resamples, result.resamples)


def test_bootstrap_of_a_function_equals_that_of_its_name():
    z, _, _, p = gaussian(50)
    named = bootstrap("fr_0.05", z, p, n_resamples=10, random_state=1)
    direct = bootstrap(fraction_retained, z, p, n_resamples=10, random_state=1, threshold=0.05)
    np.testing.assert_allclose(direct.resamples, named.resamples)


@pytest.mark.parametrize("function", [mll, rmse, evaluate, pit, brier, coverage, sigma_nmad])
def test_bad_input_is_named(function):
    p = Prediction.gaussian([0.5, 0.6], 0.1, 0.1)
    with pytest.raises(ValueError, match=r"`z_spec` is not finite: nan at index \[1\] \(1 of 2 values\)"):
        function([0.5, np.nan], p)
    with pytest.raises(ValueError, match=r"`z_spec` has shape \(1,\); expected one value for each of the 2 objects"):
        function([0.5], p)
    with pytest.raises(ValueError, match="the prediction has no objects"):
        function([], p[:0])
    with pytest.raises(ValueError, match=r"`z_spec` is not above -1: -99.0 at index \[0\] .* missing-value code"):
        function([-99.0, 0.5], p)
    with pytest.raises(ValueError, match="`z_spec` is not a rectangular array of numbers"):
        function(["a", "b"], p)
    with pytest.raises(ValueError, match=r"`z_spec` has shape \(1, 2\)"):
        function([[0.5, 0.6]], p)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1, -1], r"`sample_weight` is negative: -1.0 at index \[1\]"),
        ([0, 0], "`sample_weight` is zero for every object"),
        ([1], r"`sample_weight` has shape \(1,\)"),
    ],
)
def test_bad_weights_are_named(weight, message):
    with pytest.raises(ValueError, match=message):
        rmse([0.5, 0.6], Prediction.gaussian([0.5, 0.6], 0.1, 0.1), sample_weight=weight)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda z, p: coverage(z, p, level=68), "`level` is 68"),
        (lambda z, p: fraction_retained(z, p, threshold=0), "`threshold` is 0"),
        (lambda z, p: brier(z, p, edges=[1, 0]), "strictly increasing bin edges"),
        (lambda z, p: bootstrap("rmsd", z, p), "unknown metric 'rmsd'; choose from rmse, mll"),
        (lambda z, p: bootstrap("rmse", z, p, n_resamples=1), "`n_resamples` is 1"),
        (lambda z, p: bootstrap("rmse", z, p, threshold=1), "need a callable"),
    ],
)
def test_bad_options_are_named(call, message):
    z, p = sample(5)
    with pytest.raises(ValueError, match=message):
        call(z, p)
