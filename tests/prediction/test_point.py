"""The redshift of least expected loss, against brute force; and what a prediction quotes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar

from gpzed.compiled import binding
from gpzed.prediction import GriddedPrediction, Prediction
from gpzed.prediction.mixture import build, component_quantile
from gpzed.prediction.point import FAR, FAR_COST, KNEE, RAMP, best_points, expected_loss, least_loss, nodes_of

GRID = np.linspace(0.0, 8.0, 40_001)


def make(n: int = 40, K: int = 5, seed: int = 0, **options: object) -> Prediction:
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(K), n)
    stds = np.exp(rng.uniform(np.log(0.01), np.log(0.4), (n, K)))
    return Prediction(weights, rng.uniform(0.0, 3.0, (n, K)), 0.3 * stds**2, 0.7 * stds**2, **options)


def huber(d: np.ndarray) -> np.ndarray:
    return np.where(np.abs(d) < KNEE, 0.5 * d**2, KNEE * (np.abs(d) - 0.5 * KNEE))


def by_force(prediction: Prediction) -> np.ndarray:
    """Minimise the loss on a fine grid, object by object."""
    found = []
    for p in prediction.pdf_grid(GRID):
        loss = minimize_scalar(
            lambda point, p=p: p @ huber((GRID - point) / (1.0 + GRID)),
            bounds=(0.0, 5.0),
            method="bounded",
            options={"xatol": 1e-7},
        )
        found.append(loss.x)
    return np.array(found)


@pytest.mark.parametrize("K", [1, 2, 5, 25])
def test_best_is_the_minimum_of_the_expected_loss(K: int) -> None:
    prediction = make(K=K, seed=K, lower=0.0)
    truth = by_force(prediction)
    assert_allclose(prediction.best, truth, atol=0.006)
    assert np.mean(np.abs(prediction.best - truth)) < 0.0015


def by_fine_quadrature(prediction: Prediction) -> np.ndarray:
    """Return the minimum under 4,000 points per component, denser in the tails."""
    x, share = np.polynomial.legendre.leggauss(16)
    tail = np.geomspace(1e-12, 1e-2, 30)
    edges = np.concatenate([[0.0], tail, np.linspace(0.01, 0.99, 200)[1:-1], 1.0 - tail[::-1], [1.0]])
    half = 0.5 * np.diff(edges)[:, None]
    nodes, weights = (edges[:-1, None] + half * (1.0 + x)).reshape(1, -1), (half * share).ravel()
    found = []
    for p in (prediction[i] for i in range(len(prediction))):
        mix = build(p.weights, p.means, p.component_stds, p.lower)
        z, probability = component_quantile(mix, nodes)[:, 0], mix.weights[:, 0] * weights
        found.append(least_loss(z.reshape(1, -1), probability.reshape(1, -1))[0])
    return np.array(found)


@pytest.mark.parametrize(("lower", "median", "most"), [(0.0, 0.001, 0.012), (None, 0.001, 0.1)])
def test_best_is_as_accurate_as_stated(lower: float | None, median: float, most: float) -> None:
    rng = np.random.default_rng(0)
    errors = []
    for K in (1, 2, 5, 16, 40):
        stds = np.exp(rng.uniform(np.log(0.005), np.log(0.5), (80, K)))
        spread = np.exp(rng.uniform(np.log(0.01), np.log(1.0), (80, 1)))
        means = np.abs(rng.uniform(0.0, 3.0, (80, 1)) + spread * rng.standard_normal((80, K)))
        weights = rng.dirichlet(np.full(K, 0.7), 80)
        prediction = Prediction(weights, means, 0.5 * stds**2, 0.5 * stds**2, lower=lower)
        errors.append(np.abs(prediction.best - by_fine_quadrature(prediction)) / prediction.std)
    assert np.median(errors) < median
    assert np.max(errors) < most


def test_narrow_density_gets_its_mean_and_two_peaks_the_heavier_one() -> None:
    narrow = Prediction.gaussian([0.7], 0.0, 0.01**2, lower=0.0)
    assert_allclose(narrow.best, 0.7, atol=2e-4)
    peaks = Prediction([[0.7, 0.3]], [[0.5, 2.5]], np.zeros((1, 2)), np.full((1, 2), 0.02**2), lower=0.0)
    assert abs(peaks.best[0] - 0.5) < 0.1 < peaks.mean[0] - 0.5


def test_deeply_cut_components_count() -> None:
    prediction = Prediction([[0.5, 0.5]], [[-3.0, 0.2]], np.zeros((1, 2)), [[1.0, 0.01]], lower=0.0)
    assert_allclose(prediction.best, by_force(prediction), atol=3e-3)


def test_tails_above_the_cut_are_not_merged_away() -> None:
    rng = np.random.default_rng(0)
    n, K = 40, 60
    means = rng.normal(-0.5, 0.03, (n, K))
    prediction = Prediction(
        rng.dirichlet(np.full(K, 0.3), n), means, rng.uniform(0.03, 0.1, (n, K)) ** 2, 0 * means, lower=0.0
    )
    expected = best_points(prediction.weights, prediction.means, prediction.component_stds, 0.0)
    assert_allclose(prediction.best, expected, rtol=1e-9)
    at = prediction.mean + 2.0 * prediction.std
    assert_allclose(prediction.reduced().log_pdf(at), prediction.log_pdf(at), atol=0.2)


@pytest.mark.parametrize("lower", [None, 0.0])
@pytest.mark.parametrize(("K", "n"), [(1, 3), (2, 500), (5, 61), (25, 200)])
def test_compiled_points_are_those_of_numpy(lanes: None, K: int, n: int, lower: float | None) -> None:
    rng = np.random.default_rng(K)
    weights, stds = rng.dirichlet(np.full(K, 0.3), n), np.exp(rng.uniform(np.log(0.005), np.log(0.5), (n, K)))
    means = rng.uniform(-0.2, 1.5, (n, K))
    if lower is not None:
        means[: n // 3] -= rng.uniform(0.0, 40.0, (n // 3, 1))  # cut far from any component
    weights[0] = np.eye(K)[0]
    expected = least_loss(*nodes_of(build(weights, means, stds, lower), weights.shape[1]))
    assert_allclose(best_points(weights, means, stds, lower), expected, rtol=1e-4, atol=2e-5)


def test_search_ends_at_the_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Newton's method alone goes to and fro between two kinks for some of these."""
    prediction = make(n=2000, K=25, seed=1)
    weights, means, stds = prediction.weights, prediction.means, prediction.component_stds
    z, p = nodes_of(build(weights, means, stds, 0.0), weights.shape[1])

    def loss(point: np.ndarray) -> np.ndarray:
        return np.asarray((p * huber((z - point[:, None]) / (1.0 + z))).sum(axis=1))

    for library in (binding._library, None):
        monkeypatch.setattr(binding, "_library", library)
        best = best_points(weights, means, stds, 0.0)
        for step in (-1e-4, 1e-4):
            assert np.all(loss(best) <= loss(best + step) + 1e-15)


