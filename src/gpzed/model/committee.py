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
from gpzed.model.checkpoint import fingerprint, load_checkpoint, refuse_strays, save_checkpoint
from gpzed.model.coverage import DOUBTFUL, Coverage, learn_coverage, return_to_prior
from gpzed.model.data import TrainingData, density_size
from gpzed.model.member import Member
from gpzed.model.mixing import Predictor, mix_members
from gpzed.model.network_member import NetworkMember, train_network_member
from gpzed.model.options import Recipe, choose_n_networks, make_recipe
from gpzed.model.recalibration import MIN_ROWS, Recalibration, Targets, fit_recalibration
from gpzed.model.run import HEADS_STAGE, Run, StepInfo
from gpzed.model.sources import Source
from gpzed.model.stacking import network_share
from gpzed.model.training import Session, Trained, Watch, train_member
from gpzed.model.wrong_labels import log_scores, log_wrong_density
from gpzed.prediction import OF_ALL, Prediction

if TYPE_CHECKING:
    from gpzed.model.estimator import GPzRegressor


MAX_HELD_OUT = 5000
"""Held-out rows that are predicted after training, to say how good it is."""


class HeldOut(NamedTuple):
    """Targets of held-out rows, and what is predicted for them without them: by all members, or by one of each kind.

    Where rows are few, members hold out different ones; then only those that did not see a row predict it. The rows
    chose the iterates, and the widths and wings of the densities.
    """

    y: FloatArray
    prediction: Prediction


