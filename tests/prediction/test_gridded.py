"""Densities on a grid answer as fine sums say, and as the Gaussian mixture does that they tabulate."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import trapezoid

from gpzed.evaluation import evaluate
from gpzed.prediction import GriddedPrediction, Prediction

GRID = np.linspace(-1.0, 4.0, 2001)
COARSE = np.array([0.0, 0.1, 0.4, 1.0, 1.5, 2.5])
FINE = np.linspace(-0.5, 3.0, 350_001)


@pytest.fixture(scope="module")
def rough() -> GriddedPrediction:
    density = np.random.default_rng(0).random((5, len(COARSE)))
    density[1, :2] = 0.0
    density[2, 2:4] = 0.0
    return GriddedPrediction(COARSE, density)


@pytest.fixture(scope="module")
def mixture() -> Prediction:
    rng = np.random.default_rng(1)
    weights = rng.dirichlet([1.0, 1.0], 40)
    return Prediction(weights, rng.uniform(0.5, 2.0, (40, 2)), np.zeros((40, 2)), rng.uniform(0.01, 0.05, (40, 2)))


def integral(values: np.ndarray) -> np.ndarray:
    return trapezoid(values, FINE, axis=-1)


def test_moments_scores_and_distribution_are_those_of_fine_sums(rough: GriddedPrediction) -> None:
    density = rough.pdf_grid(FINE)
    np.testing.assert_allclose(integral(density), 1.0, rtol=1e-5)
    mean = integral(density * FINE)
    np.testing.assert_allclose(rough.mean, mean, rtol=1e-5)
    np.testing.assert_allclose(rough.variance, integral(density * (FINE - mean[:, None]) ** 2), rtol=1e-4)
    np.testing.assert_allclose(rough.squared_density_integral(), integral(density**2), rtol=1e-4)
    below = rough.cdf_grid(FINE)
    np.testing.assert_allclose(below[:, -1], 1.0, rtol=1e-12)
    for z in (-0.3, 0.0, 0.25, 1.0, 2.2, 2.9):
        step = integral((below - (z <= FINE)) ** 2)
        np.testing.assert_allclose(rough.crps(z), step, rtol=1e-4)
        at = np.argmin(np.abs(FINE - z))
        np.testing.assert_allclose(rough.cdf(z), below[:, at], atol=1e-5)
        np.testing.assert_allclose(rough.pdf(z), density[:, at], atol=1e-4)
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(rough.log_pdf(-0.2), np.full(5, -np.inf))


def test_quantiles_invert_the_distribution(rough: GriddedPrediction) -> None:
    for q in (0.0, 1e-6, 0.1, 0.5, 0.77, 1.0):
        np.testing.assert_allclose(rough.cdf(rough.quantile(q)), q, atol=1e-12)
    np.testing.assert_array_equal(rough.median, rough.quantile(0.5))
    low, high = rough.interval(0.68)
    np.testing.assert_allclose(rough.cdf(high) - rough.cdf(low), 0.68, atol=1e-9)
    drawn = rough.sample(2000, random_state=0)
    np.testing.assert_allclose(drawn.mean(axis=1), rough.mean, atol=5 * rough.std.max() / np.sqrt(2000))


def test_all_metrics_agree_with_the_mixture_that_was_tabulated(mixture: Prediction) -> None:
    z = mixture.sample(1, random_state=2)[:, 0]
    expected = evaluate(z, mixture)
    found = evaluate(z, GriddedPrediction(GRID, mixture.pdf_grid(GRID)))
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=2e-4, abs=2e-4), name


def test_rows_pieces_and_cuts(rough: GriddedPrediction) -> None:
    assert repr(rough) == "GriddedPrediction(n=5, grid=0 to 2.5 in 6 points)"
    np.testing.assert_array_equal(rough[[3, 1]].mean, rough.mean[[3, 1]])
    np.testing.assert_array_equal(rough[2].mean, rough.mean[2:3])
    joined = GriddedPrediction.concatenate([rough[:2], rough[2:]])
    np.testing.assert_array_equal(joined.mean, rough.mean)
    cut = rough.truncate(0.7)
    np.testing.assert_allclose(cut.cdf(1.2), (rough.cdf(1.2) - rough.cdf(0.7)) / (1.0 - rough.cdf(0.7)), rtol=1e-10)
    assert rough.truncate(None) is rough
    np.testing.assert_array_equal(rough.mode, COARSE[np.argmax(rough.density, axis=1)])
    assert not rough.model_variance.any()
    np.testing.assert_allclose(rough.stacked_pdf([0.5]), rough.pdf_grid([0.5]).mean(axis=0))


def test_what_is_no_density_is_refused(rough: GriddedPrediction) -> None:
    for grid, density, message in (
        ([0.0, 0.0], [[1.0, 1.0]], "strictly increasing"),
        ([0.0, 1.0], [[1.0, 1.0, 1.0]], r"`density` has shape \(1, 3\); expected \(n, 2\)"),
        ([0.0, 1.0], [[1.0, -1.0]], "is negative or not finite"),
        ([0.0, 1.0], [[0.0, 0.0]], "is zero on the whole grid"),
    ):
        with pytest.raises(ValueError, match=message):
            GriddedPrediction(grid, density)
    with pytest.raises(ValueError, match=r"`lower` is 3.0 but the grid ends at 2.5"):
        rough.truncate(3.0)
    with pytest.raises(TypeError, match="no members to combine"):
        GriddedPrediction.mixture([rough])
    with pytest.raises(ValueError, match="not all tabulated on the same grid"):
        GriddedPrediction.concatenate([rough, GriddedPrediction([0.0, 1.0], [[1.0, 1.0]])])
