"""The optimiser's driver: minima, the best validated iterate, budgets, broken steps, replay."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest
from scipy.optimize import rosen, rosen_der

from gpzed.engine.lbfgs import Budget, Progress, minimize
from gpzed.errors import NumericalError

START = np.array([-1.2, 1.0])


def rosenbrock(theta):
    return float(rosen(theta)), rosen_der(theta)


class Counted:
    def __init__(self, objective=rosenbrock):
        self.objective, self.calls = objective, 0

    def __call__(self, theta):
        self.calls += 1
        return self.objective(theta)


def test_finds_the_minimum():
    report = minimize(rosenbrock, Progress(START), budget=Budget(tolerance=1e-14))
    np.testing.assert_allclose(report.theta, 1.0, atol=1e-5)
    assert report.status == "converged"
    assert report.message
    assert report.n_rejected == 0
    assert report.best_iteration == len(report.history)


def test_history_describes_every_step():
    objective = Counted()
    report = minimize(objective, Progress(START))
    assert [step.iteration for step in report.history] == list(range(1, len(report.history) + 1))
    values = [step.objective for step in report.history]
    assert all(b <= a for a, b in itertools.pairwise(values)), "the objective never rises"
    assert report.n_evaluations == objective.calls == report.history[-1].evaluations
    seconds = [step.seconds for step in report.history]
    assert seconds == sorted(seconds)
    assert report.history[-1].gradient_norm < 1e-2 * report.history[0].gradient_norm


def test_keeps_the_iterate_with_the_best_score():
    seen = []

    def score(theta):
        seen.append(theta.copy())
        return -abs(len(seen) - 8)  # the start comes first; the seventh step is the best

    report = minimize(rosenbrock, Progress(START), score=score, budget=Budget(patience=100, max_iter=20))
    assert report.best_iteration == 7
    np.testing.assert_array_equal(seen[0], START)
    np.testing.assert_array_equal(report.theta, seen[7])
    assert report.best_score == 0
    assert report.history[6].score == max(step.score for step in report.history)
    assert len(seen) == 1 + len(report.history), "one score for the start and one per step"


def test_keeps_the_start_if_nothing_is_better():
    scores = iter([1.0])
    report = minimize(
        rosenbrock, Progress(START), score=lambda _: next(scores, 0.5), budget=Budget(max_iter=9, patience=50)
    )
    assert report.best_iteration == 0
    assert report.best_score == 1.0
    np.testing.assert_array_equal(report.theta, START)


def test_patience_counts_steps_without_a_better_score():
    calls = []

    def score(theta):
        calls.append(1)
        return float(min(len(calls), 5))

    report = minimize(rosenbrock, Progress(START), score=score, budget=Budget(patience=5))
    assert report.status == "patience"
    assert report.best_iteration == 4
    assert len(report.history) == 9


def test_gains_below_min_gain_do_not_count():
    calls = []

    def score(theta):
        calls.append(1)
        return 1e-6 * len(calls)

    report = minimize(rosenbrock, Progress(START), score=score, budget=Budget(patience=5, min_gain=1e-3))
    assert report.status == "patience"
    assert len(report.history) == 6
    assert report.best_iteration == 6, "the best is kept all the same"


def test_a_score_that_is_not_a_number_is_never_the_best():
    scores = iter([np.nan, 0.5, np.nan, 0.7, np.nan])
    report = minimize(
        rosenbrock, Progress(START), score=lambda _: next(scores, 0.1), budget=Budget(max_iter=8, patience=50)
    )
    assert report.best_iteration == 3


@pytest.mark.parametrize("max_iter", [1, 2, 7])
def test_iteration_budget(max_iter):
    report = minimize(rosenbrock, Progress(START), budget=Budget(max_iter=max_iter))
    assert report.status == "max_iter"
    assert len(report.history) == max_iter
    assert "iterations" in report.message


@pytest.mark.parametrize("max_evaluations", [1, 2, 10, 11, 12])
def test_evaluation_budget(max_evaluations):
    objective = Counted()
    report = minimize(objective, Progress(START), budget=Budget(max_evaluations=max_evaluations))
    assert report.status == "max_evaluations"
    assert objective.calls == report.n_evaluations == max_evaluations


def test_time_budget_by_the_given_clock():
    now = iter(range(0, 10_000, 10))
    report = minimize(rosenbrock, Progress(START), budget=Budget(max_time=45.0), clock=lambda: float(next(now)))
    assert report.status == "max_time"
    assert [step.seconds for step in report.history] == [10.0, 20.0, 30.0, 40.0, 50.0]


def test_callback_stops():
    report = minimize(rosenbrock, Progress(START), callback=lambda progress: len(progress.history) == 3)
    assert report.status == "stopped"
    assert len(report.history) == 3


def test_callback_may_return_nothing():
    steps = []
    report = minimize(rosenbrock, Progress(START), callback=lambda progress: steps.append(len(progress.history)))
    assert steps == list(range(1, len(report.history) + 1))


# ---------------------------------------------------------------------------------------- broken steps


def broken_beyond(limit, error):
    """A valley between nearly straight slopes: L-BFGS oversteps it, to where nothing can be evaluated."""

    def objective(theta):
        if theta[0] > limit:
            if error is NumericalError:
                raise NumericalError("singular")
            return error, np.full_like(theta, error)
        root = np.sqrt(1.0 + (theta - 1.0) ** 2)
        return float(root.sum()), (theta - 1.0) / root

    return objective


FAR = np.array([-40.0, 0.5])


@pytest.mark.parametrize("error", [NumericalError, np.nan, np.inf, -np.inf])
def test_a_broken_step_is_shortened_and_counted(error):
    report = minimize(broken_beyond(1.3, error), Progress(FAR))
    assert report.n_rejected > 0
    np.testing.assert_allclose(report.theta, 1.0, atol=1e-3)
    assert all(np.isfinite(step.objective) for step in report.history)
    values = [step.objective for step in report.history]
    assert values == sorted(values, reverse=True)


def test_breakdown_at_the_start_raises_with_a_note():
    def objective(theta):
        raise NumericalError("singular")

    with pytest.raises(NumericalError, match="singular") as caught:
        minimize(objective, Progress(START))
    assert any("starting values" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_finite_at_the_start_raises(value):
    with pytest.raises(NumericalError, match="not finite at the starting values"):
        minimize(lambda theta: (value, np.zeros_like(theta)), Progress(START))
    with pytest.raises(NumericalError, match="not finite at the starting values"):
        minimize(lambda theta: (1.0, np.full_like(theta, value)), Progress(START))


def test_other_errors_pass_through():
    def objective(theta):
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError, match="a bug"):
        minimize(objective, Progress(START))


# ---------------------------------------------------------------------------------------------- replay


def noisy_score(theta):
    return float(np.sin(50 * theta.sum()))


def test_replay_from_any_cut_gives_the_same_bits():
    budget = Budget(max_iter=25, patience=15)
    snapshots = []
    whole = minimize(
        rosenbrock,
        Progress(START),
        score=noisy_score,
        budget=budget,
        callback=lambda progress: snapshots.append(copy.deepcopy(progress)),
    )
    assert len(snapshots) > 10
    for snapshot in snapshots:
        done = len(snapshot.values)
        objective = Counted()
        report = minimize(objective, snapshot, score=noisy_score, budget=budget)
        np.testing.assert_array_equal(report.theta, whole.theta)
        assert objective.calls == whole.n_evaluations - done, "nothing is computed twice"
        assert report.status == whole.status
        assert report.best_iteration == whole.best_iteration
        strip = [(s.iteration, s.evaluations, s.objective, s.score) for s in report.history]
        assert strip == [(s.iteration, s.evaluations, s.objective, s.score) for s in whole.history]


def test_replay_over_rejected_steps():
    objective = broken_beyond(1.3, NumericalError)
    snapshots = []
    whole = minimize(objective, Progress(FAR), callback=lambda progress: snapshots.append(copy.deepcopy(progress)))
    assert whole.n_rejected > 0
    for snapshot in snapshots:
        report = minimize(objective, snapshot)
        np.testing.assert_array_equal(report.theta, whole.theta)
        assert report.n_rejected == whole.n_rejected


def test_time_goes_on_from_where_it_stopped():
    snapshots = []
    now = iter(range(0, 10_000, 10))
    minimize(
        rosenbrock,
        Progress(START),
        budget=Budget(max_iter=3),
        callback=lambda progress: snapshots.append(copy.deepcopy(progress)),
        clock=lambda: float(next(now)),
    )
    later = iter(range(5000, 20_000, 10))
    report = minimize(rosenbrock, snapshots[-1], budget=Budget(max_time=55.0), clock=lambda: float(next(later)))
    assert [step.seconds for step in report.history] == [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]


def test_progress_of_a_new_run_is_its_start():
    progress = Progress(START)
    np.testing.assert_array_equal(progress.best_theta, START)
    assert progress.best_score == -np.inf


def test_a_record_of_another_run_is_refused():
    progress = Progress(np.array([1.0, 2.0]), values=[5.0], gradients=[np.array([2.0, 4.0])], norms=[17.0])
    with pytest.raises(NumericalError, match="does not repeat itself"):
        minimize(lambda theta: (float(theta @ theta), 2.0 * theta), progress)


def test_nothing_is_kept_without_need():
    progress = Progress(np.array([1.0, 2.0]), record=False)
    report = minimize(lambda theta: (float(theta @ theta), 2.0 * theta), progress)
    assert not progress.values
    np.testing.assert_allclose(report.theta, 0.0, atol=1e-6)
