"""What the methods have in common; for Gaussian processes: scaled rows and predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpzed._types import FloatArray
from gpzed.gp.whitening import Moments, Whitening, fit_whitening
from gpzed.prediction import Prediction

START_NOISE = 0.1
"""Share of the variance of the target that counts as noise at the start."""


@dataclass(frozen=True)
class Effort:
    """What all methods are told: the seed, and the limit on iterations (None for the default of each)."""

    seed: int = 0
    max_iter: int | None = None
    n_threads: int | None = None  # all cores if None

    @property
    def iterations(self) -> dict[str, Any]:
        """The limit as a keyword argument, if there is one."""
        return {} if self.max_iter is None else {"max_iter": self.max_iter}


class Trained(NamedTuple):
    """A trained method: what it predicts for inputs (n, d), and what is worth recording of its training."""

    predict: Callable[[FloatArray], Prediction]
    details: dict[str, Any]


class GaussianProcess:
    """A Gaussian process for whitened inputs and a standardised target; subclasses train it."""

    scaling_: Scaling

    def _predict_scaled(self, X: FloatArray) -> Sequence[FloatArray]:
        """Return mean, model variance and noise variance of the standardised target at whitened inputs."""
        raise NotImplementedError

    def predict_distribution(self, X: FloatArray) -> Prediction:
        """Return a Gaussian for each row of X, its variance split into model and noise."""
        y_mean, scale = self.scaling_.y_mean, self.scaling_.y_scale
        mean, model, noise = self._predict_scaled(self.scaling_.whitening(X))
        return Prediction.gaussian(y_mean + scale * mean, scale**2 * model, scale**2 * noise)


@dataclass(frozen=True)
class Scaling:
    """The maps from raw to whitened inputs and from the target to one of zero mean and unit variance."""

    whitening: Whitening
    y_mean: float
    y_scale: float

    @classmethod
    def fit(cls, X: FloatArray, y: FloatArray) -> Scaling:
        """Return the maps for training rows X (n, d) and y (n,)."""
        ones = np.ones(len(y))
        target = Moments.of(y[:, None], ones)
        mean, scale = float(target.mean[0]), float(np.sqrt(target.scatter[0, 0] / len(y)))
        is_constant = scale <= 1e-12 * abs(mean)
        return cls(fit_whitening(Moments.of(X, ones), "pca"), mean, 1.0 if is_constant else scale)

    def __call__(self, X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return whitened inputs and the standardised target."""
        return self.whitening(X), (y - self.y_mean) / self.y_scale
