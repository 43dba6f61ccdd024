"""GPzRegressor as a scikit-learn estimator."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from gpzed import GPzRegressor, Training
from gpzed.engine.threads import Team
from gpzed.errors import ConvergenceWarning
from helpers import one_model

SHORT = Training(max_iter=20, n_epochs=3)
QUICK = {"n_basis": 6, "max_iter": 40, "patience": 10, "n_threads": 1, "random_state": 0}
CHECKS = [
    pair
    for model in (one_model(max_iter=30), GPzRegressor(n_members=2, n_heads=2, training=SHORT))
    for pair in estimator_checks_generator(model)
]
"""Estimators and what scikit-learn demands of them; a list, as its own decorator hands pytest a generator."""
pytestmark = pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")


@pytest.mark.filterwarnings("ignore::gpzed.errors.GPzWarning", "ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize(("estimator", "check"), CHECKS, ids=lambda one: getattr(one, "func", type(one)).__name__)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_clone_has_the_options_and_nothing_learned(wave):
    model = one_model(**QUICK, covariance="GD", weighting="precision").fit(*wave)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "members_")


def test_init_stores_arguments_untouched():
    defaults = GPzRegressor().get_params()
    marks = {name: object() for name in defaults}
    assert GPzRegressor(**marks).get_params() == marks


def test_pipeline(wave):
    X, y = wave
    model = make_pipeline(StandardScaler(), one_model(**QUICK)).fit(X, y)
    assert model.score(X, y) > 0.9
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == y.shape


def test_pipeline_hands_on_sample_weight(wave):
    X, y = wave
    weights = np.linspace(0.1, 2.0, len(y))
    inner = one_model(**QUICK).fit(X, y, weights)
    outer = make_pipeline(one_model(**QUICK)).fit(X, y, gpzregressor__sample_weight=weights)
    np.testing.assert_array_equal(inner.predict(X), outer.predict(X))


def test_cross_val_score(wave):
    scores = cross_val_score(one_model(**QUICK), *wave, cv=3)
    assert np.all(scores > 0.8)


def test_grid_search_and_saving_its_winner(wave, tmp_path):
    grid = {"n_basis": np.array([2, 8]), "coverage": np.array([True]), "shape_prior": np.array([1.0])}
    search = GridSearchCV(one_model(**QUICK), grid, cv=2).fit(*wave)
    assert search.best_params_["n_basis"] == 8
    search.best_estimator_.save(tmp_path / "m.gpzed")


def test_iteration_limit_warns_with_the_figures(wave):
    with pytest.warns(ConvergenceWarning, match=r"stopped at `max_iter`=3 with a largest gradient of .*Raise"):
        one_model(n_basis=5, max_iter=3, random_state=0).fit(*wave)


def test_repr_shows_what_was_changed():
    assert repr(GPzRegressor(n_basis=7, covariance="GL")) == "GPzRegressor(covariance='GL', n_basis=7)"


def test_the_papers_model_adds_nothing_to_its_one_gaussian(wave):
    """Section 5: the mean of the targets and basis functions, nu from their posterior, noise from u and b; no more."""
    X, y = wave
    model = GPzRegressor.paper(n_basis=6, training=Training(max_iter=10), random_state=0).fit(X, y)
    (member,) = model.members_
    assert (member.mixture, member.noise_correction, model.coverage_, model.recalibration_) == (None, 0.0, None, None)
    assert (member.layout.k, model.report_.n_rows) == (0, (150,))  # no terms beside the basis functions; half held out
    p, moments = model.predict_distribution(X), member.components(X, Team(1)).moments()
    np.testing.assert_array_equal(p.mean, moments.mean)
    np.testing.assert_array_equal(p.variance, moments.model_variance + moments.noise_variance)
    far = model.predict_distribution([[1e3, 1e3]])
    assert far.mean[0] == member.standardisation.y_mean
    with pytest.raises(ValueError, match="NaN"):
        model.predict([[np.nan, 0.0]])
