"""Compiled passes over whole blocks against the formulas written out, and the exponential inside them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gpzed.compiled import heads, passes
from gpzed.compiled.binding import kept_size
from gpzed.engine.blocks import Block, Labels, Scratch
from gpzed.errors import NumericalError
from gpzed.gp import evidence, predictive
from gpzed.gp.basis import Gaussians, quadratic_map
from gpzed.gp.linalg import Factor
from gpzed.gp.parameters import Layout
from gpzed.gp.posterior import Posterior, weight_posterior
from gpzed.gp.state import State, make_state
from gpzed.incomplete.blur import Blur
from gpzed.mixture import likelihood


def exponential(x):
    """``exp(x)`` as the passes compute it: the response of one basis function with ``ln phi = x``."""
    state = State(Gaussians(np.array([[0.0, 1.0, 0.0]]), is_full=True), np.zeros(1), 0.0, 0)
    posterior = Posterior(np.ones(1), SimpleNamespace(whitener=np.ones((1, 1))))
    return passes.moments(Block.of_inputs(x[:, None]), Scratch(), state, posterior)[0]


@given(x=arrays(np.float64, st.integers(0, 40), elements=st.floats(-700.0, 700.0)))
def test_exponential(lanes, x):
    np.testing.assert_allclose(exponential(x), np.exp(x), rtol=1e-14)


def test_accuracy_of_the_exponential_is_that_of_numpy(lanes):
    x = np.concatenate([np.linspace(-708.0, 708.0, 200_001), np.linspace(-1.0, 1.0, 10_001), [0.0, -0.0]])
    np.testing.assert_allclose(exponential(x), np.exp(x), rtol=6e-16)
    assert exponential(x)[-1] == 1.0


@pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 17])
def test_exponential_of_special_values(lanes, length):
    for special, check in [
        (np.nan, np.isnan),
        (-1000.0, lambda v: v == 0.0),
        (1000.0, lambda v: v > 1e307),
        (-708.0, lambda v: v > 0.0),
    ]:
        for position in range(length):
            x = np.full(length, -1.0)
            x[position] = special
            values = exponential(x)
            assert check(values[position])
            np.testing.assert_allclose(np.delete(values, position), np.exp(-1.0), rtol=1e-15)


class Case:
    """A block with everything that the compiled functions compute, by the formulas in NumPy."""

    def __init__(self, n, d=3, m=6, k=0, is_full=True, has_v=False, weighted_precision=False):
        rng = np.random.default_rng(n + 100 * k)
        y, omega = rng.standard_normal(n), rng.random(n) + 0.5
        v = rng.random(n) if has_v else None
        self.block = Block(rng.standard_normal((d, n)), y, omega, v=v)
        q = 1 + d + (d * (d + 1) // 2 if is_full else d)
        self.Z = quadratic_map(self.block.Xt, is_full, np.empty((q, n)))
        basis = Gaussians(-0.1 * rng.random((m, q)), is_full)
        self.state = State(basis, rng.standard_normal(m), 0.7, k, weighted_precision)
        self.m, self.w = m, rng.standard_normal(m + k)
        self.W = np.tril(rng.standard_normal((m + k, m + k)))
        self.Phi = np.vstack([np.exp(basis.Ct @ self.Z), self.Z[:k]])
        self.log_beta = self.state.u @ self.Phi[:m] + 0.7
        self.beta = 1.0 / (np.exp(-self.log_beta) + (0.0 if v is None else v))
        self.c = np.ones(n) if weighted_precision else omega

    def posterior(self, is_well_conditioned):
        factor = {"inverse": self.W.T @ self.W, "whitener": self.W, "is_well_conditioned": is_well_conditioned}
        return Posterior(self.w, SimpleNamespace(**factor))

    def forward(self):
        B, y = self.beta * self.block.omega, self.block.y
        log_det = np.sum(np.log(B)) if self.state.weighted_precision else self.c @ np.log(self.beta)
        return (self.Phi * B) @ self.Phi.T, self.Phi @ (B * y), log_det

    def backward(self):
        B, m = self.beta * self.block.omega, self.m
        inverse_Phi = self.W.T @ self.W @ self.Phi
        delta = self.w @ self.Phi - self.block.y
        slope = self.beta * np.exp(-self.log_beta)
        g = 0.5 * (self.c - B * delta**2 - B * np.sum(self.Phi * inverse_Phi, axis=0)) * slope
        G = (np.outer(self.state.u, g) - B * (np.outer(self.w[:m], delta) + inverse_Phi[:m])) * self.Phi[:m]
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
    {"n": 150, "m": 5, "weighted_precision": True},
    {"n": 97, "m": 240, "d": 2},
]


@pytest.mark.parametrize("options", CASES, ids=str)
@pytest.mark.parametrize("keeps", [True, False])
def test_passes_over_a_block(lanes, options, keeps):
    case = Case(**options)
    memory = np.full(kept_size(len(case.block.y), case.state.n_weights), np.nan) if keeps else None
    _assert_close(passes.forward([(case.block, Scratch(keep=memory))], case.state), case.forward())
    for is_well_conditioned in (False, True):
        posterior = case.posterior(is_well_conditioned)
        results = passes.backward([(case.block, Scratch(kept=memory))], case.state, posterior)
        _assert_close(results, case.backward())


@pytest.mark.parametrize("options", CASES, ids=str)
def test_moments_of_a_block(lanes, options):
    case = Case(**options)
    moments = passes.moments(case.block, Scratch(), case.state, case.posterior(True))
    nu = np.sum((case.W @ case.Phi) ** 2, axis=0)
    _assert_close(moments, (case.w @ case.Phi, nu, np.exp(-case.log_beta)))


def test_inputs_may_have_any_strides(lanes):
    case = Case(n=50)
    expected = passes.moments(case.block, Scratch(), case.state, case.posterior(True))
    wide = np.repeat(case.block.Xt, 2, axis=1)[:, ::2]
    for Xt in (np.asfortranarray(case.block.Xt), wide, case.block.Xt[:, ::-1].copy()[:, ::-1]):
        block = Block(Xt, case.block.y, case.block.omega)
        moments = passes.moments(block, Scratch(), case.state, case.posterior(True))
        np.testing.assert_array_equal(moments, expected)


@pytest.mark.parametrize("b", [101.0, -101.0, np.nan])
def test_noise_out_of_bounds_is_told(lanes, b):
    case = Case(n=30)
    state = State(case.state.basis, np.zeros(case.m), b, 0)
    with pytest.raises(NumericalError, match="noise precision"):
        passes.forward([(case.block, Scratch())], state)
    with pytest.raises(NumericalError, match="noise precision"):
        passes.backward([(case.block, Scratch())], state, case.posterior(True))


def blocks_with_gaps(rng, d, K, doubtful, n_complete=13):
    """Blocks of complete rows and of two kinds of gaps, some repeated, with all that rows may carry."""
    blocks = []
    for n, blur in ((n_complete, 0), (30, 1), (1, 2), (25, 2)):
        v = None if blur == 0 else rng.random(n) if K == 1 else rng.random((K, n))
        labels = Labels(np.ones(n), None, rng.choice([0.0, 0.1], n)) if doubtful else None
        rows = rng.standard_normal((d, n)), rng.standard_normal(n), rng.random(n) + 0.5
        blocks.append((Block(*rows, blur, v, labels), Scratch()))
    return blocks


@pytest.mark.parametrize("doubtful", [False, True])
@pytest.mark.parametrize("code", ["VC", "GC", "VD", "GL"])
def test_blocks_with_different_gaps_in_one_call(lanes, code, doubtful):
    d, m, K = 4, 6, 3
    rng = np.random.default_rng(len(code))
    layout = Layout.of(m, d, code, mean_function="linear")
    theta = 0.3 * rng.standard_normal(layout.size)
    blurs = [Blur(rng.standard_normal((d, r)), np.zeros(d), np.zeros((d, 0)), np.zeros(d, bool)) for r in (2, 1)]
    state = make_state(layout.unpack(theta), layout, blurs=blurs)
    rows = blocks_with_gaps(rng, d, 1, doubtful)
    fitted = sum_of(evidence.forward, rows, state)
    _assert_close(passes.forward(rows, state), fitted)
    posterior = weight_posterior(*fitted[:2], np.ones(state.n_weights))
    _assert_close(passes.backward(rows, state, posterior), sum_of(evidence.backward, rows, state, posterior))
    shifts = np.array([-1.0, 0.0])
    _assert_close(
        passes.score(rows, state, posterior, shifts), sum_of(predictive.score, rows, state, posterior, shifts)
    )
    rows, Theta = blocks_with_gaps(rng, d, K, doubtful), rng.standard_normal((state.n_weights, 3 * K))
    expected = sum_of(likelihood.held_out_likelihood, rows, state, Theta)
    _assert_close(heads.held_out_likelihood(rows, state, Theta), expected)


@pytest.mark.parametrize("m", [192, 230])
def test_work_memory_is_enough_for_rows_with_gaps_and_without(lanes, m):
    d, K, rng = 7, 3, np.random.default_rng(0)
    layout = Layout.of(m, d, "VD", mean_function="zero")
    blurs = [Blur(rng.standard_normal((d, r)), np.zeros(d), np.zeros((d, 0)), np.zeros(d, bool)) for r in (2, 1)]
    state = make_state(layout.unpack(0.3 * rng.standard_normal(layout.size)), layout, blurs=blurs)
    posterior, Theta = Posterior(np.zeros(m), Factor(np.eye(m), np.ones(m), 0.0, 1.0)), np.zeros((m, 3 * K))
    for sums, arguments, K_rows in (
        (passes.forward, (), 1),
        (passes.backward, (posterior,), 1),
        (passes.score, (posterior, np.zeros(1)), 1),
        (heads.held_out_likelihood, (Theta,), K),
    ):
        asked = Watched()
        sums([(block, asked) for block, _ in blocks_with_gaps(rng, d, K_rows, False, 300)], state, *arguments)
        assert np.all(asked.beyond == Watched.UNTOUCHED), sums


class Watched(Scratch):
    """Work memory with more behind it, which must stay as it is."""

    UNTOUCHED, SPARE = 12345.0, 40_000

    def array(self, name, shape):
        memory = super().array(name, (shape[0] + self.SPARE,))
        memory[:] = self.UNTOUCHED
        self.buffers["beyond"] = memory[shape[0] :]
        return memory[: shape[0]]

    @property
    def beyond(self):
        return self.buffers["beyond"]


def sum_of(kernel, rows, *arguments):
    """The sum of a kernel of NumPy over blocks."""
    return [sum(parts) for parts in zip(*(kernel(block, scratch, *arguments) for block, scratch in rows), strict=True)]
