"""Training of heads on the basis functions of a trained model, by small random batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from gpzed._types import FloatArray, IntArray
from gpzed.compiled import substitute
from gpzed.engine.adam import Adam, Factors
from gpzed.engine.blocks import Block, Engine, Givens, Rows, Scratch, block_of, by_blur
from gpzed.engine.lbfgs import Iteration
from gpzed.engine.threads import single_threaded_blas
from gpzed.errors import NumericalError
from gpzed.gp.parameters import Layout, Parameters
from gpzed.incomplete.blur import Blur
from gpzed.incomplete.givens import HEADS_EVERY, TRUST_EVERY, refresh_heads
from gpzed.incomplete.offsets import fit_offsets, offsets_of
from gpzed.mixture.heads import Heads, head_layout, start_heads
from gpzed.mixture.likelihood import batch_posterior, fit_head_posteriors, held_out_likelihood
from gpzed.mixture.predictive import MixtureHeads, score
from gpzed.mixture.quick import fit_squares

MAX_ROWS = 200_000
"""Rows in memory that heads are trained on at most; the posterior of their weights is from all rows."""
SHAPE_PRIOR = 3.0
"""Strength of the prior on shapes, in units of the one for the model with one head: batches find more to over-fit."""
RIDGE = 0.3
TOLERANCE = 0.01
"""What a member of a committee may lose on the held-out rows by longer training: in the mixture over-fits cancel."""
NOISE_SHIFTS = np.linspace(-1.0, 0.0, 11)
"""Corrections to ``ln beta`` of all heads among which the held-out rows choose."""
BATCH_ROWS = 256
GROUP_ROWS = 48
"""Rows that are blurred alike that go into the same batch, where inputs are uncertain."""
BATCHES_PER_EPOCH = 80
"""Batches grow where there would be more than these in a pass over the rows."""


@dataclass(frozen=True)
class StochasticOptions:
    """How heads are trained."""

    n_epochs: int = 80  # passes over the training rows
    kappa: float = 0.0  # see `gpzed.mixture.likelihood.log_posterior`
    ridge: float = 0.1
    tolerance: float = 0.0  # the last epoch is kept whose validation score is lower than the best by no more than this
    max_time: float | None = None  # seconds after which training ends with the best heads so far


class Epoch(NamedTuple):
    """Heads after an epoch, their validation score, and its number."""

    heads: Heads
    score: float
    number: int


def fit_heads(
    rows: Rows,
    start: Parameters,
    layout: Layout,
    n_heads: int,
    valid: Engine | None,
    training: Engine,
    everything: Engine,
    blurs: tuple[Blur, ...],
    options: StochasticOptions,
    rng: np.random.Generator,
    *,
    trust: FloatArray | None = None,
    calibrate_noise: bool,
    scatter: bool = False,
    on_epoch: Callable[[Iteration], bool | None] | None = None,
) -> tuple[MixtureHeads, MixtureHeads]:
    """Train heads on the basis functions of a trained model.

    The second of the two results has posteriors that held-out rows did not enter: these are to be judged by it.

    Parameters
    ----------
    rows : Rows
        Standardised training rows in memory.
    start, layout : Parameters, Layout
        Of the model with one head.
    valid, training, everything : Engine
        Over held-out rows, by which the epoch is chosen, over training rows, and over both.
    trust : ndarray of shape (n,) or None
        Probability that targets of `rows` are right, by the model with one head; None where none may be wrong.
    calibrate_noise : bool
        Whether held-out rows may ask for more noise.
    scatter : bool
        Whether heads start at random places, such that members of a committee differ.
    """
    layout = head_layout(layout)
    layout.structure.expand(start.Gamma, layout.d)  # basis functions without shapes refuse heads

    def validate(heads: Heads) -> float:
        assert valid is not None
        (total,) = valid.sum(held_out_likelihood, heads.state(layout, blurs), heads.Theta)
        return float(total) / valid.sum_omega

    def refresh(heads: Heads, *more: Engine) -> Givens:
        return refresh_heads(more, valid, rows, heads, layout, blurs)

    heads, best, epoch = train_heads(
        rows,
        start_heads(start, rows.y, n_heads, layout, rng, scatter=scatter),
        layout,
        None if valid is None else validate,
        options,
        rng,
        blurs=blurs,
        refresh=refresh if blurs or trust is not None else None,
        refresh_every=HEADS_EVERY if trust is None else TRUST_EVERY,
        trust=trust,
        on_epoch=on_epoch,
    )
    if not np.all(np.isfinite(heads.Theta)):
        raise NumericalError("training of the heads broke down: their weights are not finite.")
    heads = heads.rounded()
    givens = refresh(heads, training, everything)
    offsets = fit_offsets(rows, givens, heads, layout, blurs)
    factors, blind = (
        tuple(factor.rounded() for factor in fit_head_posteriors(rows_seen, heads, layout, blurs))
        for rows_seen in (everything, training)
    )
    if valid is not None:
        shifts = NOISE_SHIFTS if calibrate_noise else np.zeros(1)
        state, by_blur = heads.state(layout, blurs), offsets_of(offsets, blurs)
        (totals,) = valid.sum(score, state, heads.Theta, blind, by_blur, shifts)
        chosen = int(np.argmax(totals))
        best = float(totals[chosen]) / valid.sum_omega
        heads = heads.with_noise_shift(float(shifts[chosen]), layout.m)
    quick = fit_squares(rows, heads, heads.state(layout), factors, rng)
    mixture = MixtureHeads(heads, factors, offsets, layout.mean_function, epoch, best, quick)
    return mixture, replace(mixture, factors=blind, quick=None)


def train_heads(
    rows: Rows,
    start: Heads,
    layout: Layout,
    score: Callable[[Heads], float] | None,
    options: StochasticOptions,
    rng: np.random.Generator,
    *,
    blurs: Sequence[Blur] = (),
    refresh: Callable[[Heads], Givens] | None = None,
    refresh_every: int = 10,
    trust: FloatArray | None = None,
    on_epoch: Callable[[Iteration], bool | None] | None = None,
) -> Epoch:
    """Train heads, and the basis functions below them, from random batches of rows.

    Parameters
    ----------
    score : callable or None
        Validation score of some heads, which decides those that are kept. Without it the last are.
    refresh : callable or None
        Gives what is taken as given in each row; called every so many epochs.
    trust : ndarray of shape (n,) or None
        Probability that targets are right, until heads that have learned something give it.
    on_epoch : callable or None
        Called after every epoch; returning True ends training with the best heads so far.
    """
    n = len(rows.y)
    size = min(n, max(BATCH_ROWS, n // BATCHES_PER_EPOCH))
    n_batches = max(n // size, 1)
    adam, scratch = Adam(start.pack(), n_batches * options.n_epochs), Scratch()
    kept = [Epoch(start, -np.inf, 0)]
    started = time.perf_counter()
    givens = Givens(None, trust)
    with single_threaded_blas():
        for epoch in range(1, options.n_epochs + 1):
            if refresh is not None and (epoch - 1) % refresh_every == 0:
                found = refresh(start.unpack(adam.mean.copy()))
                givens = found if epoch > 1 else Givens(found.v, trust)
            order = np.stack(shuffled(rows.blur, n, size, rng)[:n_batches])
            total, norm = substitute(descend)(adam, start, rows, order, givens, layout, blurs, options, scratch)
            objective = -total / n
            heads = start.unpack(adam.mean.copy())
            reached = np.nan if score is None else score(heads)
            latest = Epoch(heads, reached, epoch)
            kept = [latest] if score is None else _within(options.tolerance, kept, latest)
            seconds = time.perf_counter() - started
            if on_epoch is not None and on_epoch(Iteration(epoch, adam.count, seconds, objective, norm, reached)):
                break
            if options.max_time is not None and time.perf_counter() - started > options.max_time:
                break
    return kept[-1]


def descend(
    adam: Adam,
    like: Heads,
    rows: Rows,
    order: IntArray,
    givens: Givens,
    layout: Layout,
    blurs: Sequence[Blur],
    options: StochasticOptions,
    scratch: Scratch,
) -> tuple[float, float]:
    """Take a step for each batch of rows, `order` (batches, rows); return their log posterior and the last norm."""
    total = norm = 0.0
    for chosen in order:
        value, norm = take_step(adam, like, rows, chosen, givens, layout, blurs, options, scratch)
        total += value
    return total, norm


def take_step(
    adam: Adam,
    like: Heads,
    rows: Rows,
    chosen: IntArray,
    givens: Givens,
    layout: Layout,
    blurs: Sequence[Blur],
    options: StochasticOptions,
    scratch: Scratch,
    factors: Factors | None = None,
) -> tuple[float, float]:
    """Take the step of one batch; return its log posterior and the norm of its gradient."""
    share = len(chosen) / len(rows.y)
    priors = options.kappa * share, options.ridge * share
    blocks, now = list(_blocks(rows, chosen, givens, like.K)), like.unpack(adam.theta)
    value, gradient = substitute(batch_posterior)(blocks, scratch, now, layout, blurs, *priors)
    return value, adam.step(gradient, -1.0 / len(chosen), factors)


def _within(tolerance: float, kept: list[Epoch], latest: Epoch) -> list[Epoch]:
    """Epochs whose score is lower than the best so far by no more than the tolerance; never none."""
    best = np.fmax(max(epoch.score for epoch in kept), latest.score)
    return [epoch for epoch in (*kept, latest) if epoch.score >= best - tolerance]


def shuffled(blur: IntArray | None, n: int, size: int, rng: np.random.Generator) -> list[IntArray]:
    """Return positions of n rows in random batches; rows with one blur stay in small groups, which cost less."""
    order = rng.permutation(n)
    if blur is not None and blur.any():
        groups = by_blur(blur[order], GROUP_ROWS)
        order = np.concatenate([order[groups[i]] for i in rng.permutation(len(groups))])
    return [order[i : i + size] for i in range(0, n, size)]


def _blocks(rows: Rows, chosen: IntArray, givens: Givens, K: int) -> Iterator[Block]:
    """Blocks of one blur each, with the variance beside the noise of every head, (K, n)."""
    groups = [chosen] if rows.blur is None else [chosen[index] for index in by_blur(rows.blur[chosen], len(chosen))]
    for index in groups:
        blur = 0 if rows.blur is None else int(rows.blur[index[0]])
        v = None if givens.v is None or blur == 0 else givens.v[:, index]
        trust = None if givens.trust is None else givens.trust[index]
        block = block_of(rows, index, blur).given(Givens(v, trust))
        yield block if block.v is None else replace(block, v=np.broadcast_to(block.v, (K, len(index))))
