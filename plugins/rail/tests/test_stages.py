"""Informer and estimator: the same numbers as gpzed, whatever the chunks, the order and the number of processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import qp
from rail.core.data import TableHandle

from gpzed.catalog import read_catalog
from gpzed.errors import CatalogError, ConfigError, ModelFormatError, SchemaError
from gpzed.workflows import load_photoz_model, predict, predict_columns, predict_table
from rail.estimation.algos.gpzed import GPZedEstimator, GPZedInformer, GPZedModelHandle, as_catalog
from rail_data import GROUP, QUICK, TRAINING, VALIDATION, copies, inform, read

Table = dict[str, np.ndarray]
ROUNDING = 1e-12
ITERATED = ("zmode", "zmedian", "zbest", "z_phot")
"""Columns that are found by iteration."""


def estimate(model: Any, data: Any, name: str = "estimate", **options: Any) -> qp.Ensemble:
    """Run the estimator on a table, a handle or the path of a file."""
    options = {"hdf5_groupname": GROUP, "id_col": "id", **options}
    stage = GPZedEstimator.make_stage(name=name, model=model, **options)
    if isinstance(data, (str, Path)):
        data = TableHandle("input", path=str(data))
        stage.set_data("input", data, do_read=False)
        stage.run()
        stage.finalize()
        return qp.read(stage.get_handle("output").path)
    return stage.estimate({GROUP: data} if isinstance(data, dict) else data).data


def write_hdf5(table: Table, path: Path) -> Path:
    with h5py.File(path, "w") as stream:
        for name, values in table.items():
            stream.create_dataset(f"{GROUP}/{name}", data=values)
    return path


def assert_same(found: qp.Ensemble, expected: qp.Ensemble, rows: Any = slice(None), exact: bool = False) -> None:
    """Compare to rounding, or to the last bit, which holds where no object of the table lacks a band."""
    for mine, theirs in ((found.objdata, expected.objdata), (found.ancil, expected.ancil)):
        assert set(mine) == set(theirs)
        for name, values in mine.items():
            wanted = np.asarray(theirs[name])[rows]
            tolerance = 1e-7 if name in ITERATED else ROUNDING
            np.testing.assert_allclose(values, wanted, rtol=tolerance, atol=1e-12, err_msg=name)
            if exact:
                np.testing.assert_array_equal(values, wanted, err_msg=name)


@pytest.fixture
def many(validation: Table) -> Table:
    return copies(validation, 23)  # 230 rows


def test_numbers_ids_and_columns_are_those_of_gpzed(model_path: str, validation: Table) -> None:
    ensemble = estimate(model_path, validation, quantiles=[0.16, 0.84])
    trained = load_photoz_model(model_path)
    prediction, _ = predict_table(trained, as_catalog(validation, trained.schema.photometry_columns, None))
    np.testing.assert_allclose(ensemble.objdata["means"], prediction.means, rtol=ROUNDING)
    np.testing.assert_array_equal(ensemble.ancil["id"], validation["id"])
    np.testing.assert_array_equal(ensemble.ancil["redshift"], validation["redshift"])
    for name, values in predict_columns(prediction).items():
        np.testing.assert_allclose(ensemble.ancil[name], values, rtol=ROUNDING, err_msg=name)
    whole = prediction.truncate(None)  # qp has no truncated mixtures
    for name, values in {
        "zmean": whole.mean,
        "zmode": whole.mode,
        "zmedian": whole.median,
        "zbest": whole.best,
    }.items():
        np.testing.assert_allclose(ensemble.ancil[name], values, rtol=ROUNDING, err_msg=name)
    np.testing.assert_allclose(ensemble.ancil["z_q16"], prediction.quantile(0.16), rtol=1e-6)  # float32
    total = sum(values for name, values in ensemble.ancil.items() if name.startswith("z_var_"))
    np.testing.assert_allclose(total, ensemble.ancil["z_std"] ** 2, rtol=1e-5)
    grid = np.linspace(0.0, 1.0, 11)
    np.testing.assert_allclose(ensemble.pdf(grid), whole.pdf_grid(grid), rtol=1e-8, atol=1e-12)


def test_the_model_is_a_file_of_gpzed(training: Table) -> None:
    stage = GPZedInformer.make_stage(name="inform", **QUICK)
    handle = stage.inform(TableHandle("training", path=TRAINING))
    assert isinstance(handle, GPZedModelHandle)
    assert handle.path == "model_inform.gpzed"
    assert Path(handle.path).read_bytes()[:2] != b"\x80\x04"  # no pickle
    trained = load_photoz_model(handle.path)
    assert trained.provenance["catalogue"] == TRAINING
    predict(handle.path, VALIDATION, "direct.parquet")
    direct = read_catalog("direct.parquet")
    ensemble = estimate(handle.path, VALIDATION)
    np.testing.assert_allclose(ensemble.ancil["z_phot"], direct["z_phot"], rtol=ROUNDING)
    np.testing.assert_array_equal(ensemble.ancil["z_flags"], direct["z_flags"])


def test_a_model_comes_as_handle_object_or_path(training: Table, validation: Table) -> None:
    handle = GPZedInformer.make_stage(name="three", **QUICK).inform({GROUP: training})
    by_handle = estimate(handle, validation, name="a")
    assert_same(estimate(handle.data, validation, name="b"), by_handle)
    assert_same(estimate(handle.path, validation, name="c"), by_handle)


def test_what_is_no_model_is_refused(validation: Table) -> None:
    Path("pickle.gpzed").write_bytes(b"\x80\x04N.")
    with pytest.raises(ModelFormatError, match=r"pickle\.gpzed"):
        estimate("pickle.gpzed", validation)
    with pytest.raises(TypeError, match="the model is of type dict; expected one of GPZedInformer"):
        estimate({"weights": 1}, validation)
    with pytest.raises(ConfigError, match="there is no `model`"):
        estimate("None", validation)


def test_the_callers_arrays_are_left_alone(training: Table, validation: Table) -> None:
    training["mag_u_lsst"][:3], training["mag_err_u_lsst"][:5] = 99.0, -1.0
    validation["mag_err_g_lsst"][:2] = np.nan
    before = [{name: values.copy() for name, values in table.items()} for table in (training, validation)]
    for table in (training, validation):
        for values in table.values():
            values.flags.writeable = False
    estimate(inform(training), validation)
    for table, kept in zip((training, validation), before, strict=True):
        for name, values in table.items():
            np.testing.assert_array_equal(values, kept[name], err_msg=name)


@pytest.mark.parametrize(
    ("chunk_size", "pdf_type"),
    [(13, "mixture"), (64, "mixture"), (10_000, "mixture"), (50, "norm"), (50, "truncnorm"), (50, "grid")],
)
def test_chunks_do_not_matter(model_path: str, many: Table, chunk_size: int, pdf_type: str) -> None:
    path = write_hdf5(many, Path("many.hdf5"))
    whole = estimate(model_path, many, name="whole", pdf_type=pdf_type)
    assert_same(estimate(model_path, path, name="parts", chunk_size=chunk_size, pdf_type=pdf_type), whole)


@pytest.mark.parametrize("chunk_size", [13, 64])
def test_chunks_do_not_matter_to_the_last_bit_without_gaps(model_path: str, many: Table, chunk_size: int) -> None:
    magnitudes = [many[f"mag_{band}_lsst"] for band in "ugrizy"]
    measured = np.all([np.isfinite(values) & (values < 90.0) for values in magnitudes], axis=0)
    full = {name: values[measured] for name, values in many.items()}
    path = write_hdf5(full, Path("full.hdf5"))
    whole = estimate(model_path, full, name="whole")
    assert_same(estimate(model_path, path, name="parts", chunk_size=chunk_size), whole, exact=True)


def test_one_row_at_a_time(model_path: str, validation: Table) -> None:
    whole = estimate(model_path, validation, name="ten")
    assert_same(estimate(model_path, VALIDATION, name="one", chunk_size=1), whole)


def test_the_order_of_rows_does_not_matter(model_path: str, many: Table) -> None:
    order = np.random.default_rng(0).permutation(len(many["id"]))
    whole = estimate(model_path, many, name="straight")
    turned = estimate(model_path, {name: values[order] for name, values in many.items()}, name="turned")
    assert_same(turned, whole, order)


RANK = """
import sys
import numpy as np
from mpi4py import MPI
from rail.core.data import TableHandle
from rail.estimation.algos.gpzed import GPZedEstimator