@dataclass(frozen=True)
class Committee:
    """Trained members, and what they learned together: where training rows are, and what held-out ones correct.

    `members` are those with basis functions; `networks` stand beside them, with the part `network_share` of the whole.
    """

    members: tuple[Member, ...]
    coverage: Coverage | None = None
    recalibration: Recalibration | None = None
    networks: tuple[NetworkMember, ...] = ()
    network_share: float = 0.0
    held_out: HeldOut | None = field(default=None, compare=False)  # of this training; not kept in the model file

    @property
    def predictors(self) -> tuple[Predictor, ...]:
        """All members, of both kinds."""
        return (*self.members, *self.networks)

    @property
    def shares(self) -> FloatArray:
        """The part of the mixture that belongs to each of the `predictors`; alike for those of one kind."""
        kinds = (self.members, 1.0 - self.network_share), (self.networks, self.network_share)
        return np.concatenate([np.full(len(kind), share / max(len(kind), 1)) for kind, share in kinds])

    def labels(self) -> tuple[IntArray, IntArray]:
        """Return member and input of every Gaussian of a prediction, as `gpzed.prediction.Components` has them.

        The members' own, for each head and each of the possible inputs, and one more for wings or for doubt.
        """
        inputs = [predictor.input_labels for predictor in self.predictors]
        member = np.repeat(np.arange(len(inputs)), [len(own) for own in inputs])
        has_wings = self.recalibration is not None and self.recalibration.wing_weight > 0.0
        if has_wings or self._has_doubt:
            return np.append(member, OF_ALL), np.append(np.concatenate(inputs), 0)
        return member, np.concatenate(inputs)

    def predict(
        self, X: FloatArray, team: Team, X_std: FloatArray | None = None, *, exact: bool = False, lean: bool = False
    ) -> Prediction:
        """Predict for raw inputs; densities go back to that of the training targets where coverage is low.

        Unless `exact`, model variances of complete rows are sums of squares, where these are good enough. `lean` as in
        `mix_members`.
        """
        prediction = self.recalibrated(X, team, X_std, exact=exact, spare=self._has_doubt, lean=lean)
        if self.coverage is None:
            return prediction
        if X_std is not None:  # an outlier may be noise: what matters is where the true inputs are
            X = self.members[0].denoised(X, X_std)
        n_own = int(np.count_nonzero(prediction.components.member != OF_ALL))
        coverage = self.coverage(X, team)
        rows = np.flatnonzero(coverage < DOUBTFUL)
        part = return_to_prior(prediction[rows], coverage[rows], self.coverage.mean, self.coverage.variance, n_own)
        components = prediction.components.overwritten(rows, part.components)
        return prediction.changed(components=components, coverage=np.clip(coverage, 0.0, 1.0))

    @property
    def _has_doubt(self) -> bool:
        """Whether predictions have one more Gaussian for doubt, apart from that for wings."""
        has_wings = self.recalibration is not None and self.recalibration.wing_weight > 0.0
        is_mixture = len(self.predictors) > 1 or len(self.members[0].input_labels) > 1
        return self.coverage is not None and is_mixture and not has_wings

    def recalibrated(
        self,
        X: FloatArray,
        team: Team,
        X_std: FloatArray | None = None,
        *,
        exact: bool = False,
        spare: bool = False,
        lean: bool = False,
    ) -> Prediction:
        """Predict without regard to coverage; `spare` and `lean` as in `mix_members`."""
        mixed = mix_members(self.predictors, self.shares, X, team, X_std, exact=exact, spare=spare, lean=lean)
        prediction = Prediction.of(mixed)
        if self.recalibration is None:
            return prediction
        is_local = self.recalibration.local.size > 0
        shares = self.coverage.shares(X) if is_local and self.coverage is not None else None
        return self.recalibration(prediction, shares)

    def draw(self, X: FloatArray, n_samples: int, rng: np.random.Generator, team: Team) -> FloatArray:
        """Draw functions without noise, (n, n_samples): a member for each, for each object a Gaussian by its share.

        Recalibration and coverage move and widen draws as they do predictions.
        """
        components = self.predict(X, team, exact=True).components
        chosen = rng.choice(len(self.shares), size=n_samples, p=self.shares)
        values = np.empty((len(X), n_samples))
        for index, (predictor, share) in enumerate(zip(self.predictors, self.shares, strict=True)):
            picked = np.flatnonzero(chosen == index)
            own, extra = (np.flatnonzero(components.member == label) for label in (index, OF_ALL))
            shares = np.hstack([components.weights[:, own] / share, components.weights[:, extra]])
            which = _choose(shares, len(picked), rng)
            deviates = np.where(which < len(own), predictor.draw(X, which, rng), rng.standard_normal(which.shape))
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
    n_networks = choose_n_networks(model, source.n)
    generators = np.random.default_rng(model.random_state).spawn(model.n_members + 1 + n_networks)
    other = generators.pop(model.n_members)
    jobs = _Jobs(source, make_recipe(model, source.n), run, *_split(generators, model.n_members))
    jobs.needs_networks = model.n_networks != "auto" and n_networks > 0
    with single_threaded_blas():
        try:
            trained = jobs.run(n_threads)
        except TrainingInterruptedError:
            left = ", ".join(f"'{path}'" for path in run.checkpoints())
            kept = f"its state is kept in {left}" if left else "there was no state to keep yet"
            raise TrainingInterruptedError(f"training was stopped; {kept}") from None
        coverage = learn_coverage(jobs.first, other) if model.coverage else None
        networks = tuple(network for job in trained for network in job.networks)
        share = network_share(*(np.concatenate(part) for part in zip(*(job.scores for job in trained), strict=True)))
        committee = Committee(
            tuple(job.members.member for job in trained), coverage, None, networks, share if networks else 0.0
        )
        calibrates = model.calibrate in ("global", "local")  # some held-out rows are then the same for all members
        rows = source.unseen(jobs.first)
        if rows is not None and not len(rows.y):
            committee = replace(committee, held_out=_predicted_in_turn(committee, trained, Team(n_threads)))
        elif rows is not None:
            blind = replace(committee, members=tuple(job.members.blind for job in trained))
            if calibrates and len(rows.y) >= MIN_ROWS:
                recalibration = _recalibrate(blind, rows, model.calibrate == "local", Team(n_threads), other)
                committee = replace(committee, recalibration=recalibration)
            held = rows.take(slice(MAX_HELD_OUT))
            blind = replace(blind, recalibration=committee.recalibration)
            held_out = HeldOut(held.y, blind.predict(held.X, Team(n_threads), held.X_std))
            committee = replace(committee, held_out=held_out)
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


class _Done(NamedTuple):
    """What came of a job: a member, networks trained on the same rows, and how these compare on the held-out ones.

    `scores` are log scores of networks less those of the member, and weights of the rows.
    """

    members: Trained
    networks: tuple[NetworkMember, ...]
    held: RawRows | None
    scores: tuple[FloatArray, FloatArray]


