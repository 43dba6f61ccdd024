"""SPGPRegressor: the estimator's contract, training, and its agreement with the exact process."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.rivals.exact import ExactGPRegressor
from experiments.rivals.spgp import SPGPRegressor
from gpzed.errors import DataWarning


def make_rows(n=400, d=2, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, d))
    y = 3.0 + np.sin(2 * X[:, 0]) + 0.5 * X[:, -1] + noise * rng.standard_normal(n)
    X.flags.writeable = y.flags.writeable = False
    return X, y


@pytest.fixture(scope="module")
def fitted():
    return SPGPRegressor(n_basis=15, random_state=0, n_threads=1).fit(*make_rows())


def test_learns_function_and_noise(fitted):
    X, y = make_rows(1000, seed=1)
    prediction = fitted.predict_distribution(X)
    truth = 3.0 + np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    assert np.sqrt(np.mean((prediction.mean - truth) ** 2)) < 0.04
    assert np.median(prediction.std) == pytest.approx(0.1, abs=0.02)
    pull = (y - prediction.mean) / prediction.std
    assert np.std(pull) == pytest.approx(1.0, abs=0.1)
    np.testing.assert_allclose(prediction.variance, prediction.model_variance + prediction.noise_variance)


def test_agrees_with_the_exact_process():
    X, y = make_rows(300)
    Xs, _ = make_rows(50, seed=3)
    sparse = SPGPRegressor(n_basis=40, random_state=0, max_iter=60, validation_fraction=0.0).fit(X, y)
    exact = ExactGPRegressor().fit(X, y)
    assert sparse.log_marginal_likelihood_ == pytest.approx(exact.log_marginal_likelihood_, abs=5.0)
    np.testing.assert_allclose(sparse.predict_distribution(Xs).mean, exact.predict_distribution(Xs).mean, atol=0.05)


def test_far_away_the_prior_returns(fitted):
    far = fitted.predict_distribution(np.full((1, 2), 100.0))
    scale = fitted.scaling_.y_scale
    assert far.mean[0] == pytest.approx(fitted.scaling_.y_mean)
    assert far.model_variance[0] == pytest.approx(scale**2 * fitted.state_.h2)


def test_same_seed_same_result_on_any_number_of_threads():
    X, y = make_rows(700)
    first, again, threads = (SPGPRegressor(8, random_state=1, max_iter=12, n_threads=k).fit(X, y) for k in (1, 1, 2))
    np.testing.assert_array_equal(first.predict_distribution(X).mean, again.predict_distribution(X).mean)
    np.testing.assert_allclose(first.predict_distribution(X).mean, threads.predict_distribution(X).mean, rtol=1e-10)
    other = SPGPRegressor(8, random_state=2, max_iter=12).fit(X, y)
    assert not np.array_equal(first.predict_distribution(X).mean, other.predict_distribution(X).mean)


def test_best_iterate_by_validation_is_kept():
    X, y = make_rows(200)
    Xv, yv = make_rows(300, seed=5)
    model = SPGPRegressor(10, random_state=0).fit(X, y, validation_data=(Xv, yv))
    report = model.report_
    scores = [step.score for step in report.history]
    assert report.best_score == max(scores) == scores[report.best_iteration - 1]
    assert model.n_iter_ == len(scores)
    # rows given for validation stay out of the posterior, so the score can be had from the model itself
    assert report.best_score == pytest.approx(model.predict_distribution(Xv).log_pdf(yv).mean(), rel=1e-9)


def test_objective_falls(fitted):
    assert np.all(np.diff([step.objective for step in fitted.report_.history]) <= 0.0)


def test_iterations_are_limited():
    model = SPGPRegressor(5, max_iter=2, random_state=0).fit(*make_rows())
    assert model.n_iter_ == 2
    assert model.report_.status == "max_iter"


def test_constant_column_is_named():
    X, y = make_rows(60)
    X = np.column_stack([X, np.ones(60)])
    with pytest.warns(DataWarning, match="feature 2"):
        SPGPRegressor(4, max_iter=3).fit(X, y)


def test_degenerate_targets_and_duplicates():
    X, y = make_rows(60)
    constant = SPGPRegressor(4, random_state=0).fit(X, np.full(60, 5.0))
    np.testing.assert_allclose(constant.predict_distribution(X).mean, 5.0, atol=1e-6)
    twice = SPGPRegressor(10, random_state=0).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    assert np.all(np.isfinite(twice.predict_distribution(X).mean))
    few = SPGPRegressor(100, random_state=0).fit(X[:5], y[:5])
    assert few.n_basis_ == 5


def test_noiseless_targets():
    X, y = make_rows(300, noise=0.0)
    model = SPGPRegressor(30, random_state=0, max_iter=200).fit(X, y)
    assert np.sqrt(np.mean((model.predict_distribution(X).mean - y) ** 2)) < 0.01
