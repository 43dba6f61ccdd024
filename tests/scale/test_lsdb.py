"""HATS in, HATS out: real catalogues made with LSDB from simulated galaxies on the sky."""

from __future__ import annotations

import importlib.util
import shutil
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpzed.distributed.lsdb
from gpzed.catalog import Catalog, Lists, read_catalog, write_catalog
from gpzed.config import PredictConfig
from gpzed.errors import CatalogError, ConfigError, DataWarning
from gpzed.features import count_flags
from gpzed.workflows import load_photoz_model, predict, predict_columns, predict_table, read_predictions, train
from gpzed.workflows.resume import FinishedChunks
from workflows.galaxy_files import galaxies, quick_config, with_sentinels, write

if importlib.util.find_spec("lsdb") is None:
    pytest.skip("lsdb is not installed", allow_module_level=True)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of pandas
    import lsdb

pytestmark = pytest.mark.filterwarnings("ignore")  # of lsdb, hats and what they stand on


@pytest.fixture(scope="module")
def survey():
    table = with_sentinels(galaxies(1500, seed=5))
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({name: table[name] for name in table.names})
    frame["ra"], frame["dec"] = rng.uniform(10.0, 60.0, len(frame)), rng.uniform(-30.0, 30.0, len(frame))
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory, survey):
    path = tmp_path_factory.mktemp("hats")
    write(galaxies(300), path / "train.parquet")
    train(path / "train.parquet", path / "model.gpzed", quick_config())
    catalogue = lsdb.from_dataframe(
        survey, ra_column="ra", dec_column="dec", partition_rows=300, margin_threshold=7200.0, catalog_name="survey"
    )
    assert len(catalogue.get_healpix_pixels()) > 3
    assert len(catalogue.margin.compute()) > 0
    catalogue.write_catalog(path / "survey", catalog_name="survey", progress_bar=False)
    return path


def expected_columns(folder, frame, options=None):
    trained = load_photoz_model(folder / "model.gpzed")
    table = Catalog({n: frame[n].to_numpy(dtype=np.float64) for n in frame.columns if n.startswith("mag")})
    return predict_columns(predict_table(trained, table)[0], options)


