from __future__ import annotations

import json

import numpy as np
import pytest

from gpzed.catalog import read_catalog, write_catalog


def test_tables_map_and_summary(call, folder, tmp_path):
    cells, objects, figure = tmp_path / "cells.csv", tmp_path / "objects.parquet", tmp_path / "map.png"
    files = ("-o", cells, "--objects", objects, "--figure", figure)
    model, config = tmp_path / "model.gpzed", tmp_path / "run.toml"
    config.write_text(
        "[features]\nerrors = 'inputs'\n[model]\nn_members = 1\nn_heads = 1\nn_basis = 5\n[training]\nmax_iter = 15\n"
    )
    assert call("train", folder / "train.parquet", "-o", model, "--config", config)[0] == 0
    arguments = ("survey", model, folder / "train.parquet")
    code, out, _ = call(*arguments, *files, "--cells", 4, "--n-spectra", 12)
    assert code == 0
    assert "12 spectra lower the summed variance by" in out
    ranked = read_catalog(cells)
    assert np.all(np.diff(ranked["gain_spectra"]) <= 0)
    assert np.all(ranked["gain_spectra"] > 0)
    assert "gain_deeper_r" in ranked.names
    parts = [ranked[f"variance_{name}"] for name in ("model", "uncovered", "noise", "input")]
    np.testing.assert_allclose(np.sqrt(sum(parts)), ranked["z_std"], rtol=1e-6)
    chosen = read_catalog(objects)
    assert len(np.unique(chosen["row"])) == 12
    np.testing.assert_allclose(chosen["gain_total"][-1], np.sum(chosen["gain"]))
    assert figure.stat().st_size > 1000


def test_json_and_the_limit_of_the_spectrograph(call, folder):
    arguments = ("survey", folder / "model.gpzed", folder / "train.parquet", "--cells", 3, "--n-spectra", 5)
    bright = np.sort(read_catalog(folder / "train.parquet").floats("mag_r"))[20]
    code, out, _ = call(*arguments, "--magnitude", "r", "--max-magnitude", float(bright), "--json")
    assert code == 0
    report = json.loads(out)
    assert max(report["objects"]["magnitude"]) <= bright
    assert report["magnitude"] == "r"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--magnitude", "q"), "no band 'q'"),
        (("--colour", "gr"), "no colour"),
        (("--cells", 0), "--cells is 0"),
        (("--max-magnitude", -5), "no object is brighter"),
    ],
)
def test_what_is_wrong_is_said(call, folder, options, message):
    code, _, err = call("survey", folder / "model.gpzed", folder / "train.parquet", *options)
    assert code != 0
    assert message in err


def test_axes_are_bands_that_were_measured_and_targets_have_magnitudes(call, folder, tmp_path):
    table = read_catalog(folder / "train.parquet")
    gone = np.arange(len(table)) % 10 > 0  # nine in ten are not detected in the band in the middle
    bands = [name.removeprefix("mag_") for name in table.names if name.startswith("mag_") and "err" not in name]
    middle = bands[len(bands) // 2]
    few = table.with_columns({f"mag_{middle}": np.where(gone, np.nan, table.floats(f"mag_{middle}"))})
    write_catalog(few, tmp_path / "few.parquet")
    code, out, err = call(
        "survey", folder / "model.gpzed", tmp_path / "few.parquet", "--n-spectra", 15, "--json", "--cells", 4
    )
    assert code == 0, err
    report = json.loads(out)
    assert report["magnitude"] != middle
    assert middle not in report["colour"].split("-")
    assert all(np.isfinite(report["objects"]["magnitude"]))
    assert all(np.isfinite(report["objects"]["colour"]))
    chosen = call(
        "survey", folder / "model.gpzed", tmp_path / "few.parquet", "--magnitude", middle, "--json", "--cells", 2
    )
    assert json.loads(chosen[1])["magnitude"] == middle
    assert all(np.isfinite(json.loads(chosen[1])["objects"]["magnitude"]))
