"""ExactGPRegressor: the estimator's contract and the split of the variance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from experiments.rivals.exact import ExactGPRegressor
from gpzed.engine.threads import single_threaded_blas
from gpzed.errors import ConvergenceWarning, DataWarning


@pytest.fixture(autouse=True)
def one_thread():
    """Small matrices: threads of BLAS only get in the way."""
    with single_threaded_blas():
        yield


def make_rows(n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    y = 3.0 + np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.standard_normal(n)
    X.flags.writeable = y.flags.writeable = False
    return X, y


@pytest.fixture(scope="module")
def fitted():
    return ExactGPRegressor(random_state=0).fit(*make_rows())


def test_agrees_with_the_textbook(fitted):
    """Appendix A, written out with the fitted hyperparameters."""
    X, y = make_rows()
    Xs, _ = make_rows(20, seed=1)
    map_ = fitted.scaling_
    signal, white = fitted.process_.kernel_.k1, fitted.process_.kernel_.k2.noise_level
    A, B = map_.whitening(X), map_.whitening(Xs)
    target = (y - map_.y_mean) / map_.y_scale
    K = signal(A) + white * np.eye(len(y))
    K_s = signal(B, A)
    prediction = fitted.predict_distribution(Xs)
    np.testing.assert_allclose(
        prediction.mean, map_.y_mean + map_.y_scale * K_s @ np.linalg.solve(K, target), rtol=1e-6
    )
    nu = signal.diag(B) - np.einsum("ij,ji->i", K_s, np.linalg.solve(K, K_s.T))
    np.testing.assert_allclose(prediction.model_variance, map_.y_scale**2 * nu, rtol=1e-5)
    np.testing.assert_allclose(prediction.noise_variance, map_.y_scale**2 * white)
    density = multivariate_normal(np.zeros(len(y)), K).logpdf(target)
    assert fitted.log_marginal_likelihood_ == pytest.approx(density, rel=1e-5)


def test_learns_function_and_noise(fitted):
    X, _ = make_rows(500, seed=2)
    prediction = fitted.predict_distribution(X)
    truth = 3.0 + np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    assert np.sqrt(np.mean((prediction.mean - truth) ** 2)) < 0.05
    assert np.median(prediction.std) == pytest.approx(0.1, abs=0.02)
    assert fitted.predict_distribution(X[:0]).mean.shape == (0,)


def test_blocks_of_prediction_do_not_show(fitted, monkeypatch):
    X, _ = make_rows(50, seed=3)
    whole = fitted.predict_distribution(X)
    monkeypatch.setattr("experiments.rivals.exact.PREDICT_ROWS", 7)
    parts = fitted.predict_distribution(X)
    np.testing.assert_allclose(parts.mean, whole.mean, rtol=1e-12)
    np.testing.assert_allclose(parts.variance, whole.variance, rtol=1e-10)


def test_subset_is_announced_and_seeded():
    X, y = make_rows(300)
    models = []
    for seed in (1, 1, 2):
        with pytest.warns(DataWarning, match=r"random 40 of 300 rows, the limit `max_rows`"):
            models.append(ExactGPRegressor(40, random_state=seed).fit(X, y))
    assert models[0].n_rows_ == 40
    np.testing.assert_array_equal(models[0].predict_distribution(X).mean, models[1].predict_distribution(X).mean)
    assert not np.array_equal(models[0].predict_distribution(X).mean, models[2].predict_distribution(X).mean)
    assert ExactGPRegressor(None).fit(X[:60], y[:60]).n_rows_ == 60


def test_samples_scatter_like_the_model_variance(fitted):
    X, _ = make_rows(30, seed=4)
    draws = fitted.sample_y(X, 4000, random_state=1)
    prediction = fitted.predict_distribution(X)
    np.testing.assert_allclose(draws.var(axis=1), prediction.model_variance, rtol=0.15)
    error = np.sqrt(prediction.model_variance / 4000)
    assert np.all(np.abs(draws.mean(axis=1) - prediction.mean) < 5 * error)


def test_warnings_of_the_optimiser_are_our_own():
    X, _ = make_rows(40)
    with pytest.warns(ConvergenceWarning, match="close to the specified"):
        ExactGPRegressor().fit(X, np.full(40, 2.0))