model, path, chunk = sys.argv[1:]
comm = MPI.COMM_WORLD
stage = GPZedEstimator.make_stage(name="mpi", model=model, input=path, comm=comm, chunk_size=int(chunk),
                                  hdf5_groupname="photometry", id_col="id", output_mode="return")
seen, process = [], stage._process_chunk
stage._process_chunk = lambda s, e, data, first: (seen.append((s, e)), process(s, e, data, first))
stage.run()
out = stage.get_handle("output").data
np.savez(f"rank{comm.rank}.npz", ranges=seen, means=out.objdata["means"], stds=out.objdata["stds"],
         id=out.ancil["id"], flags=out.ancil["z_flags"])
"""


@pytest.mark.skipif(not (Path(sys.prefix) / "bin" / "mpiexec").exists(), reason="there is no MPI here")
@pytest.mark.parametrize(("n_ranks", "chunk", "suffix"), [(2, 50, "hdf5"), (3, 10_000, "hdf5"), (2, 50, "parquet")])
def test_the_number_of_processes_does_not_matter(
    model_path: str, many: Table, n_ranks: int, chunk: int, suffix: str
) -> None:
    if suffix == "hdf5":
        path = write_hdf5(many, Path("many.hdf5"))
    else:  # row groups that end elsewhere than chunks, which tables_io gives wrong offsets for
        path = Path("many.parquet")
        pq.write_table(pa.table(many), path, row_group_size=37)
    whole = estimate(model_path, many, name="alone")
    mpiexec = str(Path(sys.prefix) / "bin" / "mpiexec")
    command = [mpiexec, "-n", str(n_ranks), sys.executable, "-c", RANK, model_path, str(path), str(chunk)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    rows = np.zeros(len(many["id"]), dtype=int)
    for rank in range(n_ranks):
        with np.load(f"rank{rank}.npz") as part:
            assert len(part["ranges"]) > 0  # every process has work
            mine = np.concatenate([np.arange(start, end) for start, end in part["ranges"]])
            rows[mine] += 1
            np.testing.assert_array_equal(part["id"].ravel(), many["id"][mine])
            np.testing.assert_allclose(part["means"], whole.objdata["means"][mine], rtol=ROUNDING)
            np.testing.assert_allclose(part["stds"], whole.objdata["stds"][mine], rtol=ROUNDING)
            np.testing.assert_array_equal(part["flags"].ravel(), whole.ancil["z_flags"][mine])
    np.testing.assert_array_equal(rows, 1)


@pytest.mark.parametrize("suffix", ["pq", "parquet", "csv"])
def test_files_of_other_formats_give_the_same(model_path: str, many: Table, suffix: str) -> None:
    frame, path = pd.DataFrame(many), Path(f"many.{suffix}")
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path, row_group_size=41)
    whole = estimate(model_path, many, name="memory")
    found = estimate(model_path, path, name="file", chunk_size=30, hdf5_groupname="")
    tolerance = 1e-4 if suffix == "csv" else ROUNDING  # text of single precision
    np.testing.assert_allclose(found.objdata["means"], whole.objdata["means"], rtol=tolerance)
    np.testing.assert_array_equal(found.ancil["id"], many["id"])


def test_tables_of_other_kinds(training: Table, validation: Table) -> None:
    stage = GPZedInformer.make_stage(name="frame", output_mode="return", **QUICK)
    model = stage.inform(pd.DataFrame(training)).data
    stage = GPZedEstimator.make_stage(name="arrow", model=model, hdf5_groupname="", output_mode="return")
    found = stage.estimate(pa.table(validation)).data
    np.testing.assert_array_equal(found.objdata["means"], estimate(inform(training), validation).objdata["means"])


def test_the_forms_of_the_ensemble(training: Table, validation: Table) -> None:
    model = inform(training, n_members=2, n_heads=5)
    forms = {kind: estimate(model, validation, name=kind, pdf_type=kind) for kind in
             ("full", "norm", "truncnorm", "grid", "mixture")}  # fmt: skip
    assert [form.gen_class.name for form in forms.values()] == ["mixmod", "norm", "truncnorm", "interp", "mixmod"]
    mixture, norm, cut = (forms[kind] for kind in ("full", "norm", "truncnorm"))
    few = forms["mixture"]
    assert few.objdata["means"].shape[1] == 8 < mixture.objdata["means"].shape[1]
    np.testing.assert_allclose(few.ancil["zmean"], mixture.ancil["zmean"], rtol=1e-12)
    np.testing.assert_allclose(
        np.sum(few.objdata["weights"] * few.objdata["means"], axis=1), few.ancil["zmean"], atol=2e-3
    )
    np.testing.assert_allclose(norm.objdata["loc"][:, 0], mixture.ancil["zmean"], rtol=1e-12)
    weights, means, stds = (mixture.objdata[name] for name in ("weights", "means", "stds"))
    variance = np.sum(weights * (stds**2 + (means - mixture.ancil["zmean"][:, None]) ** 2), axis=1)
    np.testing.assert_allclose(norm.objdata["scale"][:, 0], np.sqrt(variance), rtol=1e-10)
    np.testing.assert_allclose(cut.cdf([-1e-9])[:, 0], 0.0, atol=1e-12)
    np.testing.assert_allclose(cut.mean()[:, 0], cut.ancil["zmean"], rtol=1e-6)
    np.testing.assert_allclose(norm.ancil["zmode"], norm.objdata["loc"][:, 0])
    grid = np.linspace(0.0, 3.0, 301)
    np.testing.assert_allclose(np.trapezoid(forms["grid"].pdf(grid), grid, axis=1), 1.0, atol=1e-3)
    with pytest.raises(ConfigError, match="`pdf_type` is 'spline'; expected one of mixture, full"):
        estimate(model, validation, pdf_type="spline")
    with pytest.raises(ConfigError, match="expected zmin < zmax"):
        estimate(model, validation, zmin=3.0)


def test_rails_point_estimates_and_summaries(training: Table, validation: Table) -> None:
    model = inform(training, n_members=2)
    options = {"calculated_point_estimates": ["zmean", "zmode", "zmedian"], "recompute_point_estimates": True}
    found = estimate(model, validation, calc_summary_stats=True, **options)
    plain = estimate(model, validation, name="plain")
    for name in ("zmean", "zmode", "zmedian"):
        np.testing.assert_allclose(found.ancil[name], plain.ancil[name], rtol=1e-10)
    np.testing.assert_allclose(found.ancil["z_median"], found.ancil["zmedian"], rtol=1e-10)
    assert np.all(found.ancil["z_q16"] < found.ancil["z_q84"])
    np.testing.assert_array_equal(found.ancil["distribution_type"], 1)  # posterior


def test_columns_and_sentinels_of_another_catalogue(model_path: str, validation: Table) -> None:
    validation["mag_u_lsst"][:4] = 99.0
    usual = estimate(model_path, validation, name="usual")
    trained = load_photoz_model(model_path).schema
    renamed = {f"x_{name}": values.copy() for name, values in validation.items()}
    renamed["x_mag_u_lsst"][:4] = np.nan
    names = {
        "bands": [f"x_{name}" for name in trained.mag.values()],
        "err_bands": [f"x_{name}" for name in trained.mag_err.values()],
    }
    ids = {"id_col": "x_id", "redshift_col": "x_redshift"}
    limits = {f"x_{n}": limit for n, limit in GPZedInformer.make_stage(name="d").config.mag_limits.items()}
    found = estimate(model_path, renamed, **names, **ids, nondetect_val=np.nan, mag_limits=limits)
    assert_same(found, usual)
    brighter = estimate(model_path, validation, name="brighter", mag_limits={"mag_u_lsst": 25.0})
    assert not np.array_equal(brighter.objdata["means"][:4], usual.objdata["means"][:4])
    np.testing.assert_array_equal(brighter.objdata["means"][4:], usual.objdata["means"][4:])
    with pytest.raises(ConfigError, match="`bands` has 1 columns but the model was trained on 6"):
        estimate(model_path, renamed, bands=["x_mag_u_lsst"])
    with pytest.raises(SchemaError, match=r"of the schema are missing: 'mag_u_lsst'"):
        estimate(model_path, renamed)


def test_messages_about_groups_and_columns(training: Table) -> None:
    stage = GPZedInformer.make_stage(name="group", **{**QUICK, "hdf5_groupname": "photometri"})
    with pytest.raises(CatalogError, match="the data have groups 'photometry' but `hdf5_groupname` is 'photometri'"):
        stage.inform({GROUP: training})
    with pytest.raises(SchemaError, match="'redshift'"):
        inform({name: values for name, values in training.items() if name != "redshift"})


def test_several_processes_do_not_train(training: Table) -> None:
    with pytest.raises(ValueError, match="GPZedInformer, but that stage cannot be run in parallel"):
        GPZedInformer.parse_command_line(["GPZedInformer", "--mpi"])


def test_a_model_in_memory_keeps_its_threads(training: Table, validation: Table) -> None:
    model = inform(training)
    estimate(model, validation, n_threads=1)
    assert model.regressor.n_threads is None


def test_the_data_of_rail_are_as_these_tests_expect() -> None:
    assert (len(read(TRAINING)["id"]), len(read(VALIDATION)["id"])) == (100, 10)
    assert shutil.which("rail", path=str(Path(sys.prefix) / "bin"))
