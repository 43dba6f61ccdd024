from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from gpzed.catalog import Catalog, Photometry, PhotometrySchema, Status, extract_photometry, guess_schema
from gpzed.errors import CatalogError, ConfigError
from gpzed.features import FeatureConfig, FeatureTransformer, Flag, count_flags, fit_transformer, flag_legend
from gpzed.model.records import from_parts, to_parts
from workflows.galaxy_files import galaxies, with_sentinels

PAPER = FeatureConfig(magnitudes="pogson", errors="inputs")
CONFIGS = {
    "paper": PAPER,
    "default": FeatureConfig(),
    "asinh": FeatureConfig(magnitudes="asinh"),
    "colours": FeatureConfig(colours=True),
    "colours with r": FeatureConfig(colours=True, reference_band="r"),
    "no errors": FeatureConfig(errors="none"),
    "errors as noise": FeatureConfig(errors="noise", magnitudes="asinh"),
    "errors both ways": FeatureConfig(errors="both"),
    "filled": FeatureConfig(missing="fill"),
    "excess of the errors": FeatureConfig(errors="excess"),
    "excess, colours": FeatureConfig(errors="excess", colours=True, magnitudes="pogson"),
    "excess, filled, limits": FeatureConfig(errors="excess", missing="fill", non_detections="limit", clip=5.0),
    "non-detections as missing": FeatureConfig(non_detections="marginalise"),
    "non-detections at the limit": FeatureConfig(magnitudes="asinh", non_detections="limit"),
    "no clipping": FeatureConfig(clip=0.0),
}


def photometry(table: Catalog) -> Photometry:
    return extract_photometry(table, guess_schema(table.names))


