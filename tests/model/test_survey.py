"""Gains of spectra: they add up, go where training rows are lacking, and a batch represents what these do not."""

from __future__ import annotations

import numpy as np
import pytest

from gpzed.model.survey import ENOUGH, Survey, probabilities
from helpers import one_model

pytestmark = pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")


def surface(X):
    return 1.0 + np.sin(2 * X[:, 0]) * np.cos(X[:, 1])


@pytest.fixture(scope="module", params=[1, 3], ids=["one head", "heads"])
def problem(request):
    """Rows in one half of a square, and a population over the whole of it, denser there than elsewhere."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-2, 0, 600), rng.uniform(-2, 2, 600)])
    y = surface(X) + 0.05 * rng.standard_normal(len(X))
    population = rng.uniform(-2, 2, (1500, 2))
    options = {"n_heads": request.param, "n_epochs": 10, "n_members": 2}
    model = one_model(15, max_iter=30, random_state=0, **options).fit(X, y)
    return model, population, Survey(model, population)


def test_gains_of_a_batch_add_up_and_fall(problem):
    _, population, survey = problem
    rows, gains = survey.batch(60)
    assert len(rows) == len(np.unique(rows)) == 60
    assert np.all(np.diff(gains) <= 0)
    assert np.all(gains > 0)
    assert gains.sum() == pytest.approx(survey.group_gain(rows))
    half = survey.group_gain(rows[::2]) + survey.group_gain(rows[1::2])
    assert survey.group_gain(rows) < half  # diminishing returns
    every, gains = survey.batch(10**6)
    assert len(every) == len(population)
    assert gains.sum() < np.sum(survey.prediction.variance)


def test_half_of_the_variance_is_for_want_of_rows_where_there_are_enough(problem):
    _, _, survey = problem
    regions = survey._regions
    k = np.zeros(len(regions.trained))
    k[3] = regions.enough[3] - regions.trained[3]
    assert regions.lacking(k)[3] == pytest.approx(0.5 * regions.variance[3])
    np.testing.assert_array_equal(np.delete(regions.lacking(k), 3), np.delete(regions.lacking(0 * k), 3))
    assert regions.enough.sum() == pytest.approx(ENOUGH)
    assert regions.variance.sum() <= survey.prediction.variance.sum()


def test_a_batch_is_spread_as_what_the_training_rows_lack(problem):
    _, population, survey = problem
    assert survey.trained.sum() == pytest.approx(600, rel=0.3)
    inside = population[:, 0] < 0
    assert survey.trained[inside].mean() > 5 * survey.trained[~inside].mean()
    rows, _ = survey.batch(120)
    chosen = population[rows]
    assert np.mean(chosen[:, 0] > -0.2) > 0.9
    quarters = np.histogram(chosen[chosen[:, 0] > 0, 1], bins=4, range=(-2, 2))[0]
    assert quarters.min() > 0.15 * quarters.sum()  # representative: no heap at the far corners


def test_where_training_rows_are_spread_as_the_objects_the_batch_is_random():
    rng = np.random.default_rng(1)
    X, population = rng.uniform(-2, 2, (2000, 2)), rng.uniform(-2, 2, (2000, 2))
    model = one_model(8, max_iter=10, random_state=0).fit(X, surface(X) + 0.1 * rng.standard_normal(2000))
    survey = Survey(model, population)
    share = probabilities(survey.trained, np.ones(2000), 1500)
    assert share.min() > 0.1
    assert share.std() < 0.3


def test_candidates_and_weights_count(problem):
    model, population, survey = problem
    weight = np.where(population[:, 1] > 1, 1.0, 0.0)
    rows, _ = Survey(model, population, weight).batch(40)
    assert np.all(population[rows, 1] > 1)
    allowed = np.arange(0, 1500, 7)
    rows, _ = survey.batch(40, allowed)
    assert np.isin(rows, allowed).all()
    again, _ = survey.batch(40, allowed)
    np.testing.assert_array_equal(rows, again)


def test_no_single_object_decides():
    rng = np.random.default_rng(2)
    X = rng.uniform(-2, 0, (600, 1))
    model = one_model(8, max_iter=20, random_state=0).fit(X, 1.0 + np.sin(X[:, 0]) + 0.1 * rng.standard_normal(600))
    population = np.concatenate([rng.uniform(-2, 0, (600, 1)), rng.uniform(1, 3, (300, 1)), [[40.0], [-35.0]]])
    survey = Survey(model, population)
    assert survey.unknown[600:].min() > 10 * survey.unknown[:600].mean()
    rows, gains = survey.batch(30)
    assert np.mean((rows >= 600) & (rows < 900)) > 0.8
    strange = gains[rows >= 900]
    assert strange.size == 0 or strange.max() < 0.2 * gains.max()


def test_probabilities_fill_up_from_below():
    trained, weight = np.array([0.0, 0.2, 3.0, 0.1, 0.0]), np.array([1.0, 1.0, 1.0, 2.0, 0.0])
    share = probabilities(trained, weight, 2)
    assert share.sum() == pytest.approx(2.0)
    assert share[2] == share[4] == 0.0
    assert share[0] - share[1] == pytest.approx(0.2)
    np.testing.assert_array_equal(probabilities(trained, weight, 4), [1, 1, 1, 1, 0])


def test_what_is_needed_is_said():
    rng = np.random.default_rng(3)
    X = rng.uniform(-2, 2, (100, 1))
    model = one_model(4, max_iter=3, coverage=False, random_state=0).fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"no density of its training rows.*`coverage` true"):
        Survey(model, X)


@pytest.mark.parametrize("n_heads", [1, 3])
def test_chosen_spectra_lower_the_error_more_than_random_ones_and_than_the_top_of_the_list(n_heads):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 0.5, (400, 2))
    y = surface(X) + 0.05 * rng.standard_normal(400)
    population, target = rng.uniform(-2, 2, (1500, 2)), rng.uniform(-2, 2, (3000, 2))
    options = {"n_basis": 25, "max_iter": 60, "n_heads": n_heads, "n_epochs": 30, "random_state": 0}
    model = one_model(**options).fit(X, y)

    def error(rows):
        z = surface(population[rows]) + 0.05 * rng.standard_normal(len(rows))
        again = one_model(**options).fit(np.concatenate([X, population[rows]]), np.concatenate([y, z]))
        return np.sqrt(np.mean((again.predict(target) - surface(target)) ** 2))

    survey = Survey(model, population)
    chosen = np.mean([error(survey.batch(60, rng=np.random.default_rng(seed))[0]) for seed in range(3)])
    assert chosen < np.mean([error(rng.choice(1500, 60, replace=False)) for _ in range(3)])
    assert chosen < error(np.argsort(survey.prediction.model_variance)[-60:])
