"""Which of two sets of inputs tells more of the target: quickly trained networks try them on held-out rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpzed._types import FloatArray
from gpzed.engine.threads import Team, single_threaded_blas
from gpzed.incomplete.patterns import RawRows
from gpzed.model.data import ArrayData, fit_standardisation
from gpzed.model.network_member import train_network_member
from gpzed.model.training import Watch
from gpzed.prediction import Prediction

MIN_ROWS, MAX_ROWS = 1000, 8000
"""Fewer rows tell too little; more are not needed."""
N_PARTS = 2
"""Parts of the rows, each held out once."""
N_HEADS = 5


@dataclass(frozen=True)
class Gain:
    """Mean log score that held-out rows gain by other inputs, and its standard error."""

    mean: float
    error: float

    @property
    def is_certain(self) -> bool:
        """Whether there is something to gain, beyond two standard errors."""
        return self.mean > 2.0 * self.error


def gain_of_inputs(plain: FloatArray, richer: FloatArray, rows: RawRows, rng: np.random.Generator) -> Gain:
    """Compare two sets of inputs (n, d) of the same rows, whose own inputs are not looked at.

    Every row is held out once, and both networks of a split start and shuffle alike.
    """
    part = rng.integers(N_PARTS, size=len(rows.y))
    gains = np.empty(len(rows.y))
    with single_threaded_blas():
        for held in range(N_PARTS):
            seed = int(rng.integers(2**63))
            before, after = (_log_scores(rows._replace(X=X), part == held, seed) for X in (plain, richer))
            gains[part == held] = after - before
    return Gain(float(np.average(gains, weights=rows.omega)), float(gains.std() / np.sqrt(len(gains))))


def _log_scores(rows: RawRows, is_held: np.ndarray, seed: int) -> FloatArray:
    """Return log scores of held-out rows by a network that was trained on the others."""
    data = ArrayData(rows.take(~is_held), rows.take(is_held))
    map_ = fit_standardisation(data, "pca", 1)
    network = train_network_member(data, map_, N_HEADS, np.random.default_rng(seed), Watch(), None)
    assert data.valid is not None
    return Prediction.of(network.components(data.valid.X, Team(1))).log_pdf(data.valid.y)
