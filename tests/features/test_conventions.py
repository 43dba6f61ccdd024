"""Which way corrections go, what stands in for what, and where limits apply, in examples done by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpzed.catalog import Catalog, Photometry, PhotometrySchema, extract_photometry, guess_schema
from gpzed.features import FeatureConfig, balanced_weights, fit_transformer, random_split, target_weights
from gpzed.features.bands import softening_of
from gpzed.features.transformer import BLOCK_ROWS
from workflows.galaxy_files import galaxies

PAPER = FeatureConfig(magnitudes="pogson", errors="inputs", clip=0.0)
ASINH = FeatureConfig(magnitudes="asinh", errors="noise", clip=0.0)


def photometry(columns: dict[str, np.ndarray]) -> Photometry:
    return extract_photometry(Catalog(columns), guess_schema(tuple(columns)))


def magnitudes(n: int = 1000, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    columns = {f"mag_{band}": rng.uniform(20.0, 22.0, n) for band in "gri"}
    return columns | {f"mag_err_{band}": rng.uniform(0.05, 0.1, n) for band in "gri"}


def test_weights_count_neighbours_without_the_object_itself() -> None:
    x = np.array([[0.0], [1.0], [3.0]])  # nearest neighbours are 1, 1 and 2 away
    weights = target_weights(x, np.array([[0.9], [1.0], [4.9]]), n_neighbours=1)
    np.testing.assert_allclose(weights, np.array([2.0, 2.0, 2.0]) / 2.0)
    lonely = target_weights(x, np.array([[0.9], [1.1], [1.2]]), n_neighbours=1)
    np.testing.assert_allclose(lonely, 3.0 * np.array([1.0, 3.0, 2.0]) / 6.0)


def test_inputs_are_scaled_before_neighbours_are_sought() -> None:
    rng = np.random.default_rng(0)
    X, target = rng.standard_normal((300, 2)), 0.5 * rng.standard_normal((300, 2))
    np.testing.assert_allclose(target_weights(X * [1.0, 1e3], target * [1.0, 1e3]), target_weights(X, target))


def test_the_limit_holds_for_the_weights_that_are_returned() -> None:
    x = np.linspace(0.0, 1.0, 400)[:, None]
    target = np.concatenate([np.full(10_000, 0.5), np.linspace(0.0, 1.0, 400)])[:, None] + 1e-4
    assert target_weights(x, target, n_neighbours=2, max_weight=5.0).max() == pytest.approx(5.0, rel=1e-5)
    z = np.concatenate([np.full(9990, 0.05), np.linspace(1.0, 2.0, 10)])
    assert balanced_weights(z, 0.1, max_weight=8.0).max() == pytest.approx(8.0, rel=1e-5)


def test_validation_and_test_parts_are_not_mixed_up() -> None:
    split = random_split(100, 0.3, 0.1, seed=0)
    assert (len(split.validation), len(split.test)) == (30, 10)


def test_dereddening_scales_flux_and_error_alike() -> None:
    rows = photometry(magnitudes())
    plain, dereddened = softening_of(rows, None), softening_of(rows, np.full((1000, 3), 2.5))
    np.testing.assert_allclose(dereddened, 10.0 * plain)


def test_errors_of_fluxes_are_those_of_magnitudes_and_raised_to_the_least() -> None:
    columns = {f"flux_{b}": np.full(50, 1e3) + np.arange(50) for b in "gr"}
    columns |= {"flux_err_g": np.full(50, 100.0), "flux_err_r": np.full(50, 1e-3)}
    columns["flux_g"][0] = 0.0
    schema = PhotometrySchema.from_templates(columns, "gr", flux="flux_{band}", err="flux_err_{band}", zero_point=23.9)
    rows = extract_photometry(Catalog(columns), schema)
    X = fit_transformer(rows, replace(PAPER, min_error=0.01)).transform(rows).X
    np.testing.assert_allclose(X[1], [23.9 - 2.5 * np.log10(1001.0), 23.9 - 2.5 * np.log10(1001.0),
                                      np.log(2.5 / np.log(10.0) * 100.0 / 1001.0), np.log(0.01)])  # fmt: skip
    assert rows.measured[0, 0]
    assert X[0, 0] == X[1:, 0].max()  # no flux at all is a non-detection: the faint end stands in


def test_a_non_detection_stands_at_the_faintest_fiftieth_with_its_error() -> None:
    columns = magnitudes()
    columns["mag_err_g"] = np.where(columns["mag_g"] > 21.96, 0.5, 0.1)
    columns["mag_g"][0] = columns["mag_err_g"][0] = 99.0
    X = fit_transformer(photometry(columns), PAPER).transform(photometry(columns)).X
    seen = np.sort(columns["mag_g"][1:])
    assert X[0, 0] == pytest.approx(np.median(seen[-20:]), abs=2e-3)
    assert X[0, 3] == pytest.approx(np.log(0.5))


def test_limits_are_dereddened_and_kept_in_range() -> None:
    columns = magnitudes()
    columns["mag_g"][:2], columns["mag_err_g"][:2] = 99.0, [21.0, 26.0]  # limits in the place of errors
    rows = photometry(columns)
    fitted = fit_transformer(rows, replace(PAPER, clip=2.0, extinction={"g": 2.0}), np.full(1000, 0.1))
    X = fitted.transform(rows, np.full(1000, 0.1)).X
    assert X[0, 0] == pytest.approx(20.8)
    assert X[1, 0] == fitted.upper[0] < 25.0


def test_colours_are_blue_minus_red_with_the_band_in_the_middle() -> None:
    columns = {"mag_g": np.full(50, 22.0), "mag_r": np.full(50, 21.5), "mag_i": np.full(50, 20.5)}
    rows = photometry({**columns, **{f"mag_err_{band}": np.full(50, 0.1) for band in "gri"}})
    fitted = fit_transformer(rows, FeatureConfig(magnitudes="pogson", colours=True, clip=0.0))
    assert fitted.names == ("g-r", "r-i", "mag_r")
    np.testing.assert_allclose(fitted.transform(rows).X[0], [0.5, 1.0, 21.5])
    np.testing.assert_allclose(fitted.filled(np.full((1, 3), np.nan)), [[0.5, 1.0, 21.5]])


def test_a_missing_extinction_is_the_median_one() -> None:
    ebv = np.concatenate([np.full(999, 0.1), [10.0]])
    rows = photometry(magnitudes())
    fitted = fit_transformer(rows, replace(PAPER, extinction={"g": 1.0}), ebv)
    X = fitted.transform(rows, np.full(1000, np.nan)).X
    np.testing.assert_allclose(X[:, 0], rows.values[:, 0] - 0.1)


def test_a_non_detection_is_as_deep_as_its_row() -> None:
    columns = {name: np.array(galaxies(400)[name]) for name in galaxies(400).names if name.startswith("mag_")}
    columns["mag_u"][:60] = columns["mag_err_u"][:60] = 99.0
    rows = photometry(columns)
    fitted = fit_transformer(rows, ASINH)
    shallow = {name: np.where(name.startswith("mag_err"), 3.0, 1.0) * values for name, values in columns.items()}
    shallow["mag_err_u"][:60] = 99.0
    deep_std, shallow_std = (fitted.transform(part).X_std[:60, 0] for part in (rows, photometry(shallow)))
    np.testing.assert_allclose(np.median(shallow_std / deep_std), 3.0, rtol=0.35)
    assert np.median(deep_std) == pytest.approx(0.5 * 2.5 / np.log(10.0), rel=0.35)  # a flux error at no flux
    assert fitted.transform(rows).X_std.min() >= fitted.config.min_error


def test_a_non_detection_is_not_brighter_than_what_is_measured() -> None:
    rng = np.random.default_rng(0)
    g = np.concatenate([np.full(40, 18.0), rng.uniform(20.0, 22.0, 400)])
    columns = {"mag_g": g, "mag_r": g - 0.5 + 0.05 * rng.standard_normal(440)}
    columns |= {f"mag_err_{band}": np.full(440, 0.05) for band in "gr"}
    columns["mag_r"][:40] = columns["mag_err_r"][:40] = 99.0  # where g would let expect a bright r
    fitted = fit_transformer(photometry(columns), replace(ASINH, errors="none"))
    assert fitted.faint[1] == pytest.approx(np.median(columns["mag_r"][40:]), abs=0.01)


def test_the_flux_of_a_non_detection_grows_with_the_error_of_its_row() -> None:
    rng = np.random.default_rng(1)
    flux = np.exp(rng.normal(1.5, 0.5, (2000, 2)))  # in units of the flux of magnitude 25
    columns = {f"mag_{band}": 25.0 - 2.5 * np.log10(flux[:, k]) for k, band in enumerate("gr")}
    columns |= {f"mag_err_{band}": 1.0857 * 0.02 / flux[:, k] for k, band in enumerate("gr")}
    faint = np.argsort(flux[:, 0])[:500]
    columns["mag_g"][faint] = columns["mag_err_g"][faint] = 99.0
    rows = photometry(columns)
    fitted = fit_transformer(rows, ASINH)
    deeper = photometry({**columns, "mag_err_r": columns["mag_err_r"] / 10.0})
    standing_in, deeper_one = (fitted.transform(part).X[faint, 0].mean() for part in (rows, deeper))
    assert deeper_one > standing_in + 1.0  # a tenth of the flux is fainter


def test_blocks_of_rows_do_not_show() -> None:
    rows = photometry(magnitudes(BLOCK_ROWS + 5))
    fitted = fit_transformer(rows, PAPER)
    whole = fitted.transform(rows).X
    np.testing.assert_array_equal(whole[:, 0], rows.values[:, 0])
