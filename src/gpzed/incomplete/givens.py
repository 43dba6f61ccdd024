"""What the objective takes as given in every row, set between stages.

The variance that uncertain inputs add to the noise, and the probability that the target is right where it may be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpzed._types import FloatArray
from gpzed.engine.blocks import Block, Engine, Givens, Rows, Scratch, block_of, by_blur
from gpzed.gp.evidence import fit_posterior
from gpzed.gp.parameters import Layout, Parameters
from gpzed.gp.posterior import Posterior
from gpzed.gp.predictive import trust_in_labels
from gpzed.gp.state import State
from gpzed.incomplete.blur import Blur
from gpzed.incomplete.spread import AddedVariance, QuadraticForms
from gpzed.mixture.heads import Heads
from gpzed.mixture.likelihood import trust_in_labels as trust_of_heads

HEADS_EVERY = 10
"""Epochs after which the variance that uncertain inputs add to every head is updated."""
TRUST_EVERY = 5
"""The same where targets may be wrong."""
REFRESHES = 2
"""Posterior and givens depend on each other, but little: alternating this often settles both."""
MIN_TRUST = 1e-9
"""Weights stay positive: a row with a label that is surely wrong says next to nothing."""
BLOCK_ROWS = 1024


def refresh(
    engines: Sequence[Engine],
    parameters: Parameters,
    layout: Layout,
    weighted_precision: bool,
    blurs: Sequence[Blur],
    held_out: Engine | None = None,
    *,
    doubtful: bool = False,
) -> None:
    """Set the givens of rows under the posterior that the first engine gives.

    A function of the parameters and the rows alone: it starts from no added variance and full trust. Held-out rows are
    judged by the likelihood of targets that may be wrong, so that their weights stay.
    """
    if not blurs and not doubtful:
        return
    training, engines = engines[0], [*engines, *([] if held_out is None else [held_out])]
    for engine in engines:
        engine.set_givens(None)
    Lambda = layout.structure.expand(parameters.Gamma, layout.d) if blurs else np.zeros(0)
    for turn in range(REFRESHES):
        state, posterior, _ = fit_posterior(training, parameters, layout, weighted_precision, blurs)
        spreads: tuple[AddedVariance, ...] = ()
        if blurs:
            w = posterior.w_mean
            forms = QuadraticForms(parameters.P, Lambda, (np.outer(w, w) + posterior.factor.inverse)[None])
            spreads = tuple(AddedVariance(forms, blur) for blur in blurs)
        judge = (trust_in_labels, state, posterior) if doubtful else ()
        for engine in engines if turn == REFRESHES - 1 else engines[:1]:
            engine.set_givens(givens, spreads, *(() if engine is held_out else judge))


def refresh_heads(
    engines: Sequence[Engine],
    held_out: Engine | None,
    rows: Rows,
    heads: Heads,
    layout: Layout,
    blurs: Sequence[Blur],
) -> Givens:
    """Set the givens of rows of engines under some heads; return those of `rows`: v is (K, n)."""
    doubtful = rows.wrong is not None
    spreads: tuple[AddedVariance, ...] = ()
    if blurs:
        forms = heads.forms(layout)
        spreads = tuple(AddedVariance(forms, blur) for blur in blurs)
    judge = (trust_of_heads, heads.state(layout, blurs), heads.Theta) if doubtful else ()
    for engine in engines:
        engine.set_givens(givens, spreads, *judge)
    if held_out is not None:
        held_out.set_givens(givens, spreads)
    v = np.zeros((heads.K, len(rows.y))) if blurs and rows.blur is not None else None
    return _givens_of(rows, v, spreads, *judge)


def trust_in_rows(rows: Rows, state: State, posterior: Posterior, spreads: Sequence[AddedVariance] = ()) -> FloatArray:
    """Return the probability (n,) that targets are right, given a model with one head."""
    found = _givens_of(rows, None, spreads, trust_in_labels, state, posterior).trust
    assert found is not None
    return found


def givens(
    block: Block,
    scratch: Scratch,
    spreads: Sequence[AddedVariance],
    judge: Callable[..., FloatArray | None] | None = None,
    *model: object,
) -> Givens:
    """Return what is given in a block: `judge(block, scratch, *model)` says how far its targets are to be trusted."""
    v = added_variance(block, scratch, spreads) if spreads else None
    trust = None if judge is None else judge(block.given(Givens(v)), scratch, *model)
    return Givens(v, None if trust is None else np.maximum(trust, MIN_TRUST))


def added_variance(block: Block, scratch: Scratch, spreads: Sequence[AddedVariance]) -> FloatArray | None:
    """Return the variance that uncertain inputs add to the noise of each row of a block, (n,) or (K, n)."""
    if block.blur == 0:
        return None
    v = spreads[block.blur - 1](block.Xt, scratch)
    return v[0] if len(v) == 1 else v


def _givens_of(rows: Rows, v: FloatArray | None, spreads: Sequence[AddedVariance], *judge: object) -> Givens:
    """Return the givens of rows in memory; v (K, n) is filled if there is any."""
    trust = np.ones(len(rows.y)) if judge else None
    if v is None and trust is None:
        return Givens()
    blur = np.zeros(len(rows.y), dtype=np.intp) if rows.blur is None else rows.blur
    for index in by_blur(blur, BLOCK_ROWS):
        found = givens(block_of(rows, index, int(blur[index[0]])), Scratch(), spreads, *judge)  # type: ignore[arg-type]
        if v is not None and found.v is not None:
            v[:, index] = found.v
        if trust is not None and found.trust is not None:
            trust[index] = found.trust
    return Givens(v, trust)
