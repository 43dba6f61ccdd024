"""Sample weights: what they mean, and that they leave the variances calibrated."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import one_model

pytestmark = pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")


def quick(**options):
    return one_model(**({"n_basis": 6, "max_iter": 40, "n_threads": 1, "random_state": 0} | options))


def both(model, X):
    return np.stack(model.predict(X, return_std=True))


def test_integer_weights_are_repetitions(wave):
    X, y = wave
    counts = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = quick().fit(X, y, counts)
    repeated = quick().fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(both(weighted, X), both(repeated, X), rtol=1e-10)


def test_weight_zero_leaves_a_row_out(wave):
    X, y = wave
    weights = (np.arange(len(y)) % 3 > 0).astype(float)
    used = weights > 0
    np.testing.assert_array_equal(both(quick().fit(X, y, weights), X), both(quick().fit(X[used], y[used]), X))


@pytest.mark.parametrize("weighting", ["likelihood", "precision"])
def test_ones_are_no_weights(wave, weighting):
    X, y = wave
    model = quick(weighting=weighting)
    np.testing.assert_array_equal(both(model.fit(X, y), X), both(model.fit(X, y, np.ones(len(y))), X))


def test_the_two_weightings_differ(wave):
    X, y = wave
    weights = (1.0 + np.abs(X[:, 0])) ** -2
    one = both(quick(weighting="likelihood").fit(X, y, weights), X)
    two = both(quick(weighting="precision").fit(X, y, weights), X)
    assert np.all(np.isfinite(one))
    assert np.all(np.isfinite(two))
    assert np.abs(one[1] / two[1] - 1.0).max() > 0.02


def survey(n, seed):
    """Redshift-like targets from 0 to 3 whose noise grows with them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    mean = 1.5 + np.tanh(X[:, 0]) + 0.3 * np.sin(2 * X[:, 1])
    y = mean + 0.05 * (1.0 + mean) * rng.standard_normal(n)
    return X, y, (1.0 + mean) ** -2.0


@pytest.mark.parametrize("calibrate", ["global", "none"])
def test_predictions_stay_calibrated_under_weights(calibrate):
    X, y, weights = survey(3000, 0)
    X_test, y_test, _ = survey(5000, 1)
    model = quick(n_basis=15, max_iter=80, calibrate=calibrate).fit(X, y, weights)
    mean, std = model.predict(X_test, return_std=True)
    pulls = (y_test - mean) / std
    assert 0.9 < pulls.std() < 1.1
    for part in (y_test < 1.0, y_test > 2.0):  # not only on average
        assert 0.8 < pulls[part].std() < 1.25


def test_the_papers_weighting_is_not_calibrated_at_its_optimum():
    """Why it is not the default: weights are read as noise precisions, and pulls come out at 2.5."""
    X, y, weights = survey(3000, 0)
    X_test, y_test, _ = survey(5000, 1)
    pulls = {}
    for weighting in ("likelihood", "precision"):
        model = quick(n_basis=15, max_iter=80, weighting=weighting, validation_fraction=0.0).fit(X, y, weights)
        mean, std = model.predict(X_test, return_std=True)
        pulls[weighting] = ((y_test - mean) / std).std()
    assert 0.9 < pulls["likelihood"] < 1.1
    assert pulls["precision"] > 2.0


def test_weights_pull_the_fit():
    """Two branches at every input: the weighted mean is what is learned."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1000, 1))
    branch = np.arange(1000) % 2
    y = branch + 0.1 * rng.standard_normal(1000)
    model = quick(noise="homoscedastic").fit(X, y, np.where(branch == 1, 3.0, 1.0))
    assert model.predict(X).mean() == pytest.approx(0.75, abs=0.03)
