"""A committee: members trained side by side (end of section 5 of the paper), and what they learn and say together."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpzed._types import FloatArray, IntArray
from gpzed.engine.lbfgs import Iteration
from gpzed.engine.threads import Team, available_threads, single_threaded_blas
from gpzed.errors import CheckpointError, ClusterError, NumericalError, TrainingInterruptedError
from gpzed.incomplete.patterns import MIXTURE_ROWS, RawRows, warn_of_large_errors
from gpzed.model.checkpoint import fingerprint, load_checkpoint, save_checkpoint
from gpzed.model.coverage import Coverage, learn_coverage, return_to_prior
from gpzed.model.data import TrainingData
from gpzed.model.member import Member
from gpzed.model.options import Recipe, make_recipe
from gpzed.model.recalibration import MIN_ROWS, Recalibration, fit_recalibration
from gpzed.model.run import HEADS_STAGE, Run, StepInfo
from gpzed.model.sources import Source
from gpzed.model.training import Session, Trained, Watch, train_member
from gpzed.prediction import OF_ALL, Prediction

if TYPE_CHECKING:
    from gpzed.model.estimator import GPzRegressor


@dataclass(frozen=True)
class Committee:
    """Trained members, and what they learned together: where training rows are, and what held-out ones correct."""

    members: tuple[Member, ...]
    coverage: Coverage | None = None
    recalibration: Recalibration | None = None

    def labels(self) -> tuple[IntArray, IntArray]:
        """Return member and input of every Gaussian of a prediction, as `gpzed.prediction.Components` has them.

        The members' own, for each head and each of the possible inputs, and one more for wings or for doubt.
        """
        inputs = [member.input_labels for member in self.members]
        member = np.repeat(np.arange(len(inputs)), [len(own) for own in inputs])
        has_wings = self.recalibration is not None and self.recalibration.wing_weight > 0.0
        has_doubt = self.coverage is not None and len(member) > 1
        if has_wings or has_doubt:
            return np.append(member, OF_ALL), np.append(np.concatenate(inputs), 0)
        return member, np.concatenate(inputs)

    def predict(self, X: FloatArray, team: Team, X_std: FloatArray | None = None) -> Prediction:
        """Predict for raw inputs; variance goes back to that of the training targets where coverage is low."""
        prediction = self.recalibrated(X, team, X_std)
        if self.coverage is None:
            return prediction
        if X_std is not None:  # an outlier may be noise: what matters is where the true inputs are
            X = self.members[0].denoised(X, X_std)
        n_own = sum(len(member.input_labels) for member in self.members)
        return return_to_prior(prediction, self.coverage(X, team), self.coverage.mean, self.coverage.variance, n_own)

    def recalibrated(self, X: FloatArray, team: Team, X_std: FloatArray | None = None) -> Prediction:
        """Predict without regard to coverage."""
        prediction = self.mixed(X, team, X_std)
        if self.recalibration is None:
            return prediction
        is_local = self.recalibration.local.size > 0
        shares = self.coverage.shares(X) if is_local and self.coverage is not None else None
        return self.recalibration(prediction, shares)

    def mixed(self, X: FloatArray, team: Team, X_std: FloatArray | None = None) -> Prediction:
        """Mix the predictions of all members, as they are."""
        parts = [Prediction.of(member.components(X, team, X_std)) for member in self.members]
        return parts[0] if len(parts) == 1 else Prediction.mixture(parts)

    def draw(self, X: FloatArray, n_samples: int, rng: np.random.Generator, team: Team) -> FloatArray:
        """Draw functions without noise, (n, n_samples): a member for each, for each object a Gaussian by its share.

        Recalibration and coverage move and widen draws as they do predictions.
        """
        components = self.predict(X, team).components
        chosen = rng.integers(len(self.members), size=n_samples)
        values = np.empty((len(X), n_samples))
        for index, member in enumerate(self.members):
            picked = np.flatnonzero(chosen == index)
            own, extra = (np.flatnonzero(components.member == label) for label in (index, OF_ALL))
            shares = np.hstack([len(self.members) * components.weights[:, own], components.weights[:, extra]])
            which = _choose(shares, len(picked), rng)
            deviates = np.where(which < len(own), member.draw(X, which, rng), rng.standard_normal(which.shape))
            columns = np.concatenate([own, extra])[which]
            mean, variance = (
                np.take_along_axis(array, columns, axis=1) for array in (components.means, components.model_variances)
            )
            values[:, picked] = mean + np.sqrt(variance) * deviates
        return values


def _choose(shares: FloatArray, size: int, rng: np.random.Generator) -> IntArray:
    """Choose columns at random, in proportion to the shares of each row, (n, size)."""
    edges = np.cumsum(shares, axis=1)
    at = rng.random((len(shares), size)) * edges[:, -1:]
    return np.asarray((at[:, :, None] >= edges[:, None, :-1]).sum(axis=2))


def train_committee(model: GPzRegressor, source: Source, run: Run) -> Committee:
    """Train all members of a model, each on its own split of the rows, then learn coverage and recalibration.

    Raises
    ------
    TrainingInterruptedError
        `run.should_stop` said so.
    """
    n_threads = model.n_threads or available_threads()
    *generators, other = np.random.default_rng(model.random_state).spawn(model.n_members + 1)
    jobs = _Jobs(source, make_recipe(model, source.n), run, generators)
    with single_threaded_blas():
        try:
            trained = jobs.run(n_threads)
        except TrainingInterruptedError:
            left = ", ".join(f"'{path}'" for path in run.checkpoints())
            kept = f"its state is kept in {left}" if left else "there was no state to keep yet"
            raise TrainingInterruptedError(f"training was stopped; {kept}") from None
        coverage = learn_coverage(jobs.first, other) if model.coverage else None
        committee = Committee(tuple(member for member, _ in trained), coverage)
        rows = source.unseen(jobs.first) if model.calibrate in ("global", "local") else None
        if rows is not None and len(rows.y) >= MIN_ROWS:
            blind = Committee(tuple(blind for _, blind in trained), coverage)
            recalibration = _recalibrate(blind, rows, model.calibrate == "local", Team(n_threads), other)
            committee = replace(committee, recalibration=recalibration)
    if jobs.first.has_errors:
        sample = jobs.first.sample(MIXTURE_ROWS, np.random.default_rng(0))
        warn_of_large_errors(sample.X, sample.X_std)
    if not run.keep_checkpoint:
        run.remove_checkpoints()
    return committee


class _Job(NamedTuple):
    """The rows of a member, and who follows its training."""

    data: TrainingData
    watch: Watch


@dataclass
class _Jobs:
    """The training of members side by side; the data of the first are kept."""

    source: Source
    recipe: Recipe
    run_: Run
    generators: list[np.random.Generator]
    halt: threading.Event = field(default_factory=threading.Event)
    prepared: dict[int, _Job] = field(default_factory=dict)
    first: TrainingData = field(init=False)

    def run(self, n_threads: int) -> tuple[Trained, ...]:
        """Train all members; an error or interrupt in one halts the others at their next step.

        Checkpoints are read before any training: where one is of another run, none may be written beside it.
        """
        n = len(self.generators)
        paths = [self.run_.checkpoint_of(index, n) for index in range(n)]
        self.prepared = {index: self._prepare(index) for index, path in enumerate(paths) if path and path.exists()}
        n_parallel = min(n, n_threads) if self.run_.cluster is None else 1  # each member has the whole cluster
        train = partial(self._train, n_threads=max(1, n_threads // n_parallel))
        if n_parallel == 1:
            return tuple(train(index) for index in range(n))
        with ThreadPoolExecutor(n_parallel) as pool:
            futures = [pool.submit(train, index) for index in range(n)]
            try:
                for future in as_completed(futures):
                    future.result()
            except BaseException:
                self.halt.set()
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        return tuple(future.result() for future in futures)

    def _train(self, index: int, n_threads: int) -> Trained:
        data, watch = self.prepared.pop(index) if index in self.prepared else self._prepare(index)
        return train_member(data, self.recipe, self.generators[index], n_threads, watch)

    def _prepare(self, index: int) -> _Job:
        rng = self.generators[index]
        seed = int(rng.integers(2**63))
        data = self.source.data(np.random.default_rng(seed))
        if index == 0:
            self.first = data
        watch = _MemberWatch(index, self.run_, self.run_.checkpoint_of(index, len(self.generators)), self.halt)
        watch.resume((self.recipe, seed), data)
        return _Job(data, watch)


class HaltedError(Exception):
    """Ends the training of a member because another one failed or was interrupted."""


class _MemberWatch(Watch):
    """Follows the training of one member: keeps its checkpoint, tells the callback, and ends it when asked to."""

    def __init__(self, member: int, run: Run, path: Path | None, halt: threading.Event) -> None:
        self.member, self.run, self.path, self.halt = member, run, path, halt
        self.records = path is not None
        self.identity = ""
        self.is_resumed = False
        self.best_score = -np.inf

    def resume(self, options: object, data: TrainingData) -> None:
        """Read the checkpoint, if there is one; it must be of the same run."""
        if self.path is not None:
            self.identity = fingerprint(options, *data.identity())
            self.session = load_checkpoint(self.path, self.identity)
            self.is_resumed = self.session is not None

    def save(self) -> None:
        """Write a checkpoint, if one is wanted and there is something to keep."""
        if self.path is not None and self.session is not None:
            save_checkpoint(self.path, self.session, self.identity)

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        if kind is not None and issubclass(kind, ClusterError):
            self.save()  # what was computed since the last checkpoint is not lost
        if kind is not None and issubclass(kind, NumericalError) and self.is_resumed:
            raise CheckpointError(
                f'training cannot be resumed from checkpoint "{self.path}": {details[0]} Delete it to start afresh.'
            )

    def on_step(self, session: Session) -> bool | None:
        """Follow an iteration of the optimiser."""
        self.session = session
        progress, step = session.progress, session.progress.history[-1]
        if step.iteration % self.run.checkpoint_every == 0:
            self.save()
        return self._tell(session.stage, step, progress.best_score)

    def on_epoch(self, step: Iteration) -> bool | None:
        """Follow a pass over the rows in which heads are trained; resumed runs retrain them, to the same result."""
        if step.iteration == 1:
            self.save()
        self.best_score = float(np.fmax(self.best_score, step.score))
        return self._tell(HEADS_STAGE, step, self.best_score)

    def _tell(self, stage: int, step: Iteration, best_score: float) -> bool | None:
        if self.halt.is_set():
            self.save()
            raise HaltedError
        wants_end = None
        if self.run.callback is not None:
            info = StepInfo(self.member, stage, step.iteration, step.seconds, step.objective, step.score, best_score)
            wants_end = self.run.callback(info)
        if self.run.should_stop is not None and self.run.should_stop():
            self.save()
            raise TrainingInterruptedError
        return wants_end


def _recalibrate(
    committee: Committee, rows: RawRows, is_local: bool, team: Team, rng: np.random.Generator
) -> Recalibration:
    """Compare predictions for rows that no member was trained on, nor its posterior, with their targets."""
    X, y, omega, X_std = rows
    shares = committee.coverage.shares(X) if is_local and committee.coverage is not None else None
    return fit_recalibration(committee.mixed(X, team, X_std), y, omega, shares, rng)
