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
    columns["half"] = np.arange(n) % 2
    columns["z_coverage"] = np.where(np.arange(n) < 30, 0.001, 0.5)
    columns |= {"z_pdf_weight": np.full((n, 2), 0.5), "z_pdf_mean": mean, "z_pdf_std": np.full((n, 2), 0.1)}
    path = tmp_path / "p.parquet"
    with open_writer(
        path, None, {"gpzed_config": {"model": {"n_members": 2}}, "gpzed_pdf": {"form": "full"}}
    ) as writer:
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
        (("--range", "2,1"), "no bins"),
        (("--weight", "nothing"), "has no column 'nothing'"),
        (("--bins", "5,6"), "none of 300 rows"),
        (("--bins", "2.5"), "or how many"),
        (("--bins", "3", "--bin-column", "half"), "two ways"),
        (("--bin-column", "w"), "has 300 values; expected 1 to 100"),
    ],
)
def test_what_is_wrong_is_said(call, predictions, options, message):
    code, _, err = call("nz", predictions, *options)
    assert code != 0
    assert message in err


def test_bins_of_equal_numbers_or_by_a_column_with_realisations(call, predictions, tmp_path):
    import h5py

    path = tmp_path / "nz.hdf5"
    code, out, err = call("nz", predictions, "--bins", "3", "--realisations", path, "--draws", "50", "--json")
    assert code == 0
    summary = json.loads(out)
    assert [sample["n"] for sample in summary["samples"]] == pytest.approx([100] * 3, abs=1)
    assert summary["range"][0] <= 0.1
    assert all(abs(sample["outside"]) < 0.005 for sample in summary["samples"])
    assert "the file does not say" in err
    with h5py.File(path) as stream:
        g = len(stream["z_mid"])
        assert stream["realisations"].shape == (50, 3, g)
        assert stream["covariance"].shape == (3 * g, 3 * g)
        assert stream["mean_covariance"].shape == (3, 3)
        assert stream["modes"].shape[1:] == (3, g)
        np.testing.assert_allclose(stream["mean_error"][:], stream["realisation_means"][:].std(axis=0, ddof=1))
        assert list(stream.attrs["samples"]) == [sample["name"] for sample in summary["samples"]]
    code, out, _ = call("nz", predictions, "--bin-column", "half", "--labels", "1000", "--json")
    assert code == 0
    summary = json.loads(out)
    assert [(sample["name"], sample["n"]) for sample in summary["samples"]] == [("half = 0", 150), ("half = 1", 150)]
    assert summary["labels"] == 1000


def test_the_file_tells_the_labels_and_known_redshifts_the_shift(call, tmp_path):
    rng = np.random.default_rng(0)
    z = rng.uniform(0.2, 1.2, 2000)
    columns = {"z_phot": z + 0.05 * rng.standard_normal(2000) - 0.03, "z_std": np.full(2000, 0.05)}
    columns["z_spec"] = np.where(np.arange(2000) < 500, z, np.nan)
    path = tmp_path / "p.parquet"
    with open_writer(path, None, {"gpzed_training_rows": 800}) as writer:
        writer.write(Catalog(columns))
    code, out, err = call("nz", path, "--json")
    assert code == 0
    assert "does not say" not in err
    (sample,) = json.loads(out)["samples"]
    assert sample["mean_error"] == pytest.approx(0.05 * np.sqrt(1 / 2000 + 2 / 800), rel=0.2)
    assert sample["known"]["shift"] == pytest.approx(0.03, abs=0.01)
    assert sample["known"]["n"] == 500


def test_qp_reads_what_is_written(call, predictions, tmp_path):
    qp = pytest.importorskip("qp")
    path = tmp_path / "nz.hdf5"
    code, _, _ = call("nz", predictions, "--bins", "2", "--qp", path, "--draws", "10")
    assert code == 0
    ensemble = qp.read(str(path))
    assert ensemble.npdf == 2
    np.testing.assert_allclose(np.squeeze(ensemble.mean()), ensemble.ancil["mean"], atol=0.02)
