"""The variance that uncertain inputs add to the noise of rows: a given of the objective, set between stages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpzed.core.engine import Block, Engine, Scratch, Sums
from gpzed.core.evidence import State, fit_posterior, make_state
from gpzed.core.parameters import Layout, Parameters
from gpzed.core.uncertain import Forms, Kind, Spread

REFRESHES = 2
"""Posterior and added variance depend on each other, but little: alternating this often settles both."""


def set_variance(block: Block, scratch: Scratch, state: State, spreads: tuple[Spread, ...]) -> Sums:
    """Kernel: set the variance that uncertain inputs add to the noise of each row, none without `spreads`; its sum."""
    if block.kind == 0:
        return (np.zeros(()),)
    if not spreads:
        block.v = np.zeros(block.Xt.shape[1])
        return (np.zeros(()),)
    block.v = spreads[block.kind - 1](block.Xt, scratch)[0]
    return (np.asarray(block.v @ block.omega),)


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
