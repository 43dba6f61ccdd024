"""Steps of the training of heads: compiled against NumPy, and the gradient against central differences."""

from __future__ import annotations

import numpy as np
import pytest

from gpzed.compiled import fastmath
from gpzed.engine.threads import Rows
from gpzed.gp.parameters import Layout
from gpzed.mixture import stochastic
from gpzed.mixture.heads import Heads
from gpzed.mixture.stochastic import Adam, StochasticOptions, train_heads
from helpers import CODES, make_kinds

N, M, D, K = 60, 5, 3, 3
OPTIONS = StochasticOptions(kappa=2.0, ridge=0.5)


def make_case(code, with_kinds=False, m=M):
    """Heads at a random place, and rows, of several kinds if asked for."""
    rng = np.random.default_rng(0)
    layout = Layout.of(m, D, code, mean_function="linear")
    Gamma = rng.standard_normal(layout.structure.gamma_shape(m, D))
    if code[1] == "C":
        Gamma += 2.0 * np.eye(D)
    heads = Heads(rng.standard_normal((m, D)), Gamma, rng.standard_normal((layout.n_weights, 3 * K)))
    kinds = make_kinds(D) if with_kinds else ()
    kind = rng.integers(0, len(kinds) + 1, N) if with_kinds else None
    rows = Rows(rng.standard_normal((N, D)), rng.standard_normal(N), rng.uniform(0.5, 1.5, N), kind)
    return layout, heads, rows, kinds, rng.random((N, K)) if with_kinds else None


def blocks_of(rows, v):
    return list(stochastic._blocks(rows, np.arange(N), v))


@pytest.mark.parametrize("lanes", [0, 4, 2])
@pytest.mark.parametrize("with_kinds", [False, True])
@pytest.mark.parametrize("code", CODES)
def test_compiled_steps_are_those_of_numpy(kernels, monkeypatch, code, with_kinds, lanes):
    monkeypatch.setattr(fastmath, "_lanes", lanes)
    layout, heads, rows, kinds, v = make_case(code, with_kinds)
    results = []
    for library in (fastmath._library, None):
        monkeypatch.setattr(fastmath, "_library", library)
        adam = Adam(heads, layout, kinds, OPTIONS, 4 * N, 10)
        assert (adam._compiled is None) == (library is None)
        course = [adam.step(blocks_of(rows, v)) for _ in range(6)]
        assert adam.count == 6
        results.append((np.array(course), adam.heads.pack(), adam._first, adam._second))
    for compiled, in_numpy in zip(*results, strict=True):
        np.testing.assert_allclose(compiled, in_numpy, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("with_kinds", [False, True])
@pytest.mark.parametrize("code", CODES)
def test_gradient_of_a_step_equals_central_differences(kernels, monkeypatch, code, with_kinds):
    monkeypatch.setattr(stochastic, "MAX_NORM", np.inf)
    layout, heads, rows, kinds, v = make_case(code, with_kinds)
    blocks = blocks_of(rows, v)

    def at(theta):
        adam = Adam(heads.unpack(theta), layout, kinds, OPTIONS, N, 10)
        value, _ = adam.step(blocks)
        return value, adam._first / -(1.0 - stochastic.MOMENTUM[0]) * N

    theta = heads.pack()
    _, gradient = at(theta)
    for index in range(0, len(theta), 3):
        direction = 1e-5 * np.eye(len(theta))[index]
        slope = (at(theta + direction)[0] - at(theta - direction)[0]) / 2e-5
        assert gradient[index] == pytest.approx(slope, rel=1e-5, abs=1e-6 * np.abs(gradient).max())


def test_long_gradients_are_shortened(kernels, monkeypatch):
    layout, heads, rows, kinds, v = make_case("VC")
    monkeypatch.setattr(stochastic, "MAX_NORM", 1e-3)
    adam = Adam(heads, layout, kinds, OPTIONS, N, 10)
    _, norm = adam.step(blocks_of(rows, v))
    assert norm > 1e-2
    assert np.linalg.norm(adam._first) / (1.0 - stochastic.MOMENTUM[0]) == pytest.approx(1e-3)


def test_numpy_takes_over_where_shapes_are_singular(kernels):
    """The prior on shapes has a Cholesky factor in C, which a singular shape lacks; NumPy has no need of it."""
    layout, heads, rows, kinds, v = make_case("VC")
    Gamma = heads.Gamma.copy()
    Gamma[2, 0] = Gamma[2, 1] * (1.0 + 1e-12)
    start = Heads(heads.P, Gamma, heads.Theta)
    adam = Adam(start, layout, kinds, OPTIONS, N, 10)
    assert adam._compiled(blocks_of(rows, v), kappa=1.0, ridge=1.0, rate=1.0, momentum=0.5, root_scale=1.0) is None
    np.testing.assert_array_equal(adam.heads.pack(), start.pack())
    adam.step(blocks_of(rows, v))
    assert np.all(np.isfinite(adam.heads.pack()))
    assert np.any(adam.heads.pack() != start.pack())


def test_heads_that_are_handed_out_do_not_change(kernels):
    layout, heads, rows, _, _ = make_case("VC")
    seen = []

    def score(at):
        seen.append((at, at.pack().copy()))
        return float(len(seen))

    report = train_heads(rows, heads, layout, score, StochasticOptions(n_epochs=3), np.random.default_rng(0))
    assert report.best_epoch == 3
    for at, values in seen:
        np.testing.assert_array_equal(at.pack(), values)


@pytest.mark.parametrize(("tolerance", "expected"), [(0.0, 3), (0.15, 5), (0.5, 6)])
def test_last_epoch_that_is_nearly_the_best_is_kept(kernels, tolerance, expected):
    layout, heads, rows, _, _ = make_case("VC")
    scores = iter([0.0, 0.9, 1.0, np.nan, 0.9, 0.6])
    seen = []

    def score(at):
        seen.append(at.pack())
        return next(scores)

    options = StochasticOptions(n_epochs=6, tolerance=tolerance)
    report = train_heads(rows, heads, layout, score, options, np.random.default_rng(0))
    assert report.best_epoch == expected
    assert report.best_score == [0.0, 0.9, 1.0, np.nan, 0.9, 0.6][expected - 1]
    np.testing.assert_array_equal(report.heads.pack(), seen[expected - 1])


def test_heads_are_the_mean_over_the_last_steps(kernels):
    layout, heads, rows, kinds, v = make_case("VC")
    total = 200
    adam = Adam(heads, layout, kinds, OPTIONS, N, total)
    course = [heads.pack()]
    for _ in range(total // 2):
        adam.step(blocks_of(rows, v))
        course.append(adam._theta.copy())
    weights = (1.0 - 1.0 / (stochastic.MEMORY * total)) ** np.arange(len(course))[::-1]
    np.testing.assert_allclose(adam.heads.pack(), np.average(course, axis=0, weights=weights), atol=1e-3)
    assert np.abs(adam.heads.pack() - course[-1]).max() > 1e-2
