"""Predictive mixtures against scipy, scoringrules, quadrature, sampling and their own identities."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
import scoringrules
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from gpzed.errors import MissingDependencyError
from gpzed.prediction import Prediction, mixture, scores


def random_mixture(seed=0, n=40, K=3, lower=None, spread=1.0):
    rng = np.random.default_rng(seed)
    return Prediction(
        rng.dirichlet(np.ones(K), n),
        rng.normal(0.8, 0.5 * spread, (n, K)),
        rng.gamma(2, 0.02, (n, K)),
        rng.gamma(2, 0.02, (n, K)),
        rng.gamma(2, 0.01, (n, K)),
        lower=lower,
    )


def moment(p, i, power, centre=0.0):
    """Moment of object i by Simpson's rule on a density written out with scipy only."""
    z = np.linspace(-8.0 if p.lower is None else p.lower, 10.0, 40_001)[:, None]
    values = stats.norm.pdf(z, p.means[i], p.component_stds[i]) @ p.weights[i]
    if p.lower is not None:
        values /= p.weights[i] @ stats.norm.sf(p.lower, p.means[i], p.component_stds[i])
    return integrate.simpson(values * (z[:, 0] - centre) ** power, x=z[:, 0])


@pytest.mark.parametrize("lower", [None, 0.0, 1.5])
def test_gaussian_agrees_with_scipy(lower):
    rng = np.random.default_rng(1)
    mean, var = rng.normal(0.5, 0.5, 30), rng.gamma(2, 0.05, 30)
    p = Prediction.gaussian(mean, var / 4, var / 2, var / 4, lower=lower)
    s = np.sqrt(var)
    cut = -np.inf if lower is None else (lower - mean) / s
    oracle = stats.truncnorm(cut, np.inf, loc=mean, scale=s)
    z = oracle.ppf(rng.uniform(0.01, 0.99, 30))
    np.testing.assert_allclose(p.log_pdf(z), oracle.logpdf(z), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(p.cdf(z), oracle.cdf(z), rtol=1e-9)
    for q in (1e-6, 0.16, 0.5, 0.975):
        np.testing.assert_allclose(p.quantile(q), oracle.ppf(q), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(p.mean, oracle.mean(), rtol=1e-9)
    np.testing.assert_allclose(p.variance, oracle.var(), rtol=1e-6)


@pytest.mark.parametrize("lower", [None, 0.0, 0.6])
def test_mixture_moments_by_quadrature(lower):
    p = random_mixture(n=4, lower=lower)
    for i in range(len(p)):
        assert moment(p, i, 0) == pytest.approx(1, rel=1e-9)
        assert p.mean[i] == pytest.approx(moment(p, i, 1), rel=1e-8)
        assert p.variance[i] == pytest.approx(moment(p, i, 2, p.mean[i]), rel=1e-8)


def test_split_without_truncation_is_the_law_of_total_variance():
    p = random_mixture()
    w = p.weights
    np.testing.assert_allclose(p.noise_variance, (w * p.components.noise_variances).sum(1), rtol=1e-13)
    np.testing.assert_allclose(p.input_variance, (w * p.components.input_variances).sum(1), rtol=1e-13)
    model = (w * (p.components.model_variances + p.means**2)).sum(1) - p.mean**2
    np.testing.assert_allclose(p.model_variance, model, rtol=1e-10)
    assert np.all(p.model_variance + p.noise_variance + p.input_variance == p.variance)


def test_truncation_shrinks_the_parts_alike():
    p = Prediction.gaussian([0.1, 5.0], [0.01, 0.01], [0.03, 0.03], [0.02, 0.02], lower=0.0)
    np.testing.assert_allclose(p.noise_variance / p.model_variance, 3, rtol=1e-12)
    np.testing.assert_allclose(p.input_variance / p.model_variance, 2, rtol=1e-12)
    assert p.variance[0] < 0.06
    assert p.variance[1] == pytest.approx(0.06, rel=1e-12)


def test_a_cut_gaussian_is_known_by_its_moments():
    p = Prediction.gaussian([-2.0, -0.1, 0.1, 0.5, 5.0], 0.1**2, 0.2**2, 0.05**2, lower=0.0)
    again = Prediction.from_cut(p.mean, p.model_variance, p.noise_variance, p.input_variance, lower=0.0)
    np.testing.assert_allclose(again.means, p.means, rtol=1e-6)
    np.testing.assert_allclose(again.component_stds, p.component_stds, rtol=1e-6)
    np.testing.assert_allclose(again.mean, p.mean, rtol=1e-12)
    np.testing.assert_allclose(again.noise_variance, p.noise_variance, rtol=1e-9)


@pytest.mark.parametrize("alpha", [5.0, 29.9, 30.1, 200.0, 1e4])
def test_moments_and_quantiles_far_beyond_the_cut(alpha):
    p = Prediction.gaussian([-alpha], [0.5], [0.5], lower=0.0)

    # Above the cut the density is exp(-u - u^2 / 2 alpha^2) in u = alpha z: smooth, nothing cancels.
    u, w = np.polynomial.laguerre.laggauss(80)
    w = w * np.exp(-0.5 * (u / alpha) ** 2)
    w /= w.sum()
    mean = w @ u / alpha
    assert p.mean[0] == pytest.approx(mean, rel=1e-9)
    assert p.variance[0] == pytest.approx(w @ (u / alpha - mean) ** 2, rel=1e-8)
    z = p.quantile(0.3)[0]
    total = integrate.quad(lambda u: np.exp(-u - 0.5 * (u / alpha) ** 2), 0, 60, epsabs=1e-13)[0]
    below = integrate.quad(lambda u: np.exp(-u - 0.5 * (u / alpha) ** 2), 0, z * alpha)[0]
    assert below / total == pytest.approx(0.3, rel=1e-10)
    assert p.cdf(z)[0] == pytest.approx(0.3, rel=1e-10)
    assert p.crps(0.0)[0] == pytest.approx(0.5 * mean, rel=0.05)  # of an exponential: mean / 2


mixtures = st.builds(
    random_mixture,
    seed=st.integers(0, 10**6),
    n=st.just(7),
    K=st.integers(1, 5),
    lower=st.sampled_from([None, 0.0, 0.7]),
    spread=st.sampled_from([0.1, 1.0, 3.0]),
)


@settings(max_examples=60, deadline=None)
@given(p=mixtures, q=st.floats(1e-6, 1 - 1e-6))
def test_quantile_inverts_cdf(p, q):
    z = p.quantile(q)
    np.testing.assert_allclose(p.cdf(z), q, atol=1e-12)
    steep = p.pdf(z) > 1e-3
    np.testing.assert_allclose(p.quantile(p.cdf(z))[steep], z[steep], atol=1e-10)


@settings(max_examples=40, deadline=None)
@given(p=mixtures, seed=st.integers(0, 99))
def test_slicing_commutes_with_everything(p, seed):
    rng = np.random.default_rng(seed)
    mask = rng.random(len(p)) < 0.5
    z = rng.normal(0.8, 0.5, len(p))
    for index in (mask, np.flatnonzero(mask), slice(1, None, 2), [2, 2, 0]):
        part = p[index]
        np.testing.assert_allclose(part.mean, p.mean[index], rtol=1e-12)
        np.testing.assert_allclose(part.variance, p.variance[index], rtol=1e-12)
        np.testing.assert_allclose(part.log_pdf(z[index]), p.log_pdf(z)[index], rtol=1e-12)
        np.testing.assert_allclose(part.crps(z[index]), p.crps(z)[index], rtol=1e-12)
        np.testing.assert_array_equal(part.weights, p.weights[index])


@settings(max_examples=40, deadline=None)
@given(p=mixtures)
def test_split_sums_to_total_and_parts_are_not_negative(p):
    parts = np.stack([p.model_variance, p.noise_variance, p.input_variance])
    assert np.all(parts >= 0)
    assert np.all(parts[0] + parts[1] + parts[2] == p.variance)


@pytest.mark.parametrize("lower", [None, 0.0, 0.7])
def test_samples_follow_the_distribution(lower):
    p = random_mixture(n=5, K=4, lower=lower)
    draws = p.sample(20000, random_state=3)
    assert draws.shape == (5, 20000)
    np.testing.assert_allclose(draws.mean(1), p.mean, atol=6 * p.std.max() / np.sqrt(20000))
    np.testing.assert_allclose(draws.var(1), p.variance, rtol=0.06)
    for i in range(5):
        uniform = p[[i] * 500].cdf(draws[i, :500])
        assert stats.kstest(uniform, "uniform").pvalue > 1e-4
    np.testing.assert_array_equal(draws, p.sample(20000, random_state=np.random.default_rng(3)))


def test_crps_agrees_with_scoringrules():
    rng = np.random.default_rng(5)
    p, z = random_mixture(K=4), rng.normal(0.8, 1.0, 40)
    oracle = scoringrules.crps_mixnorm(z, p.means, p.component_stds, p.weights)
    np.testing.assert_allclose(p.crps(z), oracle, rtol=1e-10)
    single = Prediction.gaussian(p.mean, p.variance, 0.0)
    np.testing.assert_allclose(single.crps(z), scoringrules.crps_normal(z, p.mean, p.std), rtol=1e-10)
    cut = single.truncate(0.3)
    oracle = scoringrules.crps_tnormal(z, p.mean, p.std, lower=0.3)
    np.testing.assert_allclose(cut.crps(z)[z > 0.3], oracle[z > 0.3], rtol=1e-9)


@pytest.mark.parametrize("z", [-0.5, 0.4, 0.9, 6.0])
def test_truncated_mixture_crps_by_quadrature(z):
    p = random_mixture(n=4, lower=0.4)
    for i in range(4):
        x = np.linspace(min(z, 0.4), 9, 400_001)
        f = p[[i]].cdf_grid(x)[0]
        oracle = integrate.simpson((f - (x >= z)) ** 2, x=x)
        assert p.crps(z)[i] == pytest.approx(oracle, rel=1e-4, abs=3e-5)


@settings(max_examples=50, deadline=None)
@given(p=mixtures, z=st.floats(-1, 5))
def test_closed_form_of_truncated_crps_equals_quadrature(p, z):
    parts = (p.weights, p.means, p.component_stds)
    mix = mixture.build(*parts, 0.3)
    at = np.full(len(p), z)
    usable = (p.weights * stats.norm.sf(0.3, p.means, p.component_stds)).sum(1) > 0.01
    exact, numerical = scores._crps_truncated(mix, at), scores._crps_quadrature(mix, at)
    np.testing.assert_allclose(exact[usable], numerical[usable], rtol=1e-9, atol=1e-10)
    same = Prediction(np.full((1, 2), 0.5), np.zeros((1, 2)), np.ones((1, 2)), np.ones((1, 2)), lower=0.0)
    single = Prediction.gaussian([0.0], 1, 1, lower=0.0)
    np.testing.assert_allclose(same.crps(z), single.crps(z), rtol=1e-12)


@pytest.mark.parametrize("lower", [None, 0.5])
def test_squared_density_integral_by_quadrature(lower):
    p = random_mixture(n=4, lower=lower)
    x = np.linspace(-6 if lower is None else lower, 9, 200_001)
    oracle = integrate.simpson(p.pdf_grid(x) ** 2, x=x, axis=1)
    np.testing.assert_allclose(p.squared_density_integral(), oracle, rtol=1e-8)


@settings(max_examples=30, deadline=None)
@given(p=mixtures)
def test_mode_is_the_highest_point(p):
    grid = np.linspace(0.7 if p.lower else p.lower if p.lower == 0 else -6, 8, 4001)
    highest = p.pdf_grid(grid).max(axis=1)
    assert np.all(p.pdf(p.mode) >= highest * (1 - 1e-9))


@settings(max_examples=20, deadline=None)
@given(p=mixtures, level=st.sampled_from([0.3, 0.68, 0.95]))
def test_central_interval(p, level):
    low, high = p.interval(level)
    np.testing.assert_allclose(p.cdf(high) - p.cdf(low), level, atol=1e-12)
    np.testing.assert_allclose(p.cdf(low), 0.5 * (1 - level), atol=1e-12)


def test_grids_and_stacking():
    p = random_mixture(lower=0.0)
    grid = np.linspace(0, 6, 2001)
    pdf = p.pdf_grid(grid)
    np.testing.assert_allclose(pdf[:, 700], p.pdf(grid[700]), rtol=1e-12)
    np.testing.assert_allclose(p.cdf_grid(grid)[:, 700], p.cdf(grid[700]), rtol=1e-12)
    weight = np.arange(40.0)
    np.testing.assert_allclose(p.stacked_pdf(grid, weight), weight @ pdf / weight.sum(), rtol=1e-12)
    assert integrate.simpson(p.stacked_pdf(grid), x=grid) == pytest.approx(1, abs=1e-4)
    np.testing.assert_array_equal(p.quantile_grid([0.2, 0.5])[:, 1], p.median)


def test_many_chunks_equal_one(monkeypatch):
    p, z = random_mixture(n=50, lower=0.0), np.linspace(0, 2, 50)
    whole = [p.crps(z), p.quantile(0.3), p.mode, p.sample(3, 0), p.pdf_grid(z), p.stacked_pdf(z), p.mean]
    monkeypatch.setattr("gpzed.prediction.mixture.CHUNK_ELEMENTS", 7)
    p = p[:]
    parts = [p.crps(z), p.quantile(0.3), p.mode, p.sample(3, 0), p.pdf_grid(z), p.stacked_pdf(z), p.mean]
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("lower", [None, 0.6])
def test_committee_is_the_mean_of_the_members_densities(lower):
    members = [random_mixture(s, K=k, lower=lower) for s, k in ((1, 1), (2, 3), (3, 2))]
    p = Prediction.mixture(members)
    np.testing.assert_allclose(p.pdf(0.9), np.mean([m.pdf(0.9) for m in members], axis=0), rtol=1e-10)
    np.testing.assert_allclose(p.mean, np.mean([m.mean for m in members], axis=0), rtol=1e-10)
    weighted = Prediction.mixture(members, weights=[1, 0, 3])
    np.testing.assert_allclose(weighted.cdf(0.9), (members[0].cdf(0.9) + 3 * members[2].cdf(0.9)) / 4)
    assert p.n_components == 6


def test_coverage_and_flags_are_carried():
    a = Prediction.gaussian([0, 1], 1, 1, coverage=[0.2, 1.0], flags=[1, 2])
    b = Prediction.gaussian([0, 1], 1, 1, coverage=[0.4, 1.0], flags=[4, 2])
    both = Prediction.mixture([a, b])
    np.testing.assert_allclose(both.coverage, [0.3, 1.0])
    np.testing.assert_array_equal(both.flags, np.array([5, 2], dtype=np.uint32))
    joined = Prediction.concatenate([a, both])
    np.testing.assert_array_equal(joined.flags, [1, 2, 5, 2])
    np.testing.assert_allclose(joined.log_pdf(0.3)[:2], a.log_pdf(0.3), rtol=1e-12)
    assert joined.flags.dtype == np.uint32
    assert joined[3].coverage.shape == (1,)


def test_zero_weights_tiny_variances_and_far_tails_stay_finite():
    p = Prediction([[1.0, 0.0]], [[0.5, 99.0]], [[1e-16, 1e-16]], [[0.0, 0.0]])
    assert p.mean[0] == 0.5
    assert p.log_pdf(0.5)[0] == pytest.approx(-np.log(1e-8) - 0.5 * np.log(2 * np.pi))
    assert p.log_pdf(1.5)[0] == pytest.approx(-0.5e16, rel=1e-6)
    assert p.pdf(1.5)[0] == 0
    assert p.quantile(0.5)[0] == pytest.approx(0.5, abs=1e-15)
    assert p.crps(0.5)[0] == pytest.approx(scoringrules.crps_normal(0.5, 0.5, 1e-8))
    assert p.mode[0] == 0.5
    assert p.cdf(np.inf)[0] == 1
    assert p.truncate(0.0).log_pdf(-0.1)[0] == -np.inf
    np.testing.assert_array_equal(p.truncate(0.0).quantile(0.0), [0.0])


def test_zero_objects_in_zero_out():
    p = random_mixture()[:0]
    assert len(p) == 0
    assert p.mean.shape == p.crps([]).shape == p.mode.shape == p.median.shape == (0,)
    assert p.pdf_grid([0.1, 0.2]).shape == (0, 2)
    assert p.sample(3).shape == (0, 3)
    with pytest.raises(ValueError, match="has no objects"):
        p.stacked_pdf([0.1])


def test_integer_index_iteration_and_repr():
    p = random_mixture(n=3)
    assert [len(x) for x in p] == [1, 1, 1]
    assert p[-1].mean[0] == p.mean[2]
    assert repr(p) == "Prediction(n=3, n_components=3, lower=None)"
    with pytest.raises(IndexError, match="out of range"):
        p[3]
    with pytest.raises(IndexError, match="mask has 2 entries"):
        p[np.array([True, False])]
    with pytest.raises(IndexError, match="expected a slice, mask or 1-D positions"):
        p[[0.5]]


def test_arrays_are_copied_and_read_only():
    means = np.zeros((2, 1))
    p = Prediction(np.ones((2, 1)), means, np.ones((2, 1)), np.ones((2, 1)))
    means[:] = 5
    assert np.all(p.means == 0)
    with pytest.raises(ValueError, match="read-only"):
        p.means[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        p.mean[0] = 1


ok = np.ones((2, 1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": [[1.0], [0.5]]}, r"`weights` has a row that does not sum to 1: 0.5 at index \[1\]"),
        ({"weights": [[1.0], [-1.0]]}, r"`weights` is negative: -1.0 at index \[1, 0\]"),
        ({"weights": [1.0, 1.0]}, r"`weights` has shape \(2,\); expected \(n, K\)"),
        ({"means": [[0.0], [np.nan]]}, r"`means` is not finite: nan at index \[1, 0\] \(1 of 2"),
        ({"means": [[0.0]]}, r"`means` has shape \(1, 1\) but `weights` has \(2, 1\)"),
        ({"means": [["a"], ["b"]]}, "`means` is not a rectangular array of numbers"),
        ({"noise_variances": [[1.0], [-2.0]]}, r"`noise_variances` is negative: -2.0 at index \[1, 0\]"),
        ({"model_variances": 0 * ok, "noise_variances": 0 * ok}, "sum to zero: 0.0 .* add a small floor"),
        ({"coverage": [0.5, 1.5]}, r"`coverage` is outside 0..1: 1.5 at index \[1\]"),
        ({"coverage": [0.5]}, "`coverage` has shape .* each of the 2 objects"),
        ({"flags": [0.5, 1.5]}, "expected integer bit flags"),
        ({"flags": [1, -1]}, "`flags` is negative"),
        ({"lower": np.nan}, "`lower` is nan; expected a finite number"),
    ],
)
def test_bad_input_is_named(arguments, message):
    good = {"weights": ok, "means": ok, "model_variances": ok, "noise_variances": ok}
    with pytest.raises(ValueError, match=message):
        Prediction(**{**good, **arguments})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.pdf([0.1, 0.2, 0.3]), "`z` has shape .* use pdf_grid"),
        (lambda p: p.cdf([0.1, np.nan]), r"`z` is NaN: nan at index \[1\]"),
        (lambda p: p.quantile(1.5), "`q` is not a probability"),
        (lambda p: p.interval(68), "`level` is 68.0; expected a probability"),
        (lambda p: p.pdf_grid([]), "`grid` has shape .* non-empty 1-D"),
        (lambda p: p.sample(0), "`size` is 0"),
        (lambda p: p.stacked_pdf([0.1], [0, 0]), "`sample_weight` is zero for every object"),
        (lambda p: p.stacked_pdf([0.1], [1, -1]), "`sample_weight` is negative"),
        (lambda p: Prediction.mixture([]), "`predictions` is empty"),
        (lambda p: Prediction.mixture([p, p[:1]]), r"`predictions` have \[2, 1\] objects"),
        (lambda p: Prediction.mixture([p, p.truncate(0)]), "different `lower`"),
        (lambda p: Prediction.mixture([p, p], [1, 2, 3]), r"`weights` has shape \(3,\)"),
        (lambda p: Prediction.gaussian([[1.0]], 1, 1), "`mean` has shape .* one mean per object"),
    ],
)
def test_bad_arguments_are_named(call, message):
    p = Prediction.gaussian([0.5, 1.0], [0.1, 0.1], [0.1, 0.1])
    with pytest.raises(ValueError, match=message):
        call(p)


