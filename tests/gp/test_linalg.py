"""Cholesky factors: results, the jitter policy, and what cannot be factorised."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpzed.compiled import substitute
from gpzed.errors import NumericalError
from gpzed.gp import linalg
from gpzed.gp.linalg import MAX_JITTER, Factor, cholesky, inverse_stack, root_stack, triangular_product
from gpzed.gp.prior import common_shape
from helpers import make_problem
from strategies import seeds


def definite(m, seed=0, decades=0.0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, 2 * m))
    scale = 10.0 ** np.linspace(-decades, decades, m)
    return scale[:, None] * (A @ A.T) * scale


@settings(max_examples=40)
@given(m=st.integers(1, 12), seed=seeds, decades=st.floats(0.0, 8.0))
def test_factor_inverts_whatever_the_scale_of_the_diagonal(m, seed, decades):
    S = definite(m, seed, decades)
    factor = cholesky(S)
    assert factor.jitter == 0.0
    unit = factor.s[:, None] * S * factor.s
    np.testing.assert_allclose(factor.L @ factor.L.T, unit, rtol=1e-10, atol=1e-12)
    scaled = factor.inverse / factor.s[:, None] / factor.s
    np.testing.assert_allclose(scaled @ unit, np.eye(m), atol=1e-7)
    rhs = np.random.default_rng(1).standard_normal((m, 3)) / factor.s[:, None]
    np.testing.assert_allclose(factor.s[:, None] * (S @ factor.solve(rhs)), factor.s[:, None] * rhs, atol=1e-7)
    np.testing.assert_allclose(factor.solve(rhs[:, 0]), factor.solve(rhs)[:, 0], rtol=1e-12)
    assert factor.log_det == pytest.approx(np.linalg.slogdet(unit)[1] - 2 * np.log(factor.s).sum(), rel=1e-10, abs=1e-9)
    np.testing.assert_allclose(factor.inverse_diagonal, np.diagonal(factor.inverse), rtol=1e-9)
    assert 0.0 < factor.rcond <= 1.0 + 1e-12


def test_the_input_is_not_modified():
    S = definite(5)
    copy = S.copy()
    S.setflags(write=False)
    cholesky(S)
    np.testing.assert_array_equal(S, copy)


def singular(m=6):
    """Two equal rows: positive semi-definite, exactly singular; -1e-13 makes it fail for sure."""
    S = definite(m)
    S[1] = S[0]
    S[:, 1] = S[:, 0]
    S[1, 1] = S[0, 0]
    s = 1 / np.sqrt(np.diag(S))
    R = s[:, None] * S * s
    return R - 1e-13 * np.outer([1, -1, *[0] * (m - 2)], [1, -1, *[0] * (m - 2)])


def test_singular_matrix_gets_a_recorded_jitter():
    S = singular()
    factor = cholesky(S)
    assert 1e-14 <= factor.jitter <= MAX_JITTER
    np.testing.assert_allclose(
        factor.L @ factor.L.T, factor.s[:, None] * S * factor.s + factor.jitter * np.eye(6), atol=1e-12
    )
    assert np.all(np.isfinite(factor.solve(np.ones(6))))
    assert not factor.is_well_conditioned


@pytest.mark.parametrize(("lacking", "jitter"), [(5e-15, 1e-14), (5e-13, 1e-12), (5e-11, 1e-10), (5e-9, 1e-8)])
def test_jitter_grows_in_steps_of_a_hundred_up_to_its_limit(lacking, jitter):
    """The smallest eigenvalue is minus `lacking`: the first step that exceeds it must do."""
    S = np.array([[1.0, 1.0 + lacking], [1.0 + lacking, 1.0]])
    assert cholesky(S).jitter == pytest.approx(jitter)


def test_hopeless_matrix_raises_with_a_remedy():
    S = np.array([[1.0, 1.5], [1.5, 1.0]])
    with pytest.raises(NumericalError, match=r"2 x 2 posterior precision is singular even with 1e-08.*use fewer"):
        cholesky(S)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0, -1.0])
def test_bad_diagonal_raises(bad):
    S = definite(4)
    S[2, 2] = bad
    with pytest.raises(NumericalError, match="diagonal that is not positive and finite"):
        cholesky(S)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_off_diagonal_raises(bad):
    S = definite(4)
    S[2, 1] = S[1, 2] = bad
    with pytest.raises(NumericalError, match=r"not finite|singular"):
        cholesky(S)


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 7, 16, 33])
def test_triangular_product(m):
    rng = np.random.default_rng(m)
    W, Phi = np.tril(rng.standard_normal((m, m))), rng.standard_normal((m, 11))
    out = np.full((m, 11), np.nan)
    assert triangular_product(W, Phi, out) is out
    np.testing.assert_allclose(out, W @ Phi, rtol=1e-13, atol=1e-13)


def test_both_routes_through_solve_block_agree(monkeypatch):
    problem = make_problem("VC", 1, n=80, m=6, mean_function="linear")
    well = problem.evaluate()
    assert well.posterior.factor.is_well_conditioned
    monkeypatch.setattr(linalg, "WELL_CONDITIONED", 2.0)
    ill = problem.evaluate()
    assert not ill.posterior.factor.is_well_conditioned
    one, two = problem.layout.pack(well.gradient), problem.layout.pack(ill.gradient)
    assert not np.array_equal(one, two), "both took the same route"
    np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-12)


def test_solve_block_is_the_inverse_times_psi(monkeypatch):
    S = definite(5, 3)
    factor = cholesky(S)
    Psi = np.random.default_rng(0).standard_normal((5, 9))
    expected = np.linalg.solve(S, Psi)
    np.testing.assert_allclose(factor.solve_block(Psi, np.empty((5, 9))), expected, rtol=1e-9)
    poor = Factor(factor.L, factor.s, 0.0, 0.0)
    np.testing.assert_allclose(poor.solve_block(Psi, np.empty((5, 9))), expected, rtol=1e-9)


def test_coinciding_basis_functions_still_give_a_gradient():
    """Two equal basis functions with tiny alpha: the precision is singular to rounding."""
    problem = make_problem("VC", 2, n=60)
    p = problem.parameters
    P, Gamma, log_alpha = p.P.copy(), p.Gamma.copy(), p.log_alpha.copy()
    P[1], Gamma[1] = P[0], Gamma[0]
    log_alpha[:2] = -35.0
    result = problem.evaluate(type(p)(P, Gamma, p.u, p.b, log_alpha, p.log_eta))
    assert not result.posterior.factor.is_well_conditioned
    assert np.all(np.isfinite(problem.layout.pack(result.gradient)))


def test_stacks_that_cannot_be_factorised_raise_an_error_of_ours():
    with pytest.raises(NumericalError, match="singular"):
        inverse_stack(np.zeros((2, 3, 3)))
    with pytest.raises(NumericalError, match="uncertain inputs are not finite"):
        root_stack(np.full((2, 3, 3), -1.0), 1e-10)


def test_roots_of_singular_covariances_take_the_jitter_they_need():
    half = np.random.default_rng(0).standard_normal((5, 4, 2))
    for scale in (1.0, 1e6):
        covariances = scale**2 * half @ np.swapaxes(half, 1, 2)
        V = root_stack(covariances, 1e-10)
        np.testing.assert_allclose(V @ np.swapaxes(V, 1, 2), covariances, atol=1e-3 * scale**2)


def test_singular_shapes_are_a_step_to_be_shortened():
    Lambda = np.zeros((3, 2, 2))
    Lambda[:, 0, 0] = 1.0
    with pytest.raises(NumericalError, match="singular"):
        substitute(common_shape)(Lambda, 1.0)


def test_a_rounded_factor_gives_the_same_variances_and_ill_conditioned_ones_stay() -> None:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((400, 30))
    factor = cholesky(A.T @ A)
    rounded = factor.rounded()
    assert (rounded.L.astype(np.float32) == rounded.L).all()
    assert (rounded.L != factor.L).any()
    Phi = rng.standard_normal((30, 50))
    variance = [np.square(one.whitener @ Phi).sum(axis=0) for one in (factor, rounded)]
    np.testing.assert_allclose(*variance, rtol=1e-6)
    A[:, 0] = A[:, 1] + 1e-5 * A[:, 0]
    poor = cholesky(A.T @ A)
    assert poor.rounded() is poor
