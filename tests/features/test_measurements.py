from __future__ import annotations

import numpy as np
import pytest

from gpzed.catalog import Catalog, extract_photometry, guess_schema
from gpzed.features import FeatureConfig, fit_transformer
from gpzed.features.bands import asinh_error, asinh_flux, asinh_magnitude
from gpzed.features.measurements import linearise
from gpzed.incomplete.density import Density

SOFTENING = np.array([1.0, 1.0, 1.0]) * 10**-10.0
MEAN = np.array([24.5, 24.0, 23.5])
COVARIANCE = 0.6 * np.ones((3, 3)) + 0.15 * np.eye(3)
DENSITY = Density.gaussian(MEAN, COVARIANCE)


def measured(noise: float, n: int = 20_000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """True magnitudes, and measured ones with errors; flux errors are `noise` times the softening."""
    rng = np.random.default_rng(0)
    truth = rng.multivariate_normal(MEAN, COVARIANCE, n)
    sigma = noise * SOFTENING
    flux = asinh_flux(truth, SOFTENING) + sigma * rng.standard_normal(truth.shape)
    return truth, asinh_magnitude(flux, SOFTENING), asinh_error(sigma, flux, SOFTENING)


def judge(truth: np.ndarray, values: np.ndarray, errors: np.ndarray) -> tuple[float, float]:
    """Difference of the truth from what is expected of it, in units of its scatter: mean, and mean square per band."""
    total = COVARIANCE + errors[:, :, None] ** 2 * np.eye(3)
    expected = MEAN + (COVARIANCE @ np.linalg.solve(total, (values - MEAN)[:, :, None]))[:, :, 0]
    Psi = COVARIANCE - COVARIANCE @ np.linalg.solve(total, np.broadcast_to(COVARIANCE, total.shape))
    off = truth - expected
    square = off[:, None, :] @ np.linalg.solve(Psi, off[:, :, None])
    return float(np.mean(off / np.sqrt(np.einsum("naa->na", Psi)))), float(np.mean(square) / 3.0)


@pytest.mark.parametrize(("noise", "before"), [(2.0, 1.4), (4.0, 2.0), (8.0, 3.0)])
def test_truth_lies_where_measurements_with_low_signal_say(noise: float, before: float) -> None:
    truth, values, errors = measured(noise)
    bias, square = judge(truth, values, errors)
    assert square > before
    bias_after, square_after = judge(truth, *linearise(values, errors, SOFTENING, DENSITY))
    assert abs(bias_after) < min(0.05, 0.4 * bias)
    assert square_after == pytest.approx(1.0, abs=0.08)


def test_good_measurements_stay_as_they_are() -> None:
    _, values, errors = measured(0.01)
    after, errors_after = linearise(values, errors, SOFTENING, DENSITY)
    np.testing.assert_allclose(after, values, atol=0.003)
    np.testing.assert_allclose(errors_after, errors, rtol=0.05)


def test_gaps_stay_gaps_and_tell_nothing() -> None:
    _, values, errors = measured(2.0, 50)
    values[:, 1] = errors[:, 1] = np.nan
    after, errors_after = linearise(values, errors, SOFTENING, DENSITY)
    assert np.isnan(after[:, 1]).all()
    assert np.isnan(errors_after[:, 1]).all()
    keep = [0, 2]
    two = Density.gaussian(MEAN[keep], COVARIANCE[np.ix_(keep, keep)])
    alone = linearise(values[:, keep], errors[:, keep], SOFTENING[keep], two)
    np.testing.assert_allclose(after[:, keep], alone[0], rtol=1e-6)
    np.testing.assert_allclose(errors_after[:, keep], alone[1], rtol=1e-6)


@pytest.mark.parametrize("others", [300.0, 3000.0])
def test_a_band_is_not_overruled_by_the_others(others: float) -> None:
    """A band that dropped out, though the others are bright, keeps the error of a flux two errors above its own."""
    flux = np.array([[1.0, others, others]]) * SOFTENING
    values, errors = asinh_magnitude(flux, SOFTENING), asinh_error(SOFTENING, flux, SOFTENING)
    after, errors_after = linearise(values, errors, SOFTENING, DENSITY)
    assert abs(after[0, 0] - values[0, 0]) < 0.2 * errors[0, 0]
    assert errors_after[0, 0] == pytest.approx(asinh_error(SOFTENING, 3.0 * SOFTENING, SOFTENING)[0])


def test_the_error_of_a_band_without_detection_is_that_of_the_depth_of_its_row() -> None:
    rng = np.random.default_rng(1)
    n = 400
    truth = rng.multivariate_normal(MEAN, COVARIANCE, n)
    flux = np.maximum(asinh_flux(truth, SOFTENING), 0.1 * SOFTENING)

    def table(depth: float) -> Catalog:
        columns = {}
        for j, band in enumerate("ugr"):
            columns[f"mag_{band}"] = -2.5 * np.log10(flux[:, j])
            columns[f"mag_err_{band}"] = 1.0857 * depth * SOFTENING[j] / flux[:, j]
        columns["mag_u"][:100] = columns["mag_err_u"][:100] = 99.0
        return Catalog(columns)

    rows = {depth: extract_photometry(table(depth), guess_schema(table(1.0).names)) for depth in (1.0, 4.0)}
    fitted = fit_transformer(rows[1.0], FeatureConfig(errors="noise"))
    good, bad = (fitted.transform(rows[depth]).X_std for depth in (1.0, 4.0))
    assert good is not None
    assert bad is not None
    assert np.median(bad[:100, 0] / good[:100, 0]) > 2.0  # less than 4: at the flux expected, which is above zero
