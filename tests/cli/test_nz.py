from __future__ import annotations

import json

import numpy as np
import pytest

from gpzed.catalog import Catalog, open_writer, read_catalog


@pytest.fixture
def predictions(tmp_path):
    rng = np.random.default_rng(0)
    n = 300
    mean = rng.uniform(0.1, 1.5, (n, 1)) + np.array([-0.02, 0.02])
    columns = {"z_phot": mean.mean(axis=1), "z_std": np.full(n, 0.1), "w": rng.uniform(0, 1, n)}
    columns["z_coverage"] = np.where(np.arange(n) < 30, 0.001, 0.5)
    for k in (1, 2):
        columns |= {f"z_weight_{k}": np.full(n, 0.5), f"z_mean_{k}": mean[:, k - 1], f"z_std_{k}": np.full(n, 0.1)}
    path = tmp_path / "p.parquet"
    with open_writer(path, None, {"gpzed_config": {"model": {"n_members": 2}}}) as writer:
        writer.write(Catalog(columns))
    return path


def test_table_figure_and_summary(call, predictions, tmp_path):
    table, figure = tmp_path / "nz.csv", tmp_path / "nz.png"
    options = ("--bins", "0,0.5,1,1.6", "--range", "0,2", "--width", "0.1", "--weight", "w", "--min-coverage", "0.01")
    code, out, _ = call("nz", predictions, "-o", table, "--figure", figure, *options, "--json")
    assert code == 0
    summary = json.loads(out)
    assert summary["members"] == 2
    assert summary["rows_skipped"] == 30
    assert sum(sample["n"] for sample in summary["samples"]) == 270
    written = read_catalog(table)
    assert len(written) == 20
    assert np.all(written["nz_err_committee_2"][5:9] > 0)
    assert np.sum(written["nz_2"]) * 0.1 == pytest.approx(1.0, abs=0.01)
    assert figure.stat().st_size > 1000
    code, out, _ = call("nz", predictions)
    assert code == 0
    assert "all" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--bins", "1,0.5"), "increasing"),
        (("--range", "2,1"), "make no bins"),
        (("--weight", "nothing"), "has no column 'nothing'"),
        (("--bins", "5,6"), "none of 300 rows"),
    ],
)
def test_what_is_wrong_is_said(call, predictions, options, message):
    code, _, err = call("nz", predictions, *options)
    assert code != 0
    assert message in err
