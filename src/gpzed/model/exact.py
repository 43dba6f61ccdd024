"""`ExactGPRegressor`: scikit-learn's exact Gaussian process behind the interface of the other estimators."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning as SklearnConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.utils.validation import check_is_fitted

from gpzed._types import FloatArray
from gpzed.errors import ConvergenceWarning, DataWarning
from gpzed.gp.spgp import START_NOISE, draw
from gpzed.incomplete.kinds import RawRows
from gpzed.model.data import ArrayData, fit_standardisation
from gpzed.model.fitted import PredictsDistribution
from gpzed.model.inputs import validate_table
from gpzed.model.options import check_options
from gpzed.model.spgp import LengthScale, check_sample_rows
from gpzed.model.whitening import WhiteningMethod
from gpzed.prediction import Prediction

PREDICT_ROWS = 2_000
"""Rows predicted at once, so that memory grows with the training set alone."""


class ExactGPRegressor(PredictsDistribution):
    """Exact Gaussian process with a squared-exponential kernel and constant noise (appendix A of the paper).

    Computed by `sklearn.gaussian_process.GaussianProcessRegressor`. Time grows with the cube of the number of rows and
    memory with its square, so that a random subset of `max_rows` is used where there are more. For comparison with
    `gpzed.GPzRegressor`; it takes no sample weights and cannot be saved to a model file.

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
    n_rows_ : int
        Rows it was trained on.
    log_marginal_likelihood_ : float
        Of those rows, target standardised.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Names of the features, if X had any.

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
        X : array-like or table of shape (n_samples, n_features)
            NumPy array, pandas or polars data frame, or astropy table.
        y : array-like of shape (n_samples,)
            Targets (redshifts).

        Returns
        -------
        ExactGPRegressor
            Itself.

        Warns
        -----
        DataWarning
            If only a subset of the rows was used.
        """
        self._check_options()
        X, y = validate_table(self, X, y, y_numeric=True, ensure_min_samples=2)
        rng = np.random.default_rng(self.random_state)
        X, y = self._subset(X, np.asarray(y, dtype=np.float64), rng)
        rows = RawRows(X, y, np.ones(len(y)))
        self.standardisation_ = fit_standardisation(ArrayData(rows, None), self.whitening)
        self.process_ = GaussianProcessRegressor(
            self._kernel(),
            alpha=1e-10,
            n_restarts_optimizer=self.n_restarts,
            random_state=int(rng.integers(2**31)),
        )
        self._train(*self.standardisation_.rows(rows)[:2])
        self.n_rows_ = len(y)
        self.log_marginal_likelihood_ = float(self.process_.log_marginal_likelihood_value_)
        return self

    def _check_options(self) -> None:
        check_options(self)
        for name, least in (("max_rows", 2), ("n_restarts", 0)):
            value = getattr(self, name)
            if value is None and name == "max_rows":
                continue
            if isinstance(value, bool) or not isinstance(value, Integral):
                raise TypeError(f"`{name}` is {value!r}; expected a whole number >= {least}.")
            if int(value) < least:
                raise ValueError(f"`{name}` is {value}; expected a whole number >= {least}.")

    def _subset(self, X: FloatArray, y: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        n = len(y)
        if self.max_rows is None or n <= self.max_rows:
            return X, y
        warnings.warn(
            f"trained on a random {self.max_rows} of {n} rows, the limit `max_rows`; an exact Gaussian process takes "
            "time with the cube of their number. Raise `max_rows`, or use SPGPRegressor or GPzRegressor for all rows.",
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

    def _check_inputs(self, X: Any) -> FloatArray:
        check_is_fitted(self, "process_")
        return np.asarray(validate_table(self, X, reset=False, ensure_min_samples=0))

    @property
    def _noise(self) -> float:
        return float(self.process_.kernel_.k2.noise_level)

    def predict_distribution(self, X: Any) -> Prediction:
        """Predict the full distribution.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)

        Returns
        -------
        Prediction
            A Gaussian per object, its variance split into model and noise.
        """
        X = self._check_inputs(X)
        map_, noise = self.standardisation_, self._noise
        mean, nu = np.empty(len(X)), np.empty(len(X))
        for start in range(0, len(X), PREDICT_ROWS):
            rows = slice(start, start + PREDICT_ROWS)
            mean[rows], std = self.process_.predict(map_.whitening(X[rows]), return_std=True)
            nu[rows] = np.maximum(std**2 - noise, 0.0)
        scale = map_.y_scale
        return Prediction.gaussian(map_.y_mean + scale * mean, scale**2 * nu, np.full(len(X), scale**2 * noise))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: int | np.random.Generator | None = 0) -> FloatArray:
        """Draw functions from the posterior (without observation noise) and give their values at X.

        Parameters
        ----------
        X : array-like or table of shape (n_samples_X, n_features)
            10,000 rows at most.
        n_samples : int
            Number of functions.
        random_state : int, numpy.random.Generator or None

        Returns
        -------
        ndarray of shape (n_samples_X, n_samples)
        """
        X = self._check_inputs(X)
        check_sample_rows(len(X))
        map_ = self.standardisation_
        if len(X) == 0:
            return np.empty((0, n_samples))
        mean, covariance = self.process_.predict(map_.whitening(X), return_cov=True)
        covariance[np.diag_indices_from(covariance)] -= self._noise
        values: FloatArray = mean[:, None] + draw(covariance, n_samples, np.random.default_rng(random_state))
        return map_.y_mean + map_.y_scale * values
