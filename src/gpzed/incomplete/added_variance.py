"""The variance that uncertain inputs add to the noise of rows: a given of the objective, set between stages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpzed._types import FloatArray
from gpzed.engine.blocks import Block, Engine, Rows, Scratch, by_blur
from gpzed.gp.evidence import fit_posterior
from gpzed.gp.parameters import Layout, Parameters
from gpzed.incomplete.blur import Blur
from gpzed.incomplete.spread import AddedVariance, QuadraticForms
from gpzed.mixture.heads import Heads

HEADS_EVERY = 10
"""Epochs after which the variance that uncertain inputs add to every head is updated."""
REFRESHES = 2
"""Posterior and added variance depend on each other, but little: alternating this often settles both."""


def refresh(
    engines: Sequence[Engine],
    parameters: Parameters,
    layout: Layout,
    weighted_precision: bool,
    blurs: Sequence[Blur],
) -> None:
    """Set the variance that uncertain inputs add, ``E[w' Cov[phi] w]`` under the posterior that the first engine gives.

    A function of the parameters and the rows alone: it starts from no added variance.
    """
    if not blurs:
        return
    for engine in engines:
        engine.set_variance(None)
    Lambda = layout.structure.expand(parameters.Gamma, layout.d)
    for turn in range(REFRESHES):
        _, posterior, _ = fit_posterior(engines[0], parameters, layout, weighted_precision, blurs)
        w = posterior.w_mean
        forms = QuadraticForms(parameters.P, Lambda, (np.outer(w, w) + posterior.factor.inverse)[None])
        spreads = tuple(AddedVariance(forms, blur) for blur in blurs)
        for engine in engines if turn == REFRESHES - 1 else engines[:1]:
            engine.set_variance(added_variance, spreads)


def refresh_heads(
    engines: Sequence[Engine], rows: Rows, heads: Heads, layout: Layout, blurs: Sequence[Blur]
) -> FloatArray | None:
    """Set the variance that uncertain inputs add to every head in rows of engines; that of `rows`, (n, K)."""
    if not blurs:
        return None
    forms = heads.forms(layout)
    spreads = tuple(AddedVariance(forms, blur) for blur in blurs)
    for engine in engines:
        engine.set_variance(added_variance, spreads)
    if rows.blur is None:
        return None
    v = np.zeros((len(rows.y), heads.K))
    for index in by_blur(rows.blur, 1024):
        number = int(rows.blur[index[0]])
        added = added_variance(Block.of_inputs(rows.X[index], number), Scratch(), spreads)
        if added is not None:
            v[index] = added.reshape(heads.K, -1).T
    return v


def added_variance(block: Block, scratch: Scratch, spreads: tuple[AddedVariance, ...]) -> FloatArray | None:
    """Return the variance that uncertain inputs add to the noise of each row of a block, (n,) or (K, n)."""
    if block.blur == 0:
        return None
    v = spreads[block.blur - 1](block.Xt, scratch)
    return v[0] if len(v) == 1 else v
