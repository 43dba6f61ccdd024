"""Predictive moments, scores and samples of functions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import reference
from gpzed.engine.threads import Team
from gpzed.gp.evidence import fit_posterior
from gpzed.gp.predictive import predict, responses_of, score
from helpers import CODES, make_problem


@pytest.fixture(scope="module", params=["zero", "constant", "linear"])
def fitted(request):
    problem = make_problem("VC", 1, n=60, m=5, weights=True, mean_function=request.param)
    state, posterior, _ = fit_posterior(problem.engine(), problem.parameters, problem.layout)
    return problem, state, posterior


def design(problem, X):
    Phi = reference.basis(X, problem.parameters.P, problem.Gammas)
    return np.hstack([Phi, reference.mean_columns(X, problem.layout.mean_function)])


def covariance_of_weights(problem):
    F = design(problem, problem.X)
    p = problem.parameters
    beta = np.exp(F[:, : problem.layout.m] @ p.u + p.b)
    return np.linalg.inv((F.T * (beta * problem.omega)) @ F + np.diag(problem.alpha))


def test_nu_by_an_explicit_inverse(fitted):
    problem, state, posterior = fitted
    X_new = np.random.default_rng(0).standard_normal((30, 2))
    F = design(problem, X_new)
    nu = np.diag(F @ covariance_of_weights(problem) @ F.T)
    got = predict(X_new, state, posterior, Team(1))
    np.testing.assert_allclose(got.model_variance, nu, rtol=1e-10)
    np.testing.assert_allclose(got.mean, F @ posterior.w_mean, rtol=1e-12)


def test_model_variance_does_not_exceed_the_prior(fitted):
    problem, state, posterior = fitted
    X_new = np.random.default_rng(0).standard_normal((30, 2))
    F = design(problem, X_new)
    assert np.all(predict(X_new, state, posterior, Team(1)).model_variance <= F**2 @ (1 / problem.alpha) + 1e-12)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_blocks_and_threads_change_nothing(fitted, n_threads):
    _, state, posterior = fitted
    X_new = np.random.default_rng(1).standard_normal((9001, 2))
    whole = predict(X_new, state, posterior, Team(n_threads))
    for rows in (slice(0, 1), slice(4000, 4200), slice(9000, None)):
        part = predict(X_new[rows], state, posterior, Team(1))
        for a, b in zip(whole, part, strict=True):
            np.testing.assert_allclose(a[rows], b, rtol=1e-12)
    same = predict(X_new, state, posterior, Team(1))
    for a, b in zip(whole, same, strict=True):
        np.testing.assert_array_equal(a, b)


def test_zero_rows(fitted):
    _, state, posterior = fitted
    for moment in predict(np.empty((0, 2)), state, posterior, Team(1)):
        assert moment.shape == (0,)
    assert responses_of(np.empty((0, 2)), state).shape == (0, len(posterior.w_mean))


def test_responses_are_the_design_matrix(fitted):
    problem, state, _ = fitted
    X_new = np.random.default_rng(2).standard_normal((6, 2))
    np.testing.assert_allclose(responses_of(X_new, state), design(problem, X_new), rtol=1e-12)


def test_score_is_the_weighted_log_density_for_every_shift_of_the_noise(fitted):
    problem, state, posterior = fitted
    shifts = np.array([-1.5, 0.0, 0.4])
    (totals,) = problem.engine().sum(score, state, posterior, shifts)
    mean, nu, noise, _ = predict(problem.X, state, posterior, Team(1))
    for total, shift in zip(totals, shifts, strict=True):
        density = stats.norm.logpdf(problem.y, mean, np.sqrt(nu + noise * np.exp(-shift)))
        assert float(total) == pytest.approx(float(problem.omega @ density), rel=1e-12)


@pytest.mark.parametrize("code", CODES)
def test_far_away_the_model_returns_to_its_prior_mean(code):
    problem = make_problem(code, 3)
    state, posterior, _ = fit_posterior(problem.engine(), problem.parameters, problem.layout)
    far = predict(np.full((1, 2), 1e4), state, posterior, Team(1))
    assert far.mean[0] == 0.0
    assert far.model_variance[0] == 0.0
    assert far.noise_variance[0] == pytest.approx(np.exp(-problem.parameters.b))
