"""Rows with uncertainties of their own, against Monte Carlo and against blurs of rows that share theirs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpzed.compiled import binding
from gpzed.engine.blocks import Scratch
from gpzed.engine.threads import Team, ThreadEngine
from gpzed.gp.evidence import fit_posterior
from gpzed.gp.linalg import cholesky
from gpzed.gp.predictive import predict, predict_noisy, variance_forms
from gpzed.gp.state import make_state
from gpzed.incomplete.blur import Blur
from gpzed.incomplete.spread import AddedVariance, BlurredRows, QuadraticForms
from gpzed.mixture.heads import Heads
from gpzed.mixture.predictive import MixtureHeads
from helpers import CODES, assert_same_rows, make_problem


def make_forms(code: str, d: int, mean_function: str, m: int = 7) -> tuple[QuadraticForms, int]:
    problem = make_problem(code, 3, d=d, m=m, mean_function=mean_function)
    layout = problem.layout
    W = np.random.default_rng(5).standard_normal((3, layout.n_weights))
    Lambda = layout.structure.expand(problem.parameters.Gamma, d)
    return QuadraticForms(problem.parameters.P, Lambda, W[:, :, None] * W[:, None, :]), layout.k


def make_factors(n: int, d: int, scale: float = 0.6) -> np.ndarray:
    return np.tril(scale * np.random.default_rng(6).standard_normal((n, d, d)))


@pytest.mark.parametrize("mean_function", ["zero", "linear"])
@pytest.mark.parametrize("code", CODES)
def test_moments_equal_monte_carlo(code, mean_function):
    forms, k = make_forms(code, 3, mean_function, m=4)
    rng = np.random.default_rng(0)
    X, V = rng.standard_normal((3, 3)), make_factors(3, 3)
    Phi, total = BlurredRows(forms, k)(X.T, V, Scratch())
    z = rng.standard_normal((100_000, 3))
    z = np.concatenate([z, -z])
    for i in range(3):
        x = X[i] + z @ V[i].T
        Lambda = BlurredRows(forms, k).Lambda
        values = [
            np.exp(-0.5 * np.einsum("na,ab,nb->n", x - p, L, x - p)) for p, L in zip(forms.P, Lambda, strict=True)
        ]
        drawn = np.column_stack([*values, *([np.ones(len(x)), *x.T][:k])])
        np.testing.assert_allclose(Phi[:, i], drawn.mean(axis=0), atol=0.01)
        variance = [np.trace(Q @ np.cov(drawn.T)) for Q in forms.matrices]
        np.testing.assert_allclose(total[:, i], variance, rtol=0.05)


@pytest.mark.parametrize("mean_function", ["constant", "linear"])
@pytest.mark.parametrize("d", [1, 4, 5, 6, 7])
def test_compiled_sums_are_those_of_numpy_and_of_kinds(monkeypatch, lanes, d, mean_function):
    forms, k = make_forms("VC", d, mean_function)
    X, V = np.random.default_rng(1).standard_normal((29, d)), make_factors(29, d)
    Phi, total = BlurredRows(forms, k)(X.T, V, Scratch())
    for i in (0, 28):
        blur = Blur(V[i], np.zeros(d), np.eye(d), np.zeros(d, bool))
        np.testing.assert_allclose(total[:, i], AddedVariance(forms, blur)(X[i : i + 1].T)[:, 0], rtol=1e-8, atol=1e-12)
    monkeypatch.setattr(binding, "_library", None)
    other = BlurredRows(forms, k)(X.T, V, Scratch())
    np.testing.assert_allclose(Phi, other[0], rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(total, other[1], rtol=1e-8, atol=1e-12)


def test_rows_do_not_depend_on_the_company_they_keep():
    forms, k = make_forms("VC", 6, "linear")
    X, V = np.random.default_rng(1).standard_normal((50, 6)), make_factors(50, 6)
    Phi, total = BlurredRows(forms, k)(X.T, V, Scratch())
    for rows in (slice(0, 1), slice(7, 30)):
        part = BlurredRows(forms, k)(np.ascontiguousarray(X[rows].T), V[rows], Scratch())
        assert_same_rows(part[0], Phi[:, rows])
        np.testing.assert_allclose(part[1], total[:, rows], rtol=1e-12)


def test_huge_errors_and_far_rows_stay_finite():
    forms, k = make_forms("VC", 3, "linear")
    X, V = np.full((4, 3), [[30.0], [0.0], [-30.0], [1.0]]), make_factors(4, 3, 1e3)
    Phi, total = BlurredRows(forms, k)(X.T, V, Scratch())
    assert np.all(np.isfinite(Phi))
    assert np.all(np.isfinite(total))
    assert np.all(Phi[: len(forms.P)] <= 1.0)


def test_predictions_are_those_of_kinds_of_one_row_each():
    problem = make_problem("VC", 3, d=4, m=5, mean_function="linear")
    layout, p = problem.layout, problem.parameters
    X, V = np.random.default_rng(1).standard_normal((6, 4)), make_factors(6, 4)
    blurs, blur = tuple(Blur(one, np.zeros(4), np.eye(4), np.zeros(4, bool)) for one in V), np.arange(1, 7)
    _, posterior, _ = fit_posterior(ThreadEngine(problem.X, problem.y, width=layout.n_weights), p, layout)
    forms = variance_forms(p, layout, posterior)
    state = make_state(p, layout, blurs=blurs)
    expected = predict(X, state, posterior, Team(1), blur, [AddedVariance(forms, one) for one in blurs])
    result = predict_noisy(X, V, make_state(p, layout), posterior, Team(1), BlurredRows(forms, layout.k))
    for one, other in zip(result, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7)
    Theta = np.random.default_rng(2).standard_normal((layout.n_weights, 9))
    heads, factors = Heads(p.P, p.Gamma, Theta), (posterior.factor,) * 3
    forms = heads.forms(layout, factors)
    mixture = MixtureHeads(heads, factors, np.zeros((4, 3)), "linear", 0, 0.0)
    expected = mixture.predict(X, layout, Team(1), blur, blurs, [AddedVariance(forms, one) for one in blurs])
    result = mixture.predict_noisy(X, V, np.zeros(X.shape, bool), Team(1), BlurredRows(forms, layout.k))
    for one, other in zip(result, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7)


def test_offsets_of_the_noise_are_those_of_rows_with_gaps():
    problem = make_problem("VC", 3, d=4, m=5, mean_function="linear")
    layout, p = problem.layout, problem.parameters
    rng = np.random.default_rng(1)
    X, V, missing = rng.standard_normal((6, 4)), make_factors(6, 4), rng.random((6, 4)) < 0.4
    blurs = tuple(Blur(V[i], np.zeros(4), np.eye(4), missing[i]) for i in range(6))
    factors = (cholesky(np.diag(1.0 + rng.random(layout.n_weights))),) * 2
    heads = Heads(p.P, p.Gamma, rng.standard_normal((layout.n_weights, 6)))
    mixture = MixtureHeads(heads, factors, rng.standard_normal((4, 2)), "linear", 0, 0.0)
    forms = mixture.forms(layout)
    spreads = [AddedVariance(forms, blur) for blur in blurs]
    expected = mixture.predict(X, layout, Team(1), np.arange(1, 7), blurs, spreads)
    noisy = BlurredRows(forms, layout.k)
    result = mixture.predict_noisy(X, V, missing, Team(1), noisy)
    np.testing.assert_allclose(result.noise_variances, expected.noise_variances, rtol=1e-8)


@pytest.mark.parametrize("is_mixture", [False, True])
def test_the_noise_is_its_expectation_over_uncertain_inputs(is_mixture):
    """With ln beta at its expectation alone it was too low."""
    problem = make_problem("VC", 3, d=3, m=6, mean_function="constant")
    layout = problem.layout
    p = replace(problem.parameters, u=0.6 * np.random.default_rng(3).standard_normal(6))
    rng = np.random.default_rng(0)
    X, V = 0.5 * rng.standard_normal((5, 3)), make_factors(5, 3, 0.5)
    _, posterior, _ = fit_posterior(ThreadEngine(problem.X, problem.y, width=layout.n_weights), p, layout)
    if is_mixture:
        Theta = np.column_stack([posterior.w_mean, np.append(p.u, p.b), np.zeros(layout.n_weights)])
        mixture = MixtureHeads(Heads(p.P, p.Gamma, Theta), (posterior.factor,), np.zeros((3, 1)), "constant", 0, 0.0)
        noisy = BlurredRows(mixture.forms(layout), layout.k)
        found = mixture.predict_noisy(X, V, np.zeros(X.shape, bool), Team(1), noisy).noise_variances[:, 0]
    else:
        noisy = BlurredRows(variance_forms(p, layout, posterior), layout.k)
        found = predict_noisy(X, V, make_state(p, layout), posterior, Team(1), noisy).noise_variance
    for i in range(5):
        drawn = X[i] + rng.standard_normal((20_000, 3)) @ V[i].T
        exact = predict(drawn, make_state(p, layout), posterior, Team(1)).noise_variance
        plugged_in = np.exp(np.mean(np.log(exact)))
        assert abs(found[i] / exact.mean() - 1.0) < 0.3 * (exact.mean() / plugged_in - 1.0) + 0.005
