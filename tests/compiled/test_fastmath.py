"""The exponential with and without the compiled kernel, and whole blocks against the formulas written out."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gpzed.compiled import fastmath
from gpzed.compiled.fastmath import Basis, exp_in_place
from gpzed.engine.threads import Scratch, Team, ThreadEngine
from gpzed.gp.evidence import evaluate
from gpzed.gp.parameters import Layout
from gpzed.gp.predictive import predict


@pytest.fixture(params=["kernel", "numpy"])
def route(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setattr(fastmath, "_library", None)
    else:
        request.getfixturevalue("kernels")
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


def test_a_library_of_another_version_is_not_used(monkeypatch, kernels):
    assert fastmath._load() is not None
    monkeypatch.setattr(fastmath, "_STRUCTS", fastmath._STRUCTS[:-1])
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


def test_arrays_that_are_not_contiguous(route):
    rng = np.random.default_rng(0)
    Xt = rng.standard_normal((30, 4)).T
    out = np.empty((15, 30))
    fastmath.fill_quadratic(Xt, True, out)
    np.testing.assert_array_equal(out[1:5], Xt)
    strided = -np.ones((4, 30))[:, ::2]
    fastmath.respond(strided, np.ones(4), 0.0)
    np.testing.assert_allclose(strided, np.exp(-1.0))


class Case:
    """A block with everything that the compiled functions compute, by the formulas in NumPy."""

    def __init__(self, n, d=3, m=6, k=0, is_full=True, has_v=False):
        rng = np.random.default_rng(n + 100 * k)
        self.Xt, self.y = _contiguous(rng, d, n), _contiguous(rng, n)
        self.omega, self.c, self.v = rng.random(n) + 0.5, rng.random(n), rng.random(n) if has_v else None
        q = 1 + d + (d * (d + 1) // 2 if is_full else d)
        self.Z = np.empty((q, n))
        fastmath.fill_quadratic(self.Xt, is_full, self.Z)
        self.basis = Basis(-0.1 * rng.random((m, q)), is_full, _contiguous(rng, m), 0.7, k)
        self.M, self.m, self.w = m + k, m, _contiguous(rng, m + k)
        self.W = np.tril(rng.standard_normal((self.M, self.M)))
        self.Phi = np.vstack([np.exp(self.basis.Ct @ self.Z), self.Z[:k]])
        self.log_beta = self.basis.u @ self.Phi[:m] + 0.7
        self.B = 1.0 / (np.exp(-self.log_beta) + (0.0 if self.v is None else self.v))

    @property
    def rows(self):
        return self.Xt, self.y, self.omega, self.c, self.basis, Scratch()

    def forward(self):
        B = self.B * self.omega
        return (self.Phi * B) @ self.Phi.T, self.Phi @ (B * self.y), self.c @ np.log(self.B)

    def backward(self):
        B, m = self.B * self.omega, self.m
        inverse_Phi = self.W.T @ self.W @ self.Phi
        delta = self.w @ self.Phi - self.y
        g = 0.5 * (self.c - B * delta**2 - B * np.sum(self.Phi * inverse_Phi, axis=0)) * self.B * np.exp(-self.log_beta)
        G = (np.outer(self.basis.u, g) - B * (np.outer(self.w[:m], delta) + inverse_Phi[:m])) * self.Phi[:m]
        return self.Z @ G.T, self.Phi[:m] @ g, g.sum(), B @ delta**2


def _assert_close(results, expected):
    for result, value in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-10, atol=1e-10 * np.max(np.abs(value)))


CASES = [
    {"n": 1},
    {"n": 12},
    {"n": 13, "m": 1, "d": 1, "k": 1},
    {"n": 300, "m": 7, "k": 4},
    {"n": 601, "m": 21, "d": 5, "is_full": False},
    {"n": 250, "m": 9, "k": 4, "has_v": True},
    {"n": 97, "m": 270, "d": 2},
]


@pytest.mark.parametrize("options", CASES, ids=str)
@pytest.mark.parametrize("keeps", [True, False])
def test_passes_over_a_block(lanes, options, keeps):
    case = Case(**options)
    kept = np.full(fastmath.kept_size(case.M, len(case.y)), np.nan) if keeps else None
    _assert_close(fastmath.forward_block(*case.rows, kept=kept, v=case.v), case.forward())
    for A, is_inverse in ((case.W, False), (case.W.T @ case.W, True)):
        results = fastmath.backward_block(*case.rows, case.w, A, is_inverse, kept=kept, v=case.v)
        _assert_close(results, case.backward())


@pytest.mark.parametrize("options", CASES, ids=str)
def test_moments_and_responses_of_a_block(lanes, options):
    case = Case(**options)
    moments = fastmath.predict_block(case.Xt, case.basis, Scratch(), case.w, case.W)
    nu = np.sum((case.W @ case.Phi) ** 2, axis=0)
    _assert_close(moments, (case.w @ case.Phi, nu, np.exp(-case.log_beta)))
    _assert_close(fastmath.responses_block(case.Xt, case.basis, Scratch()), (case.Phi, case.log_beta))
    G = case.Phi[: case.m] * case.y
    _assert_close([fastmath.gradient_block(case.Xt, G, case.basis, Scratch())], [case.Z @ G.T])


def test_inputs_may_have_any_strides(lanes):
    case = Case(n=50)
    expected = fastmath.predict_block(case.Xt, case.basis, Scratch(), case.w, case.W)
    wide = np.repeat(case.Xt, 2, axis=1)[:, ::2]
    for Xt in (np.asfortranarray(case.Xt), wide, case.Xt[:, ::-1].copy()[:, ::-1]):
        np.testing.assert_array_equal(fastmath.predict_block(Xt, case.basis, Scratch(), case.w, case.W), expected)


@pytest.mark.parametrize("b", [101.0, -101.0, np.nan])
def test_noise_out_of_bounds_is_told(lanes, b):
    case = Case(n=30)
    basis = Basis(case.basis.Ct, True, np.zeros(case.m), b)
    assert fastmath.forward_block(case.Xt, case.y, case.omega, case.c, basis, Scratch()) is None
    arguments = (case.Xt, case.y, case.omega, case.c, basis, Scratch(), case.w, case.W, False)
    assert fastmath.backward_block(*arguments) is None


@pytest.mark.parametrize("keep_bytes", [0, 10**9])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("mean_function", ["zero", "linear"])
def test_an_evaluation_is_that_of_numpy(monkeypatch, kernels, keep_bytes, weighted, mean_function):
    rng = np.random.default_rng(1)
    X, omega = rng.standard_normal((1000, 3)), rng.random(1000) + 0.5
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(1000)
    layout = Layout.of(8, 3, "VC", mean_function=mean_function)
    theta = 0.3 * rng.standard_normal(layout.size)
    results = []
    for library in (fastmath._library, None):
        monkeypatch.setattr(fastmath, "_library", library)
        engine = ThreadEngine(X, y, omega, width=layout.n_weights, keep_bytes=keep_bytes)
        evaluation = evaluate(engine, layout.unpack(theta), layout, weighted)
        moments = predict(X, evaluation.state, evaluation.posterior, Team(1))
        results.append((evaluation.evidence.total, layout.pack(evaluation.gradient), *moments))
    _assert_close(*results)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_kernels_are_built_where_there_is_a_compiler():
    assert fastmath.HAS_KERNELS, "tests of the compiled kernels would all be skipped"
