"""The priors that are added to Eq. 5.6: values, gradients, and where they vanish."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from gpzed.gp.prior import ETA_RATE, log_prior
from helpers import CODES, central_difference, make_problem
from strategies import problems


def shape_prior(Gamma, layout, kappa):
    value, grad_P, gradient = layout.structure.log_prior(np.zeros((layout.m, layout.d)), Gamma, kappa)
    assert not grad_P.any()
    return value, gradient


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("kappa", [0.0, 1.0, 7.5])
@pytest.mark.parametrize("heteroscedastic", [True, False])
@pytest.mark.parametrize("d", [1, 3])
def test_gradient_equals_central_differences(code, kappa, heteroscedastic, d):
    problem = make_problem(code, 3, d=d, heteroscedastic=heteroscedastic, mean_function="linear")
    layout = problem.layout
    theta = layout.pack(problem.parameters)
    gradient = layout.pack(log_prior(problem.parameters, layout, kappa)[1])

    def value(point):
        return log_prior(layout.unpack(point), layout, kappa)[0]

    rng = np.random.default_rng(0)
    for direction in np.vstack([np.eye(layout.size), rng.standard_normal((5, layout.size))]):
        slope = central_difference(value, theta, direction)
        assert gradient @ direction == pytest.approx(slope, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("code", ["VL", "VD", "VC"])
def test_shape_prior_is_the_wishart_form_written_out(code):
    problem = make_problem(code, 4, d=3)
    Lambdas = [G.T @ G for G in problem.Gammas]
    common = sum(Lambdas) / len(Lambdas)
    expected = -0.5 * 2.5 * sum(np.linalg.slogdet(common)[1] - np.linalg.slogdet(L)[1] for L in Lambdas)
    value, _ = shape_prior(problem.parameters.Gamma, problem.layout, 2.5)
    assert value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("code", ["VL", "VD", "VC"])
def test_shape_prior_is_highest_at_zero_where_shapes_agree(code):
    problem = make_problem(code, 5)
    Gamma = np.repeat(problem.parameters.Gamma[:1], problem.layout.m, axis=0)
    value, gradient = shape_prior(Gamma, problem.layout, 3.0)
    assert value == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-12)
    assert shape_prior(problem.parameters.Gamma, problem.layout, 3.0)[0] < 0.0


@pytest.mark.parametrize("code", ["GL", "GD", "GC"])
def test_shape_prior_is_absent_from_global_structures(code):
    problem = make_problem(code, 6)
    value, gradient = shape_prior(problem.parameters.Gamma, problem.layout, 3.0)
    assert value == 0.0
    np.testing.assert_array_equal(gradient, np.zeros_like(problem.parameters.Gamma))


def test_shape_prior_does_not_depend_on_units_nor_rotations():
    problem = make_problem("VC", 7, d=3)
    Gamma, rng = problem.parameters.Gamma, np.random.default_rng(1)
    value = shape_prior(Gamma, problem.layout, 2.0)[0]
    M = np.eye(3) + 0.2 * rng.standard_normal((3, 3))
    Q = np.linalg.qr(rng.standard_normal((len(Gamma), 3, 3)))[0]
    assert shape_prior(Gamma @ M, problem.layout, 2.0)[0] == pytest.approx(value, rel=1e-10)
    assert shape_prior(Q @ Gamma, problem.layout, 2.0)[0] == pytest.approx(value, rel=1e-10)


def test_eta_prior_bounds_eta():
    problem = make_problem("GL", 8)
    p = replace(problem.parameters, u=np.zeros(4), log_eta=np.zeros(4))
    value, gradient = log_prior(p, problem.layout, 0.0)
    assert value == pytest.approx(-4 * ETA_RATE)
    np.testing.assert_allclose(gradient.log_eta, -ETA_RATE)
    for name in ("P", "Gamma", "u", "log_alpha"):
        np.testing.assert_array_equal(getattr(gradient, name), 0.0)


@settings(max_examples=40)
@given(problem=problems())
def test_prior_is_finite_and_never_positive(problem):
    value, gradient = log_prior(problem.parameters, problem.layout, 1.0)
    assert np.isfinite(value)
    assert value <= 1e-9
    assert np.all(np.isfinite(problem.layout.pack(gradient)))
