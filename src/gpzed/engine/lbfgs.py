"""Training: L-BFGS on the flat parameter vector, watched by a validation score.

The iterate with the best score on held-out rows is kept, whatever happens afterwards. A run can be recorded as
the list of its evaluations; SciPy's L-BFGS is deterministic, so feeding that list back brings it, without
computing anything, into exactly the state in which it was interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import scipy.optimize

from gpzed._types import FloatArray
from gpzed.engine.threads import single_threaded_blas
from gpzed.errors import NumericalError

Objective = Callable[[FloatArray], tuple[float, FloatArray]]
Score = Callable[[FloatArray], float]


@dataclass(frozen=True)
class Iteration:
    """One accepted step: what was reached, and when."""

    iteration: int
    evaluations: int
    seconds: float
    objective: float
    gradient_norm: float
    score: float


@dataclass(frozen=True)
class Budget:
    """When to stop."""

    max_iter: int = 500  # accepted steps
    max_evaluations: int | None = None  # of the objective
    max_time: float | None = None  # seconds of wall time
    patience: int = 40  # steps without a better validation score (by `min_gain`) after which to stop
    min_gain: float = 1e-4  # smallest gain in mean held-out log-likelihood that counts
    tolerance: float = 1e-9  # relative change of the objective below which it counts as converged


@dataclass
class Progress:
    """A run so far; all that is needed to resume it."""

    theta_start: FloatArray  # (p,) where the run started
    # values, gradients, norms: every evaluation, in order: value, gradient, and theta' theta to know the point by
    values: list[float] = field(default_factory=list)
    gradients: list[FloatArray] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    history: list[Iteration] = field(default_factory=list)
    best_theta: FloatArray = field(default_factory=lambda: np.empty(0))  # (p,)
    best_score: float = -np.inf
    best_iteration: int = 0
    n_rejected: int = 0  # steps at which the model broke down numerically; the line search shortened them
    seconds_before: float = 0.0  # time spent before this run began, which counts towards the limit
    record: bool = True  # whether evaluations are kept, so that the run can be continued after an interruption

    def __post_init__(self) -> None:
        if self.best_theta.size == 0:
            self.best_theta = self.theta_start


Status = Literal["converged", "line_search", "patience", "max_iter", "max_evaluations", "max_time", "stopped"]
"""Why a run ended: "line_search" if no better point was found along the last direction, "stopped" by the callback."""


@dataclass(frozen=True)
class OptimizeReport:
    """How a run went."""

    theta: FloatArray  # (p,) the best iterate by validation score (the last one where there is no score)
    status: Status
    message: str  # the same in words
    best_iteration: int  # 0 if the start was best
    best_score: float
    history: tuple[Iteration, ...]
    n_evaluations: int
    n_rejected: int


class _Stop(Exception):  # noqa: N818  not an error
    def __init__(self, status: Status) -> None:
        self.status = status


class _Recorder:
    """The objective as SciPy sees it: replays what is on record, computes and records the rest."""

    def __init__(self, objective: Objective, progress: Progress, max_evaluations: int | None) -> None:
        self.objective = objective
        self.progress = progress
        self.max_evaluations = max_evaluations
        self.n = 0
        self.gradient = np.empty(0)
        self.anchor: tuple[FloatArray, float] | None = None

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        record = self.progress
        if self.n < len(record.values):
            value, gradient = record.values[self.n], record.gradients[self.n]
            if record.norms and record.norms[self.n] != float(theta @ theta):
                raise NumericalError(
                    "a recorded run does not repeat itself: another version of SciPy, or another kind of processor, "
                    "made it. Resume where it was made, or start afresh."
                )
        else:
            if self.max_evaluations is not None and self.n >= self.max_evaluations:
                raise _Stop("max_evaluations")
            try:
                value, gradient = self.objective(theta)
            except NumericalError as error:
                if self.anchor is None:
                    error.add_note("This happened at the starting values, so training cannot begin.")
                    raise
                value, gradient = np.nan, np.empty(0)
            if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
                value, gradient = self._reject(theta)
            if record.record:
                record.values.append(value)
                record.gradients.append(gradient)
                record.norms.append(float(theta @ theta))
        self.n += 1
        self.gradient = gradient
        if self.anchor is None:
            self.anchor = (theta.copy(), value)
        return value, gradient

    def _reject(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return a parabola around the last accepted point: the line search sees a wall and shortens its step."""
        if self.anchor is None:
            raise NumericalError("the evidence is not finite at the starting values.")
        self.progress.n_rejected += 1
        origin, value = self.anchor
        step = theta - origin
        wall = 10.0 * (1.0 + abs(value))
        return value + wall, 2.0 * wall * step / float(step @ step)