def check(result, original, folder):
    """Rows, index, order and columns as they were, and the redshifts of plain prediction."""
    assert list(result.index) == list(original.index)
    assert result.index.name == original.index.name == "_healpix_29"
    np.testing.assert_array_equal(result["id"].to_numpy(), original["id"].to_numpy())
    expected = expected_columns(folder, original)
    weights = expected.pop("z_pdf_weight", None)
    means, stds = expected.pop("z_pdf_mean", None), expected.pop("z_pdf_std", None)
    if weights is not None:
        used = weights > 0.0
        for field, values in (("weight", weights), ("mean", means), ("std", stds)):
            np.testing.assert_allclose(result[f"z_pdf.{field}"].to_numpy(dtype=np.float32), values[used], rtol=1e-6)
    for name, values in expected.items():
        np.testing.assert_allclose(result[name].to_numpy(dtype=values.dtype), values, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("how", ["shared", "path", "object"])
def test_map_partitions(folder, how):
    catalogue = lsdb.open_catalog(folder / "survey")
    path = folder / "model.gpzed"
    model = {"shared": gpzed.distributed.lsdb.open_model, "path": str, "object": load_photoz_model}[how](path)
    result = catalogue.map_partitions(gpzed.distributed.lsdb.predict, model)
    computed = result.compute()
    assert list(result.dtypes.index) == list(computed.columns)
    assert (result.dtypes == computed.dtypes).all()
    assert computed["z_flags"].dtype == np.uint32
    check(computed, catalogue.compute(), folder)
    check(result.margin.compute(), catalogue.margin.compute(), folder)


def received(digest):
    return digest in gpzed.distributed.lsdb._models, len(gpzed.distributed.lsdb._models)


def test_the_model_goes_to_every_worker_once(client, folder):
    import pickle

    catalogue = lsdb.open_catalog(folder / "survey")
    model = gpzed.distributed.lsdb.open_model(folder / "model.gpzed", client)
    assert len(pickle.dumps(model)) < 1000 < len(pickle.dumps(model.get()))
    assert all(there for there, _ in client.run(received, model.digest).values())
    with client.as_current():
        result = catalogue.map_partitions(gpzed.distributed.lsdb.predict, model).compute()
    check(result, catalogue.compute(), folder)
    assert all(count == 1 for _, count in client.run(received, model.digest).values())


@pytest.mark.parametrize("where", ["here", "cluster"])
def test_hats_in_hats_out_by_the_command_line(client, folder, tmp_path, where, capsys):
    from gpzed.cli import main

    at = [] if where == "here" else ["--dask", client.scheduler.address]
    arguments = ["predict", str(folder / "model.gpzed"), str(folder / "survey"), "-o", str(tmp_path / "out"), *at]
    assert main(arguments) == 0
    assert "1,500 rows" in capsys.readouterr().out
    before, after = lsdb.open_catalog(folder / "survey"), lsdb.open_catalog(tmp_path / "out")
    assert after.get_healpix_pixels() == before.get_healpix_pixels()
    check(after.compute(), before.compute(), folder)
    assert after.margin is not None
    check(after.margin.compute(), before.margin.compute(), folder)
    assert main([*arguments, "--resume"]) == 0  # as after a kill in the last moment
    assert "is complete already" in capsys.readouterr().err
    for other in ([], ["--resume", "--point", "mode"]):
        assert main([*arguments, *other]) == 2
        assert "is there already" in capsys.readouterr().err


def test_chosen_columns_keep_the_position(folder, tmp_path):
    options = PredictConfig(columns=("id",), quantiles=(0.5,))
    report = gpzed.workflows.predict(folder / "model.gpzed", folder / "survey", tmp_path / "out", options)
    after = lsdb.open_catalog(tmp_path / "out", columns="all")
    assert set(after.columns) == {"ra", "dec", "id", *report.columns}
    assert "z_q50" in after.columns
    assert report.flags == dict(count_flags(after.compute()["z_flags"].to_numpy(dtype=np.uint32))) != {}


@pytest.mark.parametrize("apart", [False, True])
def test_a_catalogue_that_changes_meanwhile_is_noticed(folder, committee, tmp_path, apart):
    shutil.copytree(folder / "survey", tmp_path / "survey")
    changed = max((tmp_path / "survey").rglob("Npix*.parquet"))

    def change(*_):
        table = pq.read_table(changed)
        pq.write_table(table.set_column(table.column_names.index("mag_u"), "mag_u", table["mag_g"]), changed)

    pdf_file = tmp_path / "densities" if apart else None
    with pytest.raises(CatalogError, match=r"changed while it was in use.*what was made from it is removed"):
        predict(committee, tmp_path / "survey", tmp_path / "out", on_plan=change, pdf_file=pdf_file)
    assert [path.name for path in tmp_path.iterdir()] == ["survey"]


def test_a_model_file_that_changed_is_not_taken_for_the_old_one(folder, tmp_path):
    path = tmp_path / "model.gpzed"
    path.write_bytes((folder / "model.gpzed").read_bytes())
    shared = gpzed.distributed.lsdb.SharedModel(str(path), "0" * 64)
    with pytest.raises(ConfigError, match="has changed since it was opened"):
        shared.get()


@pytest.fixture(scope="module")
def committee(folder):
    config = quick_config(
        model={"n_basis": 5, "n_members": 2, "n_heads": 2}, training={"patience": 2, "tol": 1e-4, "n_epochs": 10}
    )
    train(folder / "train.parquet", folder / "committee.gpzed", config)
    return folder / "committee.gpzed"


def test_densities_are_one_nested_column(folder, committee):
    predict(committee, folder / "survey", folder / "nested")
    catalogue = lsdb.open_catalog(folder / "nested")
    assert "z_pdf" in catalogue.nested_columns
    frame = catalogue.compute()
    first = frame["z_pdf"].iloc[0]
    assert list(first.columns) == ["weight", "mean", "std"]
    assert first["weight"].sum() == pytest.approx(1.0)
    read = read_predictions(folder / "nested", need_truth=False)
    assert read.prediction.lower == 0.0
    assert 1 < read.prediction.n_components <= 8
    columns = read_catalog(folder / "nested", columns=["z_mean", "z_pdf.mean"])
    assert isinstance(columns["z_pdf.mean"], Lists)
    np.testing.assert_array_equal(read.prediction.mean, columns["z_mean"])
    moments = read.prediction.components.moments(0.0)
    assert np.abs(moments.mean - columns["z_mean"]).max() < 0.01 * read.prediction.std.max()


@pytest.fixture
def rows_predicted(monkeypatch):
    """Rows of every partition that is predicted for."""
    counts, tabulate_rows = [], gpzed.distributed.lsdb.tabulate_rows

    def count(model, table, *others):
        counts.append(len(table))
        return tabulate_rows(model, table, *others)

    monkeypatch.setattr(gpzed.distributed.lsdb, "tabulate_rows", count)
    return counts


def test_points_and_densities_may_be_apart(folder, committee, rows_predicted):
    predict(committee, folder / "survey", folder / "together")
    once = sorted(rows_predicted)
    rows_predicted.clear()
    predict(committee, folder / "survey", folder / "points", pdf_file=folder / "densities")
    assert sorted(rows_predicted) == once
    assert not list(folder.glob("*.whole*"))
    points, densities = (lsdb.open_catalog(folder / name) for name in ("points", "densities"))
    assert "z_phot" in points.columns
    assert "z_pdf" not in points.columns
    assert set(densities.columns) - {"id"} == {"ra", "dec", "z_pdf"}
    assert "z_pdf" in densities.nested_columns
    both, apart = (read_predictions(folder / name, need_truth=False).prediction for name in ("together", "points"))
    assert apart.n_components > 1
    for name in ("z_phot", "mean", "weights", "means", "component_stds"):
        np.testing.assert_array_equal(getattr(apart, name), getattr(both, name))
    with pytest.raises(ConfigError, match="is there already"):
        predict(committee, folder / "survey", folder / "points2", pdf_file=folder / "densities")
    (folder / "points.whole").mkdir()
    again = predict(committee, folder / "survey", folder / "points", pdf_file=folder / "densities", resume=True)
    assert again.n_rows == len(both)
    assert (folder / "points.whole").exists()  # it is not ours


def test_catalogues_apart_are_resumed_without_predicting_again(
    folder, committee, tmp_path, rows_predicted, monkeypatch
):
    write, (survey, points, densities) = (
        gpzed.distributed.lsdb._write,
        (folder / "survey", *map(tmp_path.joinpath, "pd")),
    )
    options = PredictConfig(columns=("z_spec",))

    def stop_at_points(result, target, *others):
        if target == points:
            raise KeyboardInterrupt
        write(result, target, *others)

    with monkeypatch.context() as patch:
        patch.setattr(gpzed.distributed.lsdb, "_write", stop_at_points)
        with pytest.raises(KeyboardInterrupt):
            predict(committee, survey, points, options, pdf_file=densities)
    with pytest.raises(ConfigError, match="left from an interrupted run"):
        predict(committee, survey, points, options, pdf_file=densities)
    rows_predicted.clear()
    report = predict(committee, survey, points, options, pdf_file=densities, resume=True)
    assert not rows_predicted
    assert report.n_rows == len(lsdb.open_catalog(densities))
    assert {"ra", "dec", "z_spec", "z_phot"} <= set(lsdb.open_catalog(points).columns)
    assert "id" not in lsdb.open_catalog(points).columns
    assert "id" in lsdb.open_catalog(densities).columns
    assert not list(tmp_path.glob("*.*"))


@pytest.mark.parametrize("stop_at", ["p.parts", "d.parts", "p.whole"])
def test_catalogues_apart_that_are_there_are_not_predicted_again(
    folder, committee, tmp_path, rows_predicted, monkeypatch, stop_at
):
    """Whichever of the things that a run leaves behind it was about to remove when it was killed."""
    points, densities = tmp_path / "p", tmp_path / "d"
    remove, rmtree = FinishedChunks.remove, shutil.rmtree

    def stop_at_chunks(chunks):
        if chunks.folder.name == stop_at:
            raise KeyboardInterrupt
        remove(chunks)

    def stop_at_folder(path, *others, **options):
        if path.name == stop_at:
            next(path.rglob("Npix*.parquet")).unlink()
            raise KeyboardInterrupt
        rmtree(path, *others, **options)

    with monkeypatch.context() as patch:
        patch.setattr(FinishedChunks, "remove", stop_at_chunks)
        patch.setattr(gpzed.distributed.lsdb.shutil, "rmtree", stop_at_folder)
        with pytest.raises(KeyboardInterrupt):
            predict(committee, folder / "survey", points, pdf_file=densities)
    rows_predicted.clear()
    predict(committee, folder / "survey", points, pdf_file=densities, resume=True)
    assert not rows_predicted
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "p"]
    assert len(lsdb.open_catalog(points).compute()) == len(lsdb.open_catalog(densities).compute())


