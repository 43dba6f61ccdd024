"""Training by small random batches: Adam (Kingma & Ba 2015) with a one-cycle schedule (Smith & Topin 2018).

The likelihood of a mixture has many poor optima. L-BFGS on all rows stops in one of them; noisy steps that become
smaller and smaller do not (measured: docs/explanation/mixtures.md). What is scored and used is the mean of the
parameters over the last steps (Polyak & Juditsky 1992), which the noise of the steps hardly moves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gpzed._types import FloatArray, IntArray
from gpzed.compiled.fastmath import is_compiled
from gpzed.compiled.faststep import CompiledStep
from gpzed.engine.lbfgs import Iteration
from gpzed.engine.threads import Block, Rows, Scratch, Sums, add, by_kind, single_threaded_blas
from gpzed.gp.parameters import Layout
from gpzed.incomplete.blur import Kind
from gpzed.mixture.heads import Heads, likelihood, log_posterior

BATCH_ROWS = 256
GROUP_ROWS = 32
"""Rows of one kind that go into the same batch, where inputs are uncertain."""
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
MEMORY = 0.05
"""Part of the schedule over which parameters are averaged."""


@dataclass(frozen=True)
class StochasticOptions:
    """How heads are trained.

    Attributes
    ----------
    n_epochs : int
        Passes over the training rows.
    kappa, ridge : float
        See `gpzed.mixture.heads.log_posterior`.
    tolerance : float
        The last epoch is kept whose validation score is lower than the best by no more than this.
    max_time : float or None
        Seconds after which training ends with the best heads so far.
    """

    n_epochs: int = 80
    kappa: float = 0.0
    ridge: float = 0.1
    tolerance: float = 0.0
    max_time: float | None = None


@dataclass(frozen=True)
class StochasticReport:
    """The heads kept by validation score, and the course of training, one entry per epoch."""

    heads: Heads
    best_score: float
    best_epoch: int
    history: tuple[Iteration, ...]


Epoch = tuple[Heads, float, int]
"""Heads after an epoch, their validation score, and its number."""


def schedule(progress: float) -> tuple[float, float]:
    """Learning rate and momentum at a point, 0 to 1, of the schedule."""
    rising = progress < WARM_UP
    position = progress / WARM_UP if rising else (progress - WARM_UP) / (1.0 - WARM_UP)
    height = 0.5 * (1.0 - np.cos(np.pi * position)) if rising else 0.5 * (1.0 + np.cos(np.pi * position))
    low = PEAK_RATE / 25.0 if rising else 0.0
    return low + (PEAK_RATE - low) * height, MOMENTUM[0] + (MOMENTUM[1] - MOMENTUM[0]) * height


def shuffled(kind: IntArray | None, n: int, size: int, rng: np.random.Generator) -> list[IntArray]:
    """Positions of n rows in random batches; rows of one kind keep together in small groups, which cost less."""
    order = rng.permutation(n)
    if kind is not None and kind.any():
        groups = by_kind(kind[order], GROUP_ROWS)
        order = np.concatenate([order[groups[i]] for i in rng.permutation(len(groups))])
    return [order[i : i + size] for i in range(0, n, size)]


def _blocks(rows: Rows, chosen: IntArray, v: FloatArray | None) -> Iterator[Block]:
    """Blocks of one kind each."""
    groups = [chosen] if rows.kind is None else [chosen[index] for index in by_kind(rows.kind[chosen], len(chosen))]
    for index in groups:
        kind = 0 if rows.kind is None else int(rows.kind[index[0]])
        added = None if v is None or kind == 0 else np.ascontiguousarray(v[index].T)
        yield Block(np.ascontiguousarray(rows.X[index].T), rows.y[index], rows.omega[index], kind=kind, v=added)


class Adam:
    """The parameters of heads on their way: steps of a length that follows a schedule.

    Parameters
    ----------
    start : Heads
    layout : Layout
    kinds : sequence of Kind
    options : StochasticOptions
    n : int
        Rows in all.
    total : int
        Steps that the schedule is made for.
    """

    def __init__(
        self, start: Heads, layout: Layout, kinds: Sequence[Kind], options: StochasticOptions, n: int, total: int
    ) -> None:
        self._start, self._layout, self._kinds, self._options = start, layout, kinds, options
        self._n, self._total = n, total
        self.count, self._bias = 0, 1.0
        self._theta = start.pack()
        self._mean = self._theta.copy()
        self._first, self._second = np.zeros_like(self._theta), np.zeros_like(self._theta)
        self._scratch = Scratch()
        self._compiled: CompiledStep | None = None
        if is_compiled() and not layout.structure.is_sigmoid:
            arrays = self._theta, self._first, self._second
            self._compiled = CompiledStep(
                layout, start.K, kinds, *arrays, max_norm=MAX_NORM, decay=DECAY, epsilon=EPSILON
            )

    @property
    def heads(self) -> Heads:
        """The mean of the parameters over the last steps."""
        return self._start.unpack(self._mean.copy())

    def step(self, blocks: Sequence[Block]) -> tuple[float, float]:
        """Take a step by the gradient of a batch; give its log posterior, and the norm of the gradient per row."""
        rate, momentum = schedule(self.count / self._total)
        self.count += 1
        self._bias *= momentum
        share = sum(len(block.y) for block in blocks) / self._n
        priors = {"kappa": self._options.kappa * share, "ridge": self._options.ridge * share}
        rates = {"rate": rate / (1.0 - self._bias), "momentum": momentum, "root_scale": 1.0 / (1.0 - DECAY**self.count)}
        taken = None if self._compiled is None else self._compiled(blocks, **priors, **rates)
        if taken is None:
            taken = self._numpy_step(blocks, **priors, **rates)
        self._mean += min(1.0, 1.0 / (MEMORY * self._total)) * (self._theta - self._mean)
        return taken

    def _numpy_step(
        self, blocks: Sequence[Block], *, kappa: float, ridge: float, rate: float, momentum: float, root_scale: float
    ) -> tuple[float, float]:
        heads = self._start.unpack(self._theta)
        state = heads.state(self._layout, self._kinds)
        sums: Sums | None = None
        for block in blocks:
            sums = add(sums, likelihood(block, self._scratch, state, heads.Theta))
        assert sums is not None
        value, gradient = log_posterior(sums, heads, self._layout, kappa=kappa, ridge=ridge)
        g = gradient.pack() / -sum(len(block.y) for block in blocks)
        norm = float(np.linalg.norm(g))
        g *= min(1.0, MAX_NORM / max(norm, 1e-300))
        self._first += (1.0 - momentum) * (g - self._first)
        self._second += (1.0 - DECAY) * (g * g - self._second)
        self._theta -= rate * self._first / (np.sqrt(self._second * root_scale) + EPSILON)
        return value, norm


def train_heads(
    rows: Rows,
    start: Heads,
    layout: Layout,
    score: Callable[[Heads], float] | None,
    options: StochasticOptions,
    rng: np.random.Generator,
    *,
    kinds: Sequence[Kind] = (),
    refresh: Callable[[Heads], FloatArray | None] | None = None,
    refresh_every: int = 10,
    on_epoch: Callable[[Iteration], bool | None] | None = None,
) -> StochasticReport:
    """Train heads, and the basis functions below them, from random batches of rows.

    Parameters
    ----------
    rows : Rows
        Whitened inputs, standardised targets, weights, kinds.
    start : Heads
    layout : Layout
    score : callable or None
        Validation score of some heads, which decides those that are kept. Without it the last are.
    options : StochasticOptions
    rng : numpy.random.Generator
        Decides the batches.
    kinds : sequence of Kind
        How inputs of rows of kind 1, 2, ... are uncertain.
    refresh : callable or None
        Gives the variance (n, K) that uncertain inputs add to every head in each row; called every so many epochs.
    refresh_every : int
    on_epoch : callable or None
        Called after every epoch; returning True ends training with the best heads so far.
    """
    n = len(rows.y)
    size = min(n, max(BATCH_ROWS, n // BATCHES_PER_EPOCH))
    n_batches = max(n // size, 1)
    adam = Adam(start, layout, kinds, options, n, n_batches * options.n_epochs)
    history: list[Iteration] = []
    kept = [(start, -np.inf, 0)]
    started = time.perf_counter()
    v: FloatArray | None = None
    with single_threaded_blas():
        for epoch in range(1, options.n_epochs + 1):
            objective = norm = 0.0
            if refresh is not None and (epoch - 1) % refresh_every == 0:
                v = refresh(adam.heads)
            for chosen in shuffled(rows.kind, n, size, rng)[:n_batches]:
                value, norm = adam.step(list(_blocks(rows, chosen, v)))
                objective -= value / n
            heads = adam.heads
            reached = np.nan if score is None else score(heads)
            latest = (heads, reached, epoch)
            kept = [latest] if score is None else _within(options.tolerance, kept, latest)
            history.append(Iteration(epoch, adam.count, time.perf_counter() - started, objective, norm, reached))
            if on_epoch is not None and on_epoch(history[-1]):
                break
            if options.max_time is not None and time.perf_counter() - started > options.max_time:
                break
    return StochasticReport(*kept[-1], tuple(history))


def _within(tolerance: float, kept: list[Epoch], latest: Epoch) -> list[Epoch]:
    """Epochs whose score is lower than the best so far by no more than the tolerance; never none."""
    best = np.fmax(max(score for _, score, _ in kept), latest[1])
    return [epoch for epoch in (*kept, latest) if epoch[1] >= best - tolerance]
