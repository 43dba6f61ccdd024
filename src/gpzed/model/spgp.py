"""`SPGPRegressor`: the sparse pseudo-input Gaussian process that the paper compares with (section 6.1)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from gpzed._types import FloatArray
from gpzed.engine.lbfgs import Budget, OptimizeReport, Progress, minimize
from gpzed.engine.threads import Engine, Team
from gpzed.errors import ConvergenceWarning
from gpzed.gp.covariance import get_structure
from gpzed.gp.initialize import MAX_ROWS, InitMethod
from gpzed.gp.posterior import Posterior
from gpzed.gp.predictive import Predictive
from gpzed.gp.spgp import (
    SPGPEvaluation,
    SPGPLayout,
    SPGPParameters,
    SPGPState,
    evaluate,
    fit_posterior,
    predict,
    sample_functions,
    score,
    start_parameters,
)
from gpzed.incomplete.kinds import RawRows
from gpzed.model.data import ArrayData, Standardisation, TrainingData, fit_standardisation, split_rows
from gpzed.model.estimator import StepInfo
from gpzed.model.fitted import PredictsDistribution
from gpzed.model.inputs import validate_table
from gpzed.model.member import TrainingReport
from gpzed.model.options import check_options, choose_n_basis
from gpzed.model.whitening import WhiteningMethod
from gpzed.prediction import Prediction

MAX_SAMPLE_ROWS = 10_000
"""Rows that `SPGPRegressor.sample_y` draws jointly at most: their covariance then takes 0.8 GB."""
LengthScale = Literal["shared", "per_feature"]


@dataclass(frozen=True)
class SPGPModel:
    """A trained model: parameters, posterior of the weights, and the maps around them."""

    parameters: SPGPParameters
    state: SPGPState
    posterior: Posterior
    standardisation: Standardisation
    report: TrainingReport

    def predict(self, X: FloatArray, team: Team) -> Predictive:
        """Moments of the predictive distribution for raw inputs, in the units of the target."""
        map_ = self.standardisation
        mean, nu, noise, none = predict(map_.whitening(X), self.state, self.posterior, team)
        scale = map_.y_scale
        return Predictive(map_.y_mean + scale * mean, scale**2 * nu, scale**2 * noise, none)


class _Objective:
    """Minus the log marginal likelihood per row; remembers its last evaluation for the validation score."""

    def __init__(self, engine: Engine, layout: SPGPLayout) -> None:
        self.engine, self.layout = engine, layout
        self.theta: FloatArray | None = None
        self.evaluation: SPGPEvaluation | None = None

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        result = evaluate(self.engine, self.layout.unpack(theta))
        self.theta, self.evaluation = theta.copy(), result
        n = self.engine.n
        return -result.likelihood.total / n, -self.layout.pack(result.gradient) / n

    def posterior(self, theta: FloatArray) -> tuple[SPGPState, Posterior]:
        if self.theta is not None and self.evaluation is not None and np.array_equal(theta, self.theta):
            return self.evaluation.state, self.evaluation.posterior
        return fit_posterior(self.engine, self.layout.unpack(theta))[:2]


@dataclass(frozen=True)
class SPGPOptions:
    """All that decides how a model is trained; see `SPGPRegressor` for the meaning of each."""

    n_basis: int
    per_feature: bool
    whitening: WhiteningMethod
    init: InitMethod
    memory: int
    budget: Budget


def train_spgp(
    data: TrainingData,
    options: SPGPOptions,
    rng: np.random.Generator,
    *,
    n_threads: int | None = None,
    on_step: Callable[[Progress], bool | None] | None = None,
) -> SPGPModel:
    """Train one model.

    Parameters
    ----------
    data : TrainingData
    options : SPGPOptions
    rng : numpy.random.Generator
        For the start only; training itself is deterministic.
    n_threads : int or None
    on_step : callable or None
        Called after every step; returning True ends training with the best model so far.
    """
    map_ = fit_standardisation(data, options.whitening)
    layout = SPGPLayout(options.n_basis, data.d, options.per_feature)
    valid = data.validation(map_, layout.m, n_threads)
    X, *_ = map_.rows(data.sample(MAX_ROWS, rng))
    start = layout.pack(start_parameters(X, layout, rng, options.init))
    objective = _Objective(data.engine(map_, layout.m, n_threads), layout)

    def validate(theta: FloatArray) -> float:
        assert valid is not None
        total, count = valid.sum(score, *objective.posterior(theta))
        return float(total / count) - float(np.log(map_.y_scale))

    result = minimize(
        objective,
        Progress(start),
        score=None if valid is None else validate,
        budget=options.budget,
        memory=options.memory,
        callback=on_step,
    )
    parameters = layout.unpack(result.theta)
    log_likelihood = evaluate(objective.engine, parameters).likelihood.total
    state, posterior, _ = fit_posterior(data.everything(map_, layout.m, n_threads), parameters)
    return SPGPModel(parameters, state, posterior, map_, _report(result, data.n, log_likelihood))


def _report(result: OptimizeReport, n: int, log_likelihood: float) -> TrainingReport:
    history = result.history
    return TrainingReport(
        status=result.status,
        message=result.message,
        n_rows=(n,),
        history=history,
        stage=(0,) * len(history),
        best_iteration=result.best_iteration,
        best_score=history[result.best_iteration - 1].score if result.best_iteration else np.nan,
        log_evidence=log_likelihood,
        noise_correction=0.0,
        n_evaluations=result.n_evaluations,
        n_rejected=result.n_rejected,
        seconds=history[-1].seconds if history else 0.0,
    )


class SPGPRegressor(PredictsDistribution):
    """Sparse pseudo-input Gaussian process (SPGP, also called FITC).

    A Gaussian process with a squared-exponential kernel and constant noise, seen through m pseudo-inputs whose places
    are optimised together with the kernel. Here for comparison with `gpzed.GPzRegressor`, whose interface it shares;
    it takes no sample weights and cannot be saved to a model file.

    Parameters
    ----------
    n_basis : int or "auto"
        Number m of pseudo-inputs. "auto" lets it grow with the number of training rows, as in `gpzed.GPzRegressor`.
    length_scale : {"shared", "per_feature"}
        One length-scale for all (whitened) features, as in the paper, or one for each.
    whitening : {"pca", "scale", "none"}
        Principal components of the inputs scaled to unit variance, all kept (section 6.2); features scaled one by
        one; or inputs as they are.
    init : {"kmeans", "data", "random"}
        Where pseudo-inputs start: cluster centres, training rows, or uniformly in the box that holds the data.
    validation_fraction : float
        Part of the training rows held out to choose the iterate; 0 for none. Rows held out still enter the final
        posterior of the weights.
    max_iter : int
        Limit on iterations of L-BFGS.
    max_time : float or None
        Limit on wall time in seconds.
    max_evaluations : int or None
        Limit on evaluations of the marginal likelihood.
    patience : int
        Iterations without a better validation score after which training stops.
    tol : float
        Relative change of the objective at which training counts as converged.
    memory : int
        Length of the memory of L-BFGS.
    callback : callable or None
        Called with a `StepInfo` after every iteration; returning True ends training with the best model so far.
    n_threads : int or None
        Threads to use; all cores if None. Results do not depend on it.
    random_state : int, numpy.random.Generator or None
        Seed of start and split.

    Attributes
    ----------
    model_ : SPGPModel
        The trained model.
    report_ : TrainingReport
        How training went; `log_evidence` is the log marginal likelihood.
    n_iter_ : int
        Iterations of L-BFGS.
    n_basis_ : int
        Number of pseudo-inputs used.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Names of the features, if X had any.

    Notes
    -----
    With the kernel ``k(x, x') = h^2 exp(-1/2 |(x - x') / length|^2)`` and ``Q = K_nm K_mm^-1 K_mn`` the targets are
    distributed as ``y ~ N(0, Q + diag(K - Q) + s2 I)``. At a new point the mean is ``k_m' w``, the model variance
    ``k - q + k_m' S^-1 k_m`` and the noise variance ``s2``, the same everywhere; S is the posterior precision of w,
    whose prior is ``N(0, K_mm^-1)``. A jitter of 1e-6 h^2 on the diagonal of ``K_mm`` is part of the model.

    ``diag(K - Q)`` is free to differ from row to row, and where the scatter of the targets does, training uses it to
    describe that scatter and lets ``s2`` shrink (on BOSS to less than a hundredth). The total variance is
    then the figure to trust; the split into model and noise variance says little.

    References
    ----------
    Snelson & Ghahramani (2005), Advances in Neural Information Processing Systems 18, 1257.
    Almosallam, Jarvis & Roberts (2016), MNRAS 462, 726.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(500, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(500)
    >>> model = SPGPRegressor(n_basis=10, random_state=0).fit(X, y)
    >>> mean, std = model.predict(np.array([[0.0], [1.5]]), return_std=True)
    >>> bool(np.all(np.abs(mean - [0.0, 1.0]) < 0.1)), bool(np.all(np.abs(std - 0.1) < 0.03))
    (True, True)
    """

    def __init__(
        self,
        n_basis: int | Literal["auto"] = "auto",
        *,
        length_scale: LengthScale = "shared",
        whitening: WhiteningMethod = "pca",
        init: InitMethod = "kmeans",
        validation_fraction: float = 0.2,
        max_iter: int = 500,
        max_time: float | None = None,
        max_evaluations: int | None = None,
        patience: int = 40,
        tol: float = 1e-9,
        memory: int = 20,
        callback: Callable[[StepInfo], bool | None] | None = None,
        n_threads: int | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.n_basis = n_basis
        self.length_scale = length_scale
        self.whitening = whitening
        self.init = init
        self.validation_fraction = validation_fraction
        self.max_iter = max_iter
        self.max_time = max_time
        self.max_evaluations = max_evaluations
        self.patience = patience
        self.tol = tol
        self.memory = memory
        self.callback = callback
        self.n_threads = n_threads
        self.random_state = random_state

    def fit(self, X: Any, y: npt.ArrayLike, *, validation_data: tuple[Any, npt.ArrayLike] | None = None) -> Self:
        """Train on rows in memory.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            NumPy array, pandas or polars data frame, or astropy table.
        y : array-like of shape (n_samples,)
            Targets (redshifts).
        validation_data : (X, y) or None
            Rows to choose the iterate by, instead of a part of the training rows.

        Returns
        -------
        SPGPRegressor
            Itself.
        """
        check_options(self)
        rows = self._check_rows(X, y, is_training=True)
        rng = np.random.default_rng(self.random_state)
        if validation_data is None:
            data = ArrayData(*split_rows(rows, self.validation_fraction, rng))
        elif len(validation_data) != 2:
            raise ValueError(f"`validation_data` has {len(validation_data)} parts; expected (X, y).")
        else:
            valid = self._check_rows(*validation_data, is_training=False)
            data = ArrayData(split_rows(rows, 0.0, rng)[0], valid, valid_is_part=False)
        options = self._training_options(len(rows[1]), data.n)
        self.model_ = train_spgp(data, options, rng, n_threads=self.n_threads, on_step=self._on_step)
        self.n_basis_ = options.n_basis
        self.n_iter_ = len(self.report_.history)
        self._warn_if_unfinished()
        return self

    def _check_rows(self, X: Any, y: npt.ArrayLike, *, is_training: bool) -> RawRows:
        X, y = validate_table(
            self,
            X,
            y,
            y_numeric=True,
            reset=is_training,
            ensure_min_samples=2 if is_training else 1,
        )
        return RawRows(X, np.asarray(y, dtype=np.float64), np.ones(len(X)))

    def _training_options(self, n: int, n_train: int) -> SPGPOptions:
        n_basis = self.n_basis
        if n_basis == "auto":
            n_basis = choose_n_basis(n, self.n_features_in_, get_structure("GL"))
        return SPGPOptions(
            n_basis=int(min(n_basis, n_train)),
            per_feature=self.length_scale == "per_feature",
            whitening=self.whitening,
            init=self.init,
            memory=self.memory,
            budget=Budget(
                max_iter=self.max_iter,
                max_evaluations=self.max_evaluations,
                max_time=self.max_time,
                patience=self.patience,
                tolerance=self.tol,
            ),
        )

    def _on_step(self, progress: Progress) -> bool | None:
        if self.callback is None:
            return None
        step = progress.history[-1]
        info = StepInfo(0, 0, step.iteration, step.seconds, step.objective, step.score, progress.best_score)
        return self.callback(info)

    def _warn_if_unfinished(self) -> None:
        if self.report_.status != "max_iter":
            return
        last = self.report_.history[-1]
        warnings.warn(
            f"training stopped at `max_iter`={self.max_iter} with a largest gradient of {last.gradient_norm:.1e} "
            "before it converged; the best iterate was kept. Raise `max_iter` for a better fit.",
            ConvergenceWarning,
            stacklevel=3,
        )

    @property
    def report_(self) -> TrainingReport:
        """How training went."""
        return self.model_.report

    def _check_inputs(self, X: Any) -> FloatArray:
        check_is_fitted(self, "model_")
        return np.asarray(validate_table(self, X, reset=False, ensure_min_samples=0))

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
        return Prediction.gaussian(*self.model_.predict(X, Team(self.n_threads)))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: int | np.random.Generator | None = 0) -> FloatArray:
        """Draw functions from the posterior (without observation noise) and give their values at X.

        Parameters
        ----------
        X : array-like or table of shape (n_samples_X, n_features)
            10,000 rows at most: values are correlated, and the draw needs the covariance of all rows.
        n_samples : int
            Number of functions.
        random_state : int, numpy.random.Generator or None

        Returns
        -------
        ndarray of shape (n_samples_X, n_samples)
        """
        X = self._check_inputs(X)
        check_sample_rows(len(X))
        model, map_ = self.model_, self.model_.standardisation
        rng = np.random.default_rng(random_state)
        values = sample_functions(map_.whitening(X), model.parameters, model.state, model.posterior, n_samples, rng)
        return map_.y_mean + map_.y_scale * values


def check_sample_rows(n: int) -> None:
    """Refuse more rows than can be drawn jointly."""
    if n > MAX_SAMPLE_ROWS:
        raise ValueError(
            f"`X` has {n} rows; expected at most {MAX_SAMPLE_ROWS}, since a joint draw needs their covariance matrix. "
            "Draw at fewer points, or use `predict_distribution` for the distribution at each."
        )
