"""Targets that may be wrong: the mixture likelihood, and that trust in labels gives its gradient."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from gpzed.engine.blocks import Givens, Rows, cut
from gpzed.engine.threads import ThreadEngine
from gpzed.gp.evidence import evaluate
from gpzed.gp.labels import log_anywhere, log_likelihood, trust
from helpers import make_problem


def test_likelihood_is_the_mixture_written_out():
    y, mean, wrong = np.array([0.1, 2.0, -1.0]), np.array([0.0, -1.0, -1.1]), np.array([0.0, 0.05, 0.5])
    right = np.exp(-0.5 * ((y - mean) / 0.2) ** 2) / 0.2 / np.sqrt(2 * np.pi)
    anywhere = np.exp(-0.5 * y**2) / np.sqrt(2 * np.pi)
    found = log_likelihood(np.log(right), log_anywhere(y), wrong)
    np.testing.assert_allclose(np.exp(found), (1 - wrong) * right + wrong * anywhere)
    share = trust(np.log(right), log_anywhere(y), wrong)
    np.testing.assert_allclose(share, (1 - wrong) * right / ((1 - wrong) * right + wrong * anywhere))


def test_trust_times_the_slope_of_the_density_is_the_slope_of_the_likelihood():
    y, wrong, step = np.array([0.7]), np.array([0.1]), 1e-6

    def at(mean):
        density = -0.5 * ((y - mean) / 0.3) ** 2
        return density, log_likelihood(density, log_anywhere(y), wrong)

    (d1, l1), (d2, l2) = at(0.2 + step), at(0.2 - step)
    share = trust(at(0.2)[0], log_anywhere(y), wrong)
    assert (l1 - l2) / (2 * step) == pytest.approx(share * (d1 - d2) / (2 * step), rel=1e-6)


def test_impossible_targets_are_not_trusted_and_possible_ones_without_doubt_are():
    assert trust(np.array([-1e5, -1e5]), np.zeros(2), np.array([0.01, 0.0])).tolist() == [0.0, 1.0]


def test_blocks_have_the_labels_variance_and_lose_weight_with_trust():
    n = 5
    rows = Rows(np.zeros((n, 2)), np.zeros(n), np.full(n, 2.0), None, np.arange(n) * 1.0, np.full(n, 0.1))
    (block,) = cut(rows, 10)
    np.testing.assert_array_equal(block.v, np.arange(n))
    changed = block.given(Givens(np.ones((3, n)), np.full(n, 0.5)))
    np.testing.assert_array_equal(changed.v, np.ones((3, n)) + np.arange(n))
    np.testing.assert_array_equal(changed.omega, np.ones(n))
    np.testing.assert_array_equal(changed.given(Givens()).omega, block.omega)


def test_variance_of_labels_is_that_of_the_dense_gaussian():
    """The evidence of rows with label errors is the Gaussian density whose noise variance has them added."""
    problem = make_problem("VC", 4, n=30)
    e2 = np.random.default_rng(0).uniform(0.0, 2.0, 30)
    engine = ThreadEngine(problem.X, problem.y, problem.omega, None, e2, width=4, n_threads=1)
    p, layout = problem.parameters, problem.layout
    evidence = evaluate(engine, p, layout).evidence
    Phi = reference.basis(problem.X, p.P, reference.expand_gamma(p.Gamma, "VC", layout.m, layout.d))
    B = 1.0 / (1.0 / reference.noise_precision(Phi, p.u, p.b) + e2)
    expected = reference.dense_log_density(problem.y, Phi, B, np.exp(p.log_alpha))
    assert evidence.log_marginal_likelihood == pytest.approx(expected, rel=1e-10)
