"""Random forest of scikit-learn with the variance that its trees give: within their leaves, and between them."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import RandomForestRegressor

from experiments.data import Sets
from experiments.rivals.base import Effort, Trained
from gpzed._types import FloatArray
from gpzed.prediction import Prediction

MAX_FEATURES, MIN_LEAF = 4, 5
"""Features tried at a split ("sqrt(d) ~ 4" in section 7.1 for ten features) and smallest leaf (that of TPZ)."""
MIN_VARIANCE = 1e-8


def train_forest(sets: Sets, n_trees: int, effort: Effort) -> Trained:
    """Train a random forest whose predictions have a variance.

    The mean is that over the trees, the model variance that of the trees' means, the noise variance the mean of the
    variances within their leaves. By the law of total variance their sum is the variance of the training redshifts that
    share a leaf with the object.
    """
    forest = RandomForestRegressor(
        n_trees,
        max_features=min(MAX_FEATURES, sets.train.X.shape[1]),
        min_samples_leaf=MIN_LEAF,
        n_jobs=effort.n_threads or -1,
        random_state=effort.seed,
    ).fit(sets.train.X, sets.train.z)

    def predict(X: FloatArray) -> Prediction:
        mean, square, within = np.zeros(len(X)), np.zeros(len(X)), np.zeros(len(X))
        for estimator in forest.estimators_:
            tree = estimator.tree_
            leaf = tree.apply(X.astype(np.float32))
            value = tree.value[leaf, 0, 0]
            mean += value / n_trees
            square += value**2 / n_trees
            within += tree.impurity[leaf] / n_trees  # squared error: the variance of the leaf
        return Prediction.gaussian(mean, np.maximum(square - mean**2, 0.0), np.maximum(within, MIN_VARIANCE))

    return Trained(predict, {"trees": n_trees, "max_features": MAX_FEATURES, "min_samples_leaf": MIN_LEAF})
