"""Structures, the quadratic map and the flat parameter vector."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from gpzed.gp.basis import coefficients, quadratic_map
from gpzed.gp.covariance import full_precision, get_structure
from gpzed.gp.parameters import Layout, Parameters
from helpers import CODES, make_problem
from strategies import codes, problems, seeds

SIZES = {"GL": 1, "VL": 5, "GD": 3, "VD": 15, "GC": 9, "VC": 45}


@pytest.mark.parametrize("code", CODES)
def test_number_of_free_numbers(code):
    structure = get_structure(code)
    assert np.prod(structure.gamma_shape(5, 3)) == SIZES[code]


@pytest.mark.parametrize("code", ["vc", "XX", "", None, 3, ["VC"]])
def test_unknown_structure_lists_the_valid_ones(code):
    with pytest.raises(ValueError, match=r'`covariance` is .*; expected one of "GL", "VL", "GD", "VD", "GC", "VC"'):
        get_structure(code)


@pytest.mark.parametrize("code", CODES)
def test_expand_gives_gamma_transposed_times_gamma(code):
    problem = make_problem(code, 1, d=3)
    Lambda = full_precision(problem.layout.structure.expand(problem.parameters.Gamma, 3))
    expected = np.array([G.T @ G for G in problem.Gammas])
    np.testing.assert_allclose(np.broadcast_to(Lambda, (4, 3, 3)), expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("code", CODES)
def test_factor_inverts_expand(code):
    """What a structure can represent it represents exactly, up to rotations of Gamma."""
    problem = make_problem(code, 2, d=3)
    structure = problem.layout.structure
    Lambda = full_precision(structure.expand(problem.parameters.Gamma, 3))
    Gamma = structure.factor(Lambda)
    assert Gamma.shape == structure.gamma_shape(4, 3)
    np.testing.assert_allclose(full_precision(structure.expand(Gamma, 3)), Lambda, rtol=1e-12, atol=1e-14)


def test_factor_keeps_what_each_structure_can_keep():
    A = np.random.default_rng(0).standard_normal((4, 3, 3))
    Lambda = np.swapaxes(A, 1, 2) @ A + 0.5 * np.eye(3)
    log_det = np.linalg.slogdet(Lambda)[1]
    gamma = get_structure("VL").factor(Lambda)
    np.testing.assert_allclose(2 * 3 * np.log(gamma), log_det, rtol=1e-12)
    diagonal = get_structure("VD").factor(Lambda)
    np.testing.assert_allclose(diagonal**2, np.diagonal(Lambda, axis1=1, axis2=2), rtol=1e-12)
    Gamma = get_structure("VC").factor(Lambda)
    np.testing.assert_allclose(np.swapaxes(Gamma, 1, 2) @ Gamma, Lambda, rtol=1e-11)


@settings(max_examples=50)
@given(code=codes, seed=seeds, n=st.integers(1, 20), d=st.integers(1, 5), m=st.integers(1, 6))
def test_quadratic_map_gives_the_mahalanobis_form(code, seed, n, d, m):
    problem = make_problem(code, seed, n=n, d=d, m=m)
    layout = problem.layout
    q = 1 + 2 * d if code[1] != "C" else 1 + d + d * (d + 1) // 2
    Z = quadratic_map(np.ascontiguousarray(problem.X.T), layout.structure.is_full, np.empty((q, n)))
    C = coefficients(problem.parameters.P, layout.structure.expand(problem.parameters.Gamma, d))
    assert C.shape == (q, m)
    expected = reference.basis(problem.X, problem.parameters.P, problem.Gammas)
    np.testing.assert_allclose(np.exp(Z.T @ C), expected, rtol=1e-10, atol=1e-300)


@settings(max_examples=50)
@given(problem=problems())
def test_pack_and_unpack_are_inverse(problem):
    layout = problem.layout
    theta = np.random.default_rng(0).standard_normal(layout.size)
    np.testing.assert_array_equal(layout.pack(layout.unpack(theta)), theta)
    again = layout.unpack(layout.pack(problem.parameters))
    for name in ("P", "Gamma", "u", "b", "log_alpha", "log_eta"):
        np.testing.assert_array_equal(getattr(again, name), getattr(problem.parameters, name))


def test_theta_holds_every_number_once():
    layout = Layout.of(5, 3, "VC", mean_function="linear")
    sizes = {name: int(np.prod(shape)) for name, shape in layout.shapes().items()}
    assert sizes == {"P": 15, "Gamma": 45, "b": 1, "log_alpha": 9, "u": 5, "log_eta": 5}
    assert layout.size == 80
    flat = Layout.of(5, 3, "GL", heteroscedastic=False, relevance=False)
    assert flat.size == 15 + 1 + 1 + 1


@pytest.mark.parametrize("mean_function", ["zero", "constant", "linear"])
def test_alpha_expands_and_folds(mean_function):
    layout = Layout.of(4, 2, "GL", relevance=False, mean_function=mean_function)
    k = layout.k
    log_alpha = np.arange(1.0 + k)
    np.testing.assert_allclose(np.log(layout.expand_alpha(log_alpha)), [0, 0, 0, 0, *range(1, 1 + k)])
    np.testing.assert_allclose(layout.fold_alpha(np.ones(4 + k)), [4.0, *[1.0] * k])
    ard = Layout.of(4, 2, "GL", mean_function=mean_function)
    values = np.linspace(-1, 1, 4 + k)
    np.testing.assert_allclose(ard.expand_alpha(values), np.exp(values))
    np.testing.assert_array_equal(ard.fold_alpha(values), values)


def test_homoscedastic_unpack_fills_in_zeros():
    layout = Layout.of(3, 1, "VL", heteroscedastic=False)
    parameters = layout.unpack(np.ones(layout.size))
    assert isinstance(parameters, Parameters)
    np.testing.assert_array_equal(parameters.u, 0.0)
    np.testing.assert_array_equal(parameters.log_eta, 0.0)
