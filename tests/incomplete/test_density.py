"""The density of the inputs: conditioning against Bayes' rule, expectation maximisation against other codes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from gpzed.gp.whitening import Moments
from gpzed.incomplete.density import Density, Observations, choose_mixture, normalise

ROOT = np.array([[1.0, 0.0, 0.0], [0.7, 0.7, 0.0], [0.5, 0.3, 0.8]])
TWO = Density(np.array([0.3, 0.7]), np.array([[1.0, -1.0, 0.5], [0.0, 2.0, 0.0]]), np.stack([ROOT @ ROOT.T, np.eye(3)]))


def bayes(density, x, std):
    """What textbooks say of one row: probabilities, means and covariances of the components, log density."""
    seen = np.flatnonzero(~np.isnan(x))
    logs, means, covariances = [], [], []
    for weight, mean, C in zip(density.weights, density.means, density.covariances, strict=True):
        S = C[np.ix_(seen, seen)] + np.diag(std[seen] ** 2)
        gain = C[:, seen] @ np.linalg.inv(S)
        logs.append(np.log(weight) + (stats.multivariate_normal(mean[seen], S).logpdf(x[seen]) if len(seen) else 0.0))
        means.append(mean + gain @ (x[seen] - mean[seen]))
        covariances.append(C - gain @ C[seen])
    total = np.logaddexp.reduce(logs)
    return np.exp(logs - total), np.array(means), np.array(covariances), total


@pytest.mark.parametrize("is_exact", [False, True])
def test_conditioning_is_bayes_rule(is_exact):
    rng = np.random.default_rng(4)
    X, std = rng.standard_normal((5, 3)), np.exp(rng.standard_normal((5, 3))) * (not is_exact)
    X[1, 2], X[2, :2], X[3], std[0, 1] = np.nan, np.nan, np.nan, 0.0
    given = TWO.condition(X, None if is_exact else std)
    regressions = TWO.regress(~np.isnan(X), std**2, ridge=0.0)
    logs, offsets = regressions.expect(np.nan_to_num(X), [(i, slice(i, i + 1)) for i in range(5)])
    for i, (x, errors) in enumerate(zip(X, std, strict=True)):
        probabilities, means, covariances, total = bayes(TWO, x, errors)
        for probability in (given.probabilities[i], normalise(logs)[0][:, i]):
            np.testing.assert_allclose(probability, probabilities, rtol=1e-12)
        for mean in (given.means[i], TWO.means + offsets[:, i]):
            np.testing.assert_allclose(mean, means, rtol=1e-12, atol=1e-12)
        for covariance in (given.covariances[i], regressions.Psi[i]):
            np.testing.assert_allclose(covariance, covariances, atol=1e-12)
        assert normalise(logs)[1][i] == pytest.approx(total, rel=1e-12)


def test_what_was_seen_without_error_stays_as_it_was():
    given = TWO.regress(np.array([[True, False, True]]), np.array([[0.2, 9.9, 0.0]]))
    assert not given.Psi[0, :, 2].any()
    assert not given.Psi[0, :, :, 2].any()
    np.testing.assert_array_equal(given.slopes[0, :, :, 2], [[0.0, 0.0, 1.0]] * 2)
    assert not given.maps[0, :, 1].any()  # and what was not seen tells nothing


def test_inputs_that_repeat_each_other_do_no_harm():
    C = np.ones((3, 3)) + np.diag([0.0, 0.0, 1.0])
    given = Density.gaussian(np.zeros(3), C).regress(np.array([[True, True, False]]))
    slopes = given.slopes[0, 0, :, 2]
    assert slopes[0] + slopes[1] == pytest.approx(1.0)
    assert given.Psi[0, 0, 2, 2] == pytest.approx(1.0)


def test_filled_rows_are_the_expected_ones_whatever_their_company():
    X = np.random.default_rng(0).standard_normal((40, 3))
    X[::2, 1], X[::3, 0], X[5] = np.nan, np.nan, np.nan
    gaussian = Density.gaussian(TWO.means[0], TWO.covariances[0])
    filled = gaussian.fill(X)
    np.testing.assert_allclose(filled, gaussian.condition(X).means[:, 0], rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    for rows in (slice(0, 1), slice(3, 17)):
        np.testing.assert_array_equal(gaussian.fill(X[rows]), filled[rows])
    complete = X[7:8]
    assert gaussian.fill(complete) is complete


def test_log_density_of_complete_rows_is_that_of_scipy():
    X = np.random.default_rng(1).standard_normal((10, 3))
    expected = [
        np.log(w) + stats.multivariate_normal(m, C).logpdf(X) for w, m, C in zip(*vars(TWO).values(), strict=True)
    ]
    np.testing.assert_allclose(TWO.log_components(np.ascontiguousarray(X.T)), expected, rtol=1e-10)


def observed(n=40_000):
    """Rows of a known density, in four patterns, with errors in two of the inputs."""
    rng = np.random.default_rng(0)
    noise = np.array([0.3, 0.0, 0.5]) ** 2
    X = rng.standard_normal((n, 3)) @ ROOT.T + [1.0, 2.0, 3.0] + np.sqrt(noise) * rng.standard_normal((n, 3))
    seen = np.array([[1, 1, 1], [1, 0, 1], [0, 1, 1], [1, 1, 0]], dtype=bool)
    counts = np.full(4, n // 4)
    return Observations(X * np.repeat(seen, counts, axis=0), np.ones(n), counts, seen, np.tile(noise, (4, 1)))


def test_the_density_of_rows_with_gaps_and_errors_is_that_of_the_true_inputs():
    rows = observed()
    density = Density.fit(rows)
    np.testing.assert_allclose(density.mean, [1.0, 2.0, 3.0], atol=0.04)
    np.testing.assert_allclose(density.covariance, ROOT @ ROOT.T, atol=0.06)


def test_few_rows_with_the_moments_of_many_give_the_same_gaussian():
    rows = observed(2000)
    parts = [
        Moments.of(rows.X[part][:, seen], rows.weight[part]) for part, seen in zip(rows.slices, rows.seen, strict=True)
    ]
    few = Observations.from_moments(parts, rows.seen, rows.noise)
    assert len(few.X) == 7 + 5 + 5 + 5
    one, other = Density.fit(few), Density.fit(rows)
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-10)
    np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-10)


def test_features_of_large_numbers_do_not_drown_those_of_small_ones():
    """Fluxes of 1e-29 beside numbers of 1e18 got a scatter of 0.2."""
    scale = np.array([1e18, 1e-29, 1.0])
    X = np.random.default_rng(0).standard_normal((60, 3)) @ np.array(
        [[1.0, 0.5, 0.2], [0.0, 1.0, 0.3], [0.0, 0.0, 1.0]]
    )
    moments = Moments.of(scale * X, np.ones(60))
    rows, weight = moments.as_rows()
    found = Moments.of(rows, weight)
    np.testing.assert_allclose(found.mean / scale, moments.mean / scale, atol=1e-12)
    np.testing.assert_allclose(found.scatter / np.outer(scale, scale), Moments.of(X, np.ones(60)).scatter, rtol=1e-9)


def test_complete_rows_give_their_moments():
    X = np.random.default_rng(0).standard_normal((100, 3)) @ ROOT.T
    density = Density.fit(Observations.complete(X))
    np.testing.assert_allclose(density.mean, X.mean(axis=0), atol=1e-14)
    np.testing.assert_allclose(density.covariance, np.cov(X.T, bias=True), rtol=1e-12)


def test_steps_are_those_of_scikit_learn():
    rng = np.random.default_rng(2)
    X = np.concatenate([rng.normal(-2, 0.5, (300, 2)), rng.normal(1, 1.0, (500, 2))])
    start = Density(np.array([0.5, 0.5]), X[[0, -1]], np.tile(np.eye(2), (2, 1, 1)))
    found = Density.fit(Observations.complete(X), start, max_steps=7, min_change=0.0, floor=0.05, ridge=0.0)
    init = {"weights_init": start.weights, "means_init": start.means, "precisions_init": start.covariances}
    other = GaussianMixture(2, max_iter=7, tol=0.0, reg_covar=0.05, **init)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        other.fit(X)
    np.testing.assert_allclose(found.weights, other.weights_, rtol=1e-10)
    np.testing.assert_allclose(found.means, other.means_, rtol=1e-10)
    np.testing.assert_allclose(found.covariances, other.covariances_, rtol=1e-10, atol=1e-12)


def test_likelihood_never_falls_and_empty_components_go():
    rows = observed(2000)
    density, scores = TWO, []
    for _ in range(10):
        density, score = density._step(rows, 0.0, 0.0, 1e-9)
        scores.append(score)
    assert np.all(np.diff(scores) > 0.0)
    lost = Density(np.array([0.5, 0.5]), np.array([[1.0, 2.0, 3.0], [90.0, 90.0, 90.0]]), np.tile(np.eye(3), (2, 1, 1)))
    assert len(Density.fit(rows, lost, max_steps=3, min_weight=1.0).weights) == 1


def test_held_out_rows_choose_as_many_components_as_there_are():
    rng = np.random.default_rng(3)
    X = np.where(rng.random((1200, 1)) < 0.5, [[-3.0, 2.0]], [[3.0, 2.0]]) + 0.5 * rng.standard_normal((1200, 2))
    rows = Observations.complete(X)
    for data, size in ((rows, 2), (Observations.complete(rng.standard_normal((1200, 2))), 1)):
        assert len(choose_mixture(Density.fit(data), data, (1, 2, 4), rng).weights) == size


def test_rows_infinitely_far_from_all_components_belong_to_all_alike():
    share, total = normalise(np.array([[-np.inf, 0.0], [-np.inf, -np.inf]]))
    np.testing.assert_array_equal(share, [[0.5, 1.0], [0.5, 0.0]])
    np.testing.assert_array_equal(total, [-np.inf, 0.0])
