"""The log posterior of batches: compiled against NumPy, and against central differences; the course of training."""

from __future__ import annotations

import numpy as np
import pytest

from gpzed.compiled import binding, substitute
from gpzed.engine.adam import Adam
from gpzed.engine.blocks import Givens, Rows, Scratch
from gpzed.gp.parameters import Layout
from gpzed.mixture import training
from gpzed.mixture.heads import Heads
from gpzed.mixture.likelihood import batch_posterior
from gpzed.mixture.training import StochasticOptions, train_heads
from helpers import CODES, make_kinds

N, M, D, K = 60, 5, 3, 3
PRIORS = 2.0, 0.5


def make_case(code, with_kinds=False, m=M):
    """Heads at a random place, and rows, with several blurs if asked for."""
    rng = np.random.default_rng(0)
    layout = Layout.of(m, D, code, mean_function="linear")
    Gamma = rng.standard_normal(layout.structure.gamma_shape(m, D))
    if code[1] == "C":
        Gamma += 2.0 * np.eye(D)
    heads = Heads(rng.standard_normal((m, D)), Gamma, rng.standard_normal((layout.n_weights, 3 * K)))
    blurs = make_kinds(D) if with_kinds else ()
    blur = rng.integers(0, len(blurs) + 1, N) if with_kinds else None
    rows = Rows(rng.standard_normal((N, D)), rng.standard_normal(N), rng.uniform(0.5, 1.5, N), blur)
    return layout, heads, rows, blurs, rng.random((N, K)) if with_kinds else None


def blocks_of(rows, v):
    return list(training._blocks(rows, np.arange(N), Givens(None if v is None else v.T), K))


@pytest.mark.parametrize("with_kinds", [False, True])
@pytest.mark.parametrize("code", CODES)
def test_compiled_posterior_is_that_of_numpy(lanes, monkeypatch, code, with_kinds):
    layout, heads, rows, blurs, v = make_case(code, with_kinds)
    results = []
    for library in (binding._library, None):
        monkeypatch.setattr(binding, "_library", library)
        given = blocks_of(rows, v), Scratch(), heads, layout, blurs, *PRIORS
        results.append(substitute(batch_posterior)(*given))
    for compiled, in_numpy in zip(*results, strict=True):
        np.testing.assert_allclose(compiled, in_numpy, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("with_kinds", [False, True])
@pytest.mark.parametrize("code", CODES)
def test_gradient_equals_central_differences(route, code, with_kinds):
    layout, heads, rows, blurs, v = make_case(code, with_kinds)
    blocks, scratch = blocks_of(rows, v), Scratch()

    def at(theta):
        return substitute(batch_posterior)(blocks, scratch, heads.unpack(theta), layout, blurs, *PRIORS)

    theta = heads.pack()
    _, gradient = at(theta)
    for index in range(0, len(theta), 3):
        direction = 1e-5 * np.eye(len(theta))[index]
        slope = (at(theta + direction)[0] - at(theta - direction)[0]) / 2e-5
        assert gradient[index] == pytest.approx(slope, rel=1e-5, abs=1e-6 * np.abs(gradient).max())


def test_numpy_takes_over_where_shapes_are_singular(kernels):
    """The prior on shapes has a Cholesky factor in C, which a singular shape lacks; NumPy has no need of it."""
    layout, heads, rows, blurs, v = make_case("VC")
    Gamma = heads.Gamma.copy()
    Gamma[2, 0] = Gamma[2, 1] * (1.0 + 1e-12)
    given = blocks_of(rows, v), Scratch(), Heads(heads.P, Gamma, heads.Theta), layout, blurs, *PRIORS
    value, gradient = substitute(batch_posterior)(*given)
    expected = batch_posterior(*given)
    assert value == expected[0]
    np.testing.assert_array_equal(gradient, expected[1])
    assert np.all(np.isfinite(gradient))


def steps_of(heads, layout, rows, blurs, givens, order):
    """Parameters after a step for each batch, with the log posterior and the last norm."""
    adam, options = Adam(heads.pack(), 50), StochasticOptions(kappa=2.0, ridge=0.5)
    found = substitute(training.descend)(adam, heads, rows, order, givens, layout, blurs, options, Scratch())
    return *found, adam.theta, adam.mean, adam.first, adam.second, adam.count


@pytest.mark.parametrize("with_labels", [False, True])
@pytest.mark.parametrize("with_kinds", [False, True])
@pytest.mark.parametrize("code", CODES)
def test_compiled_steps_are_those_of_numpy(lanes, monkeypatch, code, with_kinds, with_labels):
    layout, heads, rows, blurs, v = make_case(code, with_kinds)
    rng = np.random.default_rng(1)
    if with_labels:
        rows = rows._replace(label_variance=rng.uniform(0.01, 0.2, N), wrong=rng.uniform(0.0, 0.3, N))
    givens = Givens(None if v is None else v.T, rng.uniform(0.2, 1.0, N))
    order, results = rng.permutation(N)[:57].reshape(3, 19), []
    for library in (binding._library, None):
        monkeypatch.setattr(binding, "_library", library)
        results.append(steps_of(heads, layout, rows, blurs, givens, order))
    for compiled, in_numpy in zip(*results, strict=True):
        np.testing.assert_allclose(compiled, in_numpy, rtol=1e-7, atol=1e-9)


def test_numpy_takes_the_steps_where_shapes_are_singular(kernels, monkeypatch):
    layout, heads, rows, blurs, _ = make_case("VC")
    Gamma = heads.Gamma.copy()
    Gamma[2, 0] = Gamma[2, 1] * (1.0 + 1e-12)
    given = Heads(heads.P, Gamma, heads.Theta), layout, rows, blurs, Givens()
    order = np.arange(N).reshape(3, 20)
    several, first = steps_of(*given, order), steps_of(*given, order[:1])
    monkeypatch.setattr(binding, "_library", None)
    for compiled, in_numpy in zip(first, steps_of(*given, order[:1]), strict=True):
        np.testing.assert_allclose(compiled, in_numpy, rtol=1e-9)
    assert several[-1] == 3  # and on to the next batches
    assert all(np.all(np.isfinite(values)) for values in several)
    assert several[0] == pytest.approx(steps_of(*given, order)[0], rel=0.02)  # what follows is ill-conditioned


def test_heads_that_are_handed_out_do_not_change(kernels):
    layout, heads, rows, _, _ = make_case("VC")
    seen = []

    def score(at):
        seen.append((at, at.pack().copy()))
        return float(len(seen))

    kept = train_heads(rows, heads, layout, score, StochasticOptions(n_epochs=3), np.random.default_rng(0))
    assert kept.number == 3
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
    kept = train_heads(rows, heads, layout, score, options, np.random.default_rng(0))
    assert kept.number == expected
    assert kept.score == [0.0, 0.9, 1.0, np.nan, 0.9, 0.6][expected - 1]
    np.testing.assert_array_equal(kept.heads.pack(), seen[expected - 1])
