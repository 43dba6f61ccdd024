"""Compiled functions at the ends of what sizes can be: none, one, and more than memory holds."""

from __future__ import annotations

import numpy as np
import pytest

from gpzed.compiled import binding, substitute
from gpzed.engine.blocks import Block, Scratch
from gpzed.errors import NumericalError
from gpzed.gp import evidence, predictive
from gpzed.gp.linalg import cholesky
from gpzed.gp.parameters import Layout
from gpzed.gp.posterior import Posterior
from gpzed.gp.prior import common_shape
from gpzed.gp.state import make_state
from gpzed.incomplete.blur import Blur, BlurredBasis
from gpzed.incomplete.spread import AddedVariance, BlurredRows, QuadraticForms
from gpzed.mixture import likelihood as mixture
from gpzed.mixture.heads import Heads

SIZES = pytest.mark.parametrize(
    ("n", "m", "d"), [(0, 1, 1), (0, 5, 3), (1, 1, 1), (1, 5, 3), (3, 0, 2), (2, 1, 0), (9, 4, 1)]
)


def everything(n, m, d, code, mean_function):
    """Results of all functions that have a twin, for random parameters."""
    rng = np.random.default_rng(0)
    layout = Layout.of(m, d, code, mean_function=mean_function)
    M, structure, scratch = layout.n_weights, layout.structure, Scratch()
    blur = Blur(0.3 * np.eye(d)[:, : max(d - 1, 0)], np.zeros(d), np.eye(d), np.zeros(d, bool))
    p = layout.unpack(0.3 * rng.standard_normal(layout.size))
    S = cholesky(np.eye(M) + 0.1)
    posterior = Posterior(rng.standard_normal(M), S)
    heads = Heads(p.P, p.Gamma, rng.standard_normal((M, 6)))
    Lambda = structure.expand(p.Gamma, d)
    X, y, omega = rng.standard_normal((n, d)), rng.standard_normal(n), rng.random(n) + 0.5
    state, found = make_state(p, layout, blurs=(blur,)), []
    for number in (0, 1):
        block = Block(np.ascontiguousarray(X.T), y, omega, blur=number, v=None if number == 0 else omega)
        found += substitute(evidence.forward)(block, scratch, state)
        found += substitute(evidence.backward)(block, scratch, state, posterior)
        found += substitute(predictive.moments)(block, scratch, state, posterior)
        found += substitute(mixture.likelihood)(block, scratch, heads.state(layout, (blur,)), heads.Theta)
        found += substitute(mixture.moments)(block, scratch, heads.state(layout, (blur,)), heads.Theta, (S, S))
    if m > 0:
        found += [substitute(common_shape)(Lambda, 1.0)[1]] if len(Lambda) > 1 else []
        blurred = BlurredBasis(p.P, Lambda, blur.V)
        found += [blurred.Ct, *blurred.pull_back(np.ones(blurred.Ct.shape[::-1]))]
        forms = QuadraticForms(p.P, Lambda, np.stack([np.eye(M), S.inverse]))
        found.append(AddedVariance(forms, blur)(X.T, scratch))
        found += BlurredRows(forms, layout.k)(X.T, np.tile(0.2 * np.eye(d), (n, 1, 1)), scratch) if n else ()
    return found


@SIZES
@pytest.mark.parametrize(("code", "mean_function"), [("VC", "linear"), ("GL", "zero"), ("VD", "constant")])
def test_none_and_one(lanes, monkeypatch, n, m, d, code, mean_function):
    if m == 0 and mean_function == "zero":
        pytest.skip("no weights at all")
    compiled = everything(n, m, d, code, mean_function)
    monkeypatch.setattr(binding, "_library", None)
    for one, other in zip(compiled, everything(n, m, d, code, mean_function), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    ("struct", "field", "value"),
    [("inputs", "n", 2**41), ("inputs", "n", -1), ("inputs", "d", 2**63), ("basis", "m", 2**32), ("pairs", "s", 10**9)],
)
def test_sizes_whose_product_would_overflow_are_refused(struct, field, value):
    with pytest.raises(NumericalError, match=rf"`{struct}\.{field}` is {value}; expected 0 to"):
        binding.fill(struct, **{field: value})


def test_more_rows_than_memory_holds_are_refused(kernels):
    with pytest.raises(NumericalError, match=r"`inputs\.n` is"):
        binding.inputs(np.broadcast_to(np.zeros((2, 1)), (2, 2**42)))
