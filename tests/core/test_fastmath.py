"""The exponential, with and without the compiled kernel."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gpzed.core import fastmath
from gpzed.core.fastmath import exp_in_place


@pytest.fixture(params=["kernel", "numpy"])
def route(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setattr(fastmath, "_library", None)
    elif not fastmath.HAS_KERNELS:
        pytest.skip("the compiled kernel was not built")
    return request.param


@given(x=arrays(np.float64, st.integers(0, 40), elements=st.floats(-700.0, 700.0)))
def test_values(route, x):
    expected = np.exp(x)
    exp_in_place(x)
    np.testing.assert_allclose(x, expected, rtol=1e-14)


def test_accuracy_is_that_of_numpy(route):
    x = np.concatenate([np.linspace(-708.0, 708.0, 200_001), np.linspace(-1.0, 1.0, 10_001), [0.0, -0.0]])
    expected = np.exp(x)
    exp_in_place(x)
    np.testing.assert_allclose(x, expected, rtol=6e-16)
    assert x[-1] == 1.0


@pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 17])
def test_special_values(route, length):
    x = np.full(length, -1.0)
    for special, check in [
        (np.nan, np.isnan),
        (-np.inf, lambda v: v == 0.0),
        (-1000.0, lambda v: v == 0.0),
        (np.inf, lambda v: v > 1e307),
        (-708.0, lambda v: v > 0.0),
    ]:
        for position in range(length):
            x[:] = -1.0
            x[position] = special
            exp_in_place(x)
            assert check(x[position])
            np.testing.assert_allclose(np.delete(x, position), np.exp(-1.0), rtol=1e-15)


def test_shapes_and_views(route):
    rng = np.random.default_rng(0)
    base = rng.uniform(-5, 0, (12, 10))
    for view in (np.s_[::2], np.s_[:, 1:7], np.s_[:, ::-1], np.s_[3:5]):
        x = base.copy()
        exp_in_place(x[view])
        expected = base.copy()
        expected[view] = np.exp(base[view])
        np.testing.assert_allclose(x, expected, rtol=1e-15)
    x = np.asfortranarray(base)
    exp_in_place(x)
    np.testing.assert_allclose(x, np.exp(base), rtol=1e-15)
    exp_in_place(np.empty((0, 3)))


def test_a_library_that_cannot_be_loaded_is_not_used(monkeypatch, tmp_path):
    broken = tmp_path / "_kernels.so"
    broken.write_bytes(b"not a library")
    monkeypatch.setattr(fastmath, "__file__", str(tmp_path / "fastmath.py"))
    assert fastmath._load() is None
    broken.unlink()
    assert fastmath._load() is None


def _contiguous(rng, *shape):
    return np.ascontiguousarray(rng.standard_normal(shape))


@pytest.mark.parametrize("n", [1, 7, 511, 512, 513, 1100])
@pytest.mark.parametrize("is_full", [True, False])
def test_quadratic_map_is_that_of_numpy(route, n, is_full):
    Xt = _contiguous(np.random.default_rng(n), 4, n)
    out = np.full((1 + 4 + (10 if is_full else 4), n), np.nan)
    fastmath.fill_quadratic(Xt, is_full, out)
    pairs = [(i, j) for i in range(4) for j in range(i, 4 if is_full else i + 1)]
    expected = np.vstack([np.ones(n), Xt, [Xt[i] * Xt[j] for i, j in pairs]])
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("n", [1, 7, 513, 1100])
def test_responses_are_those_of_numpy(route, n):
    rng = np.random.default_rng(n)
    log_Phi, u = -np.abs(_contiguous(rng, 5, n)), _contiguous(rng, 5)
    Phi = log_Phi.copy()
    log_beta = fastmath.respond(Phi, u, 0.3)
    np.testing.assert_allclose(Phi, np.exp(log_Phi), rtol=1e-15)
    np.testing.assert_allclose(log_beta, u @ np.exp(log_Phi) + 0.3, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("n", [1, 7, 513, 1100])
@pytest.mark.parametrize("k", [0, 3])
def test_backward_terms_are_those_of_numpy(route, monkeypatch, n, k):
    rng = np.random.default_rng(n + k)
    M, m = 6 + k, 6
    T, Psi, u, w = (_contiguous(rng, *shape) for shape in ((M, n), (M, n), (m,), (M,)))
    y, c, sqrt_B = _contiguous(rng, n), rng.random(n), rng.random(n) + 0.5
    delta = w @ Psi - sqrt_B * y
    g = 0.5 * (c - delta**2 - np.sum(T * Psi, axis=0)) / sqrt_B
    expected = (np.outer(u, g) - np.outer(w[:m], delta) - T[:m]) * Psi[:m]
    results = fastmath.backward_terms(T.copy(), Psi, u, w, y, c, sqrt_B)
    for result, value in zip(results, (expected, g, delta), strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-11, atol=1e-12)


def test_arrays_that_are_not_contiguous_take_the_numpy_route(route):
    rng = np.random.default_rng(0)
    Xt = rng.standard_normal((30, 4)).T
    out = np.empty((15, 30))
    fastmath.fill_quadratic(Xt, True, out)
    np.testing.assert_array_equal(out[1:5], Xt)
    strided = -np.ones((4, 30))[:, ::2]
    fastmath.respond(strided, np.ones(4), 0.0)
    np.testing.assert_allclose(strided, np.exp(-1.0))
