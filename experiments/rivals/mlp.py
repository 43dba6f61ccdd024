"""A network with one hidden layer, trained as networks are: by regularised least squares (Eq. B.1)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.data import Sets
from experiments.rivals.base import Effort, Trained
from gpzed._types import FloatArray
from gpzed.prediction import Prediction

PENALTIES = (1e-4, 1e-2, 1.0)
"""Values of lambda that the validation rows choose from."""


def train_mlp(sets: Sets, n_neurons: int, effort: Effort) -> Trained:
    """Train a network with one hidden layer of sigmoids by regularised least squares (Eq. B.1), noise constant."""
    hidden = np.random.default_rng(effort.seed).permutation(len(sets.train))[: len(sets.train) // 5]
    judge = (sets.valid.X, sets.valid.z) if len(sets.valid) else (sets.train.X[hidden], sets.train.z[hidden])
    learn = np.ones(len(sets.train), dtype=bool)
    learn[hidden] = bool(len(sets.valid))
    mean, scale = float(sets.train.z.mean()), float(sets.train.z.std())
    best: tuple[float, float, Any] | None = None
    for penalty in PENALTIES:
        settings = {"alpha": penalty, "max_iter": effort.max_iter or 500, "random_state": effort.seed}
        network = MLPRegressor(hidden_layer_sizes=(n_neurons,), activation="logistic", solver="lbfgs", **settings)
        model = make_pipeline(StandardScaler(), PCA(whiten=True), network)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(sets.train.X[learn], (sets.train.z[learn] - mean) / scale)
        error = float(np.mean((mean + scale * model.predict(judge[0]) - judge[1]) ** 2))
        if best is None or error < best[0]:
            best = (error, penalty, model)
    assert best is not None
    variance, penalty, chosen = best

    def predict(X: FloatArray) -> Prediction:
        return Prediction.gaussian(mean + scale * chosen.predict(X), 0.0, variance)

    return Trained(predict, {"penalty": penalty})
