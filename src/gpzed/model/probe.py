"""Which of two sets of inputs tells more of the target: quickly trained networks try them on held-out rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpzed._types import BoolArray, FloatArray
from gpzed.engine.threads import Team, single_threaded_blas
from gpzed.incomplete.patterns import RawRows
from gpzed.model.data import ArrayData, fit_standardisation
from gpzed.model.network_member import train_network_member
from gpzed.model.training import Watch
from gpzed.prediction import Prediction

MIN_ROWS, MAX_ROWS = 1000, 8000
"""Fewer rows tell too little; more are not needed."""
N_PARTS = 2
"""Parts of the rows, held out one after the other."""
CLEAR = 2.0
"""Standard errors of the first part at which the second is not asked."""
N_NETWORKS, N_HEADS = 2, 5
"""Networks that predict each row together: one alone over-fits more by more inputs than those of a committee do."""


@dataclass(frozen=True)
class Gain:
    """What held-out rows gain by other inputs, and its standard error: log score, and CRPS in parts of its mean."""

    mean: float
    error: float

    @property
    def is_likely(self) -> bool:
        """Whether there is something to gain, beyond a standard error: to err costs as little either way."""
        return self.mean > self.error

    def __str__(self) -> str:
        return f"{self.mean:+.3f} ± {self.error:.3f}"


def gain_of_inputs(plain: FloatArray, richer: FloatArray, y: FloatArray, rng: np.random.Generator) -> Gain:
    """Compare two sets of inputs (n, d) of the same rows with targets y.

    No row is held out twice, and both committees of a split start and shuffle alike.
    """
    part = rng.integers(N_PARTS, size=len(y))
    scores = np.empty((2, 2, 0))  # of both sets: log score and CRPS of the rows held out so far
    with single_threaded_blas():
        for held in range(N_PARTS):
            seed = int(rng.integers(2**63))
            found = [_scores(RawRows(X, y, np.ones(len(y))), part == held, seed) for X in (plain, richer)]
            scores = np.concatenate([scores, found], axis=2)
            (log_before, crps_before), (log_after, crps_after) = scores
            gains = log_after - log_before + (crps_before - crps_after) / crps_before.mean()
            gain = Gain(float(gains.mean()), float(gains.std() / np.sqrt(len(gains))))
            if abs(gain.mean) > CLEAR * gain.error:
                break
    return gain


def _scores(rows: RawRows, is_held: BoolArray, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return log scores and CRPS of held-out rows by networks that were trained on the others."""
    data = ArrayData(rows.take(~is_held), rows.take(is_held))
    held = data.valid
    assert held is not None
    map_ = fit_standardisation(data, "pca", 1)
    networks = (
        train_network_member(data, map_, N_HEADS, rng, Watch(), None)
        for rng in np.random.default_rng(seed).spawn(N_NETWORKS)
    )
    mixed = Prediction.mixture([Prediction.of(network.components(held.X, Team(1))) for network in networks])
    return mixed.log_pdf(held.y), mixed.crps(held.y)