def test_plain_data_frames_get_lists(folder, committee, survey):
    result = gpzed.distributed.lsdb.predict(survey.head(20), committee)
    assert str(result["z_pdf_mean"].dtype).startswith("list<")
    assert (gpzed.distributed.lsdb.predict(survey.head(0), committee).dtypes == result.dtypes).all()


@pytest.fixture(scope="module")
def fluxes(tmp_path_factory):
    """A model of fluxes in uJy, and the columns of a survey in nJy."""
    path, rng = tmp_path_factory.mktemp("fluxes"), np.random.default_rng(2)
    tables = []
    for table in (galaxies(400), galaxies(900, seed=8)):
        columns = {"id": table["id"], "z_spec": table["z_spec"]}
        for band in "ugr":
            columns[f"flux_{band}"] = 10 ** (-0.4 * (table[f"mag_{band}"] - 23.9))
            columns[f"flux_err_{band}"] = columns[f"flux_{band}"] * table[f"mag_err_{band}"] / 1.0857
        tables.append(columns)
    names = [f"flux{kind}_{band}" for kind in ("", "_err") for band in "ugr"]
    write_catalog(Catalog(tables[0], units=dict.fromkeys(names, "uJy")), path / "train.parquet")
    train(path / "train.parquet", path / "model.gpzed", quick_config())
    frame = pd.DataFrame(tables[1])
    frame[names] *= 1000.0
    frame["ra"], frame["dec"] = rng.uniform(10.0, 60.0, len(frame)), rng.uniform(-30.0, 30.0, len(frame))
    return path, frame, names


