"""The training of a committee: members side by side, then what they learn together from held-out rows."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpzed._types import FloatArray
from gpzed.engine.threads import Team, available_threads, single_threaded_blas
from gpzed.errors import TrainingInterruptedError
from gpzed.incomplete.patterns import MIXTURE_ROWS, RawRows, warn_of_large_errors
from gpzed.model.checkpoint import refuse_strays
from gpzed.model.committee import Committee, HeldOut
from gpzed.model.coverage import Coverage, learn_coverage
from gpzed.model.data import TrainingData, density_size
from gpzed.model.member import Member
from gpzed.model.mixing import Predictor, mix_members
from gpzed.model.network_member import NetworkMember, train_network_member
from gpzed.model.options import Recipe, choose_n_networks, make_recipe
from gpzed.model.recalibration import MIN_ROWS, Recalibration, Targets, fit_recalibration
from gpzed.model.run import Run
from gpzed.model.sources import Source
from gpzed.model.stacking import network_share
from gpzed.model.training import Trained, train_member
from gpzed.model.watch import MemberWatch
from gpzed.model.wrong_labels import log_scores, log_wrong_density
from gpzed.prediction import Prediction

if TYPE_CHECKING:
    from gpzed.model.estimator import GPzRegressor

MAX_HELD_OUT = 5000
"""Held-out rows that are predicted after training, to say how good it is."""


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
    members, networks = generators[: model.n_members], generators[model.n_members :]
    needs_networks = model.n_networks != "auto" and n_networks > 0
    jobs = _Jobs(source, make_recipe(model, source.n), run, members, networks, needs_networks)
    with single_threaded_blas():
        try:
            trained = jobs.run(n_threads)
        except TrainingInterruptedError:
            left = ", ".join(f"'{path}'" for path in run.checkpoints())
            kept = f"its state is kept in {left}" if left else "there was no state to keep yet"
            raise TrainingInterruptedError(f"training was stopped; {kept}") from None
        coverage = learn_coverage(jobs.first, other) if model.coverage else None
        committee = _learn_together(_together(trained, coverage), trained, source.unseen(jobs.first), model, other)
    if jobs.first.has_errors:
        sample = jobs.first.sample(MIXTURE_ROWS, np.random.default_rng(0))
        warn_of_large_errors(sample.X, sample.X_std)
    if not run.keep_checkpoint:
        run.remove_checkpoints()
    return committee


def _together(trained: tuple[_Done, ...], coverage: Coverage | None) -> Committee:
    """Return the members as a committee, with the part of networks that held-out rows want."""
    networks = tuple(network for job in trained for network in job.networks)
    share = network_share(*(np.concatenate(part) for part in zip(*(job.scores for job in trained), strict=True)))
    members = tuple(job.members.member for job in trained)
    return Committee(members, coverage, None, networks, share if networks else 0.0)


def _learn_together(
    committee: Committee,
    trained: tuple[_Done, ...],
    rows: RawRows | None,
    model: GPzRegressor,
    rng: np.random.Generator,
) -> Committee:
    """Recalibrate a committee by the rows that all members hold out, and predict held-out rows without them."""
    team = Team(model.n_threads or available_threads())
    if rows is None:
        return committee
    if not len(rows.y):
        return replace(committee, held_out=_predicted_in_turn(committee, trained, team))
    blind = replace(committee, members=tuple(job.members.blind for job in trained))
    if model.calibrate in ("global", "local") and len(rows.y) >= MIN_ROWS:
        recalibration = _recalibrate(blind, rows, model.calibrate == "local", team, rng)
        committee, blind = (replace(each, recalibration=recalibration) for each in (committee, blind))
    held = rows.take(slice(MAX_HELD_OUT))
    return replace(committee, held_out=HeldOut(held.y, blind.predict(held.X, team, held.X_std)))


class _Job(NamedTuple):
    """The rows of a member, and who follows its training."""

    data: TrainingData
    watch: MemberWatch


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
    network_generators: list[np.random.Generator]
    needs_networks: bool
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
        data = self.source.data(np.random.default_rng(seed), index)
        if data.has_errors and self.needs_networks:
            raise ValueError(
                f"`n_networks` is {len(self.network_generators)} but `X_std` is given, which networks cannot take; "
                'expected 0 or "auto" with errors of the inputs.'
            )
        if index == 0:
            self.first = data
        watch = MemberWatch(index, self.run_, self.run_.checkpoint_of(index, len(self.generators)), self.halt)
        watch.resume((self.recipe, seed, len(self.generators)), data)
        return _Job(data, watch)


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
