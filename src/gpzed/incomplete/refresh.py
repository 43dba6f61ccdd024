"""The variance that uncertain inputs add to the noise of rows: a given of the objective, set between stages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpzed._types import FloatArray
from gpzed.engine.blocks import Block, Engine, Rows, Scratch, by_kind
from gpzed.gp.evidence import fit_posterior
from gpzed.gp.parameters import Layout, Parameters
from gpzed.incomplete.blur import Forms, Kind, Spread
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
    kinds: Sequence[Kind],
) -> None:
    """Set the variance that uncertain inputs add, ``E[w' Cov[phi] w]`` under the posterior that the first engine gives.

    A function of the parameters and the rows alone: it starts from no added variance.
    """
    if not kinds:
        return
    for engine in engines:
        engine.set_variance(None)
    Lambda = layout.structure.expand(parameters.Gamma, layout.d)
    for turn in range(REFRESHES):
        _, posterior, _ = fit_posterior(engines[0], parameters, layout, weighted_precision, kinds)
        w = posterior.w_mean
        forms = Forms(parameters.P, Lambda, (np.outer(w, w) + posterior.factor.inverse)[None])
        spreads = tuple(Spread(forms, kind) for kind in kinds)
        for engine in engines if turn == REFRESHES - 1 else engines[:1]:
            engine.set_variance(added_variance, spreads)


def refresh_heads(
    engines: Sequence[Engine], rows: Rows, heads: Heads, layout: Layout, kinds: Sequence[Kind]
) -> FloatArray | None:
    """Set the variance that uncertain inputs add to every head in rows of engines; that of `rows`, (n, K)."""
    if not kinds:
        return None
    forms = heads.forms(layout)
    spreads = tuple(Spread(forms, kind) for kind in kinds)
    for engine in engines:
        engine.set_variance(added_variance, spreads)
    if rows.kind is None:
        return None
    v = np.zeros((len(rows.y), heads.K))
    for index in by_kind(rows.kind, 1024):
        number = int(rows.kind[index[0]])
        added = added_variance(Block.of_inputs(rows.X[index], number), Scratch(), spreads)
        if added is not None:
            v[index] = added.reshape(heads.K, -1).T
    return v


def added_variance(block: Block, scratch: Scratch, spreads: tuple[Spread, ...]) -> FloatArray | None:
    """Return the variance that uncertain inputs add to the noise of each row of a block, (n,) or (K, n)."""
    if block.kind == 0:
        return None
    v = spreads[block.kind - 1](block.Xt, scratch)
    return v[0] if len(v) == 1 else v
