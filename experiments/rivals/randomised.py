"""Randomised regression: many small networks and boosted trees of random settings, the best of which is used.

A stand-in for ANNz2 (Sadeh et al. 2016), which needs ROOT: the same recipe with scikit-learn's learners, but different
code, so it has another name. Learners of random kind and settings are trained on random parts of the rows and ranked by
bias, scatter and outliers on rows they have not seen. The best one gives the redshift; its error is that of the nearest
neighbours in the inputs (Oyaizu et al. 2008).
"""

from __future__ import annotations

import warnings
from typing import Any

import joblib
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.data import Rows, Sets
from experiments.rivals.base import Effort, Trained
from gpzed._types import FloatArray, IntArray
from gpzed.prediction import Prediction

HELD_OUT = 0.25
"""Part of the rows kept to rank by, where there is no validation set."""
N_NEIGHBOURS = 100
MIN_STD = 1e-4


def train_randomised(sets: Sets, n_learners: int, effort: Effort) -> Trained:
    """Train networks and boosted trees of random settings, half of each, and choose the best; all variance is noise."""
    rng = np.random.default_rng(effort.seed)
    train, judge = _rows_to_rank_by(sets, rng)
    jobs = [_draw_learner(index, len(train), rng) for index in range(n_learners)]
    trained = joblib.Parallel(n_jobs=effort.n_threads or -1)(
        joblib.delayed(_fit)(learner, train.X[rows], train.z[rows]) for learner, rows, _ in jobs
    )
    guesses = [learner.predict(judge.X) for learner in trained]
    best = int(np.argmin(_ranks(guesses, judge.z)))
    scaler = StandardScaler().fit(judge.X)
    neighbours = NearestNeighbors(n_neighbors=min(N_NEIGHBOURS, len(judge))).fit(scaler.transform(judge.X))
    residual = np.abs(judge.z - guesses[best])

    def predict(X: FloatArray) -> Prediction:
        nearest = neighbours.kneighbors(scaler.transform(X), return_distance=False)
        std = np.maximum(np.quantile(residual[nearest], 0.68, axis=1), MIN_STD)
        return Prediction.gaussian(trained[best].predict(X), 0.0, std**2)

    return Trained(predict, {"learners": n_learners, "best": jobs[best][2], "neighbours": neighbours.n_neighbors})


def _rows_to_rank_by(sets: Sets, rng: np.random.Generator) -> tuple[Rows, Rows]:
    if len(sets.valid):
        return sets.train, sets.valid
    order = rng.permutation(len(sets.train))
    cut = int(HELD_OUT * len(order))
    judge, train = np.sort(order[:cut]), np.sort(order[cut:])
    return Rows(sets.train.X[train], sets.train.z[train]), Rows(sets.train.X[judge], sets.train.z[judge])


def _draw_learner(index: int, n: int, rng: np.random.Generator) -> tuple[BaseEstimator, IntArray, dict[str, Any]]:
    """Return an untrained learner of random settings, the rows it is to learn from, and its description."""
    state = int(rng.integers(2**31))
    if index % 2:
        settings: dict[str, Any] = {
            "learning_rate": float(np.exp(rng.uniform(np.log(0.03), np.log(0.3)))),
            "max_iter": int(rng.integers(50, 201)),
            "max_leaf_nodes": int(rng.integers(8, 48)),
            "min_samples_leaf": int(rng.integers(5, 51)),
        }
        learner: BaseEstimator = HistGradientBoostingRegressor(**settings, random_state=state)
        rows = rng.choice(n, size=int(rng.uniform(0.5, 1.0) * n), replace=False)
        return learner, np.sort(rows), {"kind": "boosted trees", **settings}
    layers = tuple(int(width) for width in rng.integers(5, 41, size=rng.integers(1, 4)))
    settings = {
        "hidden_layer_sizes": layers,
        "activation": str(rng.choice(["tanh", "logistic", "relu"])),
        "alpha": float(10.0 ** rng.uniform(-6.0, -2.0)),
        "learning_rate_init": float(10.0 ** rng.uniform(-3.0, -2.0)),
    }
    network = MLPRegressor(**settings, max_iter=100, early_stopping=True, n_iter_no_change=10, random_state=state)
    whiten = bool(rng.integers(2))
    steps = [StandardScaler(), PCA(whiten=True)] if whiten else [StandardScaler()]
    return make_pipeline(*steps, network), np.arange(n), {"kind": "network", "whitened": whiten, **settings}


def _fit(learner: BaseEstimator, X: FloatArray, z: FloatArray) -> BaseEstimator:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return learner.fit(X, z)


def _ranks(guesses: list[FloatArray], z: FloatArray) -> FloatArray:
    """Return the sum of the ranks of each guess by bias, 68 % scatter and outliers; the lowest is best."""
    scores = []
    for guess in guesses:
        dz = (z - guess) / (1.0 + z)
        scatter = float(np.quantile(np.abs(dz - np.median(dz)), 0.68))
        scores.append([abs(float(dz.mean())), scatter, float(np.mean(np.abs(dz) > 3.0 * scatter)), float(dz.std())])
    table = np.array(scores)
    return np.asarray(table.argsort(axis=0).argsort(axis=0).sum(axis=1), dtype=np.float64)
