"""Heads of a mixture density: gradient, shares, posterior of the weights, prediction."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import norm

from gpzed.compiled import binding, substitute
from gpzed.engine.blocks import Block, Rows, Scratch, sum_blocks
from gpzed.engine.threads import Team, ThreadEngine
from gpzed.gp.initialize import initialize
from gpzed.gp.parameters import Layout
from gpzed.gp.state import responses
from gpzed.mixture.heads import Heads, start_heads
from gpzed.mixture.likelihood import (
    MEAN_FUNCTION_PRECISION,
    Outputs,
    fit_head_posteriors,
    head_outputs,
    held_out_likelihood,
    likelihood,
    log_density,
    log_posterior,
)
from gpzed.mixture.predictive import MixtureHeads, score
from gpzed.mixture.training import StochasticOptions, train_heads

M, D = 4, 2


def two_valued(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows whose target is at either of two values."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D))
    y = np.where(rng.random(n) < 0.5, -1.0, 1.0) * (1.0 + 0.2 * X[:, 0]) + 0.1 * rng.standard_normal(n)
    return X, y, rng.uniform(0.5, 1.5, n)


def some_heads(layout: Layout, K: int, seed: int = 1) -> tuple[Heads, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(seed)
    X, y, omega = two_valued(40)
    heads = start_heads(initialize(X, y, layout, rng, n_threads=1), y, K, layout, rng)
    return Heads(heads.P, heads.Gamma, heads.Theta + 0.3 * rng.standard_normal(heads.Theta.shape)), (X, y, omega)


@pytest.mark.parametrize("structure", ["GL", "VD", "GC", "VC"])
@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("mean_function", ["constant", "linear"])
def test_gradient_agrees_with_differences(structure: str, K: int, mean_function: str) -> None:
    layout = Layout.of(M, D, structure, mean_function=mean_function)
    heads, rows = some_heads(layout, K)
    engine = ThreadEngine(*rows, width=layout.n_weights, n_threads=1)

    def value_and_gradient(theta: np.ndarray) -> tuple[float, np.ndarray]:
        at = heads.unpack(theta)
        sums = engine.sum(likelihood, at.state(layout), at.Theta)
        value, gradient = log_posterior(sums, at, layout, kappa=2.0, ridge=0.5)
        return value, gradient.pack()

    theta = heads.pack()
    differences = approx_fprime(theta, lambda t: value_and_gradient(t)[0], 1e-7)
    np.testing.assert_allclose(value_and_gradient(theta)[1], differences, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize(
    ("n", "K", "structure", "v_shape"),
    [(1, 1, "VC", None), (256, 5, "VC", (256,)), (700, 3, "GL", None), (300, 3, "VC", (3, 300))],
)
def test_compiled_likelihood_is_that_of_numpy(
    monkeypatch: pytest.MonkeyPatch, lanes: None, n: int, K: int, structure: str, v_shape: tuple[int, ...] | None
) -> None:
    rng = np.random.default_rng(n)
    layout = Layout.of(13, D, structure, mean_function="linear")
    Gamma = rng.standard_normal(layout.structure.gamma_shape(13, D))
    heads = Heads(rng.standard_normal((13, D)), Gamma, 5.0 * rng.standard_normal((layout.n_weights, 3 * K)))
    X, y, omega = two_valued(n)
    block = Block(np.ascontiguousarray(X.T), y, omega, v=None if v_shape is None else rng.random(v_shape))
    state = heads.state(layout)
    compiled = substitute(likelihood)(block, Scratch(), state, heads.Theta)
    (held_out,) = sum_blocks([(block, Scratch())], held_out_likelihood, (state, heads.Theta))
    factors = fit_head_posteriors(ThreadEngine(X, y, omega, width=layout.n_weights, n_threads=1), heads, layout)
    mixture = MixtureHeads(heads, factors, np.zeros((D, K)), "linear", 0, 0.0)
    predicted = mixture.predict(X, layout, Team(1))
    monkeypatch.setattr(binding, "_library", None)
    expected = likelihood(block, Scratch(), state, heads.Theta)
    parts = mixture.predict(X, layout, Team(1))
    for result, value in zip((*compiled, held_out, *predicted), (*expected, expected[2], *parts), strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-11, atol=1e-12 * np.abs(value).max())


def test_log_density_is_that_of_the_mixture() -> None:
    layout = Layout.of(M, D, "VC", mean_function="linear")
    heads, (X, y, _) = some_heads(layout, 3)
    Phi = responses(Block(np.ascontiguousarray(X.T), y, y), Scratch(), heads.state(layout))[1]
    outputs = head_outputs(heads.Theta, Phi)
    pi = np.exp(outputs.log_pi)
    np.testing.assert_allclose(pi.sum(axis=0), 1.0)
    expected = np.sum(pi * norm.pdf(y, outputs.mean, np.exp(-0.5 * outputs.log_beta)), axis=0)
    total, share, _ = log_density(outputs, y)
    np.testing.assert_allclose(total, np.log(expected))
    np.testing.assert_allclose(share.sum(axis=0), 1.0)


def test_added_variance_widens() -> None:
    outputs = Outputs(np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1)))
    total, *_ = log_density(outputs, np.array([1.0]), np.array([3.0]))
    np.testing.assert_allclose(total, norm.logpdf(1.0, 0.0, 2.0))


def test_posterior_of_one_head_is_the_dense_one() -> None:
    """With K = 1 every row is the head's own: S = Phi' B Phi + alpha."""
    layout = Layout.of(M, D, "VC", mean_function="constant")
    heads, (X, y, omega) = some_heads(layout, 1)
    engine = ThreadEngine(X, y, omega, width=layout.n_weights, n_threads=1)
    (factor,) = fit_head_posteriors(engine, heads, layout)
    Phi = responses(Block(np.ascontiguousarray(X.T), y, omega), Scratch(), heads.state(layout))[1]
    B = np.exp(head_outputs(heads.Theta, Phi).log_beta[0]) * omega
    S = np.linalg.inv(factor.inverse)
    alpha = np.diag(S - (Phi * B) @ Phi.T)
    np.testing.assert_allclose(alpha[M:], MEAN_FUNCTION_PRECISION, rtol=1e-4)
    np.testing.assert_allclose(alpha[:M], alpha[0], rtol=1e-6)
    w = heads.Theta[:M, 0]
    effective = M - alpha[0] * np.trace(factor.inverse[:M, :M])
    np.testing.assert_allclose(alpha[0], effective / (w @ w), rtol=0.05)  # Eq. 3.9 holds at a fixed point


def test_predictions_do_not_depend_on_threads_or_blocks() -> None:
    layout = Layout.of(M, D, "VC", mean_function="constant")
    heads, rows = some_heads(layout, 3)
    factors = fit_head_posteriors(ThreadEngine(*rows, width=layout.n_weights, n_threads=1), heads, layout)
    X = np.random.default_rng(3).standard_normal((20_000, D))
    mixture = MixtureHeads(heads, factors, np.zeros((D, 3)), "constant", 0, 0.0)
    one, two = (mixture.predict(X, layout, Team(threads)) for threads in (1, 2))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)
    part = mixture.predict(X[777:780], layout, Team(1))
    for a, b in zip(one, part, strict=True):
        np.testing.assert_allclose(a[777:780], b, rtol=1e-10)


def test_training_finds_both_values_and_is_deterministic() -> None:
    layout = Layout.of(M, D, "VC", mean_function="constant")
    X, y, omega = two_valued(1500)
    X_valid, y_valid, omega_valid = two_valued(500, seed=9)
    valid = ThreadEngine(X_valid, y_valid, omega_valid, width=layout.n_weights, n_threads=1)
    heads = start_heads(
        initialize(X, y, layout, np.random.default_rng(0), n_threads=1), y, 2, layout, np.random.default_rng(0)
    )

    def validate(at: Heads) -> float:
        return float(valid.sum(likelihood, at.state(layout), at.Theta)[2]) / valid.sum_omega

    def train() -> Heads:
        options = StochasticOptions(n_epochs=15)
        return train_heads(Rows(X, y, omega), heads, layout, validate, options, np.random.default_rng(5)).heads

    trained = train()
    np.testing.assert_array_equal(trained.pack(), train().pack())
    gaussian = float(np.mean(norm.logpdf(y_valid, y.mean(), y.std())))
    truth = np.log(
        0.5 * (norm.pdf(y_valid, 1 + 0.2 * X_valid[:, 0], 0.1) + norm.pdf(y_valid, -1 - 0.2 * X_valid[:, 0], 0.1))
    )
    best = float(truth @ omega_valid) / valid.sum_omega
    assert gaussian + 0.5 < validate(trained) < best + 0.05
    factors = fit_head_posteriors(ThreadEngine(X, y, omega, width=layout.n_weights, n_threads=1), trained, layout)
    (scores,) = valid.sum(score, trained.state(layout), trained.Theta, factors, np.zeros((1, 2)), np.array([-3.0, 0.0]))
    assert scores[1] > scores[0]
    (moved,) = valid.sum(
        score, trained.state(layout), trained.Theta, factors, np.full((1, 2), -3.0), np.array([0.0, 3.0])
    )
    np.testing.assert_allclose(moved, scores, rtol=1e-12)  # offsets and shifts add up
    assert abs(scores[1] / valid.sum_omega - validate(trained)) < 0.05


def test_heads_start_in_parts_of_the_targets_each_time_elsewhere() -> None:
    layout, (X, y, _) = Layout.of(M, D, "VC", mean_function="constant"), two_valued(200)
    parameters = initialize(X, y, layout, np.random.default_rng(0), n_threads=1)
    first, second = (
        start_heads(parameters, y, 4, layout, np.random.default_rng(seed), scatter=True).Theta[M, :4] for seed in (1, 2)
    )
    edges = np.quantile(y, np.linspace(0.0, 1.0, 5))
    for means in (first, second):
        assert np.all((edges[:-1] <= means) & (means <= edges[1:]))
    assert np.all(first != second)
