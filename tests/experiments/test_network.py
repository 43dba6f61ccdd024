"""Neurons as basis functions (appendix B): the same evidence, another basis."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from experiments.rivals.network import log_sigmoid
from gpzed.engine.threads import Team, ThreadEngine
from gpzed.gp.evidence import evaluate, fit_posterior
from gpzed.gp.initialize import initialize
from gpzed.gp.parameters import Layout, Parameters
from gpzed.gp.predictive import predict
from gpzed.gp.prior import log_prior
from helpers import central_difference

N, D, M = 60, 3, 4


def make(seed=0, weights=False, **options):
    rng = np.random.default_rng(seed)
    layout = Layout.of(M, D, "ANN", **options)
    X, y = rng.standard_normal((N, D)), rng.standard_normal(N)
    omega = rng.uniform(0.5, 2.0, N) if weights else np.ones(N)
    theta = 0.7 * rng.standard_normal(layout.size)
    return layout, X, y, omega, theta


def sigmoids(X, parameters):
    return 1.0 / (1.0 + np.exp(-(X @ parameters.P.T + parameters.Gamma)))


@pytest.mark.parametrize("mean_function", ["zero", "constant", "linear"])
def test_evidence_is_the_dense_gaussian_density_of_a_network(mean_function):
    layout, X, y, omega, theta = make(1, mean_function=mean_function)
    p = layout.unpack(theta)
    Phi = sigmoids(X, p)
    F = np.hstack([Phi, reference.mean_columns(X, mean_function)])
    alpha = layout.expand_alpha(p.log_alpha)
    expected = reference.dense_log_density(y, F, np.exp(Phi @ p.u + p.b), alpha)
    result = evaluate(ThreadEngine(X, y, width=layout.n_weights, omega=omega, n_threads=1), p, layout).evidence
    assert result.log_marginal_likelihood == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("weighted_precision", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mean_function": "constant"},
        {"mean_function": "linear", "relevance": False},
        {"heteroscedastic": False},
    ],
    ids=str,
)
def test_gradient_equals_central_differences(options, weighted_precision):
    layout, X, y, omega, theta = make(2, weights=True, **options)
    engine = ThreadEngine(X, y, width=layout.n_weights, omega=omega, n_threads=1)

    def value(at):
        return evaluate(engine, layout.unpack(at), layout, weighted_precision).evidence.total

    gradient = layout.pack(evaluate(engine, layout.unpack(theta), layout, weighted_precision).gradient)
    scale = np.abs(gradient).max()
    for direction in np.eye(len(theta)):
        slope = central_difference(value, theta, direction)
        assert gradient @ direction == pytest.approx(slope, rel=1e-6, abs=1e-7 * scale)


def test_the_penalty_on_the_weights_and_its_gradient():
    layout, *_, theta = make(3)

    def value(at):
        return log_prior(layout.unpack(at), layout, 2.5)[0]

    p = layout.unpack(theta)
    without = log_prior(p, layout, 0.0)[0]
    assert value(theta) - without == pytest.approx(-0.5 * 2.5 * np.sum(p.P**2))
    gradient = layout.pack(log_prior(p, layout, 2.5)[1])
    for direction in np.eye(len(theta)):
        assert gradient @ direction == pytest.approx(central_difference(value, theta, direction), rel=1e-6, abs=1e-6)


def test_predictions_use_the_same_neurons():
    layout, X, y, _, theta = make(4, mean_function="constant")
    p = layout.unpack(theta)
    state, posterior, _ = fit_posterior(ThreadEngine(X, y, width=layout.n_weights, n_threads=1), p, layout)
    X_new = np.random.default_rng(5).standard_normal((7, D))
    result = predict(X_new, state, posterior, Team(1))
    Phi = sigmoids(X_new, p)
    np.testing.assert_allclose(result.mean, np.hstack([Phi, np.ones((7, 1))]) @ posterior.w_mean, rtol=1e-12)
    np.testing.assert_allclose(result.noise_variance, np.exp(-(Phi @ p.u + p.b)), rtol=1e-12)


def test_saturated_neurons_stay_finite():
    t = np.array([[-800.0, -30.0, 0.0, 30.0, 800.0]])
    expected = np.array([[-800.0, -30.0, -np.log(2.0), -np.exp(-30.0), 0.0]])
    log_sigmoid(t)
    np.testing.assert_allclose(t, expected, atol=1e-13)
    layout, X, y, _, theta = make(6)
    p = layout.unpack(theta)
    steep = Parameters(1e4 * p.P, p.Gamma, p.u, p.b, p.log_alpha, p.log_eta)
    result = evaluate(ThreadEngine(X, y, width=layout.n_weights, n_threads=1), steep, layout)
    assert np.isfinite(result.evidence.total)
    assert np.isfinite(layout.pack(result.gradient)).all()


def test_neurons_start_steepest_at_their_centres():
    layout, X, y, _, _ = make(7)
    start = initialize(X, y, layout, np.random.default_rng(0), method="data", n_threads=1)
    assert start.Gamma.shape == (M,)
    distance = np.abs(X @ start.P.T + start.Gamma).min(axis=0)
    np.testing.assert_allclose(distance, 0.0, atol=1e-9)
