"""`SPGPRegressor`: the sparse pseudo-input Gaussian process that the paper compares with (section 6.1)."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils._param_validation import Interval, StrOptions

from experiments.rivals.base import GaussianProcess, Scaling
from experiments.rivals.spgp import (
    SPGPEvaluation,
    SPGPParameters,
    SPGPState,
    evaluate,
    fit_posterior,
    predict,
    score,
    start_parameters,
)
from gpzed._types import FloatArray
from gpzed.engine.blocks import Engine
from gpzed.engine.lbfgs import Budget, OptimizeReport, Progress, minimize
from gpzed.engine.threads import Team, ThreadEngine
from gpzed.gp.initialize import MAX_ROWS, InitMethod
from gpzed.gp.posterior import Posterior

MIN_VALIDATION = 10
"""Fewer rows than this cannot choose an iterate: the marginal likelihood alone decides."""


class SPGPRegressor(GaussianProcess):
    """Sparse pseudo-input Gaussian process (SPGP, also called FITC).

    A Gaussian process with a squared-exponential kernel and constant noise, seen through m pseudo-inputs whose places
    are optimised together with the kernel; `experiments.rivals.spgp` has the mathematics.

    Parameters
    ----------
    n_basis : int
        Number m of pseudo-inputs; the number of training rows where there are fewer.
    init : {"kmeans", "data", "random"}
        Where pseudo-inputs start: cluster centres, training rows, or uniformly in the box that holds the data.
    validation_fraction : float
        Share of the training rows held out to choose the iterate; 0 for none. They still enter the final posterior of
        the weights.
    max_iter : int
        Limit on iterations of L-BFGS.
    n_threads : int or None
        Threads to use; all cores if None. Results do not depend on it.
    random_state : int, numpy.random.Generator or None
        Seed of start and split.

    Attributes
    ----------
    parameters_ : SPGPParameters
    state_ : SPGPState
    posterior_ : Posterior
        Of the weights.
    scaling_ : Scaling
    report_ : OptimizeReport
        How training went.
    log_marginal_likelihood_ : float
        Of the training rows, target standardised.
    n_basis_ : int
        Number of pseudo-inputs used.

    Notes
    -----
    ``diag(K - Q)`` is free to differ from row to row, and where the scatter of the targets does, training uses it to
    describe that scatter and lets ``s2`` shrink (on BOSS to less than a hundredth). The total variance is
    then the figure to trust; the split into model and noise variance says little.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_basis": [Interval(Integral, 1, None, closed="left")],
        "init": [StrOptions({"kmeans", "data", "random"})],
        "validation_fraction": [Interval(Real, 0.0, 0.9, closed="both")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_threads": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        n_basis: int = 100,
        *,
        init: InitMethod = "kmeans",
        validation_fraction: float = 0.2,
        max_iter: int = 500,
        n_threads: int | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.n_basis = n_basis
        self.init = init
        self.validation_fraction = validation_fraction
        self.max_iter = max_iter
        self.n_threads = n_threads
        self.random_state = random_state

    def fit(self, X: Any, y: npt.ArrayLike, *, validation_data: tuple[Any, npt.ArrayLike] | None = None) -> Self:
        """Train on rows in memory; `validation_data` choose the iterate in the place of a part of these."""
        self._validate_params()
        X, y = self._check_rows(X, y)
        rng = np.random.default_rng(self.random_state)
        n_valid = 0 if validation_data is not None else round(self.validation_fraction * len(y))
        n_valid = n_valid if n_valid >= MIN_VALIDATION else 0
        order = rng.permutation(len(y))
        train, held = order[n_valid:], order[:n_valid]
        valid = (X[held], y[held]) if validation_data is None else self._check_rows(*validation_data, is_training=False)
        self.scaling_ = Scaling.fit(X[train], y[train])
        self._train(self.scaling_(X[train], y[train]), self.scaling_(*valid), rng)
        final = np.concatenate([train, held])
        engine = self._engine(*self.scaling_(X[final], y[final]), keep_bytes=0)
        self.state_, self.posterior_, _ = fit_posterior(engine, self.parameters_)
        self.n_iter_ = len(self.report_.history)
        return self

    def _train(
        self, train: tuple[FloatArray, FloatArray], valid: tuple[FloatArray, FloatArray], rng: np.random.Generator
    ) -> None:
        """Choose the parameters by the marginal likelihood of `train` and the iterate by the score of `valid`."""
        X, _ = train
        self.n_basis_ = min(self.n_basis, len(X))
        start = start_parameters(X[rng.permutation(len(X))[:MAX_ROWS]], self.n_basis_, rng, self.init)
        objective = _Objective(self._engine(*train))
        judge = self._engine(*valid, keep_bytes=0) if len(valid[1]) else None

        def validate(theta: FloatArray) -> float:
            assert judge is not None
            total, count = judge.sum(score, *objective.posterior(theta))
            return float(total / count) - float(np.log(self.scaling_.y_scale))

        self.report_: OptimizeReport = minimize(
            objective,
            Progress(start.pack()),
            score=None if judge is None else validate,
            budget=Budget(max_iter=self.max_iter),
        )
        self.parameters_: SPGPParameters = SPGPParameters.unpack(self.report_.theta, X.shape[1])
        self.log_marginal_likelihood_ = evaluate(objective.engine, self.parameters_).likelihood.total

    def _engine(self, X: FloatArray, y: FloatArray, **options: Any) -> Engine:
        return ThreadEngine(X, y, width=self.n_basis_, n_threads=self.n_threads, **options)

    def _predict_scaled(self, X: FloatArray) -> Sequence[FloatArray]:
        return predict(X, self.state_, self.posterior_, Team(self.n_threads))[:3]


class _Objective:
    """Minus the log marginal likelihood per row; remembers its last evaluation for the validation score."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.theta: FloatArray | None = None
        self.evaluation: SPGPEvaluation | None = None

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        result = evaluate(self.engine, SPGPParameters.unpack(theta, self.engine.d))
        self.theta, self.evaluation = theta.copy(), result
        n = self.engine.n
        return -result.likelihood.total / n, -result.gradient.pack() / n

    def posterior(self, theta: FloatArray) -> tuple[SPGPState, Posterior]:
        """Return the posterior at theta, from the last evaluation where that was there."""
        if self.theta is not None and self.evaluation is not None and np.array_equal(theta, self.theta):
            return self.evaluation.state, self.evaluation.posterior
        return fit_posterior(self.engine, SPGPParameters.unpack(theta, self.engine.d))[:2]
