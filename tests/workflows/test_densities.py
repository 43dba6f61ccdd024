"""Densities in files: every form in every format that can hold it, apart, as qp, resumed, and what is lost."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.integrate import trapezoid

from gpzed.catalog import Catalog, Lists, catalog_info, read_catalog, write_catalog
from gpzed.config import PredictConfig
from gpzed.errors import CatalogError, ConfigError, DataWarning
from gpzed.prediction import GriddedPrediction
from gpzed.prediction.reduce import count
from gpzed.progress import Progress
from gpzed.workflows import (
    evaluate,
    load_photoz_model,
    predict,
    predict_table,
    read_ensemble,
    read_predictions,
    train,
)
from gpzed.workflows.columns import GAUSSIANS, grouped, settled
from gpzed.workflows.predictions import PredictionSource
from workflows.galaxy_files import galaxies, quick_config, with_sentinels, write

VECTORS = (".parquet", ".fits", ".hdf5", ".ecsv", ".vot")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("densities")
    columns = {name: np.array(values) for name, values in _columns(galaxies(500, seed=2)).items()}
    columns["z_spec"][::3] += 0.8  # two possible redshifts
    write(Catalog(columns), path / "train.parquet")
    write(with_sentinels(galaxies(200, seed=1)), path / "survey.parquet")
    options = {"n_basis": 5, "n_members": 4, "n_heads": 4}
    config = quick_config(model=options, training={"patience": 2, "tol": 1e-4, "n_epochs": 10})
    train(path / "train.parquet", path / "model.gpzed", config)
    return path


def _columns(table: Catalog) -> dict[str, Any]:
    return {name: table[name] for name in table.names}


@pytest.fixture(scope="module")
def full(folder: Path) -> Any:
    model = load_photoz_model(folder / "model.gpzed")
    return model.predict(folder / "survey.parquet").prediction


def run(folder: Path, output: str, **options: Any) -> Path:
    predict(folder / "model.gpzed", folder / "survey.parquet", folder / output, PredictConfig(**options))
    return folder / output


@pytest.mark.parametrize("suffix", VECTORS)
def test_few_gaussians_in_every_format_with_lists(folder: Path, full: Any, suffix: str) -> None:
    path = run(folder, f"few{suffix}")
    read = read_predictions(path, need_truth=False)
    table = read_catalog(path)
    assert read.prediction.lower == 0.0
    assert read.prediction.n_components <= 8 < full.n_components
    for name, column in (("mean", "z_mean"), ("z_phot", "z_phot"), ("noise_variance", "z_var_noise")):
        np.testing.assert_array_equal(getattr(read.prediction, name), table[column])
        np.testing.assert_allclose(table[column], getattr(full, name), rtol=1e-6)
    z = full.quantile(0.3)
    assert np.mean(full.log_pdf(z) - read.prediction.log_pdf(z)) == pytest.approx(0.0, abs=0.05)
    assert np.mean(read.prediction.crps(z)) == pytest.approx(np.mean(full.crps(z)), rel=0.01)
    assert isinstance(table["z_pdf_mean"], Lists) == (suffix == ".parquet")
    assert table.notes["z_phot"].ucd.startswith("src.redshift.phot")
    assert table.notes["z_pdf_std"].description.startswith("their standard deviations")


def test_lists_are_as_long_as_an_object_needs(folder: Path) -> None:
    table = read_catalog(run(folder, "few.parquet"))
    lengths = {tuple(table[name].lengths) for name in GAUSSIANS}
    assert len(lengths) == 1
    assert min(*lengths) >= 1 and max(*lengths) <= 8 and len(set(*lengths)) > 1  # noqa: PT018
    assert table["z_pdf_weight"].dtype == np.float32
    padded = read_catalog(run(folder, "few.fits"))
    assert padded["z_pdf_weight"].shape == (200, 8)
    np.testing.assert_array_equal(count(padded["z_pdf_weight"]), table["z_pdf_weight"].lengths)
    np.testing.assert_array_equal(padded["z_pdf_mean"], table["z_pdf_mean"].padded(0.0, 8))


def test_parquet_of_others_reads_the_lists(folder: Path) -> None:
    pytest.importorskip("pandas")
    path = run(folder, "few.parquet")
    frame = pq.read_table(path).to_pandas()
    assert sum(frame["z_pdf_weight"][0]) == pytest.approx(1.0)
    assert len(frame["z_pdf_weight"][0]) == len(frame["z_pdf_std"][0])


@pytest.mark.parametrize("suffix", VECTORS)
def test_every_gaussian(folder: Path, full: Any, suffix: str) -> None:
    read = read_predictions(run(folder, f"full{suffix}", pdf="full"), need_truth=False).prediction
    np.testing.assert_allclose(read.weights, full.weights, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(read.means, full.means, rtol=1e-6)
    assert read.components.member.tolist() == full.components.member.tolist()
    np.testing.assert_allclose(read.model_variance, full.model_variance, rtol=1e-6)


@pytest.mark.parametrize("suffix", VECTORS)
def test_on_a_grid(folder: Path, full: Any, suffix: str) -> None:
    path = run(folder, f"grid{suffix}", pdf="grid", pdf_grid=(0.0, 4.0, 401.0))
    read = read_predictions(path, need_truth=False).prediction
    assert isinstance(read, GriddedPrediction)
    at = np.linspace(0.0, 4.0, 401)
    np.testing.assert_allclose(read.pdf_grid(at), full.pdf_grid(at), atol=0.03 * full.pdf_grid(at).max())


def test_a_grid_that_misses_objects_is_refused(folder: Path) -> None:
    path = run(folder, "far.parquet", pdf="grid", pdf_grid=(8.0, 9.0, 3.0))
    with pytest.raises(CatalogError, match=r"the density is zero on the whole grid, 8 to 9, .* wider --pdf-grid"):
        read_predictions(path, need_truth=False)


def test_csv_gets_quantiles(folder: Path, full: Any) -> None:
    table = read_catalog(run(folder, "few.csv", quantiles=(0.16, 0.3)))
    names = [name for name in table.names if name.startswith("z_q")]
    assert names == ["z_q16", "z_q30", "z_q02.5", "z_q50", "z_q84", "z_q97.5"]
    assert np.max(np.abs(table["z_q84"] - full.quantile(0.84)) / full.std) < 0.02  # of Gaussians that say the same
    every = read_catalog(run(folder, "exact.csv", exact=True))
    model, survey = load_photoz_model(folder / "model.gpzed"), read_catalog(folder / "survey.parquet")
    exact = predict_table(model, survey, exact=True)[0].changed(lower=0.0)
    np.testing.assert_allclose(every["z_q84"], exact.quantile(0.84), rtol=1e-6)
    far = read_catalog(run(folder, "far.csv", quantiles=(0.001,)))
    np.testing.assert_allclose(far["z_q00.1"], full.quantile(0.001), rtol=1e-6)
    with pytest.raises(ConfigError, match="csv files hold one number per row and column"):
        run(folder, "few.csv", pdf="mixture")


def test_none(folder: Path, full: Any) -> None:
    path = run(folder, "none.parquet", pdf="none")
    assert not [name for name in catalog_info(path).names if name.startswith("z_pdf")]
    read = read_predictions(path, need_truth=False).prediction
    assert read.n_components == 1
    np.testing.assert_allclose(read.mean, full.mean, rtol=1e-5)


def test_densities_that_may_be_negative(folder: Path) -> None:
    path = run(folder, "uncut.parquet", positive=False)
    read = read_predictions(path, need_truth=False).prediction
    assert read.lower is None
    np.testing.assert_array_equal(read.mean, read_catalog(path)["z_mean"])


@pytest.mark.parametrize("suffix", [".parquet", ".hdf5", ".fits"])
def test_densities_apart(folder: Path, suffix: str) -> None:
    output, apart = folder / "points.parquet", folder / f"densities{suffix}"
    predict(folder / "model.gpzed", folder / "survey.parquet", output, pdf_file=apart)
    assert not [name for name in catalog_info(output).names if name.startswith("z_pdf")]
    assert catalog_info(apart).names == ("id", *GAUSSIANS)
    np.testing.assert_array_equal(read_catalog(apart)["id"], read_catalog(output)["id"])
    together = run(folder, "together.parquet")
    assert evaluate(output).metrics == evaluate(together).metrics
    apart.unlink()
    with pytest.warns(DataWarning, match="is not there: each is taken for a Gaussian"):
        assert evaluate(output).metrics["mll"] != evaluate(together).metrics["mll"]
    write_catalog(read_catalog(together, columns=list(GAUSSIANS)).slice(0, 10), folder / "densities.parquet")
    if suffix == ".parquet":
        with pytest.raises(CatalogError, match=r"has 10 densities but .* has 200 rows"):
            evaluate(output)


def test_identifiers_are_those_of_the_survey_where_training_had_none(tmp_path: Path) -> None:
    table = galaxies(300)
    train({name: table[name] for name in table.names if name != "id"}, tmp_path / "m.gpzed", quick_config())
    columns = {"OBJID" if name == "id" else name: np.array(table[name]) for name in table.names}
    survey = write(Catalog(columns), tmp_path / "survey.parquet")
    options = PredictConfig(pdf="mixture")
    predict(tmp_path / "m.gpzed", survey, tmp_path / "z.parquet", options, pdf_file=tmp_path / "pdf.parquet")
    np.testing.assert_array_equal(read_catalog(tmp_path / "pdf.parquet")["OBJID"], table["id"])
    predict(tmp_path / "m.gpzed", survey, tmp_path / "z.hdf5", options, format="qp")
    with h5py.File(tmp_path / "z.hdf5") as file:
        np.testing.assert_array_equal(file["ancil/object_id"][:], table["id"])


def test_densities_of_another_run_are_not_taken(folder: Path, tmp_path: Path) -> None:
    """As many rows, and written to the same file: by another catalogue, or by a run that was killed between files."""
    apart, options = tmp_path / "apart.parquet", PredictConfig(pdf="mixture")
    for name in ("first", "second"):
        write(galaxies(40, seed=len(name)), tmp_path / f"{name}.parquet")
        output = tmp_path / f"{name}_z.parquet"
        predict(folder / "model.gpzed", tmp_path / f"{name}.parquet", output, options, pdf_file=apart)
    read_predictions(tmp_path / "second_z.parquet", need_truth=False)
    with pytest.raises(CatalogError, match=r"apart\.parquet' is of another run than '.*first_z.*`gpzed_input`"):
        read_predictions(tmp_path / "first_z.parquet", need_truth=False)


@pytest.mark.parametrize("name", ["", ".", "/", 7])
def test_what_names_no_file_of_densities_is_none(tmp_path: Path, name: object) -> None:
    columns = {"z_phot": np.full(7, 0.5), "z_std": np.full(7, 0.1)}
    path = tmp_path / "strange.parquet"
    write_catalog(Catalog(columns, metadata={"gpzed_pdf": {"form": "mixture", "file": name}}), path)
    assert PredictionSource(path).files == [path]
    assert len(read_predictions(path, need_truth=False).prediction) == 7


def test_mistakes_with_files_apart(folder: Path, tmp_path: Path) -> None:
    survey, output = folder / "survey.parquet", folder / "x.parquet"
    for options, message in (
        ({"pdf_file": tmp_path / "far.parquet"}, "is not in the folder of"),
        ({"pdf_file": folder / "x.csv"}, "csv files hold one number per row"),
        ({"pdf_file": folder / "y.parquet", "options": PredictConfig(pdf="none")}, "`pdf` is 'none'"),
        ({"pdf_file": folder / "y.parquet", "format": "qp"}, "leave it out for folders of files and for files of qp"),
    ):
        with pytest.raises(ConfigError, match=message):
            predict(
                folder / "model.gpzed",
                survey,
                output.with_suffix(".hdf5" if "format" in options else ".parquet"),
                **options,
            )
    with pytest.raises(ConfigError, match="`pdf_file` needs files"):
        predict(folder / "model.gpzed", _columns(galaxies(5)), output, pdf_file=folder / "y.parquet")
    assert not output.exists()


class Killed(BaseException):
    pass


@pytest.mark.parametrize("output", ["resumed.parquet", "resumed.hdf5", "resumed.fits"])
def test_resumed_runs_give_the_same_bytes(folder: Path, output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if output.endswith("hdf5"):
        pytest.importorskip("h5py", minversion="3.15", reason="earlier ones put the time into groups")
    module = importlib.import_module("gpzed.workflows.predict")
    options = PredictConfig(chunk_rows=60)
    first, apart = folder / f"first_{output}", folder / "first_pdf.parquet"
    predict(folder / "model.gpzed", folder / "survey.parquet", first, options, pdf_file=apart)
    whole = first.read_bytes(), apart.read_bytes()
    first.unlink()
    compute, calls = module.PredictionRun._compute, []

    def killed(self: Any, table: Catalog) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise Killed
        return compute(self, table)

    monkeypatch.setattr(module.PredictionRun, "_compute", killed)
    with pytest.raises(Killed):
        predict(folder / "model.gpzed", folder / "survey.parquet", first, options, pdf_file=apart)
    monkeypatch.undo()
    report = predict(folder / "model.gpzed", folder / "survey.parquet", first, options, pdf_file=apart, resume=True)
    assert report.n_resumed == 120
    assert (first.read_bytes(), apart.read_bytes()) == whole


@pytest.mark.parametrize("form", ["mixture", "grid"])
def test_files_of_qp(folder: Path, full: Any, form: str) -> None:
    qp = pytest.importorskip("qp")
    path = folder / f"{form}.hdf5"
    predict(
        folder / "model.gpzed", folder / "survey.parquet", path, PredictConfig(pdf=form, chunk_rows=70), format="qp"
    )
    ensemble = qp.read(str(path))
    assert ensemble.npdf == 200
    assert {"zmode", "zmean", "z_phot", "object_id", "z_flags"} <= set(ensemble.ancil)
    np.testing.assert_allclose(ensemble.ancil["zmean"], full.mean, rtol=1e-6)
    at = np.linspace(0.02, 3.0, 150)
    np.testing.assert_allclose(trapezoid(ensemble.pdf(at) * at, at, axis=1), full.mean, atol=0.03)
    assert np.all(full.pdf(np.asarray(ensemble.ancil["zmode"], dtype=float)) > 0.7 * full.pdf(full.mode))
    with h5py.File(path) as stream:
        assert stream["data/means" if form == "mixture" else "data/yvals"].dtype == np.float32
    again = read_predictions(path, need_truth=False)
    np.testing.assert_array_equal(again.prediction.z_phot, ensemble.ancil["z_phot"])
    if form == "mixture":
        np.testing.assert_allclose(again.prediction.mean, full.mean, atol=2e-3)


def test_many_rows_become_an_ensemble_without_a_loop(folder: Path, full: Any) -> None:
    pytest.importorskip("qp")
    few = full.reduced(without_cut=True)
    ensemble = few[np.zeros(100_000, dtype=int)].to_qp()
    assert ensemble.npdf == 100_000
    np.testing.assert_allclose(few.mean, full.mean)


@pytest.mark.parametrize("name", ["out.parquet", "out.hdf5", "apart.parquet", "grid.parquet"])
def test_files_become_ensembles(folder: Path, full: Any, tmp_path: Path, name: str) -> None:
    pytest.importorskip("qp")
    options = PredictConfig(pdf="grid") if name.startswith("grid") else PredictConfig(pdf="mixture")
    apart = tmp_path / "pdfs.parquet" if name.startswith("apart") else None
    predict(folder / "model.gpzed", folder / "survey.parquet", tmp_path / name, options, pdf_file=apart)
    ensemble = read_ensemble(tmp_path / name)
    assert ensemble.npdf == len(full)
    np.testing.assert_allclose(ensemble.ancil["z_phot"], full.z_phot, atol=1e-6)
    if not name.startswith("grid"):
        z, few, data = np.linspace(0.1, 2.0, 5), full.reduced(without_cut=True), ensemble.objdata
        np.testing.assert_allclose(np.sum(data["weights"] * data["means"], axis=1), full.mean, atol=2e-3)
        np.testing.assert_allclose(ensemble.pdf(z), few.pdf_grid(z), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "astropy", "dict"])
def test_tables_in_memory_get_them_too(folder: Path, library: str) -> None:
    columns = _columns(galaxies(20, seed=4))
    module = pytest.importorskip(library if library != "dict" else "json")
    if library == "astropy":
        from astropy.table import Table

        data: Any = Table(columns)
    else:
        data = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}.get(library)
        data = columns if data is None else getattr(module, data)(columns)
    model = load_photoz_model(folder / "model.gpzed")
    result = model.predict(data)
    table, lengths = result.to_table(), count(result["z_pdf_weight"])
    for name in GAUSSIANS:
        for k in (0, 7):
            found = np.asarray(table[name][k].as_py() if library == "pyarrow" else table[name][k], dtype=np.float32)
            np.testing.assert_array_equal(found[: lengths[k]], result[name][k, : lengths[k]])
            assert len(found) == (8 if library in ("astropy", "dict") else lengths[k])


def test_lists_of_the_catalogue_are_copied_where_that_can_be(folder: Path) -> None:
    survey = read_catalog(folder / "survey.parquet")
    own = Lists.from_padded(np.arange(600.0).reshape(200, 3), np.arange(200) % 4)
    write_catalog(survey.with_columns({"own": own}), folder / "lists.parquet")
    said: list[str] = []

    class Heard(Progress):
        def warn(self, text: str) -> None:
            said.append(text)

    for suffix in (".parquet", ".hdf5"):
        predict(folder / "model.gpzed", folder / "lists.parquet", folder / f"own{suffix}", progress=Heard())
        assert read_catalog(folder / f"own{suffix}")["own"].equals(own)
    assert not said
    predict(folder / "model.gpzed", folder / "lists.parquet", folder / "own.fits", progress=Heard())
    assert said == ["fits files hold no lists: own of the catalogue left out"]


def test_one_gaussian_needs_no_lists(folder: Path) -> None:
    assert settled(PredictConfig(), 1).pdf == "none"
    assert settled(PredictConfig(), 2).pdf == "mixture"
    assert settled(PredictConfig(pdf="mixture"), 1).pdf == "mixture"


def test_densities_are_all_there_or_refused(folder: Path, tmp_path: Path) -> None:
    table = read_catalog(run(folder, "whole.parquet"))
    write_catalog(table.select([name for name in table.names if name != "z_pdf_std"]), tmp_path / "part.parquet")
    with pytest.raises(CatalogError, match="some columns of its densities but not 'z_pdf_std'; keep z_pdf_weight, "):
        evaluate(tmp_path / "part.parquet")
    points = table.select([name for name in table.names if not name.startswith("z_pdf")])
    write_catalog(points.with_columns({"z_weight_1": np.ones(len(table))}), tmp_path / "early.parquet")
    with pytest.raises(CatalogError, match=r"in columns like 'z_weight_1'.*; predict again"):
        evaluate(tmp_path / "early.parquet")


def test_names_are_told_in_groups() -> None:
    text = grouped(["z_phot", "z_q16", "z_q50", "z_q84", "z_pdf_weight", "z_flags"])
    assert text == "z_phot, z_flags, 3 quantiles (z_q16 to z_q84), and the densities in z_pdf_weight"


def test_options_are_checked() -> None:
    with pytest.raises(ConfigError, match="`pdf` is 'all'; expected one of mixture, full, grid, quantiles, none"):
        PredictConfig(pdf="all")  # type: ignore[arg-type]
    for bad in ((0.0, 3.0), (3.0, 0.0, 10.0), (0.0, 3.0, 1.0), (0.0, 3.0, 2.5)):
        with pytest.raises(ConfigError, match=r"`pdf_grid` is .* expected the first redshift"):
            PredictConfig(pdf="grid", pdf_grid=bad)
    with pytest.raises(ConfigError, match=r"`pdf_grid` is the grid of densities on one; add `pdf` grid"):
        PredictConfig(pdf_grid=(0.0, 2.0, 301.0))