@pytest.fixture(scope="module")
def table() -> Catalog:
    return galaxies(400)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_stored_and_restored_it_gives_the_same_inputs(config: FeatureConfig, table: Catalog) -> None:
    fitted = fit_transformer(photometry(table), config)
    stored, arrays = to_parts(fitted)
    restored = from_parts(FeatureTransformer, json.loads(json.dumps(stored)), arrays)
    assert restored == fitted
    rows = photometry(with_sentinels(table))
    for one, other in zip(fitted.transform(rows), restored.transform(rows), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_any_chunking_gives_the_same_inputs_bit_for_bit(config: FeatureConfig, table: Catalog) -> None:
    fitted = fit_transformer(photometry(table), config)
    target = with_sentinels(table)
    X, flags, X_std = fitted.transform(photometry(target))
    assert np.isfinite(fitted.filled(X)).all()
    assert np.isfinite(X).all() == (config.missing == "fill")
    assert X.shape == (400, len(fitted.names))
    for size in (1, 7, 100):
        parts = [fitted.transform(photometry(target.slice(i, i + size))) for i in range(0, 400, size)]
        np.testing.assert_array_equal(np.concatenate([part.X for part in parts]), X)
        np.testing.assert_array_equal(np.concatenate([part.flags for part in parts]), flags)
        assert (X_std is None) == (config.errors not in ("noise", "both"))
        if X_std is not None:
            np.testing.assert_array_equal(np.concatenate([part.X_std for part in parts]), X_std)


def test_no_rows_in_no_rows_out(table: Catalog) -> None:
    fitted = fit_transformer(photometry(table), PAPER)
    X, flags, _ = fitted.transform(photometry(table.slice(0, 0)))
    assert X.shape == (0, 6)
    assert flags.shape == (0,)


def test_inputs_of_the_paper_are_magnitudes_and_logarithms_of_errors(table: Catalog) -> None:
    fitted = fit_transformer(photometry(table), PAPER)
    assert fitted.names == ("mag_u", "mag_g", "mag_r", "ln_err_u", "ln_err_g", "ln_err_r")
    X, flags, _ = fitted.transform(photometry(table))
    np.testing.assert_array_equal(X[:, 1], table.floats("mag_g"))
    np.testing.assert_array_equal(X[:, 4], np.log(table.floats("mag_err_g")))
    assert not flags.any()


def test_colours_and_one_magnitude(table: Catalog) -> None:
    fitted = fit_transformer(photometry(table), replace(PAPER, colours=True))
    assert fitted.names[:3] == ("u-g", "g-r", "mag_g")
    X = fitted.transform(photometry(table)).X
    np.testing.assert_allclose(X[:, 0], table.floats("mag_u") - table.floats("mag_g"), atol=1e-12)
    np.testing.assert_allclose(X[:, 2], table.floats("mag_g"))


def test_asinh_magnitudes_agree_with_lupton_and_tame_the_boss_u_band(table: Catalog) -> None:
    fitted = fit_transformer(photometry(table), FeatureConfig(magnitudes="asinh"))
    columns = {name: np.array(table[name]) for name in table.names}
    columns["mag_u"][0], columns["mag_err_u"][0] = 33.0, 1e4
    X = fitted.transform(photometry(Catalog(columns))).X
    mag, err = table.floats("mag_g"), table.floats("mag_err_g")
    flux = 10.0 ** (-0.4 * mag)
    b = np.median(flux * err * np.log(10.0) / 2.5)
    expected = -2.5 / np.log(10.0) * (np.arcsinh(flux / (2 * b)) + np.log(b))
    np.testing.assert_allclose(X[:, 1], expected, rtol=1e-10)
    np.testing.assert_allclose(X[np.argmin(mag), 1], mag.min(), atol=0.01)
    assert X[0, 0] < 30.0


def test_fluxes_and_magnitudes_give_the_same_inputs(table: Catalog) -> None:
    columns = {}
    for band in "ugr":
        flux = 10.0 ** (-0.4 * (table.floats(f"mag_{band}") - 31.4))
        columns[f"flux_{band}"] = flux
        columns[f"flux_err_{band}"] = flux * table.floats(f"mag_err_{band}") * np.log(10.0) / 2.5
    schema = PhotometrySchema.from_templates(columns, "ugr", flux="flux_{band}", err="flux_err_{band}", zero_point=31.4)
    fluxes = extract_photometry(Catalog(columns), schema)
    for config in (PAPER, FeatureConfig(magnitudes="asinh")):
        fitted = fit_transformer(photometry(table), config)
        np.testing.assert_allclose(
            fitted.transform(fluxes)[0], fitted.transform(photometry(table))[0], rtol=1e-9, atol=1e-9
        )


def test_a_negative_flux_is_no_detection_for_pogson_and_fine_for_asinh(table: Catalog) -> None:
    columns = {f"flux_{b}": np.full(50, 100.0) + np.arange(50) for b in "gr"}
    columns |= {f"flux_err_{b}": np.full(50, 5.0) + 0.01 * np.arange(50) for b in "gr"}
    columns["flux_g"][0] = -3.0
    schema = PhotometrySchema.from_templates(columns, "gr", flux="flux_{band}", err="flux_err_{band}", zero_point=31.4)
    rows = extract_photometry(Catalog(columns), schema)
    flags = fit_transformer(rows, PAPER).transform(rows).flags
    assert flags[0] & Flag.NOT_DETECTED
    flags = fit_transformer(rows, FeatureConfig(magnitudes="asinh", clip=0.0)).transform(rows).flags
    assert not flags[0] & Flag.NOT_DETECTED


def test_extinction_is_taken_off_and_a_missing_ebv_is_flagged(table: Catalog) -> None:
    config = replace(PAPER, extinction={"u": 4.0, "g": 3.0})
    ebv = np.full(400, 0.1)
    fitted = fit_transformer(photometry(table), config, ebv)
    ebv[0] = np.nan
    X, flags, _ = fitted.transform(photometry(table), ebv)
    plain = fit_transformer(photometry(table), PAPER).transform(photometry(table)).X
    np.testing.assert_allclose(plain[:, :3] - X[:, :3], np.tile([0.4, 0.3, 0.0], (400, 1)), atol=1e-9)
    assert np.flatnonzero(flags & Flag.MISSING_BAND).tolist() == [0]
    with pytest.raises(ConfigError, match="no E\\(B-V\\) column"):
        fitted.transform(photometry(table))


def test_flags_say_what_was_done(table: Catalog) -> None:
    fitted = fit_transformer(photometry(table), replace(PAPER, clip=4.0))
    X, flags, _ = fitted.transform(photometry(with_sentinels(table)))
    expected = [
        Flag.NOT_DETECTED,
        Flag.MISSING_BAND,
        Flag.FAILED_BAND,
        Flag.CLIPPED_INPUT,
        Flag.MISSING_BAND | Flag.NO_MEASUREMENT,
    ]
    assert [int(flag) for flag in flags[:5]] == [int(flag) for flag in expected]
    assert X[0, 0] == pytest.approx(np.sort(table.floats("mag_u"))[-8:].mean(), abs=0.3)
    assert X[3, 0] == pytest.approx(fitted.upper[0])
    assert count_flags(flags)["CLIPPED_INPUT"] == 1
    assert "8 CLIPPED_INPUT" in flag_legend()


@pytest.mark.parametrize("fainter", [7.0, -30.0])
def test_clipping_moves_a_whole_row_and_keeps_its_colours(table: Catalog, fainter: float) -> None:
    names = ("mag_u", "mag_g", "mag_r")
    moved = Catalog({name: table.floats(name) + fainter * (name in names) for name in table.names if "mag" in name})
    plain = FeatureConfig(magnitudes="pogson", clip=0.0)
    for config in (plain, replace(plain, clip=4.0)):
        fitted = fit_transformer(photometry(table), config)
        X, flags, _ = fitted.transform(photometry(moved))
        given = np.column_stack([moved.floats(name) for name in names])
        np.testing.assert_allclose(np.diff(X, axis=1), np.diff(given, axis=1), atol=1e-9)
        assert np.all(flags & Flag.CLIPPED_INPUT) == bool(config.clip)
        if config.clip:
            edge = np.abs(X - (fitted.upper if fainter > 0 else fitted.lower)).min(axis=1)
            np.testing.assert_allclose(edge, 0.0, atol=1e-9)


def test_a_missing_band_is_filled_with_its_conditional_mean(table: Catalog) -> None:
    fitted = fit_transformer(photometry(table), replace(PAPER, missing="fill"))
    columns = {name: np.array(table[name]) for name in table.names}
    columns["mag_u"] = columns["mag_u"].copy()
    columns["mag_u"][:100] = np.nan
    X = fitted.transform(photometry(Catalog(columns))).X
    full = fitted.transform(photometry(table)).X
    seen, missing = [1, 2, 4, 5], [0, 3]
    C, mean = np.array(fitted.covariance), np.array(fitted.mean)
    gain = np.linalg.solve(C[np.ix_(seen, seen)], C[np.ix_(seen, missing)])
    expected = mean[missing] + (full[:100][:, seen] - mean[seen]) @ gain
    np.testing.assert_allclose(X[:100][:, missing], expected, rtol=1e-9)
    assert np.std(X[:100, 0] - full[:100, 0]) < 0.5 * np.std(full[:, 0])


def test_a_given_limit_stands_in_for_a_non_detection(table: Catalog) -> None:
    fitted = fit_transformer(photometry(table), PAPER)
    columns = {name: np.array(table[name]) for name in table.names}
    columns["mag_u"][0], columns["mag_err_u"][0] = 99.0, 21.5
    X = fitted.transform(photometry(Catalog(columns))).X
    assert X[0, 0] == 21.5


def test_a_non_detection_has_the_flux_that_such_rows_are_expected_to_have() -> None:
    rng = np.random.default_rng(0)
    n, error = 4000, 0.5  # fluxes in units of the one of magnitude 25; u is g, fainter, with large errors
    flux = {"g": np.exp(rng.normal(1.5, 0.8, n)), "r": np.exp(rng.normal(2.0, 0.8, n))}
    truth = 0.2 * flux["g"] * np.exp(0.1 * rng.standard_normal(n))
    flux["u"] = truth + error * rng.standard_normal(n)
    columns = {}
    for band, values in flux.items():
        sigma = np.full(n, error if band == "u" else 0.02)
        seen = values > 0.0
        safe = np.where(seen, values, 1.0)
        columns[f"mag_{band}"] = np.where(seen, 25.0 - 2.5 * np.log10(safe), 99.0)
        columns[f"mag_err_{band}"] = np.where(seen, 1.0857 * sigma / safe, 99.0)
    rows = photometry(Catalog(columns))
    unseen = columns["mag_u"] == 99.0
    fitted = fit_transformer(rows, FeatureConfig())
    X, flags, _ = fitted.transform(rows)
    u = list(rows.bands).index("u")
    stand_in = np.unique(X[unseen, u])
    assert len(stand_in) == 1
    assert np.all(flags[unseen] & np.uint32(Flag.NOT_DETECTED))
    softening = fitted.softening[u] * 10**10.0  # in units of the flux of magnitude 25
    expected = -2.5 / np.log(10.0) * (np.arcsinh(np.median(truth[unseen]) / (2 * softening)) + np.log(softening)) + 25.0
    nothing = -2.5 * np.log10(softening) + 25.0
    assert abs(stand_in[0] - expected) < 0.6 * abs(nothing - expected)
    assert stand_in[0] < nothing


@pytest.mark.parametrize(("n_unseen", "non_detections", "is_missing"), [
    (19, "auto", True), (20, "auto", False), (19, "flux", False), (20, "marginalise", True)
])  # fmt: skip
def test_few_non_detections_are_not_learned_from(
    table: Catalog, n_unseen: int, non_detections: str, is_missing: bool
) -> None:
    columns = {name: np.array(table[name]) for name in table.names}
    columns["mag_u"][:n_unseen] = columns["mag_err_u"][:n_unseen] = 99.0
    rows = photometry(Catalog(columns))
    unseen = rows.status[:, list(rows.bands).index("u")] == Status.NOT_DETECTED
    assert unseen.sum() == n_unseen
    fitted = fit_transformer(rows, FeatureConfig(magnitudes="asinh", non_detections=non_detections))
    X, flags, _ = fitted.transform(rows)
    assert np.all(flags[unseen] & np.uint32(Flag.NOT_DETECTED))
    assert np.all(np.isnan(X[unseen, list(rows.bands).index("u")]) == is_missing)
    again = from_parts(FeatureTransformer, *to_parts(fitted))
    np.testing.assert_array_equal(again.transform(rows)[0], X)


def test_without_error_columns_there_are_magnitudes_only(table: Catalog) -> None:
    schema = PhotometrySchema(("u", "g"), mag={"u": "mag_u", "g": "mag_g"})
    rows = extract_photometry(table, schema)
    assert fit_transformer(rows).names == ("mag_u", "mag_g")
    with pytest.raises(ConfigError, match="no errors"):
        fit_transformer(rows, FeatureConfig(magnitudes="asinh"))


def test_messages(table: Catalog) -> None:
    rows = photometry(table)
    with pytest.raises(ConfigError, match="`extinction` has band 'y'; the bands are u, g, r"):
        fit_transformer(rows, FeatureConfig(extinction={"y": 1.0}))
    with pytest.raises(ConfigError, match="`reference_band` is 'x'"):
        fit_transformer(rows, FeatureConfig(colours=True, reference_band="x"))
    with pytest.raises(CatalogError, match="no training rows"):
        fit_transformer(photometry(table.slice(0, 0)))
    dark = table.with_columns({"mag_u": np.full(400, 99.0)})
    with pytest.raises(CatalogError, match=r"band 'u' has no measurement in any training row.*--bands g,r"):
        fit_transformer(photometry(dark))
    other = extract_photometry(table, guess_schema(table.names, ("g", "r")))
    with pytest.raises(CatalogError, match="trained on u, g, r:"):
        fit_transformer(rows).transform(other)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"magnitudes": "log"}, 'expected "auto" or "asinh" or "pogson"'),
        ({"clip": 1.0}, "`clip` is 1.0"),
        ({"min_error": 0.0}, "`min_error` is 0.0"),
        ({"reference_band": "r"}, "`colours` is false"),
    ],
)
def test_bad_options(options: dict[str, object], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        FeatureConfig(**options)  # type: ignore[arg-type]


def test_few_complete_rows_fall_back_to_the_median(table: Catalog) -> None:
    columns = {name: np.array(table.slice(0, 40)[name]) for name in table.names}
    columns["mag_u"][:35] = np.nan
    rows = photometry(Catalog(columns))
    X = fit_transformer(rows, replace(PAPER, missing="fill")).transform(rows).X
    assert X[0, 0] == pytest.approx(np.median(columns["mag_u"][35:]))


def test_default_is_asinh_magnitudes_where_there_are_errors(table: Catalog) -> None:
    rows = photometry(table)
    assert fit_transformer(rows).names == ("asinh_u", "asinh_g", "asinh_r")
    assert fit_transformer(rows).config.magnitudes == "asinh"


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_inputs_as_a_data_frame(table: Catalog, container: str) -> None:
    pytest.importorskip(container)
    rows = photometry(table)
    fitted = fit_transformer(rows)
    plain = fitted.transform(rows)
    assert list(fitted.get_feature_names_out()) == list(fitted.names)
    framed = fitted.set_output(transform=container).transform(rows)
    assert list(framed.X.columns) == list(fitted.names)
    np.testing.assert_array_equal(framed.X.to_numpy(), plain.X)
    np.testing.assert_array_equal(framed.flags, plain.flags)
