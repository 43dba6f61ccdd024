"""A member of another kind: a small network with the same heads; its inputs, training and predictions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpzed._types import FloatArray, IntArray
from gpzed.engine.lbfgs import Iteration
from gpzed.engine.threads import Team
from gpzed.incomplete.patterns import RawRows
from gpzed.mixture.network import Network, NetworkRows, QuickNetwork
from gpzed.mixture.network_training import MAX_ROWS, fit_network
from gpzed.model.data import Standardisation, TrainingData
from gpzed.model.run import NETWORK_STAGE
from gpzed.model.training import Watch
from gpzed.prediction import Components


@dataclass(frozen=True)
class NetworkMember:
    """A trained network and the maps around it.

    Inputs are whitened, with what is to be expected in place of gaps, and kept within the range of the training rows,
    `lower` to `upper` (d,): a network says nothing sensible beyond. After them come marks, 1 where a raw input is
    missing, of those that some training rows lack (`marked`, their positions). `score` is the mean log-likelihood of
    the held-out rows at the `epoch` kept.
    """

    standardisation: Standardisation
    network: Network
    lower: FloatArray
    upper: FloatArray
    marked: IntArray
    epoch: int
    score: float

    @property
    def n_inputs(self) -> int:
        """Parts of a prediction: one, for the inputs expected."""
        return 1

    @cached_property
    def quick(self) -> QuickNetwork:
        """The network ready to predict complete rows."""
        return QuickNetwork(self.standardisation.whitening, self.lower, self.upper, self.network.layers)

    @property
    def input_labels(self) -> IntArray:
        """For which of the possible inputs each Gaussian of a prediction is: all for the one expected."""
        return np.zeros(self.network.K, dtype=np.intp)

    def components(self, X: FloatArray, team: Team, X_std: FloatArray | None = None) -> Components:
        """Return the Gaussians of the heads for raw inputs; all of their variance is noise."""
        map_, labels = self.standardisation, self.input_labels
        weights, means, noise = self.network.predict(self.inputs(X), team)
        nothing = np.zeros_like(noise)
        scaled = map_.y_mean + map_.y_scale * means, nothing, map_.y_scale**2 * noise, nothing
        return Components(weights, *scaled, labels, labels)

    def draw(self, X: FloatArray, which: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return how far functions are from their expectations, in standard deviations: a network is one function."""
        return np.zeros(which.shape)

    def inputs(self, X: FloatArray) -> FloatArray:
        """Return what the network sees of raw inputs, (n, d + marks)."""
        whitened = np.clip(self.standardisation.expected(X), self.lower, self.upper)
        return np.hstack([whitened, np.isnan(X[:, self.marked])]) if len(self.marked) else whitened


def train_network_member(
    data: TrainingData, map_: Standardisation, K: int, rng: np.random.Generator, watch: Watch, max_time: float | None
) -> NetworkMember:
    """Train a network on at most `MAX_ROWS` rows of a member's data, with its maps; held-out rows choose the epoch."""
    rows = data.sample(MAX_ROWS, rng)
    gaps = np.isnan(rows.X)
    marks = np.flatnonzero(gaps.any(axis=0) & ~gaps.all(axis=0))
    _, first = np.unique(gaps[:, marks], axis=1, return_index=True)  # bands that are lost together share a mark
    whitened = map_.expected(rows.X)
    lower, upper, marked = whitened.min(axis=0), whitened.max(axis=0), marks[np.sort(first)]
    draft = NetworkMember(replace(map_, table=None), Network(()), lower, upper, marked, 0, 0.0)

    def standardised(raw: RawRows) -> NetworkRows:
        variance = None if raw.y_std is None else (raw.y_std / map_.y_scale) ** 2
        return NetworkRows(draft.inputs(raw.X), (raw.y - map_.y_mean) / map_.y_scale, raw.omega, variance, raw.wrong)

    def on_epoch(step: Iteration) -> bool | None:
        return watch.on_epoch(step, NETWORK_STAGE)

    held: RawRows | None = getattr(data, "valid", None)
    valid = None if held is None else standardised(held)
    found = fit_network(standardised(rows), valid, K, rng, max_time=max_time, on_epoch=on_epoch)
    score = found.score - float(np.log(map_.y_scale))
    return replace(draft, network=found.network, epoch=found.epoch, score=score)
