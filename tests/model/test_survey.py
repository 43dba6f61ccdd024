"""Gains of spectra: against the posterior computed anew, and against random choice."""

from __future__ import annotations

import numpy as np
import pytest

from gpzed import GPzRegressor
from gpzed.core.engine import Team
from gpzed.model.survey import Survey

pytestmark = pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")


def surface(X):
    return 1.0 + np.sin(2 * X[:, 0]) * np.cos(X[:, 1])


@pytest.fixture(scope="module")
def problem():
    """Few rows in one corner, a population over the whole square."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.uniform(-2, 0, (150, 2)), rng.uniform(-2, 2, (30, 2))])
    y = surface(X) + 0.05 * rng.standard_normal(len(X))
    population = rng.uniform(-2, 2, (600, 2))
    model = GPzRegressor(20, max_iter=40, coverage=False, random_state=0).fit(X, y)
    return model, X, y, population


def brute_force(model, X, rows):
    """Sum of the model variances before minus after, with S^-1 of the precision written out."""
    member = model.members_[0]
    survey = Survey(model, X)
    view = survey._views[0]
    S = np.linalg.inv(view.S_inverse)
    before = np.einsum("ij,ik,kj->", view.Phi, np.linalg.inv(S), view.Phi)
    S = S + (view.Phi[:, rows] * view.beta[rows]) @ view.Phi[:, rows].T
    nu = member.predict(X, Team(1))[0].model_variance
    assert before == pytest.approx(nu.sum(), rel=1e-6)  # in the units of the target
    return before - np.einsum("ij,ik,kj->", view.Phi, np.linalg.inv(S), view.Phi)


def test_gain_of_a_group_is_that_of_the_posterior(problem):
    model, _, _, population = problem
    rows = np.array([3, 77, 78, 200])
    assert Survey(model, population).group_gain(rows) == pytest.approx(brute_force(model, population, rows), rel=1e-5)


def test_gains_of_a_batch_add_up_and_fall(problem):
    model, _, _, population = problem
    survey = Survey(model, population)
    rows, gains = survey.batch(25)
    assert len(np.unique(rows)) == 25
    assert np.all(np.diff(gains) < 1e-9)  # the model variance has diminishing returns
    assert gains.sum() == pytest.approx(survey.group_gain(rows), rel=1e-6)


def test_the_first_is_the_best_of_all_and_the_batch_beats_the_top_of_the_list(problem):
    model, _, _, population = problem
    survey = Survey(model, population)
    rows, gains = survey.batch(20)
    alone = np.array([survey.group_gain(np.array([i])) for i in range(len(population))])
    assert rows[0] == np.argmax(alone)
    assert gains[0] == pytest.approx(alone.max())
    assert survey.group_gain(rows) > 1.1 * survey.group_gain(np.argsort(alone)[-20:])


def test_candidates_and_weights_count(problem):
    model, _, _, population = problem
    weight = np.where(population[:, 0] > 1, 1.0, 0.0)
    rows, _ = Survey(model, population, weight).batch(10)
    assert np.mean(population[rows, 0] > 0.5) > 0.7
    allowed = np.arange(0, 600, 7)
    rows, _ = Survey(model, population).batch(10, allowed)
    assert np.isin(rows, allowed).all()


def test_regions_without_training_rows_are_worth_looking_at():
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 0, (400, 1))
    model = GPzRegressor(8, max_iter=20, random_state=0).fit(X, 1.0 + np.sin(X[:, 0]) + 0.1 * rng.standard_normal(400))
    population = np.concatenate([rng.uniform(-2, 0, (600, 1)), rng.uniform(2, 4, (200, 1))])
    region = (population[:, 0] > 0).astype(int)
    survey = Survey(model, population, region=region)
    assert survey.unknown[region == 1].min() > 10 * survey.unknown[region == 0].mean()
    assert survey.trained[0] == pytest.approx(model.coverage_.n_rows, rel=0.2)
    assert survey.trained[1] < 1.0
    rows, _ = survey.batch(6)
    assert np.all(region[rows] == 1)


def test_chosen_spectra_lower_the_error_more_than_random_ones_and_than_the_top_of_the_list():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 0.5, (400, 2))
    y = surface(X) + 0.05 * rng.standard_normal(400)
    population, target = rng.uniform(-2, 2, (1500, 2)), rng.uniform(-2, 2, (3000, 2))
    options = {"n_basis": 25, "max_iter": 60, "random_state": 0}
    model = GPzRegressor(**options).fit(X, y)

    def error(rows):
        z = surface(population[rows]) + 0.05 * rng.standard_normal(len(rows))
        again = GPzRegressor(**options).fit(np.concatenate([X, population[rows]]), np.concatenate([y, z]))
        return np.sqrt(np.mean((again.predict(target) - surface(target)) ** 2))

    region = np.clip(((population + 2) * 1.5).astype(int), 0, 5) @ np.array([6, 1])
    survey = Survey(model, population, region=region)
    chosen = error(survey.batch(60)[0])
    assert chosen < np.mean([error(rng.choice(1500, 60, replace=False)) for _ in range(3)])
    assert chosen < 0.9 * error(np.argsort(survey.prediction.model_variance)[-60:])
