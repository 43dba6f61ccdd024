"""Coverage: its meaning, and variances that go back to the prior's where nothing is known."""

from __future__ import annotations

import numpy as np
import pytest

from gpzed import load_model
from gpzed.compiled import substitute
from gpzed.engine.threads import Team
from gpzed.model.coverage import (
    HALF_WAY,
    LOST,
    THRESHOLD,
    fit_coverage,
    fit_density,
    read_density,
    return_to_prior,
)
from gpzed.model.recalibration import Recalibration
from gpzed.prediction import Prediction
from helpers import one_model

pytestmark = pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")


@pytest.fixture(scope="module")
def gap():
    """A wave seen on two stretches with a gap between them, and a model of it."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.uniform(-3, -1, 400), rng.uniform(1, 3, 400)])[:, None]
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(800)
    model = one_model(n_basis=10, max_iter=40, random_state=0).fit(X, y)
    return model, X, y


def test_in_the_gap_and_beyond_the_ends_the_variance_is_that_of_the_targets(gap):
    model, _, y = gap
    outside = np.array([-60.0, -6.0, -4.5, 0.0, 4.5, 6.0, 60.0])
    p = model.predict_distribution(outside[:, None])
    assert np.all(p.coverage < 0.1 * THRESHOLD)
    prior = y.var() + (p.mean - y.mean()) ** 2
    np.testing.assert_allclose(p.variance, prior, rtol=0.05)
    assert np.all(np.abs(p.mean[[0, -1]] - y.mean()) < 0.15)  # the mean function, learned with the weights
    np.testing.assert_allclose(p.model_variance + p.noise_variance, p.variance)


def test_inside_nothing_changes(gap):
    model, _, _ = gap
    inside = np.concatenate([np.linspace(-2.7, -1.3, 20), np.linspace(1.3, 2.7, 20)])[:, None]
    plain = Prediction.of(model.members_[0].components(inside, Team(1)))
    p = model.predict_distribution(inside)
    assert np.all(p.coverage > 0.05)
    np.testing.assert_allclose(p.std, plain.std, rtol=0.02)
    np.testing.assert_array_equal(p.mean, plain.mean)


def test_coverage_is_the_share_of_rows_in_emptier_places():
    rng = np.random.default_rng(1)
    draw = lambda n: np.concatenate([rng.standard_normal((n, 3)), 4 + 0.5 * rng.standard_normal((n, 3))])  # noqa: E731
    coverage = fit_coverage(draw(3000), 0.0, 1.0, rng)
    values = np.sort(coverage(draw(4000)))
    error = np.abs(values - (np.arange(len(values)) + 0.5) / len(values)).max()
    assert error < 0.05  # Kolmogorov-Smirnov distance of 8,000 from the ranks of 1,500 rows
    assert np.mean(values < THRESHOLD) == pytest.approx(THRESHOLD, abs=0.006)


def test_mixture_finds_the_density():
    rng = np.random.default_rng(2)
    X = np.concatenate([rng.normal(-2, 0.5, (4000, 1)), rng.normal(1, 1.0, (4000, 1))])
    x = np.linspace(-4, 4, 81)
    density = np.exp(fit_density(X, rng).log_components(x[None])).sum(axis=0)
    normal = lambda m, s: np.exp(-0.5 * ((x - m) / s) ** 2) / s / np.sqrt(2 * np.pi)  # noqa: E731
    np.testing.assert_allclose(density, 0.5 * normal(-2, 0.5) + 0.5 * normal(1, 1.0), atol=0.03)


@pytest.mark.parametrize("has_wings", [False, True])
def test_a_mixture_gets_a_wide_component_and_keeps_its_mean(has_wings):
    p = Prediction([[0.3, 0.7]] * 3, [[0.1, 0.4]] * 3, [[0.01, 0.02]] * 3, [[0.03, 0.01]] * 3)
    if has_wings:
        p = Recalibration(np.log(0.8), 0.1, 3.0)(p)
    wide = return_to_prior(p, np.array([1e-4, HALF_WAY, 1.0]), 0.5, 0.25, 2)
    prior = 0.25 + (p.mean - 0.5) ** 2
    np.testing.assert_allclose(wide.variance, p.variance + np.array([1.0, 0.5, 0.0]) * (prior - p.variance), rtol=2e-3)
    np.testing.assert_allclose(wide.noise_variance, p.noise_variance, rtol=2e-3)
    np.testing.assert_allclose(wide.mean, p.mean, rtol=2e-3)
    assert wide.n_components == 3
    weights = (1.0 - np.array([[0.5], [0.25], [0.0]])) * p.weights[:, :2]
    np.testing.assert_allclose(wide.weights[:, :2], weights, rtol=2e-3)
    np.testing.assert_array_equal(wide.means[:, :2], p.means[:, :2])
    grid = np.linspace(-1, 2, 50)
    np.testing.assert_allclose(wide[2].pdf_grid(grid), p[2].pdf_grid(grid))


def test_a_single_gaussian_is_widened_and_stays_one():
    p = Prediction.gaussian([0.2, 0.2], [0.01, 0.01], [0.03, 0.03])
    wide = return_to_prior(p, np.array([1e-4, 1.0]), 0.5, 0.25, 1)
    assert wide.n_components == 1
    np.testing.assert_allclose(wide.variance, [0.25 + 0.09, 0.04], rtol=2e-3)
    np.testing.assert_allclose(wide.noise_variance, p.noise_variance, rtol=2e-3)


@pytest.mark.parametrize("has_wings", [False, True])
@pytest.mark.parametrize("n_own", [1, 2])
def test_where_nothing_is_known_mean_and_variance_are_those_of_the_training_targets(n_own, has_wings):
    p = Prediction([[1.0 / n_own] * n_own] * 3, [[2.7, 1e4][:n_own]] * 3, [[0.01] * n_own] * 3, [[0.03] * n_own] * 3)
    if has_wings:
        p = Recalibration(np.log(0.8), 0.1, 3.0)(p)
    sane = return_to_prior(p, np.array([0.0, 1e-200, LOST]), 0.5, 0.25, n_own)
    np.testing.assert_allclose(sane.mean[:2], 0.5)
    np.testing.assert_allclose(sane.variance[:2], 0.25)
    np.testing.assert_allclose(sane.mean[2], 0.5 * (p.mean[2] + 0.5))
    np.testing.assert_allclose(sane.weights.sum(axis=1), 1.0)


def test_the_way_back_has_hardly_begun_where_objects_count_as_covered():
    coverage = np.array([THRESHOLD, 0.5 * HALF_WAY, 0.0])
    p = Prediction.gaussian(np.full(3, 0.5), 0.01, 0.03)
    way = (return_to_prior(p, coverage, 0.5, 1.0, 1).variance - p.variance) / (1.0 - p.variance)
    assert 0.0 < way[0] < 0.002
    assert 0.9 < way[1] < 1.0
    assert way[2] == pytest.approx(1.0)


def test_a_variance_beyond_the_priors_stays_until_nothing_is_known():
    few = np.array([1e-4])
    p = Prediction.gaussian([0.5], [3.0], [1.0])
    assert return_to_prior(p, few, 0.5, 0.25, 1).variance[0] == pytest.approx(4.0, rel=2e-3)
    p = Prediction([[0.5, 0.5]], [[0.0, 1.0]], [[3.0, 3.0]], [[1.0, 1.0]])
    assert return_to_prior(p, few, 0.5, 0.25, 2).variance[0] == pytest.approx(p.variance[0], rel=2e-3)


@pytest.mark.parametrize(("n_heads", "n_members"), [(1, 1), (1, 2), (3, 2)])
def test_heads_and_committees_know_their_components(gap, n_heads, n_members):
    _, X, y = gap
    options = {"n_heads": n_heads, "n_members": n_members, "n_epochs": 5, "max_iter": 5}
    model = one_model(n_basis=4, random_state=0, **options).fit(X, y)
    far = np.array([[-60.0], [0.0], [2.0], [60.0]])
    p = model.predict_distribution(far)
    assert p.n_components == model.n_components_
    prior = y.var() + (p.mean - y.mean()) ** 2
    assert np.all(p.variance[[0, 1, 3]] > 0.95 * prior[[0, 1, 3]])
    parts = p.model_variance + p.noise_variance + p.input_variance
    np.testing.assert_allclose(parts, p.variance)


def test_survives_the_file_and_the_committee(gap, tmp_path):
    _, X, y = gap
    model = one_model(n_basis=4, n_members=2, max_iter=5, random_state=0).fit(X, y)
    model.save(tmp_path / "m.gpzed")
    far = np.linspace(-9, 9, 40)[:, None]
    p, q = model.predict_distribution(far), load_model(tmp_path / "m.gpzed").predict_distribution(far)
    np.testing.assert_array_equal(p.coverage, q.coverage)
    np.testing.assert_array_equal(p.variance, q.variance)


def test_streams_know_their_coverage(gap):
    _, X, y = gap
    order = np.random.default_rng(3).permutation(len(y))
    chunks = [(X[i], y[i]) for i in np.array_split(order, 4)]
    p = one_model(n_basis=4, max_iter=5, random_state=0).fit_stream(chunks).predict_distribution([[0.0], [2.0]])
    assert p.coverage[0] < THRESHOLD < p.coverage[1]


def test_gaps_in_the_inputs_are_filled_and_blind_rows_not_covered():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((2000, 2)) @ np.array([[1.0, 0.9], [0.0, 0.3]])
    X[::5, 1] = np.nan
    coverage = fit_coverage(X, 0.0, 1.0, rng)
    expected = 2.0 * 0.9  # of the second input, given the first
    values = coverage(np.array([[2.0, np.nan], [2.0, expected], [2.0, -expected], [np.nan, np.nan], [9.0, np.nan]]))
    assert values[0] == pytest.approx(values[1], rel=0.2)
    assert values[2] < THRESHOLD < values[0]
    assert values[3] == 0.0
    assert values[4] < THRESHOLD


def test_without_it_the_model_is_the_papers(gap):
    _, X, y = gap
    model = one_model(n_basis=4, max_iter=5, coverage=False, random_state=0).fit(X, y)
    p = model.predict_distribution([[50.0]])
    assert p.coverage is None
    assert p.std[0] < 0.6 * y.std()
    few = one_model(n_basis=2, max_iter=2, random_state=0).fit(X[:15], y[:15])
    assert few.coverage_ is None


@pytest.mark.parametrize("d", [1, 3])
def test_compiled_coverage_is_that_of_numpy(lanes, d):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((4000, d)) + rng.choice([-2.0, 2.0], size=(4000, 1))
    found = fit_coverage(X, 0.0, 1.0, rng)
    X = np.concatenate([X[:200], 8.0 * X[200:300], [[1e200] * d]])
    arguments = X, found.whitening, found.density, found.log_density, found.level, found.tail_scale
    with np.errstate(over="ignore", invalid="ignore"):
        expected = read_density(*arguments)
    values = substitute(read_density)(*arguments)
    np.testing.assert_allclose(values[:, :-1], expected[:, :-1], rtol=1e-9, atol=1e-9)
    assert values[0, -1] == -np.inf
    assert values[1, -1] == 0.0
    assert values[1].max() > 0.9  # of rows in the table, and
    assert values[1, :-1].min() < found.level[0]  # in the tail