def far_loss(d: np.ndarray) -> np.ndarray:
    size = np.abs(d)
    return huber(d) / KNEE + FAR_COST * np.interp(size, [FAR - RAMP / 2, FAR + RAMP / 2], [0.0, 1.0])


@pytest.mark.parametrize("K", [1, 2, 5])
def test_safe_is_the_minimum_of_a_loss_with_several(K: int) -> None:
    prediction = make(n=30, K=K, seed=K, lower=0.0)
    z = GRID[:16_000:8]  # to 3.2
    d = (z[:, None] - z) / (1.0 + z[:, None])
    for p, safe in zip(prediction.pdf_grid(z), prediction.safe, strict=True):
        loss = p @ far_loss(d) / p.sum()
        assert np.interp(safe, z, loss) < loss.min() + 0.002


def test_far_errors_are_fewer_where_they_cost_more() -> None:
    prediction = make(n=4000, K=4, seed=2, lower=0.0)
    z = prediction.sample(random_state=0)[:, 0]
    far = {name: np.mean(np.abs(getattr(prediction, name) - z) > FAR * (1.0 + z)) for name in ("best", "safe", "mean")}
    assert far["safe"] < 0.97 * far["best"] < far["mean"]
    narrow = Prediction.gaussian([0.7], 0.0, 0.02**2, lower=0.0)
    assert narrow.safe == narrow.best  # nothing is far