def test_concatenate_refuses_half_given_flags():
    a = Prediction.gaussian([0.5], 1, 1, flags=[1])
    with pytest.raises(ValueError, match="`flags` is given in 1 of 2 predictions"):
        Prediction.concatenate([a, Prediction.gaussian([0.5], 1, 1)])


def test_to_qp(monkeypatch):
    p = random_mixture()
    monkeypatch.setitem(sys.modules, "qp", None)
    with pytest.raises(MissingDependencyError, match=r"gpzed\[qp\]"):
        p.to_qp()
    stand_in = types.SimpleNamespace(mixmod="mixmod", interp="interp", Ensemble=lambda kind, data: (kind, data))
    monkeypatch.setitem(sys.modules, "qp", stand_in)
    kind, data = p.to_qp()
    assert kind == "mixmod"
    np.testing.assert_array_equal(data["stds"], p.component_stds)
    with pytest.raises(ValueError, match=r"qp\.mixmod has no truncation"):
        p.truncate(0.0).to_qp()
    kind, data = p.truncate(0.0).to_qp(grid=[0.0, 1.0])
    assert kind == "interp"
    assert data["yvals"].shape == (40, 2)
    stand_in.stats = types.SimpleNamespace(norm="norm", truncnorm="truncnorm")
    kind, data = p.to_qp(kind="norm")
    assert kind == "norm"
    np.testing.assert_array_equal(data["scale"][:, 0], p.std)
    one = Prediction.gaussian(p.mean, 0.0, p.variance)
    kind, data = one.truncate(0.1).to_qp(kind="norm")
    assert kind == "truncnorm"
    np.testing.assert_allclose(data["loc"] + data["a"] * data["scale"], 0.1)
    with pytest.raises(ValueError, match="a truncated mixture is no truncated Gaussian"):
        p.truncate(0.0).to_qp(kind="norm")


