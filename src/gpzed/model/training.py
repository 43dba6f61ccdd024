"""Training of one model: start, stages, validation, final posterior; algebra is in `gpzed.gp`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np

from gpzed._types import FloatArray
from gpzed.engine.blocks import Engine
from gpzed.engine.lbfgs import Budget, Iteration, OptimizeReport, Progress, minimize
from gpzed.errors import CheckpointError, NumericalError
from gpzed.gp.initialize import MAX_ROWS, initialize
from gpzed.mixture.training import MAX_ROWS as HEADS_ROWS
from gpzed.mixture.training import RIDGE as HEADS_RIDGE
from gpzed.mixture.training import SHAPE_PRIOR as HEADS_SHAPE_PRIOR
from gpzed.mixture.training import TOLERANCE as HEADS_TOLERANCE
from gpzed.mixture.training import StochasticOptions, fit_heads
from gpzed.model.data import TrainingData, fit_standardisation
from gpzed.model.member import Member, TrainingReport
from gpzed.model.objective import Objective
from gpzed.model.options import Recipe
from gpzed.model.run import HEADS_STAGE

FIRST_STAGE_ROWS = 12_000
STAGE_FACTOR = 4
UNCERTAIN_STAGES = 3
"""Stages over all rows where inputs are missing or noisy: between them the variance that these add is updated."""
MIN_UNCERTAIN = 0.01
"""Part of the rows with such inputs from which on there are these stages."""
HEADS_PATIENCE = 15
"""Steps without a better score, at most, where heads follow: these train all parameters anew."""
DOUBTFUL_STAGES = 5
"""The same where targets may be wrong: each stage finds less noise, and so more of these."""


@dataclass
class Session:
    """State of a training run between steps: what a checkpoint holds."""

    stage: int
    progress: Progress
    finished: list[OptimizeReport] = field(default_factory=list)

    def verify(self, n_parameters: int, n_stages: int) -> None:
        """Raise CheckpointError unless this fits a run with so many parameters and stages."""
        progress, shape = self.progress, (n_parameters,)
        points = [progress.theta_start, progress.best_theta, *progress.gradients, *(r.theta for r in self.finished)]
        fits = (
            0 <= self.stage == len(self.finished) < n_stages
            and all(point.shape == shape for point in points)
            and len(progress.values) == len(progress.gradients) == len(progress.norms)
            and 0 <= progress.best_iteration <= len(progress.history) <= len(progress.values)
        )
        if not fits:
            raise CheckpointError(
                f"the checkpoint is at stage {self.stage} of a run with other parameters or stages than this one "
                f"({n_parameters} and {n_stages}), or its parts do not belong together; delete it to start afresh."
            )


class Watch:
    """Follows the training of a member as a context manager; this one lets it run.

    `session` is an interrupted run to be resumed; `records` says whether every evaluation is kept, as checkpoints need.
    """

    session: Session | None = None
    records: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        pass

    def on_step(self, session: Session) -> bool | None:
        """Be told of an iteration; returning True ends training with the best model so far."""

    def on_epoch(self, step: Iteration, stage: int = HEADS_STAGE) -> bool | None:
        """Be told of a pass over the rows in which heads or a network are trained; True ends these passes."""


class Trained(NamedTuple):
    """A trained member, and the same with a posterior that the held-out rows did not enter, to predict these."""

    member: Member
    blind: Member


def train_member(
    data: TrainingData,
    recipe: Recipe,
    rng: np.random.Generator,
    n_threads: int | None = None,
    watch: Watch | None = None,
) -> Trained:
    """Train one model; `rng` is for the start only, and `watch` follows training and may end it."""
    with watch or Watch() as watch:
        work = _Work(data, recipe, rng, n_threads, watch)
        session = work.session
        while True:
            objective = work.begin_stage(watch.records)
            result = minimize(
                objective,
                session.progress,
                score=None if work.valid is None else work.score,
                budget=work.budget(),
                memory=recipe.training.memory,
                callback=lambda _: watch.on_step(session),
            )
            if work.is_over(result):
                break
            session.finished.append(result)
            session.stage, session.progress = session.stage + 1, Progress(result.theta)
        trained = work.finish(result)
        if recipe.n_heads > 1 and result.status not in ("stopped", "max_time"):
            trained = work.add_heads(trained, watch)
        return trained


def stage_sizes(n: int, coarse_to_fine: bool) -> tuple[int, ...]:
    """Return the rows of each stage of training: growing by `STAGE_FACTOR` up to all n."""
    sizes = [n]
    while coarse_to_fine and sizes[0] > STAGE_FACTOR * FIRST_STAGE_ROWS:
        sizes.insert(0, sizes[0] // STAGE_FACTOR)
    return tuple(sizes)


class _Work:
    """The training of one member under way: its data, their maps, where it stands."""

    objective: Objective

    def __init__(
        self, data: TrainingData, recipe: Recipe, rng: np.random.Generator, n_threads: int | None, watch: Watch
    ) -> None:
        self.started = time.perf_counter()
        self.data, self.recipe, self.n_threads = data, recipe, n_threads
        training = recipe.training
        self.heads_rng = np.random.default_rng(int(rng.integers(2**63))) if recipe.n_heads > 1 else rng
        n_components = None if training.density_components == "auto" else training.density_components
        self.map = fit_standardisation(data, recipe.whitening, n_components, training.noise_classes)
        self.layout = recipe.layout(data.d)
        self.valid = data.validation(self.map, self.layout.n_weights, n_threads)
        self.session = watch.session or self._start(rng)
        assert self.map.table is not None
        self.blurs = self.map.table.blurs
        sizes = data.stages(stage_sizes(data.n, training.coarse_to_fine and self.valid is not None))
        self.doubtful = data.has_doubts
        uncertain = UNCERTAIN_STAGES if self.blurs and self.map.table.share > MIN_UNCERTAIN else 1
        repeats = DOUBTFUL_STAGES if self.doubtful else uncertain
        self.sizes = sizes + sizes[-1:] * (repeats - 1)
        self.session.verify(self.layout.size, len(self.sizes))

    def _start(self, rng: np.random.Generator) -> Session:
        X, y, *_ = self.map.rows(self.data.sample(MAX_ROWS, rng))
        method = self.recipe.training.init
        start = initialize(X, y, self.layout, rng, method=method, n_threads=self.n_threads)
        return Session(0, Progress(self.layout.pack(start)))

    @property
    def is_last_stage(self) -> bool:
        return self.session.stage == len(self.sizes) - 1

    def begin_stage(self, records: bool) -> Objective:
        """Return the objective over the rows of the stage, with what it takes as given updated."""
        stage, progress = self.session.stage, self.session.progress
        size = self.sizes[stage]
        if not hasattr(self, "objective") or size != self.sizes[stage - 1]:
            n_rows = None if size == self.sizes[-1] else size
            engine = self.data.engine(self.map, self.layout.n_weights, self.n_threads, n_rows)
            self.objective = Objective(
                engine, self.layout, self.blurs, self.recipe.shape_prior, self.recipe.weighted_precision, self.doubtful
            )
        self.objective.refresh(progress.theta_start, self.valid, trusting=stage == 0)
        progress.seconds_before = max(progress.seconds_before, time.perf_counter() - self.started)
        progress.record = records
        return self.objective

    def score(self, theta: FloatArray) -> float:
        """Return the mean log-likelihood of the held-out rows, target in its own units."""
        return self._validate(theta)[0] - float(np.log(self.map.y_scale))

    def _validate(self, theta: FloatArray) -> tuple[float, float]:
        assert self.valid is not None
        return self.objective.validate(self.valid, theta, self.recipe.calibrate_noise)

    def budget(self) -> Budget:
        """Return the limits of the stage: what earlier ones left, and less patience before the last."""
        budget, finished, is_last = self.recipe.training.budget, self.session.finished, self.is_last_stage
        remaining = budget.max_iter - _n_steps(finished)
        evaluations = sum(report.n_evaluations for report in finished)
        patience = min(budget.patience, HEADS_PATIENCE) if self.recipe.n_heads > 1 else budget.patience
        return replace(
            budget,
            max_iter=remaining if is_last else max(1, remaining // 2),
            max_evaluations=None if budget.max_evaluations is None else max(budget.max_evaluations - evaluations, 1),
            patience=patience if is_last else max(5, budget.patience // 4),
            min_gain=budget.min_gain if is_last else 10 * budget.min_gain,
        )

    def is_over(self, result: OptimizeReport) -> bool:
        """Say whether a stage was the last: of all, or because time or iterations are spent."""
        is_spent = _n_steps([*self.session.finished, result]) >= self.recipe.training.max_iter
        return self.is_last_stage or is_spent or result.status in ("stopped", "max_time", "max_evaluations")

    def finish(self, result: OptimizeReport) -> Trained:
        """Correct the noise by the held-out rows, take the posterior from all rows, and write the report."""
        layout, objective = self.layout, self.objective
        self.everything: Engine = self.data.everything(self.map, layout.n_weights, self.n_threads)
        objective.refresh(result.theta, self.valid, self.everything)
        evidence = objective.log_evidence(result.theta)
        correction = 0.0 if self.valid is None else self._validate(result.theta)[1]
        _, blind = objective.posterior(result.theta)
        try:
            _, posterior = objective.posterior(result.theta, self.everything)
        except NumericalError:  # noise-free targets: a held-out row may exceed the bound on the noise precision
            posterior = blind
        report = _report([*self.session.finished, result], self.sizes, evidence, correction)
        parameters = layout.unpack(result.theta)
        member = Member(layout, parameters, posterior, replace(self.map, table=None), correction, report)
        return Trained(member, replace(member, posterior=blind))

    def add_heads(self, trained: Trained, watch: Watch) -> Trained:
        """Train heads on the basis functions of a member; it keeps them if held-out rows are more likely with them.

        Both are judged with posteriors that held-out rows did not enter.
        """
        member = trained.member
        recipe, layout = self.recipe, self.layout
        alone = -np.inf if self.valid is None else self._validate(layout.pack(member.parameters))[0]
        rows = self.map.rows(self.data.sample(HEADS_ROWS, self.heads_rng))
        left = recipe.training.max_time
        schedule = StochasticOptions(
            recipe.training.n_epochs,
            kappa=HEADS_SHAPE_PRIOR * recipe.shape_prior,
            ridge=HEADS_RIDGE,
            tolerance=0.0 if recipe.is_alone else HEADS_TOLERANCE,
            max_time=None if left is None else max(left - (time.perf_counter() - self.started), 0.0),
        )
        mixture, blind = fit_heads(
            rows,
            member.parameters,
            layout,
            recipe.n_heads,
            self.valid,
            self.objective.engine,
            self.everything,
            self.blurs,
            schedule,
            self.heads_rng,
            trust=self.objective.trust(layout.pack(member.parameters), rows),
            calibrate_noise=recipe.calibrate_noise and recipe.is_alone,
            scatter=not recipe.is_alone,
            on_epoch=watch.on_epoch,
        )
        assert member.report is not None
        if self.valid is not None and mixture.best_score <= alone:
            return trained
        best_score = mixture.best_score - float(np.log(self.map.y_scale))
        report = replace(member.report, best_score=best_score, seconds=time.perf_counter() - self.started)
        member = replace(member, posterior=None, mixture=mixture, report=report)
        return Trained(member, replace(member, mixture=blind))


def _n_steps(reports: Sequence[OptimizeReport]) -> int:
    return sum(len(report.history) for report in reports)


def _report(
    stages: list[OptimizeReport], sizes: tuple[int, ...], log_evidence: float, correction: float
) -> TrainingReport:
    """Put the reports of all stages together."""
    last = stages[-1]
    history = tuple(step for part in stages for step in part.history)
    best = 0
    for index, part in enumerate(stages):
        if part.best_iteration:  # else the start of that stage, which an earlier one had found, stayed best
            best = _n_steps(stages[:index]) + part.best_iteration
    return TrainingReport(
        status=last.status,
        message=last.message,
        n_rows=sizes[: len(stages)],
        history=history,
        stage=tuple(index for index, part in enumerate(stages) for _ in part.history),
        best_iteration=best,
        best_score=last.best_score,
        log_evidence=log_evidence,
        noise_correction=correction,
        n_evaluations=sum(part.n_evaluations for part in stages),
        n_rejected=sum(part.n_rejected for part in stages),
        seconds=history[-1].seconds if history else 0.0,
    )
