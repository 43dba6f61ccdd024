"""Training of a small network by random batches: dropout, weight decay, the epoch that held-out rows prefer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gpzed._types import AnyArray, IntArray
from gpzed.compiled import substitute
from gpzed.engine.adam import Adam
from gpzed.engine.lbfgs import Iteration
from gpzed.engine.threads import single_threaded_blas
from gpzed.errors import NumericalError
from gpzed.mixture.network import (
    Layers,
    Network,
    NetworkRows,
    likelihood_and_gradient,
    mean_log_likelihood,
    start_network,
)

HIDDEN = 64, 64, 64
"""Units of the hidden layers."""
DROPOUT_ROWS, LEAST_DROPOUT, MOST_DROPOUT = 150.0, 0.03, 0.2
"""Part of the hidden units that each row of a batch does without: the first over the number of rows."""
DECAY = 0.01
"""Of the weights, in units of the learning rate."""
PEAK_RATE = 0.01
SMALL_BATCH, BATCH_ROWS, BATCHES_PER_EPOCH = 32, 128, 80
"""Rows of a batch, fewer where there are few rows: noisy steps over-fit less; more where there would be more batches
than these in a pass over the rows."""
FEW_BATCHES = 24
"""Batches of a pass from which on their rows are fewer than `BATCH_ROWS`."""
N_EPOCHS, MIN_STEPS = 60, 600
"""Few rows are passed over more often than many."""
TOLERANCE, TOLERANCE_ROWS = 0.01, 1.0
"""As that of heads: what a network may lose on the held-out rows by longer training; more where these are few, the
second over their number."""
GIVE_UP = 0.1
"""The second half of training ends once held-out rows have lost this: as steps become smaller it does not come back."""
MAX_ROWS = 200_000


@dataclass(frozen=True)
class TrainedNetwork:
    """A network, the epoch that was kept, and its validation score, target standardised; NaN without held-out rows."""

    network: Network
    epoch: int
    score: float


def fit_network(
    rows: NetworkRows,
    valid: NetworkRows | None,
    K: int,
    rng: np.random.Generator,
    *,
    max_time: float | None = None,
    on_epoch: Callable[[Iteration], bool | None] | None = None,
) -> TrainedNetwork:
    """Train a network with K heads on rows; held-out ones choose the epoch, the last is kept without.

    Parameters
    ----------
    rows, valid : NetworkRows
    K : int
    rng : Generator
        For the start, the batches and the dropout.
    max_time : float or None
        Seconds after which training ends with the best epoch so far.
    on_epoch : callable or None
        Called after every epoch; returning True ends training with the best epoch so far.
    """
    rows, held = rows.single(), None if valid is None else valid.single()
    n = len(rows.y)
    size = min(n, max(SMALL_BATCH, min(BATCH_ROWS, n // FEW_BATCHES), n // BATCHES_PER_EPOCH))
    n_batches = n // size
    dropout = float(np.clip(DROPOUT_ROWS / n, LEAST_DROPOUT, MOST_DROPOUT))
    n_epochs = max(N_EPOCHS, -(-MIN_STEPS // n_batches))
    start = start_network((rows.X.shape[1], *HIDDEN), rows.y, K, rng, np.float32)
    adam = Adam(_pack(start), n_batches * n_epochs, PEAK_RATE, DECAY * _pack([_is_weight(layer) for layer in start]))
    tolerance = TOLERANCE if held is None else max(TOLERANCE, TOLERANCE_ROWS / len(held.y))
    kept: list[TrainedNetwork] = []
    started = time.perf_counter()
    with single_threaded_blas():
        for epoch in range(1, n_epochs + 1):
            order = rng.permutation(n)[: n_batches * size].reshape(n_batches, size)
            total, norm = substitute(descend)(adam, start, rows, order, dropout, int(rng.integers(2**32)))
            objective, layers = -total / n, _unpack(adam.mean, start)
            score = np.nan if held is None else substitute(mean_log_likelihood)(layers, held)
            kept = _within(tolerance, kept, TrainedNetwork(_network(layers), epoch, score))
            seconds = time.perf_counter() - started
            if on_epoch is not None and on_epoch(Iteration(epoch, adam.count, seconds, objective, norm, score)):
                break
            is_hopeless = 2 * epoch > n_epochs and score < max(past.score for past in kept) - GIVE_UP
            if is_hopeless or (max_time is not None and seconds > max_time):
                break
    if not all(np.isfinite(layer).all() for layer in kept[-1].network.layers):
        raise NumericalError("training of a network broke down: its weights are not finite.")
    return kept[-1]


def _within(tolerance: float, kept: list[TrainedNetwork], latest: TrainedNetwork) -> list[TrainedNetwork]:
    """Epochs whose score is lower than the best so far by no more than the tolerance; the latest without scores."""
    epochs = [*kept, latest]
    best = max(epoch.score for epoch in epochs)
    return [latest] if np.isnan(best) else [epoch for epoch in epochs if epoch.score >= best - tolerance]


def descend(
    adam: Adam, like: Layers, rows: NetworkRows, order: IntArray, dropout: float, seed: int
) -> tuple[float, float]:
    """Take a step for each batch of rows, `order` (batches, rows); return their log-likelihood and the last norm.

    Which units a row does without depends on the seed and its place in the order alone.
    """
    total = norm = 0.0
    n_batches, size = order.shape
    for batch in range(n_batches):
        masks = _masks(
            np.arange(batch * size, (batch + 1) * size), [layer.shape[1] for layer in like[:-1]], dropout, seed
        )
        value, gradient = likelihood_and_gradient(_unpack(adam.theta, like), rows.take(order[batch]), masks)
        norm = adam.step(_pack(gradient), -1.0 / size)
        total += value
    return total, norm


def _masks(places: IntArray, widths: Sequence[int], dropout: float, seed: int) -> list[AnyArray]:
    """Return factors of hidden units, (n, units) for every layer: those whose random bits are few are left out.

    The bits of a unit come from its number by a hash (the constants are those of Wellons' lowbias32), so that any
    of them can be had without those before.
    """
    total = sum(widths)
    x = (places[:, None] * total + np.arange(total)).astype(np.uint32)
    x = x * np.uint32(0x9E3779B9) + np.uint32(seed)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = (x ^ (x >> np.uint32(shift))) * np.uint32(factor)
    x ^= x >> np.uint32(16)
    kept = (x >= np.uint32(dropout * 2**32)) * np.float32(1.0 / (1.0 - dropout))
    return np.split(kept, np.cumsum(widths)[:-1], axis=1)


def _is_weight(layer: AnyArray) -> AnyArray:
    """Return 1 for weights and 0 for biases."""
    marks = np.ones_like(layer)
    marks[-1] = 0.0
    return marks


def _pack(layers: Layers) -> AnyArray:
    return np.concatenate([np.ravel(layer) for layer in layers])


def _unpack(theta: AnyArray, like: Layers) -> list[AnyArray]:
    parts = np.split(theta, np.cumsum([layer.size for layer in like])[:-1])
    return [part.reshape(layer.shape) for part, layer in zip(parts, like, strict=True)]


def _network(layers: Layers) -> Network:
    return Network(tuple(layer.astype(np.float64) for layer in layers))
