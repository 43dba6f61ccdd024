"""`ExactGPRegressor`: scikit-learn's exact Gaussian process behind the interface of the other methods."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning as SklearnConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.utils._param_validation import Interval, StrOptions

from experiments.rivals.base import START_NOISE, GaussianProcess, LengthScale, Scaling, draw
from gpzed._types import FloatArray
from gpzed.errors import ConvergenceWarning, DataWarning
from gpzed.gp.whitening import WhiteningMethod

PREDICT_ROWS = 2_000
"""Rows predicted at once, so that memory grows with the training set alone."""


class ExactGPRegressor(GaussianProcess):
    """Exact Gaussian process with a squared-exponential kernel and constant noise (appendix A of the paper).

    Computed by `sklearn.gaussian_process.GaussianProcessRegressor`. Time grows with the cube of the number of rows and
    memory with its square, so that a random subset of `max_rows` is used where there are more.

    Parameters
    ----------
    max_rows : int or None
        Rows to train on at most, drawn at random; None for no limit.
    length_scale : {"shared", "per_feature"}
        One length-scale for all (whitened) features, or one for each.
    whitening : {"pca", "scale", "none"}
        As in `gpzed.GPzRegressor`.
    n_restarts : int
        Further starts of the optimiser, from random hyperparameters.
    random_state : int, numpy.random.Generator or None
        Seed of the subset and of the restarts.

    Attributes
    ----------
    process_ : sklearn.gaussian_process.GaussianProcessRegressor
        The fitted process, for whitened inputs and the standardised target.
    scaling_ : Scaling
    n_rows_ : int
        Rows it was trained on.
    log_marginal_likelihood_ : float
        Of those rows, target standardised.

    Notes
    -----
    ``k(x, x') = h^2 exp(-1/2 |(x - x') / length|^2) + s2 [x is x']``; the model variance of a prediction is its total
    variance less the noise variance s2.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(200, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(200)
    >>> model = ExactGPRegressor().fit(X, y)
    >>> mean, std = model.predict(np.array([[0.0], [1.5]]), return_std=True)
    >>> bool(np.all(np.abs(mean - [0.0, 1.0]) < 0.1)), bool(np.all(np.abs(std - 0.1) < 0.03))
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "max_rows": [Interval(Integral, 2, None, closed="left"), None],
        "length_scale": [StrOptions({"shared", "per_feature"})],
        "whitening": [StrOptions({"pca", "scale", "none"})],
        "n_restarts": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        max_rows: int | None = 2_000,
        *,
        length_scale: LengthScale = "shared",
        whitening: WhiteningMethod = "pca",
        n_restarts: int = 0,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.max_rows = max_rows
        self.length_scale = length_scale
        self.whitening = whitening
        self.n_restarts = n_restarts
        self.random_state = random_state

    def fit(self, X: Any, y: npt.ArrayLike) -> Self:
        """Train on rows in memory.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Targets (redshifts).

        Warns
        -----
        DataWarning
            If only a subset of the rows was used.
        """
        self._validate_params()
        rng = np.random.default_rng(self.random_state)
        X, y = self._subset(*self._check_rows(X, y), rng)
        self.scaling_ = Scaling.fit(X, y, self.whitening)
        self.process_ = GaussianProcessRegressor(
            self._kernel(),
            alpha=1e-10,
            n_restarts_optimizer=self.n_restarts,
            random_state=int(rng.integers(2**31)),
        )
        self._train(*self.scaling_(X, y))
        self.n_rows_ = len(y)
        self.log_marginal_likelihood_ = float(self.process_.log_marginal_likelihood_value_)
        return self

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

    def _kernel(self) -> Any:
        d = self.n_features_in_
        length: Any = np.sqrt(d)  # the distance of a whitened row from the centre: the kernel spans the data
        if self.length_scale == "per_feature":
            length = np.full(d, length)
        signal = ConstantKernel(1.0, (1e-6, 1e6)) * RBF(length, (1e-3, 1e5))
        return signal + WhiteKernel(START_NOISE, (1e-10, 1e2))

    def _train(self, X: FloatArray, y: FloatArray) -> None:
        """Fit the process; warnings of its optimiser come out as gpzed's own."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.process_.fit(X, y)
        for entry in caught:
            category = entry.category
            if issubclass(category, SklearnConvergenceWarning):
                category = ConvergenceWarning
            warnings.warn(str(entry.message), category, stacklevel=3)

    @property
    def _noise(self) -> float:
        return float(self.process_.kernel_.k2.noise_level)

    def _predict_scaled(self, X: FloatArray) -> Sequence[FloatArray]:
        mean, std = np.empty(len(X)), np.empty(len(X))
        for start in range(0, len(X), PREDICT_ROWS):
            rows = slice(start, start + PREDICT_ROWS)
            mean[rows], std[rows] = self.process_.predict(X[rows], return_std=True)
        return mean, np.maximum(std**2 - self._noise, 0.0), np.full(len(X), self._noise)

    def _draw_scaled(self, X: FloatArray, n_samples: int, rng: np.random.Generator) -> FloatArray:
        mean, covariance = self.process_.predict(X, return_cov=True)
        covariance[np.diag_indices_from(covariance)] -= self._noise
        values: FloatArray = mean[:, None] + draw(covariance, n_samples, rng)
        return values