@pytest.mark.parametrize("lower", [None, 0.5])
def test_variance_between_heads_inputs_and_models(lower):
    rng = np.random.default_rng(3)
    n, M, G, K = 30, 4, 3, 2
    weights, means = rng.dirichlet(np.ones(M * G * K), n), rng.normal(1.0, 0.4, (n, M * G * K))
    nothing = np.full(means.shape, 1e-12)
    labels = {"member": np.repeat(np.arange(M), G * K), "input": np.tile(np.repeat(np.arange(G), K), M)}
    p = Prediction(weights, means, nothing, nothing, nothing, **labels)
    w, z = weights.reshape(n, M, G, K), means.reshape(n, M, G, K)
    total = p.mean[:, None, None, None]
    of_inputs = (w * z).sum(3, keepdims=True) / w.sum(3, keepdims=True)
    of_models = (w * z).sum((2, 3), keepdims=True) / w.sum((2, 3), keepdims=True)
    np.testing.assert_allclose(p.noise_variance, (w * (z - of_inputs) ** 2).sum((1, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(p.input_variance, (w * (of_inputs - of_models) ** 2).sum((1, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(p.model_variance, (w * (of_models - total) ** 2).sum((1, 2, 3)), rtol=1e-6)
    cut = p.truncate(lower)
    parts = cut.model_variance + cut.noise_variance + cut.input_variance
    plain = Prediction(weights, means, nothing, nothing, nothing, lower=lower)
    np.testing.assert_allclose(parts, plain.variance, rtol=1e-9)


def test_members_with_different_numbers_of_heads_and_inputs():
    rng = np.random.default_rng(4)

    def member(G, K):
        parts = (rng.gamma(2, 0.02, (20, G * K)) for _ in range(3))
        labels = {"member": np.zeros(G * K, dtype=int), "input": np.repeat(np.arange(G), K)}
        return Prediction(rng.dirichlet(np.ones(G * K), 20), rng.normal(1.0, 0.4, (20, G * K)), *parts, **labels)

    members = [member(2, 3), member(1, 1), member(3, 1), member(1, 3)]
    p = Prediction.mixture(members)
    assert p.components.member.tolist() == [0] * 6 + [1] + [2] * 3 + [3] * 3
    assert p.components.input.tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 1, 2, 0, 0, 0]
    z = np.linspace(0.0, 2.0, 20)
    np.testing.assert_allclose(p.pdf(z), np.mean([one.pdf(z) for one in members], axis=0), rtol=1e-12)
    for part in ("noise_variance", "input_variance"):
        np.testing.assert_allclose(getattr(p, part), np.mean([getattr(one, part) for one in members], axis=0))
    spread = np.var([one.mean for one in members], axis=0)
    np.testing.assert_allclose(p.model_variance, np.mean([one.model_variance for one in members], axis=0) + spread)
    with pytest.raises(ValueError, match=r"`input` has shape \(2,\) .*; expected 3 whole numbers"):
        Prediction([[0.5, 0.3, 0.2]], [[1.0, 2.0, 3.0]], [[0.1] * 3], [[0.1] * 3], input=[0, 1])


def test_real_qp_agrees():
    qp = pytest.importorskip("qp")
    p = random_mixture()
    assert qp is not None
    np.testing.assert_allclose(p.to_qp().pdf([0.7])[:, 0], p.pdf(0.7), rtol=1e-8)
