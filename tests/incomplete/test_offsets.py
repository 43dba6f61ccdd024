"""Offsets of the noise of rows with gaps: gradient, what they learn, what they leave alone."""

from __future__ import annotations

import numpy as np
import pytest

from gpzed.engine.blocks import Givens, Rows
from gpzed.gp.initialize import initialize
from gpzed.gp.parameters import Layout
from gpzed.incomplete.blur import Blur
from gpzed.incomplete.offsets import fit_offsets, log_likelihood, offsets_of
from gpzed.mixture.heads import Heads, start_heads
from gpzed.mixture.likelihood import Outputs
from helpers import central_difference

D, K = 3, 2


def lacking(*missing: int) -> Blur:
    """A blur of rows that lack some inputs, which are known to a hair nonetheless."""
    is_missing = np.isin(np.arange(D), missing)
    return Blur(1e-6 * np.eye(D)[:, is_missing], np.zeros(D), np.eye(D)[:, ~is_missing], is_missing)


BLURS = lacking(0), lacking(1), lacking(0, 1)


def test_gradient_agrees_with_differences() -> None:
    rng = np.random.default_rng(0)
    n = 30
    outputs = Outputs(*rng.standard_normal((2, K, n)), np.log(np.full((K, n), 0.5)))
    y, omega = rng.standard_normal(n), rng.uniform(0.5, 1.5, n)
    shares, v = rng.random((n, D)), rng.random((K, n))

    def value(flat: np.ndarray) -> float:
        return log_likelihood(flat.reshape(D, K), shares, outputs, y, omega, v)[0]

    at = rng.standard_normal(D * K)
    expected = [central_difference(value, at, direction) for direction in np.eye(D * K)]
    _, gradient = log_likelihood(at.reshape(D, K), shares, outputs, y, omega, v)
    np.testing.assert_allclose(gradient.ravel(), expected, rtol=1e-6, atol=1e-7)


def test_offsets_of_kinds_are_means_over_what_is_missing() -> None:
    offsets = np.array([[1.0, 2.0], [3.0, -4.0], [0.0, 0.0]])
    plain = Blur(0.1 * np.eye(D), np.zeros(D), np.eye(D), np.zeros(D, dtype=bool))
    expected = [[0.0, 0.0], [1.0, 2.0], [3.0, -4.0], [2.0, -1.0], [0.0, 0.0]]
    np.testing.assert_array_equal(offsets_of(offsets, (*BLURS, plain)), expected)


def noisy_rows(factor: float, n: int = 4000) -> tuple[Rows, Heads, Layout, np.ndarray]:
    """Rows of all blurs with noise of 0.1, times `factor` where input 0 is missing, and one head that knows the 0.1."""
    rng = np.random.default_rng(1)
    X, blur = rng.standard_normal((n, D)), rng.integers(0, 4, n)
    std = np.where(blur == 1, factor, 1.0) * 0.1
    y = X[:, 2] + std * rng.standard_normal(n)
    layout = Layout.of(2, D, "VC", mean_function="linear")
    heads = start_heads(initialize(X, y, layout, rng, n_threads=1), y, 1, layout, rng)
    Theta = np.zeros_like(heads.Theta)
    Theta[layout.m + 1 + 2, 0], Theta[layout.m, 1] = 1.0, -2.0 * np.log(0.1)
    return Rows(X, y, np.ones(n), blur), Heads(heads.P, heads.Gamma, Theta), layout, np.zeros((n, 1))


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_rows_with_gaps_may_have_noise_of_their_own(factor: float) -> None:
    rows, heads, layout, v = noisy_rows(factor)
    found = offsets_of(fit_offsets(rows, Givens(v.T), heads, layout, BLURS), BLURS)[:, 0]
    assert found[0] == 0.0
    assert found[1] == pytest.approx(-2.0 * np.log(factor), abs=0.3)
    assert abs(found[2]) < 0.5 * abs(found[1])


def test_gaps_at_random_ask_for_nothing() -> None:
    rows, heads, layout, v = noisy_rows(1.0)
    found = offsets_of(fit_offsets(rows, Givens(v.T), heads, layout, BLURS), BLURS)
    assert np.abs(found).max() < 3.0 * np.sqrt(2.0 / 1000)  # sampling error of ln variance, 1000 rows of each blur


def test_what_missing_inputs_add_is_not_taken_for_noise() -> None:
    rows, heads, layout, v = noisy_rows(2.0)
    v[rows.blur == 1] = 3.0 * 0.1**2  # a quarter of the variance is noise: four times the sampling error
    assert np.abs(fit_offsets(rows, Givens(v.T), heads, layout, BLURS)).max() < 3.0 * 4.0 * np.sqrt(2.0 / 1000)


def test_complete_rows_have_none() -> None:
    rows, heads, layout, v = noisy_rows(2.0, 50)
    for lone in (rows._replace(blur=None), rows._replace(blur=np.zeros(50, dtype=int))):
        assert not fit_offsets(lone, Givens(v.T), heads, layout, BLURS).any()