def minimize(
    objective: Objective,
    progress: Progress,
    *,
    score: Score | None = None,
    budget: Budget | None = None,
    memory: int = 20,
    callback: Callable[[Progress], bool | None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> OptimizeReport:
    """Minimise an objective by L-BFGS and keep the iterate with the best validation score.

    Parameters
    ----------
    objective : callable
        ``theta -> (value, gradient)``. A step at which it raises `NumericalError` is shortened, unless it is the start.
    progress : Progress
        A new run, ``Progress(theta_start)``, or an interrupted one to resume.
    score : callable or None
        ``theta -> float``, higher is better; called once per accepted step.
    budget : Budget
    memory : int
        Pairs of vectors that L-BFGS remembers.
    callback : callable or None
        Called with the progress after every new step; returning True stops the run.
    clock : callable
        Wall time in seconds.
    """
    budget = budget or Budget()
    recorder = _Recorder(objective, progress, budget.max_evaluations)
    replayed = len(progress.history)
    started = clock() - (progress.history[-1].seconds if progress.history else progress.seconds_before)
    n_steps = 0
    if score is not None and not progress.history:
        start = score(progress.theta_start)
        progress.best_score = start if np.isfinite(start) else -np.inf

    def after_step(intermediate_result: Any) -> None:
        nonlocal n_steps
        theta, value = intermediate_result.x, float(intermediate_result.fun)
        recorder.anchor = (theta.copy(), value)
        n_steps += 1
        if n_steps > replayed:
            norm, seconds = float(np.abs(recorder.gradient).max()), clock() - started
            current = -value if score is None else score(theta)
            progress.history.append(Iteration(n_steps, recorder.n, seconds, value, norm, current))
            if current > progress.best_score:
                progress.best_score, progress.best_theta = current, theta.copy()
                progress.best_iteration = n_steps
            if callback is not None and callback(progress):
                raise _Stop("stopped")
        _check_budget(progress, n_steps, budget, score is not None)

    limits = {"maxiter": 10 * budget.max_iter + 1_000_000, "maxfun": 10**9, "maxls": 30}
    options = {"maxcor": memory, "ftol": budget.tolerance, "gtol": 1e-7, **limits}
    status: Status
    try:
        with single_threaded_blas():  # L-BFGS calls BLAS on short vectors, where threads only get in the way
            result = scipy.optimize.minimize(
                recorder, progress.theta_start, method="L-BFGS-B", jac=True, callback=after_step, options=options
            )
        status, message = "converged" if result.success else "line_search", str(result.message)
    except _Stop as stop:
        status, message = stop.status, _MESSAGES[stop.status]
    return OptimizeReport(
        progress.best_theta,
        status,
        message,
        progress.best_iteration,
        progress.best_score,
        tuple(progress.history),
        recorder.n,
        progress.n_rejected,
    )


_MESSAGES: dict[Status, str] = {
    "patience": "the validation score no longer improves",
    "max_iter": "the limit on iterations was reached",
    "max_evaluations": "the limit on evaluations was reached",
    "max_time": "the limit on time was reached",
    "stopped": "the callback asked to stop",
}


def _check_budget(progress: Progress, step: int, budget: Budget, has_score: bool) -> None:
    history = progress.history[:step]
    if step >= budget.max_iter:
        raise _Stop("max_iter")
    if budget.max_time is not None and history[-1].seconds >= budget.max_time:
        raise _Stop("max_time")
    if has_score and step > budget.patience:
        scores = [entry.score for entry in history]
        if max(scores[-budget.patience :]) < max(scores[: -budget.patience]) + budget.min_gain:
            raise _Stop("patience")
