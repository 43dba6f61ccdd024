"""Training by small random batches: Adam (Kingma & Ba 2015) with a one-cycle schedule (Smith & Topin 2018).

The likelihood of a mixture has many poor optima. L-BFGS on all rows stops in one of them; noisy steps that become
smaller and smaller do not (measured: docs/explanation/mixtures.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpzed.core.engine import Block, Rows, Scratch, single_threaded_blas
from gpzed.core.mixture import Heads, likelihood, log_posterior
from gpzed.core.optimize import Iteration
from gpzed.core.parameters import Layout

BATCH_ROWS = 256
BATCHES_PER_EPOCH = 80
"""Batches grow where there would be more than these in a pass over the rows."""
PEAK_RATE = 0.02
WARM_UP = 0.3
"""Part of the schedule in which the rate rises."""
MAX_NORM = 5.0
"""Longer gradients (per row) are shortened to this."""
MOMENTUM = 0.95, 0.85
"""Of the mean gradient, at the ends and at the peak of the schedule."""
DECAY, EPSILON = 0.999, 1e-8


@dataclass(frozen=True)
class StochasticOptions:
    """How heads are trained.

    Attributes
    ----------
    n_epochs : int
        Passes over the training rows.
    kappa, ridge : float
        See `gpzed.core.mixture.log_posterior`.
    max_time : float or None
        Seconds after which training ends with the best heads so far.
    """

    n_epochs: int = 80
    kappa: float = 0.0
    ridge: float = 0.1
    max_time: float | None = None


@dataclass(frozen=True)
class StochasticReport:
    """The best heads by validation score, and the course of training, one entry per epoch."""

    heads: Heads
    best_score: float
    best_epoch: int
    history: tuple[Iteration, ...]


def schedule(progress: float) -> tuple[float, float]:
    """Learning rate and momentum at a point, 0 to 1, of the schedule."""
    rising = progress < WARM_UP
    position = progress / WARM_UP if rising else (progress - WARM_UP) / (1.0 - WARM_UP)
    height = 0.5 * (1.0 - np.cos(np.pi * position)) if rising else 0.5 * (1.0 + np.cos(np.pi * position))
    low = PEAK_RATE / 25.0 if rising else 0.0
    return low + (PEAK_RATE - low) * height, MOMENTUM[0] + (MOMENTUM[1] - MOMENTUM[0]) * height


def train_heads(
    rows: Rows,
    start: Heads,
    layout: Layout,
    score: Callable[[Heads], float] | None,
    options: StochasticOptions,
    rng: np.random.Generator,
    on_epoch: Callable[[Iteration], bool | None] | None = None,
) -> StochasticReport:
    """Train heads, and the basis functions below them, from random batches of rows.

    Parameters
    ----------
    rows : (X, y, omega)
        Whitened inputs, standardised targets, weights.
    start : Heads
    layout : Layout
    score : callable or None
        Validation score of some heads; the best are kept. Without it the last are.
    options : StochasticOptions
    rng : numpy.random.Generator
        Decides the batches.
    on_epoch : callable or None
        Called after every epoch; returning True ends training with the best heads so far.
    """
    X, y, omega = rows
    n = len(y)
    size = min(n, max(BATCH_ROWS, n // BATCHES_PER_EPOCH))
    n_batches = max(n // size, 1)
    theta, total_steps = start.pack(), n_batches * options.n_epochs
    first, second = np.zeros_like(theta), np.zeros_like(theta)
    scratch, history = Scratch(), []
    best, best_score, best_epoch = start, -np.inf, 0
    started, step, bias = time.perf_counter(), 0, 1.0
    with single_threaded_blas():
        for epoch in range(1, options.n_epochs + 1):
            order = rng.permutation(n)
            objective = norm = 0.0
            for batch in range(n_batches):
                chosen = order[batch * size : (batch + 1) * size]
                heads = start.unpack(theta)
                block = Block(np.ascontiguousarray(X[chosen].T), y[chosen], omega[chosen])
                sums = likelihood(block, scratch, heads.state(layout), heads.Theta)
                value, gradient = log_posterior(
                    sums, heads, layout, kappa=options.kappa, ridge=options.ridge, share=len(chosen) / n
                )
                g = gradient.pack() / -len(chosen)
                norm = float(np.linalg.norm(g))
                g *= min(1.0, MAX_NORM / max(norm, 1e-300))
                rate, momentum = schedule(step / total_steps)
                step += 1
                bias *= momentum
                first += (1.0 - momentum) * (g - first)
                second += (1.0 - DECAY) * (g * g - second)
                theta = theta - rate * (first / (1.0 - bias)) / (np.sqrt(second / (1.0 - DECAY**step)) + EPSILON)
                objective -= value / n
            heads = start.unpack(theta)
            reached = np.nan if score is None else score(heads)
            if score is None or reached > best_score:
                best, best_score, best_epoch = heads, reached, epoch
            history.append(Iteration(epoch, step, time.perf_counter() - started, objective, norm, reached))
            if on_epoch is not None and on_epoch(history[-1]):
                break
            if options.max_time is not None and time.perf_counter() - started > options.max_time:
                break
    return StochasticReport(best, best_score, best_epoch, tuple(history))
