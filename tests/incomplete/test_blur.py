"""Uncertain inputs: expected basis functions, gradients, and the variance they add, against Monte Carlo."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from gpzed.compiled import binding, pairs
from gpzed.engine.blocks import Block, Rows, Scratch, cut
from gpzed.engine.stream import StreamEngine
from gpzed.engine.threads import Team, ThreadEngine
from gpzed.errors import NumericalError
from gpzed.gp.basis import quadratic_map
from gpzed.gp.evidence import evaluate, fit_posterior
from gpzed.gp.predictive import predict, variance_forms
from gpzed.gp.state import make_state, responses
from gpzed.incomplete import spread
from gpzed.incomplete.blur import Blur, BlurredBasis
from gpzed.incomplete.givens import refresh
from gpzed.incomplete.spread import AddedVariance, QuadraticForms, pair_sums
from helpers import CODES, central_difference, make_kinds, make_problem

GRID = list(itertools.product(("zero", "constant", "linear"), ((False, False), (True, False), (True, True))))


def make_rows(problem, blurs, seed=1):
    """Rows of the problem with blurs in turn, their expected inputs where such rows have them."""
    rng = np.random.default_rng(seed)
    X, blur = problem.X.copy(), np.arange(len(problem.y)) % (len(blurs) + 1)
    for index, one in enumerate(blurs, 1):
        rows = blur == index
        X[rows] = one.origin + rng.standard_normal((rows.sum(), one.directions.shape[1])) @ one.directions.T
    return X, blur


def basis(X, P, Gammas):
    """Eq. 3.2, (n, m)."""
    return np.stack(
        [np.exp(-0.5 * np.sum(((X - p) @ Gamma.T) ** 2, axis=1)) for p, Gamma in zip(P, Gammas, strict=True)], axis=1
    )


@pytest.mark.parametrize("code", CODES)
def test_expected_basis_functions_and_products_equal_monte_carlo(code):
    problem = make_problem(code, 3, d=3, m=4)
    p, layout = problem.parameters, problem.layout
    Lambda = layout.structure.expand(p.Gamma, layout.d)
    rng = np.random.default_rng(0)
    for blur in make_kinds(3):
        x = blur.origin + blur.directions @ rng.standard_normal(blur.directions.shape[1])
        noise = rng.standard_normal((40_000, blur.V.shape[1]))
        noise = np.concatenate([noise, -noise])
        Phi = basis(x + noise @ blur.V.T, p.P, problem.Gammas)
        state = make_state(p, layout, blurs=(blur,))
        _, expected, _ = responses(Block(x[:, None], np.empty(0), np.empty(0), blur=1), Scratch(), state)
        error = Phi.std(axis=0) / np.sqrt(len(Phi) / 2)
        np.testing.assert_array_less(np.abs(expected[:, 0] - Phi.mean(axis=0)), 5.0 * error + 1e-12)
        W = rng.standard_normal((2, 4))
        forms = QuadraticForms(p.P, Lambda, W[:, :, None] * W[:, None, :])
        variance = AddedVariance(forms, blur)(x[:, None])[:, 0]
        np.testing.assert_allclose(variance, (Phi @ W.T).var(axis=0), rtol=0.05)


def test_a_linear_mean_function_spreads_too():
    problem = make_problem("VC", 5, d=3, m=4, mean_function="linear")
    p, layout = problem.parameters, problem.layout
    rng = np.random.default_rng(1)
    for blur in make_kinds(3):
        x = blur.origin + blur.directions @ rng.standard_normal(blur.directions.shape[1])
        draws = x + rng.standard_normal((40_000, blur.V.shape[1])) @ blur.V.T
        F = np.hstack([basis(draws, p.P, problem.Gammas), np.ones((len(draws), 1)), draws])
        W = rng.standard_normal((2, 8))
        Lambda = layout.structure.expand(p.Gamma, layout.d)
        forms = QuadraticForms(p.P, Lambda, W[:, :, None] * W[:, None, :])
        variance = AddedVariance(forms, blur)(x[:, None])[:, 0]
        np.testing.assert_allclose(variance, (F @ W.T).var(axis=0), rtol=0.05)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(("mean_function", "weighting"), GRID)
def test_gradient_equals_central_differences(code, mean_function, weighting):
    weights, weighted_precision = weighting
    heteroscedastic = not (weights and mean_function == "linear")
    problem = make_problem(
        code, 11, n=40, d=2, m=3, weights=weights, mean_function=mean_function, heteroscedastic=heteroscedastic
    )
    blurs = make_kinds(2)
    X, blur = make_rows(problem, blurs)
    engine = ThreadEngine(X, problem.y, problem.omega, blur, width=problem.layout.n_weights, n_threads=1)
    refresh([engine], problem.parameters, problem.layout, weighted_precision, blurs)
    assert all((block.v is None) == (block.blur == 0) for block in engine._blocks)
    assert max(block.v.max() for block in engine._blocks if block.v is not None) > 1e-3
    layout = problem.layout

    def value(theta):
        return evaluate(engine, layout.unpack(theta), layout, weighted_precision, blurs).evidence.total

    theta = layout.pack(problem.parameters)
    gradient = layout.pack(evaluate(engine, problem.parameters, layout, weighted_precision, blurs).gradient)
    scale = np.abs(gradient).max()
    for direction in np.eye(layout.size):
        slope = central_difference(value, theta, direction)
        assert float(gradient @ direction) == pytest.approx(slope, rel=1e-6, abs=1e-8 * scale)


def test_the_central_difference_test_sees_a_wrong_pull_back(monkeypatch):
    right = BlurredBasis.pull_back
    monkeypatch.setattr(binding, "_library", None)  # compiled passes do it themselves
    monkeypatch.setattr(
        BlurredBasis, "pull_back", lambda self, grad: (right(self, grad)[0], 1.01 * right(self, grad)[1])
    )
    with pytest.raises(AssertionError):
        test_gradient_equals_central_differences("VC", "constant", (False, False))


def test_rows_without_uncertainty_are_as_before():
    problem = make_problem("VC", 2, d=3)
    blurs = make_kinds(3)
    plain = problem.evaluate()
    engine = ThreadEngine(problem.X, problem.y, problem.omega, np.zeros(40, int), width=4, n_threads=1)
    refresh([engine], problem.parameters, problem.layout, False, blurs)
    other = evaluate(engine, problem.parameters, problem.layout, False, blurs)
    assert other.evidence == plain.evidence
    np.testing.assert_array_equal(problem.layout.pack(other.gradient), problem.layout.pack(plain.gradient))


def test_no_uncertainty_left_gives_the_plain_basis_functions():
    problem = make_problem("VC", 4, d=3)
    blur = Blur(np.zeros((3, 1)), np.zeros(3), np.eye(3), np.zeros(3, dtype=bool))
    engine = problem.engine()
    state, posterior, _ = fit_posterior(engine, problem.parameters, problem.layout)
    plain = predict(problem.X, state, posterior, Team(1))
    blurred = make_state(problem.parameters, problem.layout, blurs=(blur,))
    spreads = (AddedVariance(variance_forms(problem.parameters, problem.layout, posterior), blur),)
    moments = predict(problem.X, blurred, posterior, Team(1), np.ones(40, int), spreads)
    for got, wanted in zip(moments, plain, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("code", ["GL", "VC"])
def test_predicted_moments_equal_monte_carlo(code):
    problem = make_problem(code, 6, d=3, n=200)
    blurs = make_kinds(3)
    X, blur = make_rows(problem, blurs)
    state, posterior, _ = fit_posterior(problem.engine(), problem.parameters, problem.layout)
    blurred = make_state(problem.parameters, problem.layout, blurs=blurs)
    forms = variance_forms(problem.parameters, problem.layout, posterior)
    moments = predict(X, blurred, posterior, Team(2), blur, [AddedVariance(forms, one) for one in blurs])
    rng = np.random.default_rng(3)
    for row in (1, 2, 3):
        V = blurs[blur[row] - 1].V
        draws = X[row] + rng.standard_normal((40_000, V.shape[1])) @ V.T
        sampled = predict(draws, state, posterior, Team(2))
        assert moments.mean[row] == pytest.approx(sampled.mean.mean(), abs=0.01)
        assert moments.input_variance[row] == pytest.approx(sampled.mean.var(), rel=0.05)
        assert moments.model_variance[row] == pytest.approx(sampled.model_variance.mean(), rel=0.05)
    assert np.all(moments.input_variance[blur == 0] == 0.0)


def test_pairs_that_are_left_out_do_not_matter(monkeypatch):
    problem = make_problem("VD", 7, d=2, m=30)
    parameters, layout = problem.parameters, problem.layout
    parameters = type(parameters)(**{**parameters.__dict__, "Gamma": 8.0 * parameters.Gamma})
    Lambda = layout.structure.expand(parameters.Gamma, layout.d)
    blur = make_kinds(2)[0]
    W = np.random.default_rng(0).standard_normal((1, 30))
    _, kind_of = make_rows(problem, [blur])
    X, _ = make_rows(problem, [blur])
    rows = np.ascontiguousarray(X[kind_of == 1].T)
    some = QuadraticForms(parameters.P, Lambda, W[:, :, None] * W[:, None, :])
    short = AddedVariance(some, blur)(rows)
    assert len(some.pairs[0]) < 0.8 * 30 * 31 / 2
    monkeypatch.setattr(spread, "NEGLIGIBLE", -1.0)
    everything = QuadraticForms(parameters.P, Lambda, W[:, :, None] * W[:, None, :])
    assert len(everything.pairs[0]) == 30 * 31 / 2
    np.testing.assert_allclose(short, AddedVariance(everything, blur)(rows), atol=1e-10)


def make_spread(r, s, code="VC", mean_function="linear", m=23, d=5, seed=0):
    """Forms of many signs on basis functions in five dimensions, r of which are uncertain."""
    problem = make_problem(code, seed, d=d, m=m, mean_function=mean_function)
    rng = np.random.default_rng(seed)
    layout, p = problem.layout, problem.parameters
    Q = rng.standard_normal((s, layout.n_weights, layout.n_weights))
    forms = QuadraticForms(p.P, layout.structure.expand(p.Gamma, d), Q @ np.swapaxes(Q, 1, 2))
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
    V, origin = basis[:, :r] @ rng.standard_normal((r, r)), 0.1 * rng.standard_normal(d)
    blur = Blur(V, origin, basis[:, r:], np.arange(d) < r)
    return AddedVariance(forms, blur)


def rows_of(blur, n, scale=1.0):
    t = scale * np.random.default_rng(n).standard_normal((blur.directions.shape[1], n))
    return blur.origin[:, None] + blur.directions @ t


@pytest.mark.parametrize(("r", "s"), [(1, 1), (2, 2), (3, 5), (4, 2), (5, 9)])
@pytest.mark.parametrize(("code", "mean_function"), [("VC", "linear"), ("GL", "constant"), ("VD", "zero")])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_both_ways_to_sum_over_pairs_agree(lanes, monkeypatch, r, s, code, mean_function, scale):
    spread = make_spread(r, s, code, mean_function)
    Xt = rows_of(spread.blur, 67, scale)
    compiled = pairs.pair_sums(spread, Xt, Scratch())
    monkeypatch.setattr(binding, "_library", None)
    in_numpy = pair_sums(spread, Xt, Scratch())
    np.testing.assert_allclose(compiled, in_numpy, rtol=0, atol=1e-12 * np.abs(spread.forms.matrices).sum() / s)


def test_exponents_are_added_before_the_exponential(lanes):
    """Where an input is hardly known, both functions of a pair vanish at the expected one; their product does not."""
    spread = make_spread(2, 2, mean_function="constant")
    V = 100.0 * np.linalg.qr(spread.blur.V)[0]
    blur = replace(spread.blur, V=V, origin=spread.blur.origin + V[:, 0])
    spread = AddedVariance(spread.forms, blur)
    Xt = rows_of(spread.blur, 20)
    Zt = quadratic_map(Xt, True, np.empty((21, 20)))
    assert np.median(spread.forms.plain @ Zt) < -1000.0
    compiled = pairs.pair_sums(spread, Xt, Scratch())
    assert np.all(compiled > 1e-6)
    np.testing.assert_allclose(compiled, pair_sums(spread, Xt, Scratch()), rtol=1e-8)


@pytest.mark.parametrize("r", [0, 1, 3, 5])
@pytest.mark.parametrize("code", CODES)
def test_compiled_blurs_are_those_of_numpy(monkeypatch, kernels, code, r):
    spread = make_spread(r, 1, code)
    grad_C = np.random.default_rng(1).standard_normal((21, 23))
    results = []
    for library in (binding._library, None):
        monkeypatch.setattr(binding, "_library", library)
        blurred = BlurredBasis(spread.forms.P, spread.forms.Lambda, spread.blur.V)
        results.append((blurred.Ct, *blurred.pull_back(grad_C)))
    for compiled, in_numpy in zip(*results, strict=True):
        np.testing.assert_allclose(compiled, in_numpy, rtol=1e-10, atol=1e-12 * np.abs(in_numpy).max())


@pytest.mark.parametrize("by_rank", [True, False])
def test_shapes_that_are_not_finite_are_told(monkeypatch, kernels, by_rank):
    if not by_rank:
        monkeypatch.setattr(binding, "_library", None)
    good = make_spread(2, 1)
    Lambda = good.forms.Lambda.copy()
    Lambda[3] = np.nan
    forms = QuadraticForms(good.forms.P, Lambda, good.forms.matrices)
    forms.__dict__["pairs"] = good.forms.pairs
    with pytest.raises(NumericalError, match="not finite"):
        AddedVariance(forms, good.blur)(rows_of(good.blur, 5))


def test_engines_agree_and_streams_remember_the_added_variance():
    problem = make_problem("VC", 8, n=90, d=3, weights=True)
    blurs = make_kinds(3)
    X, blur = make_rows(problem, blurs)
    thread = ThreadEngine(X, problem.y, problem.omega, blur, width=4, n_threads=2)
    chunks = [
        Rows(X[i : i + 40], problem.y[i : i + 40], problem.omega[i : i + 40], blur[i : i + 40]) for i in (0, 40, 80)
    ]
    stream = StreamEngine(chunks, width=4, n_threads=2)
    results = []
    for engine in (thread, stream):
        without = evaluate(engine, problem.parameters, problem.layout, False, blurs)
        refresh([engine], problem.parameters, problem.layout, False, blurs)
        with_ = evaluate(engine, problem.parameters, problem.layout, False, blurs)
        assert without.evidence.total != pytest.approx(with_.evidence.total)
        results.append(with_)
    assert results[0].evidence.total == pytest.approx(results[1].evidence.total, rel=1e-12)
    np.testing.assert_allclose(
        problem.layout.pack(results[0].gradient), problem.layout.pack(results[1].gradient), rtol=1e-9, atol=1e-10
    )


def test_blocks_hold_one_kind_each_and_all_rows():
    blur = np.array([2, 0, 1, 0, 2, 2, 0, 1])
    blocks = cut(Rows(np.arange(16.0).reshape(8, 2), np.arange(8.0), np.ones(8), blur), 2)
    assert [(block.blur, block.y.tolist()) for block in blocks] == [
        (0, [1.0, 3.0]), (0, [6.0]), (1, [2.0, 7.0]), (2, [0.0, 4.0]), (2, [5.0])
    ]  # fmt: skip