def write_sky(frame, path, units=()):
    """Write a HATS catalogue whose fields have units, as far as given."""
    sky = lsdb.from_dataframe(frame, ra_column="ra", dec_column="dec", partition_rows=200, catalog_name="sky")
    sky.write_catalog(path, catalog_name="sky", progress_bar=False)
    for file in [path / "sky" / "dataset" / "_common_metadata"] if units else []:
        fields = [
            field.with_metadata({"unit": units[field.name]}) if field.name in units else field
            for field in pq.read_schema(file)
        ]
        pq.write_metadata(pa.schema(fields), file)
    return path


def test_units_of_the_fields_are_converted(fluxes, tmp_path):
    path, frame, names = fluxes
    sky = write_sky(frame, tmp_path / "sky", dict.fromkeys(names, "nJy"))
    predict(path / "model.gpzed", sky, tmp_path / "out")
    assert gpzed.evaluate(tmp_path / "out").metrics["rmse"] < 0.05
    said = gpzed.config.SchemaConfig(unit="nJy")
    predict(path / "model.gpzed", write_sky(frame, tmp_path / "bare"), tmp_path / "too", schema=said)
    one, two = (read_predictions(tmp_path / name).prediction.means for name in ("out", "too"))
    np.testing.assert_allclose(one, two, rtol=1e-6)


def test_other_units_are_refused_before_anything_is_computed(fluxes, tmp_path):
    path, frame, _ = fluxes
    sky = write_sky(frame, tmp_path / "sky")
    with pytest.raises(CatalogError, match=r"mag brighter in all bands, a factor of about 1000, as nJy for uJy"):
        predict(path / "model.gpzed", sky, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    catalogue = lsdb.open_catalog(sky)
    with pytest.raises(RuntimeError, match=r"not in the units of the training catalogue"):  # LSDB's
        catalogue.map_partitions(gpzed.distributed.lsdb.predict, load_photoz_model(path / "model.gpzed")).compute()


def test_catalogues_unlike_training_are_warned_of(folder, survey, tmp_path):
    sky = write_sky(survey.rename(columns={"mag_u": "mag_r", "mag_r": "mag_u"}), tmp_path / "sky")
    with pytest.warns(DataWarning, match=r"outside the coverage.*\(1\) the columns of u and r are exchanged"):
        report = predict(folder / "model.gpzed", sky, tmp_path / "out")
    assert len(report.warnings) == 1
    lacking = write_sky(survey.drop(columns=["mag_u", "mag_err_u"]), tmp_path / "lacking")
    with pytest.warns(DataWarning, match=r"band u of the model is not used here.*raises z_std from"):
        predict(folder / "model.gpzed", lacking, tmp_path / "out2")
