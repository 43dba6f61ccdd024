"""Evidence and gradient against the dense Gaussian, the equations in loops, central differences and symmetries."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from gpzed.engine.threads import Team
from gpzed.errors import NumericalError
from gpzed.gp.covariance import Structure
from gpzed.gp.evidence import LogEvidence, evaluate, fit_posterior
from gpzed.gp.parameters import Layout, Parameters
from gpzed.gp.predictive import predict
from helpers import CODES, central_difference, make_problem, option_grid
from strategies import problems

GRID = list(option_grid())
GOLDEN = Path(__file__).with_name("golden_evidence.json")
pytestmark = pytest.mark.usefixtures("route")
WEIGHTINGS = pytest.mark.parametrize(
    ("weights", "weighted_precision"),
    [(False, False), (True, False), (True, True)],
    ids=["unweighted", "weighted likelihood", "weighted precision"],
)


def predictive(problem, X_new):
    state, posterior, _ = fit_posterior(
        problem.engine(), problem.parameters, problem.layout, problem.weighted_precision
    )
    return predict(X_new, state, posterior, Team(1))


# ------------------------------------------------------------------------------- dense Gaussian identity


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("mean_function", ["zero", "constant", "linear"])
@WEIGHTINGS
def test_evidence_is_the_dense_gaussian_density_and_the_prior_of_u(code, mean_function, weights, weighted_precision):
    problem = make_problem(code, 1, weights=weights, weighted_precision=weighted_precision, mean_function=mean_function)
    p = problem.parameters
    Phi = reference.basis(problem.X, p.P, problem.Gammas)
    F = np.hstack([Phi, reference.mean_columns(problem.X, mean_function)])
    beta = reference.noise_precision(Phi, p.u, p.b)
    B = beta * problem.omega
    expected = reference.dense_log_density(problem.y, F, B, problem.alpha)
    if not weighted_precision:
        # N(y; f, 1/beta)^omega = N(y; f, 1/(beta omega)) times what does not depend on f:
        # (beta / 2 pi)^(omega/2) / (beta omega / 2 pi)^(1/2), and only the first factor is integrated over w.
        omega = problem.omega
        expected += np.sum(0.5 * omega * np.log(beta / (2 * np.pi)) - 0.5 * np.log(B / (2 * np.pi)))
    eta = np.exp(p.log_eta)
    log_prior_u = np.sum(0.5 * np.log(eta / (2 * np.pi)) - 0.5 * eta * p.u**2)
    result = problem.evaluate().evidence
    assert result.total == pytest.approx(expected + log_prior_u, rel=1e-12)
    assert result.log_marginal_likelihood == pytest.approx(expected, rel=1e-12)


def test_integer_weights_are_repetitions():
    problem = make_problem("VC", 3, weights=True)
    counts = np.random.default_rng(0).integers(1, 4, len(problem.y))
    weighted = problem.replace(omega=counts.astype(float))
    rows = np.repeat(np.arange(len(counts)), counts)
    repeated = problem.replace(X=problem.X[rows], y=problem.y[rows], omega=np.ones(len(rows)))
    one, other = weighted.evaluate(), repeated.evaluate()
    assert one.evidence.total == pytest.approx(other.evidence.total, rel=1e-12)
    np.testing.assert_allclose(
        problem.layout.pack(one.gradient), problem.layout.pack(other.gradient), rtol=1e-9, atol=1e-10
    )


# ------------------------------------------------------------------------------ the equations, in loops


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(("options", "_name"), GRID, ids=[name for _, name in GRID])
def test_terms_and_gradient_equal_the_papers_equations(code, options, _name):
    problem = make_problem(code, 5, n=30, d=3, **options)
    result = problem.evaluate()
    expected = reference.log_evidence_terms(*problem.reference_arguments(), **problem.reference_options())
    for field in fields(LogEvidence):
        wanted = expected[field.name]
        if field.name.startswith("noise_") and not problem.layout.heteroscedastic:
            wanted = 0.0
        assert getattr(result.evidence, field.name) == pytest.approx(wanted, rel=1e-11, abs=1e-12), field.name
    gradient = reference.gradient(*problem.reference_arguments(), **problem.reference_options())
    tolerance = {"rtol": 1e-9, "atol": 1e-10}
    np.testing.assert_allclose(result.gradient.P, gradient["P"], **tolerance)
    np.testing.assert_allclose(result.gradient.Gamma, reference.fold_gamma(gradient["Gamma"], code), **tolerance)
    assert result.gradient.b == pytest.approx(gradient["b"], rel=1e-9)
    log_alpha = gradient["log_alpha"]
    if not problem.layout.relevance:
        m = problem.layout.m
        log_alpha = np.concatenate([[log_alpha[:m].sum()], log_alpha[m:]])
    np.testing.assert_allclose(result.gradient.log_alpha, log_alpha, **tolerance)
    if problem.layout.heteroscedastic:
        np.testing.assert_allclose(result.gradient.u, gradient["u"], **tolerance)
        np.testing.assert_allclose(result.gradient.log_eta, gradient["log_eta"], **tolerance)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("mean_function", ["zero", "constant", "linear"])
def test_predictive_moments_equal_the_papers_equations(code, mean_function):
    problem = make_problem(code, 6, weights=True, mean_function=mean_function)
    X_new = np.random.default_rng(1).standard_normal((15, problem.layout.d))
    X, y, P, Gammas, u, b, alpha, _, omega = problem.reference_arguments()
    expected = reference.predict(X_new, X, y, P, Gammas, u, b, alpha, omega, mean_function=mean_function)
    *moments, from_inputs = predictive(problem, X_new)
    assert not np.any(from_inputs)
    for got, wanted in zip(moments, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-10)


# ------------------------------------------------------------------------------------- golden numbers


@pytest.mark.parametrize("code", CODES)
def test_terms_and_gradient_are_those_on_record(code):
    expected = json.loads(GOLDEN.read_text())["structures"][code]
    problem = make_problem(code, 5, n=30, d=3, weights=True, mean_function="linear")
    result = problem.evaluate()
    assert asdict(result.evidence) == pytest.approx(expected["terms"], rel=1e-10)
    gradient = problem.layout.pack(result.gradient)
    np.testing.assert_allclose(gradient, expected["gradient"], rtol=1e-10, atol=1e-10 * np.abs(gradient).max())


# ---------------------------------------------------------------------------------- central differences


def assert_slopes(problem, directions, rtol=1e-6):
    layout = problem.layout
    theta = layout.pack(problem.parameters)
    gradient = layout.pack(problem.evaluate().gradient)

    def value(point):
        return problem.evaluate(layout.unpack(point)).evidence.total

    scale = np.abs(gradient).max()
    for direction in directions:
        slope = central_difference(value, theta, direction)
        assert float(gradient @ direction) == pytest.approx(slope, rel=rtol, abs=1e-8 * scale)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(("options", "_name"), GRID, ids=[name for _, name in GRID])
def test_gradient_equals_central_differences(code, options, _name):
    problem = make_problem(code, 11, n=40, d=2, m=4, **options)
    size = problem.layout.size
    assert_slopes(problem, np.eye(size))
    rng = np.random.default_rng(2)
    assert_slopes(problem, rng.standard_normal((5, size)))


@pytest.mark.parametrize("code", CODES)
def test_gradient_in_three_dimensions(code):
    problem = make_problem(code, 12, n=40, d=3, m=3, weights=True, mean_function="linear")
    assert_slopes(problem, np.eye(problem.layout.size))


def test_the_central_difference_test_sees_a_wrong_gradient(monkeypatch):
    right = Structure.pull_back

    def wrong(*arguments):
        grad_P, grad_Gamma = right(*arguments)
        return grad_P * (1 + 3e-6), grad_Gamma

    problem = make_problem("VC", 11)
    monkeypatch.setattr(Structure, "pull_back", wrong)
    with pytest.raises(AssertionError):
        assert_slopes(problem, np.eye(problem.layout.size))


# ------------------------------------------------------------------- every structure is a special case of VC


@pytest.mark.parametrize("code", CODES[:-1])
@pytest.mark.parametrize("mean_function", ["zero", "linear"])
def test_structure_is_a_special_case_of_vc(code, mean_function):
    problem = make_problem(code, 21, d=3, weights=True, mean_function=mean_function)
    full = problem.replace(
        layout=replace(problem.layout, structure=Layout.of(1, 1, "VC").structure),
        parameters=replace(problem.parameters, Gamma=np.array(problem.Gammas)),
    )
    one, other = problem.evaluate(), full.evaluate()
    assert one.evidence.total == pytest.approx(other.evidence.total, rel=1e-13)
    np.testing.assert_allclose(
        one.gradient.Gamma, reference.fold_gamma(other.gradient.Gamma, code), rtol=1e-9, atol=1e-10
    )
    for name in ("P", "u", "b", "log_alpha", "log_eta"):
        np.testing.assert_allclose(getattr(one.gradient, name), getattr(other.gradient, name), rtol=1e-9, atol=1e-10)
    X_new = np.random.default_rng(3).standard_normal((20, 3))
    for got, wanted in zip(predictive(problem, X_new), predictive(full, X_new), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-11)


# ----------------------------------------------------------------------------------------- invariances


@settings(max_examples=25)
@given(problem=problems(), seed=st.integers(0, 100))
def test_order_of_rows_does_not_matter(problem, seed):
    order = np.random.default_rng(seed).permutation(len(problem.y))
    other = problem.replace(X=problem.X[order], y=problem.y[order], omega=problem.omega[order])
    one, two = problem.evaluate(), other.evaluate()
    assert one.evidence.total == pytest.approx(two.evidence.total, rel=1e-10, abs=1e-9)
    np.testing.assert_allclose(
        problem.layout.pack(one.gradient), problem.layout.pack(two.gradient), rtol=1e-8, atol=1e-8
    )


@settings(max_examples=25)
@given(problem=problems(), seed=st.integers(0, 100))
def test_order_of_basis_functions_does_not_matter(problem, seed):
    layout, p = problem.layout, problem.parameters
    order = np.random.default_rng(seed).permutation(layout.m)

    def permute(point):
        Gamma = point.Gamma if layout.structure.is_global else point.Gamma[order]
        log_alpha = point.log_alpha
        if layout.relevance:
            log_alpha = np.concatenate([log_alpha[: layout.m][order], log_alpha[layout.m :]])
        return Parameters(point.P[order], Gamma, point.u[order], point.b, log_alpha, point.log_eta[order])

    one, two = problem.evaluate(), problem.evaluate(permute(p))
    assert one.evidence.total == pytest.approx(two.evidence.total, rel=1e-10, abs=1e-9)
    np.testing.assert_allclose(layout.pack(permute(one.gradient)), layout.pack(two.gradient), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("code", ["GC", "VC"])
def test_rotating_gamma_changes_nothing(code):
    problem = make_problem(code, 31, d=3)
    rng = np.random.default_rng(4)
    p = problem.parameters
    Q = np.linalg.qr(rng.standard_normal((len(p.Gamma), 3, 3)))[0]
    one, two = problem.evaluate(), problem.evaluate(replace(p, Gamma=Q @ p.Gamma))
    assert one.evidence.total == pytest.approx(two.evidence.total, rel=1e-13)
    np.testing.assert_allclose(Q @ one.gradient.Gamma, two.gradient.Gamma, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(one.gradient.P, two.gradient.P, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("code", ["GC", "VC"])
@pytest.mark.parametrize("mean_function", ["zero", "constant"])
def test_affine_change_of_inputs_is_absorbed_by_full_covariances(code, mean_function):
    problem = make_problem(code, 32, d=3, mean_function=mean_function)
    rng = np.random.default_rng(5)
    M = np.eye(3) + 0.3 * rng.standard_normal((3, 3))
    shift = rng.standard_normal(3)
    p = problem.parameters
    moved = problem.replace(
        X=problem.X @ M.T + shift,
        parameters=replace(p, P=p.P @ M.T + shift, Gamma=p.Gamma @ np.linalg.inv(M)),
    )
    one, two = problem.evaluate(), moved.evaluate()
    assert one.evidence.total == pytest.approx(two.evidence.total, rel=1e-11)
    np.testing.assert_allclose(one.gradient.P, two.gradient.P @ M, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("code", CODES)
def test_moving_inputs_and_centres_together_changes_nothing(code):
    problem = make_problem(code, 33)
    p = problem.parameters
    shift = np.array([1.5, -0.7])
    moved = problem.replace(X=problem.X + shift, parameters=replace(p, P=p.P + shift))
    assert problem.evaluate().evidence.total == pytest.approx(moved.evaluate().evidence.total, rel=1e-11)


# ------------------------------------------------------------------------------- extremes and special values


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("mean_function", ["zero", "linear"])
def test_inputs_at_thirty_sigma(code, mean_function):
    problem = make_problem(code, 41, d=3, weights=True, mean_function=mean_function)
    X = problem.X.copy()
    X[:4] *= 30.0 / np.abs(X[:4]).max(axis=1, keepdims=True)
    P = problem.parameters.P.copy()
    P[0] = X[0] + 0.3  # a basis function out there: the quadratic map has to cancel to one part in 1e3
    problem = problem.replace(X=X, parameters=replace(problem.parameters, P=P))
    result = problem.evaluate()
    expected = reference.log_evidence_terms(*problem.reference_arguments(), **problem.reference_options())
    assert result.evidence.total == pytest.approx(sum(expected.values()), rel=1e-10)
    gradient = reference.gradient(*problem.reference_arguments(), **problem.reference_options())
    np.testing.assert_allclose(result.gradient.P, gradient["P"], rtol=1e-7, atol=1e-8)
    Gamma = reference.fold_gamma(gradient["Gamma"], code)
    np.testing.assert_allclose(result.gradient.Gamma, Gamma, rtol=1e-7, atol=1e-8 * np.abs(Gamma).max())
    for moment in predictive(problem, X):
        assert np.all(np.isfinite(moment))


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("relevance", [True, False])
def test_zero_u_is_the_homoscedastic_model(code, relevance):
    flat = make_problem(code, 51, heteroscedastic=False, relevance=relevance)
    m = flat.layout.m
    noisy = flat.replace(
        layout=replace(flat.layout, heteroscedastic=True),
        parameters=replace(flat.parameters, u=np.zeros(m), log_eta=np.full(m, np.log(2 * np.pi))),
    )
    one, two = flat.evaluate(), noisy.evaluate()  # eta = 2 pi: the prior of u = 0 is exactly 1
    assert one.evidence.total == pytest.approx(two.evidence.total, rel=1e-13)
    assert one.evidence.total == pytest.approx(one.evidence.log_marginal_likelihood, rel=1e-15)
    for name in ("P", "Gamma", "b", "log_alpha"):
        np.testing.assert_allclose(getattr(one.gradient, name), getattr(two.gradient, name), rtol=1e-12)
    variance = predictive(flat, flat.X).noise_variance
    np.testing.assert_allclose(variance, np.exp(-flat.parameters.b), rtol=1e-14)


@settings(max_examples=60)
@given(problem=problems())
def test_evidence_is_finite_and_variances_are_positive(problem):
    result = problem.evaluate()
    assert np.isfinite(result.evidence.total)
    assert np.all(np.isfinite(problem.layout.pack(result.gradient)))
    moments = predictive(problem, problem.X)
    assert np.all(moments.model_variance >= 0.0)
    assert np.all(moments.noise_variance > 0.0)
    expected = reference.log_evidence_terms(*problem.reference_arguments(), **problem.reference_options())
    if not problem.layout.heteroscedastic:
        expected = {k: v for k, v in expected.items() if not k.startswith("noise_")}
    assert result.evidence.total == pytest.approx(sum(expected.values()), rel=1e-9, abs=1e-8)


def test_inputs_are_not_modified():
    problem = make_problem("VC", 61, weights=True)
    p = problem.parameters
    arrays = [problem.X, problem.y, problem.omega, p.P, p.Gamma, p.u, p.log_alpha, p.log_eta]
    for array in arrays:
        array.setflags(write=False)
    problem.evaluate()


@pytest.mark.parametrize("b", [110.0, -110.0, -800.0, np.nan, np.inf, -np.inf])
def test_diverged_noise_precision_raises_rather_than_giving_nan(b):
    problem = make_problem("VC", 62)
    with pytest.raises(NumericalError, match=r"noise precision is outside exp\(\+-100\) or is not a number"):
        problem.evaluate(replace(problem.parameters, b=b))


def test_a_basis_function_nobody_feels_is_harmless():
    problem = make_problem("VC", 64)
    P = problem.parameters.P.copy()
    P[0] = 1e3
    result = problem.evaluate(replace(problem.parameters, P=P))
    assert np.isfinite(result.evidence.total)
    np.testing.assert_array_equal(result.gradient.P[0], 0.0)
    assert result.posterior.w_mean[0] == 0.0


def test_one_row_and_more_basis_functions_than_rows():
    problem = make_problem("VC", 66, n=1, m=6)
    expected = sum(reference.log_evidence_terms(*problem.reference_arguments()).values())
    assert problem.evaluate().evidence.total == pytest.approx(expected, rel=1e-12)


def test_many_blocks_equal_the_reference(monkeypatch):
    monkeypatch.setattr("gpzed.engine.blocks.CACHE_ELEMENTS", 1)  # 128 rows per block
    problem = make_problem("VC", 67, n=600, weights=True)
    total = evaluate(problem.engine(n_threads=2), problem.parameters, problem.layout).evidence.total
    expected = sum(reference.log_evidence_terms(*problem.reference_arguments()).values())
    assert total == pytest.approx(expected, rel=1e-12)
