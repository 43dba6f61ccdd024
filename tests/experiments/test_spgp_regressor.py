"""SPGPRegressor: the estimator's contract, training, and its agreement with the exact process."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

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


@pytest.mark.filterwarnings("ignore::gpzed.errors.GPzWarning")
@parametrize_with_checks([SPGPRegressor(n_basis=4, max_iter=30, n_threads=1)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_learns_function_and_noise(fitted):
    X, y = make_rows(1000, seed=1)
    prediction = fitted.predict_distribution(X)
    truth = 3.0 + np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    assert np.sqrt(np.mean((prediction.mean - truth) ** 2)) < 0.04
    assert np.median(prediction.std) == pytest.approx(0.1, abs=0.02)
    pull = (y - prediction.mean) / prediction.std
    assert np.std(pull) == pytest.approx(1.0, abs=0.1)
    np.testing.assert_allclose(prediction.variance, prediction.model_variance + prediction.noise_variance)


def test_predict_agrees_with_distribution(fitted):
    X, _ = make_rows(20, seed=2)
    mean, std = fitted.predict(X, return_std=True)
    prediction = fitted.predict_distribution(X)
    np.testing.assert_array_equal(mean, fitted.predict(X))
    np.testing.assert_array_equal((mean, std), (prediction.mean, prediction.std))
    assert fitted.predict(X[:0]).shape == (0,)


def test_agrees_with_the_exact_process():
    X, y = make_rows(300)
    Xs, _ = make_rows(50, seed=3)
    sparse = SPGPRegressor(n_basis=40, random_state=0, max_iter=60, validation_fraction=0.0).fit(X, y)
    exact = ExactGPRegressor().fit(X, y)
    assert sparse.log_marginal_likelihood_ == pytest.approx(exact.log_marginal_likelihood_, abs=5.0)
    np.testing.assert_allclose(sparse.predict(Xs), exact.predict(Xs), atol=0.05)


def test_far_away_the_prior_returns(fitted):
    far = fitted.predict_distribution(np.full((1, 2), 100.0))
    scale = fitted.scaling_.y_scale
    assert far.mean[0] == pytest.approx(fitted.scaling_.y_mean)
    assert far.model_variance[0] == pytest.approx(scale**2 * fitted.state_.h2)


def test_same_seed_same_result_on_any_number_of_threads():
    X, y = make_rows(700)
    first, again, threads = (SPGPRegressor(8, random_state=1, max_iter=12, n_threads=k).fit(X, y) for k in (1, 1, 2))
    np.testing.assert_array_equal(first.predict(X), again.predict(X))
    np.testing.assert_allclose(first.predict(X), threads.predict(X), rtol=1e-10)
    other = SPGPRegressor(8, random_state=2, max_iter=12).fit(X, y)
    assert not np.array_equal(first.predict(X), other.predict(X))


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"init": "kmean"}, "'init' parameter"),
        ({"n_basis": 0}, "'n_basis' parameter"),
        ({"max_iter": 2.5}, "'max_iter' parameter"),
        ({"validation_fraction": 1.5}, "'validation_fraction' parameter"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        SPGPRegressor(**options).fit(*make_rows(50))


def test_bad_rows():
    X, y = make_rows(50)
    with pytest.raises(ValueError, match="contains NaN"):
        SPGPRegressor().fit(np.where(X > 1.9, np.nan, X), y)
    with pytest.raises(ValueError, match="1 sample"):
        SPGPRegressor().fit(X[:1], y[:1])
    with pytest.raises(ValueError, match="features"):
        SPGPRegressor().fit(X, y, validation_data=(X[:, :1], y))


def test_constant_column_is_named():
    X, y = make_rows(60)
    X = np.column_stack([X, np.ones(60)])
    with pytest.warns(DataWarning, match=r"\[2\]"):
        SPGPRegressor(4, max_iter=3).fit(X, y)


def test_degenerate_targets_and_duplicates():
    X, y = make_rows(60)
    constant = SPGPRegressor(4, random_state=0).fit(X, np.full(60, 5.0))
    np.testing.assert_allclose(constant.predict(X), 5.0, atol=1e-6)
    twice = SPGPRegressor(10, random_state=0).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    assert np.all(np.isfinite(twice.predict(X)))
    few = SPGPRegressor(100, random_state=0).fit(X[:5], y[:5])
    assert few.n_basis_ == 5


def test_noiseless_targets():
    X, y = make_rows(300, noise=0.0)
    model = SPGPRegressor(30, random_state=0, max_iter=200).fit(X, y)
    assert np.sqrt(np.mean((model.predict(X) - y) ** 2)) < 0.01


def test_tables_and_clone(fitted):
    X, y = make_rows()
    frame = pd.DataFrame(X, columns=["g", "r"])
    model = clone(fitted).fit(frame, y)
    assert list(model.feature_names_in_) == ["g", "r"]
    np.testing.assert_array_equal(model.predict(frame), fitted.predict(X))