@dataclass
class _Jobs:
    """The training of members side by side, and of networks after them; the data of the first are kept."""

    source: Source
    recipe: Recipe
    run_: Run
    generators: list[np.random.Generator]
    network_generators: list[np.random.Generator] = field(default_factory=list)
    needs_networks: bool = False
    halt: threading.Event = field(default_factory=threading.Event)
    prepared: dict[int, _Job] = field(default_factory=dict)
    first: TrainingData = field(init=False)
    settled: Recipe = field(init=False)  # with choices that hold for all members

    def run(self, n_threads: int) -> tuple[_Done, ...]:
        """Train all members; an error or interrupt in one halts the others at their next step.

        Checkpoints are read before any training: where one is of another run, none may be written beside it.
        """
        n = len(self.generators)
        paths = [self.run_.checkpoint_of(index, n) for index in range(n)]
        refuse_strays(self.run_.checkpoints(), paths)
        self.prepared = {index: self._prepare(index) for index, path in enumerate(paths) if path and path.exists()}
        self.settled = self.recipe if n == 1 else self._settle()
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

    def _settle(self) -> Recipe:
        """Choose the size of the density of the inputs once, by the rows of the first member: it takes many trials."""
        training = self.recipe.training
        if 0 not in self.prepared:
            self.prepared[0] = self._prepare(0)
        if training.density_components != "auto":
            return self.recipe
        size = density_size(self.prepared[0].data, training.noise_classes)
        return replace(self.recipe, training=replace(training, density_components=size))

    def _train(self, index: int, n_threads: int) -> _Done:
        data, watch = self.prepared.pop(index) if index in self.prepared else self._prepare(index)
        trained = train_member(data, self.settled, self.generators[index], n_threads, watch)
        report = trained.member.report
        assert report is not None
        networks: list[NetworkMember] = []
        if not data.has_errors and report.status not in ("stopped", "max_time"):
            limit = self.recipe.training.max_time
            left = None if limit is None else max(limit - report.seconds, 0.0)
            for rng in self.network_generators[index :: len(self.generators)]:
                map_, K = trained.member.standardisation, self.recipe.n_heads
                networks.append(train_network_member(data, map_, K, rng, watch, left))
        held: RawRows | None = getattr(data, "valid", None)
        return _Done(trained, tuple(networks), held, _compare(trained.blind, networks, held))

    def _prepare(self, index: int) -> _Job:
        rng = self.generators[index]
        seed = int(rng.integers(2**63))
        data = self.source.data(np.random.default_rng(seed))
        if data.has_errors and self.needs_networks:
            raise ValueError(
                f"`n_networks` is {len(self.network_generators)} but `X_std` is given, which networks cannot take; "
                'expected 0 or "auto" with errors of the inputs.'
            )
        if index == 0:
            self.first = data
        watch = _MemberWatch(index, self.run_, self.run_.checkpoint_of(index, len(self.generators)), self.halt)
        watch.resume((self.recipe, seed, len(self.generators)), data)
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

    def on_epoch(self, step: Iteration, stage: int = HEADS_STAGE) -> bool | None:
        """Follow a pass in which heads or a network are trained; resumed runs retrain these, to the same result."""
        if step.iteration == 1:
            self.save()
            self.best_score = -np.inf
        self.best_score = float(np.fmax(self.best_score, step.score))
        return self._tell(stage, step, self.best_score)

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


def _split(items: list[np.random.Generator], n: int) -> tuple[list[np.random.Generator], list[np.random.Generator]]:
    return items[:n], items[n:]


def _compare(member: Member, networks: list[NetworkMember], held: RawRows | None) -> tuple[FloatArray, FloatArray]:
    """Return log scores of networks less those of the member on its held-out rows, and the weights of these rows."""
    if held is None or not networks:
        return np.zeros(0), np.zeros(0)
    team, predictors = Team(1), tuple[Predictor, ...]((member, *networks))
    scale = member.standardisation.y_mean, member.standardisation.y_scale
    scores = [log_scores(predictor.components(held.X, team), held, *scale) for predictor in predictors]
    return np.concatenate([score - scores[0] for score in scores[1:]]), np.tile(held.omega, len(networks))


def _predicted_in_turn(committee: Committee, trained: tuple[_Done, ...], team: Team) -> HeldOut:
    """Predict the held-out rows of each member by it and the networks that were trained on the same rows."""
    found = []
    for job in trained:
        held = job.held
        assert held is not None
        share = committee.network_share if job.networks else 0.0
        alone = replace(committee, members=(job.members.blind,), networks=job.networks, network_share=share)
        found.append(HeldOut(held.y, alone.predict(held.X, team, held.X_std)))
    return HeldOut(np.concatenate([part.y for part in found]), Prediction.concatenate([p.prediction for p in found]))


def _recalibrate(
    committee: Committee, rows: RawRows, is_local: bool, team: Team, rng: np.random.Generator
) -> Recalibration:
    """Compare predictions for rows that no member was trained on, nor its posterior, with their targets."""
    X, y, omega, X_std, y_std, wrong = rows
    shares = committee.coverage.shares(X) if is_local and committee.coverage is not None else None
    map_ = committee.members[0].standardisation
    labels = Targets(y, y_std, wrong, log_wrong_density(y, map_.y_mean, map_.y_scale))
    mixed = Prediction.of(mix_members(committee.predictors, committee.shares, X, team, X_std))
    return fit_recalibration(mixed, labels, omega, shares, rng)
