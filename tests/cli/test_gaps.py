"""Gaps and mistakes in photometry, from the command line: each has a defined answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gpzed.catalog import Catalog, read_catalog
from gpzed.features import Flag
from gpzed.prediction import Prediction
from workflows.galaxy_files import galaxies, write

Call = Callable[..., tuple[int, str, str]]
QUICK = ("--n-basis", "5", "--max-iter", "15", "--members", "1", "--heads", "1", "--quiet")
pytestmark = pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")


def changed(n: int = 100, seed: int = 8, **columns: object) -> Catalog:
    """Galaxies of which the first values of some columns are others; None leaves a column out."""
    table = galaxies(n, seed=seed)
    ready = {name: np.array(table[name]) for name in table.names}
    for name, values in columns.items():
        if values is None:
            del ready[name]
        else:
            ready[name][: len(values)] = values
    return Catalog(ready)


@pytest.fixture(scope="module", params=["none", "noise"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model trained on complete rows, errors as noise or not at all."""
    from gpzed.cli import main

    folder = tmp_path_factory.mktemp("gaps")
    write(galaxies(400), folder / "train.parquet")
    arguments = ("train", folder / "train.parquet", "-o", folder / "m.gpzed", "--errors", request.param, *QUICK)
    assert main([str(argument) for argument in arguments]) == 0
    return folder / "m.gpzed"


def predicted(call: Call, model: Path, table: Catalog, folder: Path) -> tuple[dict[str, np.ndarray], str]:
    """Columns of the predictions, and what was said."""
    path, out = write(table, folder / "in.parquet"), folder / "out.parquet"
    code, _, err = call("predict", model, path, "-o", out)
    assert code == 0, err
    result = read_catalog(out)
    columns = {name: np.asarray(result[name]) for name in result.names if name.startswith("z_") and "_pdf_" not in name}
    total = columns["z_var_model"] + columns["z_var_noise"] + columns["z_var_input"]
    np.testing.assert_allclose(total, columns["z_std"] ** 2, rtol=1e-6)
    assert all(np.isfinite(columns[name]).all() for name in ("z_phot", "z_std"))
    return columns, err


def test_an_object_without_any_band_gets_the_prior_and_a_flag(call: Call, model: Path, tmp_path: Path) -> None:
    nothing = {f"mag_{band}": [np.nan] for band in "ugr"}
    p, err = predicted(call, model, changed(**nothing), tmp_path)
    z = np.asarray(galaxies(400)["z_spec"])
    assert p["z_flags"][0] & Flag.NO_MEASUREMENT
    prior = Prediction.gaussian([z.mean()], 0.0, z.var(), lower=0.0)
    assert p["z_mean"][0] == pytest.approx(prior.mean[0], abs=0.01)
    assert p["z_std"][0] == pytest.approx(prior.std[0], rel=0.05)
    assert p["z_coverage"][0] == 0.0
    assert "flagged NO_MEASUREMENT (32): 1" in err


def test_a_pattern_that_no_training_row_had_is_marginalised(call: Call, model: Path, tmp_path: Path) -> None:
    whole, _ = predicted(call, model, changed(), tmp_path)
    p, _ = predicted(
        call,
        model,
        changed(mag_u=[np.nan] * 50, mag_g=[*galaxies(100, seed=8)["mag_g"][:25], *[np.nan] * 25]),
        tmp_path,
    )
    assert np.all(p["z_flags"][:50] & Flag.MISSING_BAND)
    assert np.all(p["z_var_input"][:50] > whole["z_var_input"][:50])
    assert np.median(p["z_std"][25:50]) > np.median(whole["z_std"][25:50])
    np.testing.assert_allclose(p["z_phot"][50:], whole["z_phot"][50:], rtol=1e-9)


