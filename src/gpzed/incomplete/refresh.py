"""The variance that uncertain inputs add to the noise of rows: a given of the objective, set between stages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpzed._types import FloatArray
from gpzed.engine.threads import Block, Engine, Rows, Scratch, Sums, by_kind
from gpzed.gp.evidence import State, fit_posterior, make_state
from gpzed.gp.linalg import Factor
from gpzed.gp.parameters import Layout, Parameters
from gpzed.incomplete.blur import Forms, Kind, Spread
from gpzed.mixture.heads import Heads

HEADS_EVERY = 10
"""Epochs after which the variance that uncertain inputs add to every head is set anew."""
REFRESHES = 2
"""Posterior and added variance depend on each other, but little: alternating this often settles both."""


def set_variance(block: Block, scratch: Scratch, state: State, spreads: tuple[Spread, ...]) -> Sums:
    """Kernel: set the variance that uncertain inputs add to the noise of each row, none without `spreads`; its sum."""
    if block.kind == 0:
        return (np.zeros(()),)
    if not spreads:
        block.v = np.zeros(block.Xt.shape[1])
        return (np.zeros(()),)
    v = spreads[block.kind - 1](block.Xt, scratch)
    block.v = v[0] if len(v) == 1 else v
    return (np.asarray(np.sum(v @ block.omega)),)


set_variance.leaves_marks = True  # type: ignore[attr-defined]  # what it sets must be set again where rows are loaded anew


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
    state = make_state(parameters, layout, weighted_precision, kinds)
    for engine in engines:
        engine.sum(set_variance, state, ())
    Lambda = layout.structure.expand(parameters.Gamma, layout.d)
    for turn in range(REFRESHES):
        state, posterior, _ = fit_posterior(engines[0], parameters, layout, weighted_precision, kinds)
        w = posterior.w_mean
        forms = Forms(parameters.P, Lambda, (np.outer(w, w) + posterior.factor.inverse)[None])
        spreads = tuple(Spread(forms, kind) for kind in kinds)
        for engine in engines if turn == REFRESHES - 1 else engines[:1]:
            engine.sum(set_variance, state, spreads)


def head_forms(heads: Heads, layout: Layout, factors: Sequence[Factor] = ()) -> Forms:
    """Forms for what uncertain inputs add to the variance of every head, and with `factors` to each model variance."""
    matrices = [np.outer(w, w) for w in heads.Theta.T[: heads.K]] + [factor.inverse for factor in factors]
    return Forms(heads.P, layout.structure.expand(heads.Gamma, layout.d), np.stack(matrices))


def refresh_heads(
    engines: Sequence[Engine], rows: Rows, heads: Heads, layout: Layout, kinds: Sequence[Kind]
) -> FloatArray | None:
    """Set the variance that uncertain inputs add to every head in rows of engines; that of `rows`, (n, K)."""
    if not kinds:
        return None
    state, forms = heads.state(layout, kinds), head_forms(heads, layout)
    spreads = tuple(Spread(forms, kind) for kind in kinds)
    for engine in engines:
        engine.sum(set_variance, state, spreads)
    if rows.kind is None:
        return None
    v = np.zeros((len(rows.y), heads.K))
    for index in by_kind(rows.kind, 1024):
        number = int(rows.kind[index[0]])
        if number:
            block = Block(np.ascontiguousarray(rows.X[index].T), rows.y[index], rows.omega[index], kind=number)
            set_variance(block, Scratch(), state, spreads)
            v[index] = np.asarray(block.v).reshape(heads.K, -1).T
    return v
