"""Files in the layout of qp, written here by hand; the plugin's tests read those of qp itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from gpzed.catalog import Catalog, read_catalog, write_catalog
from gpzed.cli import main
from gpzed.errors import CatalogError, ConfigError, MissingDependencyError, SchemaError
from gpzed.prediction import GriddedPrediction, Prediction
from gpzed.workflows import Criteria, PredictionSource, evaluate, read_predictions, select, write_report
from gpzed.workflows.qpfile import is_qp_file, read_qp

RNG = np.random.default_rng(0)
N = 30
Z = RNG.uniform(0.2, 1.5, N)
LOC, SCALE = Z + 0.05 * RNG.standard_normal(N), RNG.uniform(0.03, 0.1, N)
GRID = np.linspace(-0.5, 3.0, 1401)


def write_qp(path: Path, kind: str, data: dict[str, np.ndarray], meta: dict[str, np.ndarray] | None = None,
             ancil: dict[str, np.ndarray] | None = None) -> Path:  # fmt: skip
    with h5py.File(path, "w") as stream:
        stream["meta/pdf_name"] = np.array([kind.encode()])
        stream["meta/pdf_version"] = np.array([0])
        for group, values in (("meta", meta or {}), ("data", data), ("ancil", ancil or {})):
            for name, array in values.items():
                stream[f"{group}/{name}"] = array
    return path


def norm_file(path: Path, **ancil: np.ndarray) -> Path:
    return write_qp(path, "norm", {"loc": LOC[:, None], "scale": SCALE[:, None]}, None, ancil)


def test_gaussians_mixtures_cuts_and_tables_say_the_same(tmp_path: Path) -> None:
    gaussian = Prediction.gaussian(LOC, 0.0, SCALE**2)
    shape = np.ones((N, 2))
    both = {"means": LOC[:, None] * shape, "stds": SCALE[:, None] * shape, "weights": shape}  # weights: not normalised
    cut = {"a": (-2.0 - LOC) / SCALE, "b": np.full(N, np.inf), "loc": LOC, "scale": SCALE}
    truth = {"redshift": Z[:, None]}
    files = [
        norm_file(tmp_path / "norm.hdf5", **truth),
        write_qp(tmp_path / "mixmod.hdf5", "mixmod", both, None, truth),
        write_qp(tmp_path / "truncnorm.hdf5", "truncnorm", cut, None, truth),
        write_qp(tmp_path / "interp.hdf5", "interp", {"yvals": gaussian.pdf_grid(GRID)}, {"xvals": GRID[None]}, truth),
    ]
    kinds = [type(read_qp(path).prediction) for path in files]
    assert kinds == [Prediction, Prediction, Prediction, GriddedPrediction]
    assert read_qp(files[2]).prediction.lower == pytest.approx(-2.0)
    results = [evaluate(file) for file in files]
    for result in results:
        assert (result.redshift, result.n_used) == ("redshift", N)
        for name, value in results[0].metrics.items():
            assert result.metrics[name] == pytest.approx(value, rel=1e-3, abs=1e-3), (result.path, name)


def test_densities_that_are_none_are_left_out_and_counted(tmp_path: Path) -> None:
    density = Prediction.gaussian(LOC, 0.0, SCALE**2).pdf_grid(GRID)
    density[0], density[1, 3] = 0.0, np.nan
    path = write_qp(tmp_path / "holes.hdf5", "interp", {"yvals": density}, {"xvals": GRID}, {"redshift": Z})
    file = read_predictions(PredictionSource(path, min_redshift=0.5))
    z, prediction, n_rows = file.z_spec, file.prediction, file.n_rows
    assert n_rows == N
    kept = (Z > 0.5) & (np.arange(N) > 1)
    np.testing.assert_array_equal(z, Z[kept])
    np.testing.assert_allclose(prediction.mean, LOC[kept], atol=1e-3)
    nothing = write_qp(tmp_path / "nothing.hdf5", "norm", {"loc": LOC, "scale": 0.0 * SCALE})
    with pytest.raises(CatalogError, match=r"nothing\.hdf5': none of 30 densities is finite"):
        read_qp(nothing)
    short = norm_file(tmp_path / "short.hdf5", redshift=Z[:5])
    with pytest.raises(CatalogError, match="column 'redshift' has 5 rows but there are 30 densities"):
        read_qp(short)


def test_true_redshifts_may_stand_in_a_catalogue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = norm_file(tmp_path / "output.hdf5")
    truth = tmp_path / "truth.parquet"
    write_catalog(Catalog({"z_spec": Z, "other": Z + 1.0}), truth)
    assert main(["evaluate", str(path), "--truth", str(truth), "--json"]) == 0
    stored = json.loads(capsys.readouterr().out)
    assert (stored["redshift_column"], stored["n"]) == ("z_spec", N)
    assert evaluate(path, truth=truth, redshift="other").metrics["bias"] < -0.2
    with pytest.raises(SchemaError, match="name it with `redshift=`, or give a catalogue of them with `truth=`"):
        evaluate(path)
    write_catalog(Catalog({"z_spec": Z[:4]}), tmp_path / "few.parquet")
    with pytest.raises(CatalogError, match=r"has 4 rows but .* has 30 densities"):
        evaluate(path, truth=tmp_path / "few.parquet")
    with pytest.raises(ConfigError, match="is no file of qp"):
        evaluate(truth, truth=truth)


def test_other_representations_need_qp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_qp(tmp_path / "spline.hdf5", "spline", {"normed_yvals": np.ones((N, 3))})
    assert is_qp_file(path)
    monkeypatch.setitem(sys.modules, "qp", None)
    with pytest.raises(MissingDependencyError, match="the kind 'spline', which only the package qp can read"):
        read_qp(path)


def test_other_files_are_no_files_of_qp(tmp_path: Path) -> None:
    (tmp_path / "no.hdf5").write_text("text")
    with h5py.File(tmp_path / "catalogue.hdf5", "w") as stream:
        stream["photometry/mag_g"] = Z
    for name in ("no.hdf5", "catalogue.hdf5", "absent.hdf5", "catalogue.parquet"):
        assert not is_qp_file(tmp_path / name)


def test_pages_and_selections_of_qp_files(tmp_path: Path) -> None:
    grid = {"yvals": Prediction.gaussian(LOC, 0.0, SCALE**2).pdf_grid(GRID)}
    path = write_qp(tmp_path / "interp.hdf5", "interp", grid, {"xvals": GRID[None]})
    write_catalog(Catalog({"z_spec": Z}), tmp_path / "truth.parquet")
    source = PredictionSource(path, truth=tmp_path / "truth.parquet")
    page = write_report([source], tmp_path / "page.html")
    assert page.sets == (("interp", N, True),)
    assert write_report([path], tmp_path / "page.html").sets == (("interp", N, False),)
    report = select(source, Criteria(keep=0.5), tmp_path / "kept.csv")
    assert (report.n_kept, report.n_truth) == (N // 2, N)
    np.testing.assert_array_equal(read_catalog(tmp_path / "kept.csv")["row"], report.ids)


def test_the_redshift_that_gpzed_quotes_is_taken_from_its_column(tmp_path: Path) -> None:
    density = Prediction.gaussian(LOC, 0.0, SCALE**2).pdf_grid(GRID)
    ancil = {"redshift": Z, "z_phot": Z + 0.01}
    files = [
        norm_file(tmp_path / "norm.hdf5", **ancil),
        write_qp(tmp_path / "interp.hdf5", "interp", {"yvals": density}, {"xvals": GRID[None]}, ancil),
    ]
    for path in files:
        prediction = read_predictions(path).prediction
        np.testing.assert_allclose(prediction.z_phot, Z + 0.01)
        np.testing.assert_allclose(prediction[3:7].z_phot, Z[3:7] + 0.01)
        assert evaluate(path).metrics["rmse"] == pytest.approx(np.sqrt(np.mean((0.01 / (1 + Z)) ** 2)))
