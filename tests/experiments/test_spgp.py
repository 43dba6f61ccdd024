"""SPGP: against the dense FITC covariance, central differences and the exact Gaussian process."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from experiments.rivals.spgp import (
    JITTER,
    SPGPParameters,
    evaluate,
    fit_posterior,
    make_state,
    predict,
    score,
    start_parameters,
)
from gpzed.engine.stream import StreamEngine
from gpzed.engine.threads import Team, ThreadEngine
from gpzed.errors import NumericalError


def kernel(A, B, p):
    """Eq. A.5, by loops over pairs."""
    length = np.exp(p.log_length)
    return np.array([[np.exp(2 * p.log_h - 0.5 * np.sum(((a - b) / length) ** 2)) for b in B] for a in A])


def projections(p, *parts):
    """``K_ab - Q_ab`` and ``Q_ab`` for two sets of rows, pseudo-input jitter included."""
    A, B = parts
    K_mm = kernel(p.P, p.P, p) + JITTER * np.exp(2 * p.log_h) * np.eye(len(p.P))
    Q = kernel(A, p.P, p) @ np.linalg.solve(K_mm, kernel(p.P, B, p))
    return kernel(A, B, p) - Q, Q


def dense_covariance(X, p):
    rest, Q = projections(p, X, X)
    return Q + np.diag(np.diag(rest)) + np.exp(p.log_noise) * np.eye(len(X))


def problem(n=60, m=7, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.sin(X @ np.ones(d)) + 0.2 * rng.standard_normal(n)
    return X, y, SPGPParameters(rng.standard_normal((m, d)), rng.normal(0.2, 0.2), 0.3, -1.5)


def test_value_is_the_dense_log_density():
    X, y, p = problem()
    expected = multivariate_normal(np.zeros(len(y)), dense_covariance(X, p)).logpdf(y)
    result = evaluate(ThreadEngine(X, y, width=7), p)
    assert result.log_likelihood == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("m", [1, 7])
@pytest.mark.parametrize("log_noise", [-1.5, -6.0])
def test_gradient_by_central_differences(m, log_noise):
    X, y, p = problem(m=m)
    theta = replace(p, log_noise=log_noise).pack()
    engine = ThreadEngine(X, y, width=m, n_threads=1)
    gradient = evaluate(engine, SPGPParameters.unpack(theta, 3)).gradient.pack()
    rng = np.random.default_rng(1)
    directions = [*np.eye(theta.size), *rng.standard_normal((5, theta.size))]
    step = 1e-5
    for direction in directions:
        ends = [
            evaluate(engine, SPGPParameters.unpack(theta + s * step * direction, 3)).log_likelihood for s in (1, -1)
        ]
        numeric = (ends[0] - ends[1]) / (2 * step)
        assert numeric == pytest.approx(direction @ gradient, rel=1e-6, abs=1e-6 * np.abs(gradient).max())


def test_predictive_moments_are_those_of_the_dense_model():
    X, y, p = problem()
    Xs = np.random.default_rng(3).normal(scale=2.0, size=(25, 3))
    state, posterior, _ = fit_posterior(ThreadEngine(X, y, width=7), p)
    mean, nu, noise, _ = predict(Xs, state, posterior, Team(1))
    Q_sn = projections(p, Xs, X)[1]
    C = dense_covariance(X, p)
    np.testing.assert_allclose(mean, Q_sn @ np.linalg.solve(C, y), rtol=1e-9, atol=1e-11)
    expected = np.exp(2 * p.log_h) - np.einsum("ij,ji->i", Q_sn, np.linalg.solve(C, Q_sn.T))
    np.testing.assert_allclose(nu, expected, rtol=1e-9)
    np.testing.assert_allclose(noise, np.exp(p.log_noise))


def test_pseudo_inputs_at_all_rows_give_the_exact_process():
    X, y, p = problem(n=25)
    p = replace(p, P=X.copy())
    exact = multivariate_normal(np.zeros(25), kernel(X, X, p) + np.exp(p.log_noise) * np.eye(25)).logpdf(y)
    assert evaluate(ThreadEngine(X, y, width=25), p).log_likelihood == pytest.approx(exact, rel=1e-4)


def test_far_away_the_prior_returns():
    X, y, p = problem()
    state, posterior, _ = fit_posterior(ThreadEngine(X, y, width=7), p)
    mean, nu, *_ = predict(np.full((1, 3), 30.0), state, posterior, Team(1))
    assert mean[0] == pytest.approx(0.0, abs=1e-12)
    assert nu[0] == pytest.approx(np.exp(2 * p.log_h))


@pytest.mark.parametrize("engine", ["no_memory", "two_threads", "stream"])
def test_engines_agree(engine):
    X, y, p = problem(n=1500, m=40)
    expected = evaluate(ThreadEngine(X, y, width=40, n_threads=1), p)
    if engine == "no_memory":
        other = ThreadEngine(X, y, width=40, n_threads=1, keep_bytes=0)
    elif engine == "two_threads":
        other = ThreadEngine(X, y, width=40, n_threads=2)
    else:
        chunks = [(X[i : i + 400], y[i : i + 400], np.ones(len(y[i : i + 400]))) for i in range(0, 1500, 400)]
        other = StreamEngine(chunks, width=40, n_threads=2)
    result = evaluate(other, p)
    assert result.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-11)
    gradient = expected.gradient.pack()
    np.testing.assert_allclose(result.gradient.pack(), gradient, rtol=1e-8, atol=1e-10 * np.abs(gradient).max())


def test_order_of_rows_and_of_pseudo_inputs_does_not_matter():
    X, y, p = problem()
    rng = np.random.default_rng(4)
    rows, centres = rng.permutation(60), rng.permutation(7)
    first = evaluate(ThreadEngine(X, y, width=7), p)
    other = evaluate(ThreadEngine(X[rows], y[rows], width=7), replace(p, P=p.P[centres]))
    assert other.log_likelihood == pytest.approx(first.log_likelihood, rel=1e-11)
    np.testing.assert_allclose(other.gradient.P, first.gradient.P[centres], rtol=1e-7, atol=1e-9)


def test_coinciding_pseudo_inputs_and_outliers_stay_finite():
    X, y, p = problem()
    X = X.copy()
    X[0] = 30.0
    p = replace(p, P=np.vstack([p.P[:5], p.P[:1], X[:1]]))
    result = evaluate(ThreadEngine(X, y, width=7), p)
    expected = multivariate_normal(np.zeros(len(y)), dense_covariance(X, p)).logpdf(y)
    assert result.log_likelihood == pytest.approx(expected, rel=1e-7)
    assert np.all(np.isfinite(result.gradient.pack()))


def test_score_is_the_mean_of_predictive_densities():
    X, y, p = problem()
    state, posterior, _ = fit_posterior(ThreadEngine(X, y, width=7), p)
    total, count = ThreadEngine(X, y, width=7).sum(score, state, posterior)
    mean, nu, noise, _ = predict(X, state, posterior, Team(1))
    expected = norm.logpdf(y, mean, np.sqrt(nu + noise)).sum()
    assert (float(total), float(count)) == pytest.approx((expected, 60.0))


def test_diverged_scales_are_refused():
    _, _, p = problem()
    for broken in (replace(p, log_h=40.0), replace(p, log_noise=np.nan)):
        with pytest.raises(NumericalError, match="height or noise lies beyond"):
            make_state(broken)


def test_start_is_packed_and_unpacked():
    X = np.random.default_rng(0).standard_normal((100, 4))
    start = start_parameters(X, 6, np.random.default_rng(1))
    assert start.pack().shape == (6 * 4 + 3,)
    np.testing.assert_array_equal(SPGPParameters.unpack(start.pack(), 4).P, start.P)
