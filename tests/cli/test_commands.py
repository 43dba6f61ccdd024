from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gpzed.cli as cli_package
from gpzed.catalog import read_catalog
from gpzed.config import RunConfig
from gpzed.errors import ConfigError, GPzWarning
from gpzed.workflows import load_model
from gpzed.workflows.columns import BASE_COLUMNS
from helpers import one_model
from workflows.galaxy_files import galaxies, write

Call = Callable[..., tuple[int, str, str]]
QUICK = ("--n-basis", "5", "--max-iter", "15", "--members", "1", "--heads", "1")
KEYS = (
    "rmse", "mll", "fr_0.15", "fr_0.05", "bias", "sigma_nmad", "crps", "cde_loss", "pit_ks", "coverage_68",
    "coverage_95",
)  # fmt: skip


def test_the_three_commands_that_others_script_against(call: Call, folder: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "m.gpzed", tmp_path / "out.parquet"
    code, _, err = call("train", folder / "train.parquet", "-o", model, "--bands", "u,g,r", "--seed", 0, *QUICK)
    assert code == 0
    assert "magnitude u: mag_u, mag_err_u" in err
    assert "redshift: z_spec" in err
    code, text, err = call("predict", model, folder / "survey.parquet", "-o", out)
    assert code == 0
    assert "wrote" in text
    assert "not detected" in err
    assert "flagged NO_MEASUREMENT (32): 1" in err
    code, text, _ = call("evaluate", out, "--json")
    assert code == 0
    result = json.loads(text)
    assert set(KEYS) <= set(result)
    assert result["n"] == 300
    code, text, _ = call("config", "--template")
    assert code == 0
    assert "n_basis" in text
    assert RunConfig.from_dict(tomllib.loads(text)) == RunConfig()


def test_bands_in_arrays_or_in_another_table_of_a_fits_file_are_pointed_to(
    call: Call, folder: Path, tmp_path: Path
) -> None:
    fits, table = pytest.importorskip("astropy.io.fits"), pytest.importorskip("astropy.table").Table
    galaxy = galaxies(60)
    columns = {name: np.stack([galaxy[f"{name}_{band}"] for band in "ugr"], axis=1) for name in ("mag", "mag_err")}
    arrays = table({**columns, "z_spec": galaxy["z_spec"]})
    arrays.write(tmp_path / "arrays.fits")
    for command in (("train",), ("predict", folder / "model.gpzed")):
        code, _, err = call(*command, tmp_path / "arrays.fits", "-o", tmp_path / "out.fits")
        assert code == 1
        assert "several numbers per row ('mag' of 3, 'mag_err' of 3); gpzed takes one column per band" in err
        assert (
            "where bands are the 3 names: for k, band in enumerate(bands): table[f'mag_{band}'] = table['mag']" in err
        )
    for name in columns:
        for k, band in enumerate("ugr"):
            arrays[f"{name}_{band}"] = arrays[name][:, k]
    arrays.write(tmp_path / "split.fits")
    assert call("train", tmp_path / "split.fits", "--dry-run")[0] == 0

    tables = [fits.BinTableHDU(table({"a": [1, 2]})), fits.BinTableHDU(arrays, name="SKY")]
    for file in ("two.fits", "two.fits.gz"):
        fits.HDUList([fits.PrimaryHDU(), *tables]).writeto(tmp_path / file)
        code, _, err = call("train", tmp_path / file, "--dry-run")
        assert code == 1
        assert "has other tables: HDU 2 (SKY, 9 columns); gpzed reads the first one" in err
        assert f"Table.read('{tmp_path / file}', hdu=2).write('table.fits')" in err


@pytest.mark.parametrize("source", ["fits", "hdf5", "csv", "parquet"])
@pytest.mark.parametrize("target", ["fits", "hdf5", "csv", "parquet"])
def test_every_format_in_and_out(source: str, target: str, call: Call, folder: Path, tmp_path: Path) -> None:
    table = galaxies(60, seed=4)
    path, out = write(table, tmp_path / f"in.{source}"), tmp_path / f"out.{target}"
    code, _, err = call("predict", folder / "model.gpzed", path, "-o", out)
    assert code == 0, err
    result = read_catalog(out)
    np.testing.assert_array_equal(result["id"], table["id"])
    np.testing.assert_array_equal(result["name"], table["name"])
    assert list(result.names) == [*table.names, *BASE_COLUMNS]
    reference = tmp_path / "reference.parquet"
    call("predict", folder / "model.gpzed", write(table, tmp_path / "same.parquet"), "-o", reference)
    np.testing.assert_allclose(result["z_phot"], read_catalog(reference)["z_phot"], rtol=1e-6)


@pytest.mark.parametrize("networks", ["0", "1"])
def test_how_many_networks_stand_beside_the_members(networks: str, call: Call, tmp_path: Path) -> None:
    path, model = write(galaxies(200), tmp_path / "train.parquet"), tmp_path / "m.gpzed"
    quick = ("--n-basis", "5", "--max-iter", "5", "--members", "1", "--heads", "2", "--quiet")
    code, _, err = call("train", path, "-o", model, "--networks", networks, *quick)
    assert code == 0, err
    assert len(load_model(model).regressor.networks_) == int(networks)


@pytest.mark.parametrize("source", ["fits", "hdf5", "csv"])
def test_training_on_every_format(source: str, call: Call, tmp_path: Path) -> None:
    path = write(galaxies(200), tmp_path / f"train.{source}")
    code, text, _ = call("train", path, "-o", tmp_path / "m.gpzed", "--json", "--quiet", *QUICK)
    assert code == 0
    assert json.loads(text)["scores"]["train"]["fr_0.15"] > 90


def test_translate_files_that_cannot_be_read(call: Call, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "zphot.translate"
    command = ("train", folder / "train.parquet", "--dry-run", "--translate", path)
    assert "zphot.translate' cannot be read: No such file or directory; check the path" in call(*command)[2]
    path.write_bytes(b"\xff\xfe")
    assert "zphot.translate' is not text" in call(*command)[2]


def test_bands_that_are_left_out_are_not_called_missing(call: Call, folder: Path, tmp_path: Path) -> None:
    command = ("predict", folder / "model.gpzed", folder / "survey.parquet", "-o", tmp_path / "out.parquet")
    code, _, err = call(*command, "--bands", "u,g")
    assert code == 0
    assert "taken as not observed: r" in err
    assert "not in the catalogue" not in err


def test_format_option_wins_over_the_suffix(call: Call, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "redshifts.xyz"
    code, _, err = call("predict", folder / "model.gpzed", folder / "survey.parquet", "-o", out)
    assert code == 1
    assert "suffix does not tell the format" in err
    assert "ascii" not in err  # which cannot be written
    code, _, _ = call("predict", folder / "model.gpzed", folder / "survey.parquet", "-o", out, "--format", "csv")
    assert code == 0
    assert len(read_catalog(out, format="csv")) == 300
    for command in (("evaluate", out), ("train", out, "--dry-run")):
        code, _, err = call(*command)
        assert code == 1
        assert "or name it with --input-format" in err
    code, text, _ = call("evaluate", out, "--input-format", "csv", "--json")
    assert json.loads(text)["n"] == 300


def test_columns_quantiles_and_no_passthrough(call: Call, folder: Path, tmp_path: Path) -> None:
    out, arguments = tmp_path / "o.csv", ("predict", folder / "model.gpzed", folder / "survey.parquet", "-o")
    assert call(*arguments, out, "--columns", "id,z_spec", "--quantiles", "0.16,0.5,0.84")[0] == 0
    assert read_catalog(out).names == (
        "id", "z_spec", *BASE_COLUMNS[:-1], "z_q16", "z_q50", "z_q84", "z_flags",
    )  # fmt: skip
    assert call(*arguments, tmp_path / "p.csv", "--no-passthrough")[0] == 0
    assert read_catalog(tmp_path / "p.csv").names[0] == "z_phot"
    code, _, err = call(*arguments, tmp_path / "q.csv", "--quantiles", "0.16;0.5")
    assert code == 2
    assert "write it like 0.16,0.5,0.84" in err
    code, _, err = call(*arguments, tmp_path / "q.csv", "--quantiles", "16")
    assert code == 2
    assert "expected levels above 0 and below 1" in err


def test_dry_run_shows_the_plan_and_writes_nothing(call: Call, folder: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.gpzed"
    code, text, err = call("train", folder / "train.parquet", "-o", model, "--dry-run", "--json", "--test", 0.25)
    assert code == 0
    plan = json.loads(text)
    assert plan["rows"]["test"] == 100
    assert plan["features"][0] == "asinh_u"
    assert plan["dry_run"] is True
    assert "nothing was trained" in err
    assert not list(tmp_path.iterdir())


def test_configuration_file_and_flags(call: Call, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(
        "seed = 4\n[model]\nn_basis = 7\nn_members = 1\nn_heads = 1\n[training]\nmax_iter = 10\n"
        "[features]\nmagnitudes = 'asinh'\n"
    )
    model = tmp_path / "m.gpzed"
    assert call("train", folder / "train.parquet", "-o", model, "--config", path, "--covariance", "GL")[0] == 0
    code, text, _ = call("info", model, "--json")
    facts = json.loads(text)
    assert (facts["n_basis"], facts["covariance"], facts["config"]["seed"]) == (7, "GL", 4)
    assert facts["features"][0] == "asinh_u"
    path.write_text("[model]\nn_bases = 7\n")
    code, _, err = call("train", folder / "train.parquet", "-o", model, "--config", path)
    assert code == 2
    assert "did you mean `n_basis`" in err
    code, _, err = call("config", "--check", path)
    assert code == 2


def test_info_for_people(call: Call, folder: Path) -> None:
    code, text, _ = call("info", folder / "model.gpzed")
    assert code == 0
    assert "u, g, r" in text
    assert "Almosallam" in text
    assert "CLIPPED_INPUT" in text
    assert "1 x 5 basis functions, 1 head, 0 networks" in text
    assert "photometry: magnitudes, without a unit" in text
    z = read_catalog(folder / "train.parquet").floats("z_spec")
    assert f"redshifts: {z.min():.4g} to {z.max():.4g}, mean" in text
    assert "limits: 0 < z <= 20 (by default)" in text
    assert "wrong labels: none assumed" in text


def test_info_of_a_model_saved_from_python(call: Call, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (80, 2))
    model = one_model(n_basis=3, max_iter=5, patience=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GPzWarning)
        model.fit(X, X[:, 0] + 0.1 * rng.standard_normal(80))
    model.save(tmp_path / "m.gpzed")
    code, text, _ = call("info", tmp_path / "m.gpzed")
    assert code == 0
    assert "1 x 3 basis functions" in text
    assert "2, without names" in text
    assert "GPzRegressor.save: no schema" in text
    code, text, _ = call("info", tmp_path / "m.gpzed", "--json")
    assert json.loads(text)["n_basis"] == 3


def test_info_claims_no_search_for_wrong_labels_that_streams_do_not_allow(call: Call, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (80, 2))
    model = one_model(n_basis=3, max_iter=5, patience=2, random_state=0, wrong_labels="auto")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GPzWarning)
        model.fit_stream([(X, X[:, 0])])
    model.save(tmp_path / "m.gpzed")
    assert "wrong labels: none assumed" in call("info", tmp_path / "m.gpzed")[1]
    assert json.loads(call("info", tmp_path / "m.gpzed", "--json")[1])["wrong_rate_is_learned"] is False


def test_several_files_side_by_side(call: Call, folder: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        call("predict", folder / "model.gpzed", folder / "survey.parquet", "-o", tmp_path / f"{name}.csv", "-q")
    code, text, _ = call("evaluate", tmp_path / "a.csv", tmp_path / "b.csv", "--json")
    assert [result["file"][-5:] for result in json.loads(text)] == ["a.csv", "b.csv"]
    code, text, _ = call("evaluate", tmp_path / "a.csv", tmp_path / "b.csv", "--min-redshift", 0.1)
    assert code == 0
    assert "sigma_NMAD" in text
    assert "RMSE" in text


def test_quiet_means_quiet(call: Call, folder: Path, tmp_path: Path) -> None:
    code, text, err = call(
        "predict", folder / "model.gpzed", folder / "survey.parquet", "-o", tmp_path / "o.csv", "--quiet"
    )
    assert (code, text, err) == (0, "", "")
    survey = read_catalog(folder / "survey.parquet")
    bands = [name for name in survey.names if name.startswith("mag") and "err" not in name.lower()][:2]
    exchanged = survey.with_columns({bands[0]: survey[bands[1]], bands[1]: survey[bands[0]]})
    strange = write(exchanged, tmp_path / "strange.parquet")
    code, text, err = call("predict", folder / "model.gpzed", strange, "-o", tmp_path / "s.csv", "--quiet")
    assert (code, text) == (0, "")
    assert err.startswith("warning: ")


def test_sdss_query(call: Call) -> None:
    code, text, _ = call("sdss", "--sql")
    assert code == 0
    assert "fPhotoFlags('PEAKCENTER')) = 0" in text
    assert call("sdss", "--sql", "--release", "DR3")[0] == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str, call: Call) -> None:
    code, text, _ = call("completion", shell)
    assert code == 0
    assert "_GPZED_COMPLETE" in text


def test_demo(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"model": {"n_basis": 5, "n_members": 1, "n_heads": 1}, "training": {"patience": 5, "tol": 1e-3}}
    monkeypatch.setattr("gpzed.demo.DEFAULT_OPTIONS", small)
    code, text, err = call("demo", "--size", 300, "--out", tmp_path / "demo", "--seed", 1)
    assert code == 0, err
    assert "FR0.15" in text
    assert (tmp_path / "demo" / "demo.log").read_text().count("\n") > 5
    assert text.splitlines()[-1] == f"open {tmp_path / 'demo' / 'report.html'} in a browser first"
    assert "warning" not in err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("trian",), 2, "did you mean 'train'"),
        (("train",), 2, "Missing argument"),
        (("train", "{f}/train.parquet"), 2, "give the model file to write"),
        (("train", "{f}/trian.parquet", "-o", "x"), 1, "did you mean"),
        (("train", "{f}/train.parquet", "-o", "{f}/x", "--bands", "u,y"), 1, "y"),
        (("train", "{f}/train.parquet", "-o", "{f}/x", "--n-basis", "many"), 2, "'many' is not a number"),
        (("train", "{f}/train.parquet", "-o", "{f}/x", "--covariance", "VV"), 2, "--covariance is 'VV'"),
        (("train", "{f}/train.parquet", "-o", "{f}/x", "--weights", "odd"), 2, "is not one of 'none'"),
        (("train", "{f}/train.parquet", "-o", "{f}/no/x"), 2, "does not exist; create it"),
        (("predict", "{f}/train.parquet", "{f}/train.parquet", "-o", "{f}/x.csv"), 1, "expected a gpzed model file"),
        (("predict", "{f}/none.gpzed", "{f}/train.parquet", "-o", "{f}/x.csv"), 1, "there is no file"),
        (("predict", "{f}/model.gpzed", "{f}/train.parquet"), 2, "Missing option"),
        (
            ("predict", "{f}/model.gpzed", "{f}/train.parquet", "-o", "{f}/x.csv", "--pdf", "grid"),
            2,
            "one number per row",
        ),
        (("predict", "{f}/model.gpzed", "{f}/train.parquet", "-o", "{f}/x.csv", "--qp"), 2, "files of qp are HDF5"),
        (
            ("predict", "{f}/model.gpzed", "{f}/train.parquet", "-o", "{f}/x.fits", "--pdf-grid", "3,0,9"),
            2,
            "like 0, 3",
        ),
        (
            ("predict", "{f}/model.gpzed", "{f}/train.parquet", "-o", "{f}/x.h5", "--qp", "--format", "csv"),
            2,
            "both say",
        ),
        (("predict", "{f}/model.gpzed", "{f}/train.parquet", "-o", "{f}/x.mrt"), 1, "read but not written"),
        (("predict", "{f}/model.gpzed", "{f}/train.parquet", "-o", "{f}/no/x.csv"), 2, "does not exist; create it"),
        (("evaluate", "{f}/train.parquet"), 1, "no column 'z_phot'"),
        (("info", "{f}/train.parquet"), 1, "does not begin like a gpzed file"),
        (("config",), 2, "--template or --check"),
        (("completion", "tcsh"), 2, "tcsh"),
    ],
)
def test_mistakes_get_a_message_and_an_exit_code(
    arguments: tuple[str, ...], code: int, message: str, call: Call, folder: Path
) -> None:
    found, out, err = call(*(argument.format(f=folder) for argument in arguments))
    assert found == code
    assert message in " ".join(err.split())
    assert "Traceback" not in err
    assert out == ""
    assert not (folder / "x").exists()
    assert not (folder / "x.csv").exists()


def test_debug_shows_where_an_error_came_from(call: Call, folder: Path) -> None:
    assert "Traceback" in call("info", folder / "train.parquet", "--debug")[2]


def test_without_click_there_is_a_message(monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    monkeypatch.setattr(cli_package.importlib.util, "find_spec", lambda name: None)
    code, _, err = call("train")
    assert code == 2
    assert "pip install 'gpzed[cli]'" in err


def test_help_and_version(call: Call) -> None:
    assert "predict" in call("--help")[1]
    assert call("--version")[0] == 0
    for command in ("train", "predict", "evaluate", "select", "info", "config", "sdss", "demo", "completion"):
        code, text, _ = call(command, "--help")
        assert code == 0
        assert "Usage" in text


def test_the_command_line_wins_over_the_configuration(call: Call, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(
        f"[weights]\nmethod = 'balanced'\n[target]\ncatalogue = '{folder}/survey.parquet'\nadapt = 'dim'\n"
        "[split]\ncolumn = 'part'\n"
        "[features]\ncolours = true\nerrors = 'inputs'\n[schema]\nflux = 'flux_{band}'\nzero_point = 23.9\n"
    )
    options = (
        "--weights",
        "redshift",
        "--adapt",
        "weights",
        "--test",
        "0.25",
        "--no-colours",
        "--bands",
        "u,g,r",
        "--errors",
        "noise",
    )
    templates = ("--mag", "mag_{band}", "--err", "mag_err_{band}")
    code, text, err = call(
        "train", folder / "train.parquet", "--dry-run", "--json", "--config", path, *options, *templates
    )
    assert code == 0, err
    config = json.loads(text)["config"]
    assert (config["weights"]["method"], config["target"]["adapt"]) == ("redshift", "weights")
    assert (config["split"]["column"], config["split"]["test"]) == ("", 0.25)
    assert config["features"]["colours"] is False
    assert config["features"]["errors"] == "noise"
    assert "redshifts used: 0.0" in err


def test_contradictions_are_usage_errors(call: Call, folder: Path, tmp_path: Path) -> None:
    arguments = ("predict", folder / "model.gpzed", folder / "survey.parquet", "-o", tmp_path / "o.csv")
    code, _, err = call(*arguments, "--columns", "id", "--no-passthrough")
    assert code == 2
    assert "give one of the two" in " ".join(err.split())
    code, _, err = call(*arguments, "--pdf-grid", "0,2,50")
    assert code == 2
    assert "add --pdf grid" in " ".join(err.split())
    code, _, err = call(*arguments, "--quantiles", "0.16,0.5,0.16")
    assert code == 2
    assert "has 0.16 twice" in err
    assert not list(tmp_path.iterdir())


def test_warnings_of_others_are_shown_in_one_line(call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(path: str) -> None:
        warnings.simplefilter("always")
        warnings.warn("overflow\n  encountered", RuntimeWarning, stacklevel=1)
        raise ConfigError("enough")

    monkeypatch.setattr("gpzed.cli.predict.load_photoz_model", load)
    _, _, err = call("predict", folder / "model.gpzed", folder / "survey.parquet", "-o", folder / "x.csv")
    assert "warning: RuntimeWarning: overflow encountered\n" in err


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["--version"], {}),
        (["--help"], {}),
        (["completion", "bash"], {}),
        ([], {"_GPZED_COMPLETE": "bash_complete", "COMP_WORDS": "gpzed pre", "COMP_CWORD": "1"}),
    ],
    ids=["version", "help", "script", "completing"],
)
def test_what_needs_no_numbers_imports_none(arguments: list[str], environment: dict[str, str]) -> None:
    code = (
        "import sys; sys.argv = ['gpzed', *sys.argv[1:]]\n"
        "from gpzed.cli import main\n"
        "try:\n    main()\n"
        "finally:\n    sys.stderr.write(' '.join({'numpy', 'scipy', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert "predict" in done.stdout or "0." in done.stdout or "complete" in done.stdout
    assert done.stderr == ""