@pytest.mark.parametrize(
    ("columns", "flag"),
    [
        ({"mag_u": [np.inf]}, Flag.FAILED_BAND),
        ({"mag_u": [-np.inf]}, Flag.FAILED_BAND),
        ({"mag_err_u": [-0.1]}, Flag.FAILED_BAND),
        ({"mag_err_u": [0.0]}, Flag.FAILED_BAND),
        ({"mag_err_u": [np.nan]}, Flag.FAILED_BAND),
        ({"mag_err_u": [np.inf]}, Flag.FAILED_BAND),
        ({"mag_u": [99.0]}, Flag.NOT_DETECTED),
        ({"mag_u": [-99.0]}, Flag.MISSING_BAND),
        ({"mag_u": [3.0]}, Flag.OUTSIDE_COVERAGE),
    ],
)
def test_values_that_are_no_measurements_are_flagged(
    columns: dict[str, list[float]], flag: Flag, call: Call, model: Path, tmp_path: Path
) -> None:
    p, _ = predicted(call, model, changed(**columns), tmp_path)
    assert p["z_flags"][0] & flag
    assert not p["z_flags"][0] & Flag.NO_MEASUREMENT
    if flag in (Flag.FAILED_BAND, Flag.MISSING_BAND):
        assert p["z_var_input"][0] > 0.0


def test_corrupt_magnitudes_do_not_send_the_redshift_away(call: Call, model: Path, tmp_path: Path) -> None:
    p, _ = predicted(call, model, changed(mag_u=[3.0, -20.0, 60.0, 21.0], mag_r=[20.0, 20.0, 20.0, 2.0]), tmp_path)
    z = np.asarray(galaxies(400)["z_spec"])
    prior = Prediction.gaussian([z.mean()], 0.0, z.var(), lower=0.0)
    np.testing.assert_allclose(p["z_mean"][[0, 1, 3]], prior.mean[0], atol=0.01)
    np.testing.assert_allclose(p["z_std"][[0, 1, 3]], prior.std[0], rtol=0.05)
    assert z.min() < p["z_mean"][2] < z.max()  # no flux in u: rare, not absurd


def test_every_error_negative_leaves_nothing_measured(call: Call, model: Path, tmp_path: Path) -> None:
    wrong = {f"mag_err_{band}": [-1.0] * 100 for band in "ugr"}
    p, err = predicted(call, model, changed(**wrong), tmp_path)
    assert np.all(p["z_flags"] & Flag.NO_MEASUREMENT)
    assert "error negative: 300" in err


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({f"{stem}_{band}": None for stem in ("mag", "mag_err") for band in "ug"}, "'mag_u'"),
        ({f"mag_err_{band}": None for band in "ugr"}, "'mag_err_u'"),
    ],
)
def test_columns_that_the_model_needs_are_named(
    columns: dict[str, None], message: str, call: Call, model: Path, tmp_path: Path
) -> None:
    path = write(changed(**columns), tmp_path / "in.parquet")
    code, _, err = call("predict", model, path, "-o", tmp_path / "out.parquet")
    assert code == 1
    assert message in err
    assert "Traceback" not in err
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize("lost", [("mag_u", "mag_err_u"), ("mag_err_u",)])
def test_an_absent_band_is_as_if_not_observed_and_the_cost_is_told(
    lost: tuple[str, ...], call: Call, model: Path, tmp_path: Path
) -> None:
    path = write(changed(**dict.fromkeys(lost)), tmp_path / "in.parquet")
    code, _, err = call("predict", model, path, "-o", tmp_path / "out.parquet")
    assert code == 0
    assert f"band u of the model is not used here, no column '{lost[0]}'" in err
    assert "taken as not observed; that raises z_std from" in err
    p = read_catalog(tmp_path / "out.parquet")
    assert np.all(p["z_flags"] & Flag.MISSING_BAND)
    unobserved, _ = predicted(call, model, changed(mag_u=[np.nan] * 100, mag_err_u=[np.nan] * 100), tmp_path)
    np.testing.assert_array_equal(p["z_mean"], unobserved["z_mean"])


def test_an_unknown_band_is_left_out_with_a_warning_in_predict_and_refused_in_train(
    call: Call, model: Path, tmp_path: Path
) -> None:
    path = write(changed(), tmp_path / "in.parquet")
    code, _, err = call("predict", model, path, "-o", tmp_path / "out.parquet", "--bands", "u,g,y")
    assert code == 0
    assert "bands y are not used: the model was trained on u, g, r" in err
    code, _, err = call("predict", model, path, "-o", tmp_path / "out.parquet", "--bands", "J,K")
    assert code == 1
    assert "the model was trained on u, g, r" in err
    code, _, err = call("train", path, "-o", tmp_path / "x.gpzed", "--bands", "u,g,y", *QUICK)
    assert code == 1
    assert "bands u, g, y (gpzed has only u, g, r)" in err


