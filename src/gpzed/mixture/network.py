"""Mixture densities from a small neural network: the outputs of the heads, on hidden units instead of basis functions.

    h_0 = x,    h_l = a o sigmoid(a),  a = W_l [h_(l-1), 1],    outputs = W_L [h_(L-1), 1],

with the same three outputs for each of K heads as in `gpzed.mixture.likelihood`: mean, ln beta and gate. Hidden units
are not local: few rows in many dimensions tell them more than they tell basis functions, each of which has a shape of
its own to learn. In exchange there is no posterior of weights: a single network has no model variance.

Arrays are rows first and of the precision of the weights; single precision is enough for training, and twice as fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpzed._types import AnyArray, FloatArray, IntArray
from gpzed.compiled import substitute
from gpzed.engine.threads import Team
from gpzed.gp import labels
from gpzed.gp.whitening import Whitening
from gpzed.mixture.likelihood import LOG_BETA_RANGE, Outputs, log_density

BLOCK_ROWS = 2048
"""Rows that are predicted for at once."""

Layers = Sequence[AnyArray]


class NetworkRows(NamedTuple):
    """Standardised rows, as a network sees them."""

    X: AnyArray  # (n, d)
    y: AnyArray  # (n,)
    omega: AnyArray  # (n,) weights
    variance: AnyArray | None = None  # (n,) of the errors of the targets
    wrong: AnyArray | None = None  # (n,) probability that a target is wrong

    def single(self) -> NetworkRows:
        """Return the same in single precision."""
        return NetworkRows(*(None if a is None else np.ascontiguousarray(a, dtype=np.float32) for a in self))  # type: ignore[arg-type]

    def take(self, index: IntArray) -> NetworkRows:
        """Take some of the rows."""
        return NetworkRows(*(None if array is None else array[index] for array in self))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Network:
    """Weights of all layers, each (inputs + 1, outputs) with the biases last; the outputs of the last are 3 K."""

    layers: tuple[FloatArray, ...]

    @property
    def K(self) -> int:
        """Number of heads."""
        return int(self.layers[-1].shape[1]) // 3

    def predict(self, X: FloatArray, team: Team) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return weights, means and noise variances of the heads for standardised rows, (n, K) each."""
        n, K = len(X), self.K
        found = np.empty((3, n, K))

        def work(start: int) -> None:
            rows = slice(start, min(start + BLOCK_ROWS, n))
            for out, part in zip(found, substitute(moments)(self.layers, X[rows]), strict=True):
                out[rows] = part.T

        team.map(work, range(0, n, BLOCK_ROWS))
        return found[0], found[1], found[2]


def moments(layers: tuple[FloatArray, ...], X: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return weights, means and noise variances of the heads for rows X, (K, n) each."""
    mean, log_beta, log_pi = split_outputs(last_layer(layers, X))
    return np.exp(log_pi), mean, np.exp(-log_beta)


@dataclass(frozen=True, eq=False)
class QuickNetwork:
    """A network ready to predict complete rows: it sees whitened inputs within bounds, and no marks of gaps."""

    whitening: Whitening
    lower: FloatArray
    upper: FloatArray
    layers: tuple[FloatArray, ...]

    def moments(self, X: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return weights, means, model and noise variances, see `gpzed.mixture.quick.Quick`."""
        inputs = np.zeros((len(X), len(self.layers[0]) - 1))
        whitened = self.whitening(np.where(np.isnan(X), self.whitening.mean, X))
        np.clip(whitened, self.lower, self.upper, out=inputs[:, : X.shape[1]])
        weights, means, noise = moments(self.layers, inputs)
        return weights, means, np.zeros_like(means), noise


def start_network(
    widths: Sequence[int], y: FloatArray, K: int, rng: np.random.Generator, dtype: type = np.float64
) -> list[AnyArray]:
    """Return layers to start from: heads anywhere in their part of the range of the target, as `start_heads` has them.

    `widths` are those of the inputs and of every hidden layer.
    """
    layers = [rng.standard_normal((n + 1, m)) / np.sqrt(n) for n, m in zip(widths, [*widths[1:], 3 * K], strict=True)]
    layers[-1] *= 0.1
    for layer in layers:
        layer[-1] = 0.0
    layers[-1][-1, :K] = np.quantile(y, (np.arange(K) + rng.random(K)) / K)
    layers[-1][-1, K : 2 * K] = 2.0 * np.log(K)
    return [layer.astype(dtype) for layer in layers]


def last_layer(layers: Layers, X: AnyArray) -> AnyArray:
    """Return the outputs of rows X (n, d), (n, 3 K)."""
    hidden = X
    for layer in layers[:-1]:
        hidden, _ = _activate(hidden @ layer[:-1] + layer[-1])
    return np.asarray(hidden @ layers[-1][:-1] + layers[-1][-1])


def split_outputs(values: AnyArray) -> Outputs:
    """Return means, log noise precisions and log weights of the heads, (K, n) each, from outputs (n, 3 K)."""
    mean, log_beta, gate = np.split(values.T, 3)
    gate = gate - gate.max(axis=0)
    return Outputs(mean, np.clip(log_beta, *LOG_BETA_RANGE), gate - np.log(np.exp(gate).sum(axis=0)))


def likelihood_and_gradient(
    layers: Layers, rows: NetworkRows, masks: Sequence[AnyArray] = ()
) -> tuple[float, list[AnyArray]]:
    """Return the log-likelihood of rows and its gradient; `masks` (n, units) multiply the hidden units."""
    y = rows.y
    hidden, slopes = [rows.X], []
    for index, layer in enumerate(layers[:-1]):
        value, slope = _activate(hidden[-1] @ layer[:-1] + layer[-1])
        if masks:
            value *= masks[index]
            slope *= masks[index]
        hidden.append(value)
        slopes.append(slope)
    outputs = split_outputs(hidden[-1] @ layers[-1][:-1] + layers[-1][-1])
    total, share, precision = log_density(outputs, y, rows.variance)
    residual = y - outputs.mean
    noise_part = 1.0 if rows.variance is None else precision * np.exp(-outputs.log_beta)
    G = np.concatenate(
        [
            share * precision * residual,
            0.5 * share * (1.0 - precision * residual**2) * noise_part,
            share - np.exp(outputs.log_pi),
        ]
    )
    G *= rows.omega
    if rows.wrong is not None:
        G *= labels.trust(total, labels.log_anywhere(y), rows.wrong)
        total = labels.log_likelihood(total, labels.log_anywhere(y), rows.wrong)
    G = np.ascontiguousarray(G.T, dtype=rows.X.dtype)
    gradient: list[AnyArray] = []
    for index in range(len(layers) - 1, -1, -1):
        gradient.append(np.vstack([hidden[index].T @ G, G.sum(axis=0)]))
        if index:
            G = (G @ layers[index][:-1].T) * slopes[index - 1]
    return float(rows.omega @ total), gradient[::-1]


def mean_log_likelihood(layers: Layers, rows: NetworkRows) -> float:
    """Return the mean log-likelihood of rows, target standardised."""
    total, _, _ = log_density(split_outputs(last_layer(layers, rows.X)), rows.y, rows.variance)
    total = labels.log_likelihood(total, labels.log_anywhere(rows.y), rows.wrong)
    return float(np.average(total.astype(np.float64), weights=rows.omega))


def _activate(a: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return ``a sigmoid(a)`` and its derivative."""
    gate = 0.5 * np.tanh(0.5 * a) + 0.5
    value = a * gate
    return value, gate + value * (1.0 - gate)
