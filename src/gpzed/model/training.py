"""Training of one model: start, stages, validation, final posterior; algebra is in `gpzed.gp`."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import numpy as np

from gpzed._types import FloatArray
from gpzed.engine.blocks import Engine
from gpzed.engine.lbfgs import Iteration, OptimizeReport, Progress, minimize
from gpzed.errors import NumericalError
from gpzed.gp.evidence import Evaluation, evaluate, fit_posterior
from gpzed.gp.initialize import MAX_ROWS, initialize
from gpzed.gp.parameters import Layout, MeanFunction
from gpzed.gp.posterior import Posterior
from gpzed.gp.predictive import score
from gpzed.gp.prior import log_prior
from gpzed.gp.state import State
from gpzed.gp.whitening import WhiteningMethod
from gpzed.incomplete.blur import Kind
from gpzed.incomplete.refresh import refresh
from gpzed.mixture.training import MAX_ROWS as HEADS_ROWS
from gpzed.mixture.training import RIDGE as HEADS_RIDGE
from gpzed.mixture.training import SHAPE_PRIOR as HEADS_SHAPE_PRIOR
from gpzed.mixture.training import TOLERANCE as HEADS_TOLERANCE
from gpzed.mixture.training import StochasticOptions, fit_heads
from gpzed.model.data import Standardisation, TrainingData, fit_standardisation
from gpzed.model.member import Member, TrainingReport
from gpzed.model.options import Training

NOISE_SHIFTS = np.linspace(-3.0, 0.0, 13)
"""Corrections to ``ln beta`` among which the rows held out choose; the best is refined by a parabola. Only towards
more noise: the rows held out chose the iterate, too, and would ask for too little of it."""
FIRST_STAGE_ROWS = 12_000
STAGE_FACTOR = 4
UNCERTAIN_STAGES = 3
"""Stages over all rows where inputs are missing or noisy: between them the variance that these add is set anew."""


@dataclass(frozen=True)
class Recipe:
    """All that decides how one member is trained; see `gpzed.GPzRegressor` for the meaning of each."""

    n_basis: int
    covariance: str
    heteroscedastic: bool
    relevance: bool
    mean_function: MeanFunction
    whitening: WhiteningMethod
    weighted_precision: bool
    shape_prior: float
    calibrate_noise: bool
    n_heads: int
    is_alone: bool  # a mixture of several members is wider than each: none needs more noise
    training: Training


class _Objective:
    """Minus the log evidence and log prior per row; remembers its last evaluation for the validation score."""

    def __init__(self, engine: Engine, layout: Layout, recipe: Recipe, kinds: tuple[Kind, ...] = ()) -> None:
        self.engine, self.layout, self.recipe, self.kinds = engine, layout, recipe, kinds
        self.theta: FloatArray | None = None
        self.evaluation: Evaluation | None = None

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        layout, n = self.layout, self.engine.n
        parameters = layout.unpack(theta)
        result = evaluate(self.engine, parameters, layout, self.recipe.weighted_precision, self.kinds)
        prior, grad_prior = log_prior(parameters, layout, self.recipe.shape_prior)
        self.theta, self.evaluation = theta.copy(), result
        gradient = layout.pack(result.gradient) + layout.pack(grad_prior)
        return -(result.evidence.total + prior) / n, -gradient / n

    def posterior(self, theta: FloatArray) -> tuple[State, Posterior]:
        if self.theta is not None and self.evaluation is not None and np.array_equal(theta, self.theta):
            return self.evaluation.state, self.evaluation.posterior
        parameters = self.layout.unpack(theta)
        return fit_posterior(self.engine, parameters, self.layout, self.recipe.weighted_precision, self.kinds)[:2]

    def refresh(self, theta: FloatArray, *others: Engine | None) -> None:
        """Set the variance that uncertain inputs add, of these rows and others."""
        engines = [self.engine, *(engine for engine in others if engine is not None)]
        refresh(engines, self.layout.unpack(theta), self.layout, self.recipe.weighted_precision, self.kinds)
        self.theta = self.evaluation = None


def stage_sizes(n: int, coarse_to_fine: bool) -> tuple[int, ...]:
    """Rows of each stage of training: growing by `STAGE_FACTOR` up to all n."""
    sizes = [n]
    while coarse_to_fine and sizes[0] > STAGE_FACTOR * FIRST_STAGE_ROWS:
        sizes.insert(0, sizes[0] // STAGE_FACTOR)
    return tuple(sizes)


@dataclass
class Session:
    """State of a training run between steps: what a checkpoint holds."""

    stage: int
    progress: Progress
    finished: list[OptimizeReport] = field(default_factory=list)


class Watch:
    """Follows the training of a member; this one lets it run.

    Attributes
    ----------
    session : Session or None
        An interrupted run to be resumed.
    records : bool
        Whether every evaluation is kept, as checkpoints need.
    """

    session: Session | None = None
    records: bool = False

    def on_step(self, session: Session) -> bool | None:
        """Be told of an iteration; returning True ends training with the best model so far."""

    def on_epoch(self, step: Iteration) -> bool | None:
        """Be told of a pass over the rows in which heads are trained; True ends these passes."""


def train_member(
    data: TrainingData,
    recipe: Recipe,
    rng: np.random.Generator,
    n_threads: int | None = None,
    watch: Watch | None = None,
) -> Member:
    """Train one model.

    Parameters
    ----------
    data : TrainingData
    recipe : Recipe
    rng : numpy.random.Generator
        For the start only; training itself is deterministic.
    n_threads : int or None
    watch : Watch or None
        Follows training, and may end it.
    """
    watch, training = watch or Watch(), recipe.training
    started = time.perf_counter()
    heads_rng = np.random.default_rng(int(rng.integers(2**63))) if recipe.n_heads > 1 else rng
    n_components = None if training.density_components == "auto" else training.density_components
    map_ = fit_standardisation(data, recipe.whitening, n_components, training.noise_classes)
    layout = Layout.of(
        recipe.n_basis,
        data.d,
        recipe.covariance,
        heteroscedastic=recipe.heteroscedastic,
        relevance=recipe.relevance,
        mean_function=recipe.mean_function,
    )
    width = layout.n_weights
    valid = data.validation(map_, width, n_threads)
    session = watch.session
    if session is None:
        X, y, *_ = map_.rows(data.sample(MAX_ROWS, rng))
        start = initialize(X, y, layout, rng, method=training.init, n_threads=n_threads)
        session = Session(0, Progress(layout.pack(start)))
    sizes = data.stages(stage_sizes(data.n, training.coarse_to_fine and valid is not None))
    assert map_.table is not None
    kinds = map_.table.kinds
    sizes += sizes[-1:] * (UNCERTAIN_STAGES - 1 if kinds else 0)
    objective: _Objective | None = None
    while True:
        is_last, size = session.stage == len(sizes) - 1, sizes[session.stage]
        if objective is None or size != sizes[session.stage - 1]:
            engine = data.engine(map_, width, n_threads, None if size == sizes[-1] else size)
            objective = _Objective(engine, layout, recipe, kinds)
        objective.refresh(session.progress.theta_start, valid)
        session.progress.seconds_before = max(session.progress.seconds_before, time.perf_counter() - started)
        session.progress.record = watch.records
        result = _run_stage(objective, valid, session, np.log(map_.y_scale), watch, is_last)
        done = sum(len(report.history) for report in session.finished) + len(result.history)
        if is_last or result.status in ("stopped", "max_time", "max_evaluations") or done >= training.max_iter:
            break
        session.finished.append(result)
        session.stage, session.progress = session.stage + 1, Progress(result.theta)
    member, everything = _finish(data, map_, objective, valid, result, session, sizes, n_threads)
    if recipe.n_heads > 1 and result.status not in ("stopped", "max_time"):
        member = _add_heads(member, data, map_, objective, valid, everything, heads_rng, n_threads, started, watch)
    return member


def _run_stage(
    objective: _Objective,
    valid: Engine | None,
    session: Session,
    log_scale: float,
    watch: Watch,
    is_last: bool,
) -> OptimizeReport:
    def validate(theta: FloatArray) -> float:
        assert valid is not None
        return validate_posterior(valid, objective, theta)[0] - log_scale

    budget = objective.recipe.training.budget
    evaluations = sum(report.n_evaluations for report in session.finished)
    remaining = budget.max_iter - sum(len(report.history) for report in session.finished)
    budget = replace(
        budget,
        max_iter=remaining if is_last else max(1, remaining // 2),
        max_evaluations=None if budget.max_evaluations is None else max(budget.max_evaluations - evaluations, 1),
        patience=budget.patience if is_last else max(5, budget.patience // 4),
        min_gain=budget.min_gain if is_last else 10 * budget.min_gain,
    )
    return minimize(
        objective,
        session.progress,
        score=None if valid is None else validate,
        budget=budget,
        memory=objective.recipe.training.memory,
        callback=lambda _: watch.on_step(session),
    )


def _finish(
    data: TrainingData,
    map_: Standardisation,
    objective: _Objective,
    valid: Engine | None,
    result: OptimizeReport,
    session: Session,
    sizes: tuple[int, ...],
    n_threads: int | None,
) -> tuple[Member, Engine]:
    """Correct the noise by the rows held out, take the posterior from all rows, and write the report."""
    layout, recipe = objective.layout, objective.recipe
    parameters, kinds = layout.unpack(result.theta), objective.kinds
    everything = data.everything(map_, layout.n_weights, n_threads)
    objective.refresh(result.theta, valid, everything)
    evidence = evaluate(objective.engine, parameters, layout, recipe.weighted_precision, kinds).evidence.total
    correction = 0.0
    if valid is not None:
        _, correction = validate_posterior(valid, objective, result.theta)
    try:
        _, posterior, _ = fit_posterior(everything, parameters, layout, recipe.weighted_precision, kinds)
    except NumericalError:  # noise-free targets: a row held out may exceed the bound on the noise precision
        _, posterior = objective.posterior(result.theta)
    reports = [*session.finished, result]
    history: list[Iteration] = []
    stage: list[int] = []
    for index, part in enumerate(reports):
        history += part.history
        stage += [index] * len(part.history)
    best = 0
    for index, part in enumerate(reports):
        if part.best_iteration:  # else the start of that stage, which an earlier one had found, stayed best
            best = sum(len(earlier.history) for earlier in reports[:index]) + part.best_iteration
    report = TrainingReport(
        status=result.status,
        message=result.message,
        n_rows=sizes[: len(reports)],
        history=tuple(history),
        stage=tuple(stage),
        best_iteration=best,
        best_score=result.best_score,
        log_evidence=evidence,
        noise_correction=correction,
        n_evaluations=sum(part.n_evaluations for part in reports),
        n_rejected=sum(part.n_rejected for part in reports),
        seconds=history[-1].seconds if history else 0.0,
    )
    return Member(layout, parameters, posterior, replace(map_, table=None), correction, report), everything


def _add_heads(
    member: Member,
    data: TrainingData,
    map_: Standardisation,
    objective: _Objective,
    valid: Engine | None,
    everything: Engine,
    rng: np.random.Generator,
    n_threads: int | None,
    started: float,
    watch: Watch,
) -> Member:
    """Train heads on the basis functions of a member; it keeps them if rows held out are more likely with them."""
    recipe, layout, kinds = objective.recipe, objective.layout, objective.kinds
    alone = -np.inf if valid is None else validate_posterior(valid, objective, layout.pack(member.parameters))[0]
    rows = map_.rows(data.sample(HEADS_ROWS, rng))
    left = recipe.training.max_time
    schedule = StochasticOptions(
        recipe.training.n_epochs,
        kappa=HEADS_SHAPE_PRIOR * recipe.shape_prior,
        ridge=HEADS_RIDGE,
        tolerance=0.0 if recipe.is_alone else HEADS_TOLERANCE,
        max_time=None if left is None else max(left - (time.perf_counter() - started), 0.0),
    )
    mixture = fit_heads(
        rows,
        member.parameters,
        layout,
        recipe.n_heads,
        valid,
        everything,
        kinds,
        schedule,
        rng,
        calibrate_noise=recipe.calibrate_noise and recipe.is_alone,
        scatter=not recipe.is_alone,
        on_epoch=watch.on_epoch,
    )
    assert member.report is not None
    if valid is not None and mixture.best_score <= alone:
        return member
    best_score = mixture.best_score - float(np.log(map_.y_scale))
    report = replace(member.report, best_score=best_score, seconds=time.perf_counter() - started)
    return replace(member, mixture=mixture, report=report)


def validate_posterior(valid: Engine, objective: _Objective, theta: FloatArray) -> tuple[float, float]:
    """Mean log-likelihood of the rows held out, and the constant added to ``ln beta`` at which it is reached.

    Optimised shapes fit the training rows too closely, so that noise comes out too small on others. With
    `calibrate_noise` a model is judged, and used, with the constant that the rows held out prefer.
    """
    shifts = NOISE_SHIFTS if objective.recipe.calibrate_noise else np.zeros(1)
    (totals,) = valid.sum(score, *objective.posterior(theta), shifts)
    scores = totals / valid.sum_omega
    best = int(np.argmax(scores))
    if not 0 < best < len(scores) - 1:
        return float(scores[best]), float(shifts[best])
    left, centre, right = scores[best - 1 : best + 2]
    curvature = left - 2.0 * centre + right
    offset = 0.5 * (left - right) / curvature if curvature < 0.0 else 0.0
    peak = centre - 0.25 * (left - right) * offset
    return float(peak), float(shifts[best] + offset * (shifts[1] - shifts[0]))
