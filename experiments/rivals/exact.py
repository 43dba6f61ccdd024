"""`ExactGPRegressor`: scikit-learn's exact Gaussian process behind the interface of the other methods."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning as SklearnConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from experiments.rivals.base import START_NOISE, GaussianProcess, Scaling
from gpzed._types import FloatArray
from gpzed.errors import ConvergenceWarning, DataWarning

PREDICT_ROWS = 2_000
"""Rows predicted at once, so that memory grows with the training set alone."""


@dataclass
class ExactGPRegressor(GaussianProcess):
    """Exact Gaussian process with a squared-exponential kernel and constant noise (appendix A of the paper).

    ``k(x, x') = h^2 exp(-1/2 |(x - x') / length|^2) + s2 [x is x']``, computed by scikit-learn. The model variance of a
    prediction is its total variance less the noise variance s2. Time grows with the cube of the number of rows and
    memory with its square, so that a random subset of `max_rows` is used where there are more.
    """

    max_rows: int | None = 2_000  # None for no limit
    random_state: int | None = None  # seed of the subset

    def fit(self, X: FloatArray, y: FloatArray) -> Self:
        """Train on rows in memory; warn if only a subset was used."""
        rng = np.random.default_rng(self.random_state)
        X, y = self._subset(X, y, rng)
        self.scaling_ = Scaling.fit(X, y)
        length = np.sqrt(X.shape[1])  # that of a whitened row from the centre: the kernel spans the data
        signal = ConstantKernel(1.0, (1e-6, 1e6)) * RBF(length, (1e-3, 1e5))
        kernel = signal + WhiteKernel(START_NOISE, (1e-10, 1e2))
        self.process_ = GaussianProcessRegressor(kernel, alpha=1e-10, random_state=int(rng.integers(2**31)))
        self._train(*self.scaling_(X, y))
        self.n_rows_ = len(y)
        self.log_marginal_likelihood_ = float(self.process_.log_marginal_likelihood_value_)
        return self

    def sample_y(self, X: FloatArray, n_samples: int = 1, random_state: int | None = 0) -> FloatArray:
        """Draw functions from the posterior (without observation noise) and return their values (n, n_samples) at X."""
        rng = np.random.default_rng(random_state)
        mean, covariance = self.process_.predict(self.scaling_.whitening(X), return_cov=True)
        covariance[np.diag_indices_from(covariance)] -= self._noise
        variance, directions = np.linalg.eigh(covariance)
        scale: FloatArray = np.sqrt(np.maximum(variance, 0.0))  # eigenvalues below zero are rounding errors
        draws: FloatArray = directions @ (scale[:, None] * rng.standard_normal((len(scale), n_samples)))
        values: FloatArray = mean[:, None] + draws
        return self.scaling_.y_mean + self.scaling_.y_scale * values

    def _subset(self, X: FloatArray, y: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        n = len(y)
        if self.max_rows is None or n <= self.max_rows:
            return X, y
        warnings.warn(
            f"trained on a random {self.max_rows} of {n} rows, the limit `max_rows`; an exact Gaussian process takes "
            "time with the cube of their number. Raise `max_rows`, or use a sparse process for all rows.",
            DataWarning,
            stacklevel=3,
        )
        rows = rng.permutation(n)[: self.max_rows]
        return X[rows], y[rows]

    def _train(self, X: FloatArray, y: FloatArray) -> None:
        """Fit the process; warnings of its optimiser come out as gpzed's own."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.process_.fit(X, y)
        for entry in caught:
            is_ours = issubclass(entry.category, SklearnConvergenceWarning)
            warnings.warn(str(entry.message), ConvergenceWarning if is_ours else entry.category, stacklevel=3)

    @property
    def _noise(self) -> float:
        return float(self.process_.kernel_.k2.noise_level)

    def _predict_scaled(self, X: FloatArray) -> Sequence[FloatArray]:
        mean, std = np.empty(len(X)), np.empty(len(X))
        for start in range(0, len(X), PREDICT_ROWS):
            rows = slice(start, start + PREDICT_ROWS)
            mean[rows], std[rows] = self.process_.predict(X[rows], return_std=True)
        return mean, np.maximum(std**2 - self._noise, 0.0), np.full(len(X), self._noise)