def test_names_that_nobody_knows_end_in_a_command_that_works(call: Call, model: Path, tmp_path: Path) -> None:
    import shlex

    table = changed(400)
    names = {name: name.replace("mag_err_", "sigmaX").replace("mag_", "bright.") for name in table.names}
    path = write(Catalog({names[name]: table[name] for name in table.names}), tmp_path / "odd.parquet")
    for command in (
        ("train", path, "-o", tmp_path / "x.gpzed", *QUICK),
        ("predict", model, path, "-o", tmp_path / "o.csv"),
    ):
        code, _, err = call(*command)
        assert code == 1
        ready = shlex.split(err.splitlines()[-1])
        assert ready[0] == "gpzed"
        assert ready[-6:] == ["--bands", "u,g,r", "--mag", "bright.{band}", "--err", "sigmaX{band}"]
        code, _, err = call(*ready[1:])
        assert code == 0, err


def test_training_rows_without_any_band_are_left_out(call: Call, tmp_path: Path) -> None:
    nothing = {f"mag_{band}": [np.nan] * 7 for band in "ugr"}
    path = write(changed(300, **nothing), tmp_path / "in.parquet")
    code, text, err = call("train", path, "-o", tmp_path / "x.gpzed", "--json", *QUICK)
    assert code == 0, err
    assert json.loads(text)["rows"]["train"] == 293


def test_failed_measurements_in_training_are_gaps(call: Call, tmp_path: Path) -> None:
    path = write(changed(300, mag_u=[np.inf], mag_err_g=[-0.1, 0.0, np.nan, np.inf]), tmp_path / "in.parquet")
    code, text, err = call("train", path, "--dry-run", "--json")
    assert code == 0, err
    plan = json.loads(text)
    assert plan["rows"]["train"] == 300
    assert plan["sentinels"]["failed"] == [1, 4, 0]


def test_magnitudes_outside_training_are_moved_to_the_edge_where_asked_for(call: Call, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("[features]\nclip = 2.0\n")
    path = write(galaxies(400), tmp_path / "train.parquet")
    options = ("--config", tmp_path / "run.toml", "--errors", "none", *QUICK)
    assert call("train", path, "-o", tmp_path / "m.gpzed", *options)[0] == 0
    p, err = predicted(call, tmp_path / "m.gpzed", changed(mag_u=[15.0]), tmp_path)
    assert p["z_flags"][0] & Flag.CLIPPED_INPUT
    assert "flagged CLIPPED_INPUT (8)" in err


def test_a_band_that_was_never_measured_is_named(call: Call, tmp_path: Path) -> None:
    path = write(changed(100, mag_g=[np.nan] * 100), tmp_path / "in.parquet")
    code, _, err = call("train", path, "-o", tmp_path / "x.gpzed", *QUICK)
    assert code == 1
    assert "band 'g' has no measurement in any training row; leave it out: --bands u,r" in err


@pytest.mark.parametrize("errors", ["noise", "inputs", "excess"])
def test_what_errors_are_asked_for_needs_them(call: Call, tmp_path: Path, errors: str) -> None:
    path = write(changed(**{f"mag_err_{band}": None for band in "ugr"}), tmp_path / "in.parquet")
    columns = ("--bands", "u,g,r", "--mag", "mag_{band}")
    code, _, err = call("train", path, "-o", tmp_path / "x.gpzed", "--errors", errors, *columns, *QUICK)
    assert code == 2
    assert 'the catalogue has no errors; set it to "none"' in err


def test_a_band_without_an_error_column_is_left_out_loudly(call: Call, tmp_path: Path) -> None:
    path = write(changed(mag_err_g=None), tmp_path / "in.parquet")
    code, text, err = call("train", path, "--dry-run", "--json")
    assert code == 0
    assert json.loads(text)["features"] == ["asinh_u", "asinh_r"]
    assert "1 band(s) are left out: 'mag_g' has no error column beside it ('mag_err_g')" in err
    code, _, err = call("train", path, "--dry-run", "--bands", "u,g,r")
    assert code == 1
    assert "no error column for g: there is no 'mag_err_g' beside 'mag_g'" in err