@pytest.mark.parametrize("lower", [None, 0.0])
@pytest.mark.parametrize(("K", "n"), [(1, 3), (2, 500), (25, 200)])
def test_compiled_safe_points_are_as_good_as_those_of_numpy(
    lanes: None, monkeypatch: pytest.MonkeyPatch, K: int, n: int, lower: float | None
) -> None:
    rng = np.random.default_rng(K)
    weights, stds = rng.dirichlet(np.full(K, 0.3), n), np.exp(rng.uniform(np.log(0.005), np.log(0.5), (n, K)))
    means = rng.uniform(-0.2, 2.5, (n, K))
    z, p = nodes_of(build(weights, means, stds, lower), K)
    compiled = best_points(weights, means, stds, lower, far_cost=FAR_COST)
    monkeypatch.setattr(binding, "_library", None)
    ours = best_points(weights, means, stds, lower, far_cost=FAR_COST)
    losses = [expected_loss(z, p, point, KNEE, FAR_COST) for point in (compiled, ours)]
    assert_allclose(*losses, atol=2e-5)
    assert np.mean(np.abs(compiled - ours) < 1e-3) > 0.97  # others have two minima alike
    for rows in (slice(0, 1), slice(1, 40)):
        np.testing.assert_array_equal(
            ours[rows], best_points(weights[rows], means[rows], stds[rows], lower, far_cost=FAR_COST)
        )


def test_points_without_weight_do_not_pull() -> None:
    z, p = np.array([[0.5, 0.5, 7.0]]), np.array([[0.5, 0.5, 0.0]])
    assert_allclose(least_loss(z, p), 0.5)


def test_tabulated_density_has_the_same_point() -> None:
    prediction = make(K=3, seed=3, lower=0.0)
    table = GriddedPrediction(GRID[::20], prediction.pdf_grid(GRID[::20]))
    assert_allclose(table.best, prediction.best, atol=0.01)
    assert np.mean(np.abs(table.safe - prediction.safe) < 0.02) > 0.9  # the rest has two minima alike


def test_best_does_not_depend_on_the_other_objects() -> None:
    prediction = make(n=300, K=25, lower=0.0)
    for rows in (slice(7, 9), slice(0, 150), [3, 299]):
        np.testing.assert_array_equal(prediction[rows].best, prediction.best[rows])
        np.testing.assert_array_equal(prediction[rows].safe, prediction.safe[rows])


@pytest.mark.parametrize("name", ["best", "safe", "mean", "median", "mode"])
def test_quoted_redshift_is_the_one_asked_for(name: str) -> None:
    prediction = make(point=name, lower=0.0)
    assert_allclose(prediction.z_phot, getattr(prediction, name))
    assert_allclose(prediction[3:5].z_phot, getattr(prediction, name)[3:5], atol=1e-9)


def test_quoted_redshift_may_be_given() -> None:
    given = np.linspace(0.0, 1.0, 40)
    prediction = make(point=given)
    assert_allclose(prediction[10:].z_phot, given[10:])
    assert_allclose(Prediction.concatenate([prediction, make()]).z_phot, np.concatenate([given, make().mean]))
    assert prediction.truncate(0.0).point == "mean"


def test_members_are_quoted_alike() -> None:
    assert Prediction.mixture([make(point="best"), make(seed=1, point="best")]).point == "best"
    assert Prediction.mixture([make(point="best"), make(seed=1)]).point == "mean"


@pytest.mark.parametrize("bad", ["average", "z_phot", [0.5]])
def test_unknown_point_is_refused(bad: object) -> None:
    with pytest.raises(ValueError, match="point"):
        make(point=bad)
