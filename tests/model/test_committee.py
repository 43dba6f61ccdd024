"""Committees: several members, one mixture."""

from __future__ import annotations

import numpy as np
import pytest

from gpzed import Run
from gpzed.engine.threads import Team
from helpers import one_model

pytestmark = pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")


def quick(**options):
    return one_model(**({"n_basis": 5, "max_iter": 15, "n_threads": 1, "random_state": 0} | options))


@pytest.fixture(scope="module")
def model(wave):
    return quick(n_members=3, coverage=False).fit(*wave)


def test_moments_of_the_mixture_are_exact(model, wave):
    X = wave[0][:40]
    parts = [member.components(X, Team(1)).moments() for member in model.members_]
    means = np.array([part.mean for part in parts])
    nus = np.array([part.model_variance for part in parts])
    noises = np.array([part.noise_variance for part in parts])
    p = model.predict_distribution(X)
    mean = means.mean(axis=0)
    np.testing.assert_allclose(p.mean, mean, rtol=1e-13)
    np.testing.assert_allclose(p.noise_variance, noises.mean(axis=0), rtol=1e-12)
    spread = ((means - mean) ** 2).mean(axis=0)
    np.testing.assert_allclose(p.model_variance, nus.mean(axis=0) + spread, rtol=1e-11)
    second = (nus + noises + means**2).mean(axis=0)
    np.testing.assert_allclose(p.variance, second - mean**2, rtol=1e-9)
    assert p.weights.shape == (40, 3)
    np.testing.assert_allclose(p.weights, 1 / 3)


def test_members_differ_in_start_and_held_out_rows(model, wave):
    first = model.members_[0]
    for other in model.members_[1:]:
        assert not np.array_equal(first.parameters.P, other.parameters.P)
        assert first.standardisation.y_mean != other.standardisation.y_mean
    assert len(model.reports_) == 3
    assert model.report_ is model.reports_[0]


def test_parallel_equals_sequential(model, wave):
    X, y = wave
    parallel = quick(n_members=3, n_threads=3, coverage=False).fit(X, y)
    for one, two in zip(model.members_, parallel.members_, strict=True):
        np.testing.assert_allclose(one.components(X, Team(1)).means, two.components(X, Team(1)).means, rtol=1e-10)
    np.testing.assert_allclose(model.predict(X), parallel.predict(X), rtol=1e-10)


def test_a_larger_committee_begins_with_the_smaller_one(model, wave):
    X, y = wave
    pair = quick(n_members=2).fit(X, y)
    np.testing.assert_array_equal(pair.members_[1].parameters.P, model.members_[1].parameters.P)


def test_members_share_given_validation_data(wave):
    X, y = wave
    model = quick(n_members=2).fit(X, y, validation_data=(X[:50], y[:50]))
    assert [report.n_rows for report in model.reports_] == [(300,), (300,)]


def test_samples_come_from_all_members(model, wave):
    X = wave[0][:4]
    p = model.predict_distribution(X)
    draws = model.sample_y(X, 30_000, random_state=0)
    assert np.all(np.abs(draws.mean(axis=1) - p.mean) < 5 * np.sqrt(p.model_variance / 30_000))
    np.testing.assert_allclose(draws.var(axis=1), p.model_variance, rtol=0.1)


def test_an_error_in_one_member_reaches_the_caller(wave):
    def callback(info):
        if info.member == 1:
            raise RuntimeError("member 1 failed")

    for n_threads in (1, 2):
        with pytest.raises(RuntimeError, match="member 1 failed"):
            quick(n_members=2, n_threads=n_threads).fit(*wave, run=Run(callback=callback))
