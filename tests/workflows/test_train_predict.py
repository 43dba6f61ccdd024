from __future__ import annotations

import json
import os
import platform
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from gpzed import Run
from gpzed.catalog import Catalog, PhotometrySchema, Sentinels, Status, catalog_info, read_catalog
from gpzed.config import PredictConfig, SchemaConfig
from gpzed.errors import (
    CatalogError,
    ConfigError,
    ConvergenceWarning,
    DataWarning,
    GPzWarning,
    ModelFormatError,
    SchemaError,
    TrainingInterruptedError,
)
from gpzed.evaluation import outlier_risk
from gpzed.features import Flag
from gpzed.model.modelfile import pack_model, unpack_model
from gpzed.workflows import (
    Progress,
    evaluate,
    load_photoz_model,
    plan_training,
    predict,
    predict_table,
    prediction_plan,
    read_predictions,
    train,
    train_table,
)
from workflows.galaxy_files import galaxies, quick_config, with_sentinels, write

predict_module = import_module("gpzed.workflows.predict")  # the package has a function of the same name
train_module = import_module("gpzed.workflows.train")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a training catalogue, a target catalogue and a model."""
    path = tmp_path_factory.mktemp("run")
    write(galaxies(400), path / "train.parquet")
    write(with_sentinels(galaxies(300, seed=5)), path / "survey.parquet")
    train(path / "train.parquet", path / "model.gpzed", quick_config())
    return path


class Loud(Progress):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)

    def warn(self, text: str) -> None:
        self.lines.append(text)


def test_the_model_file_holds_all_that_leads_to_its_inputs(folder: Path) -> None:
    trained = load_photoz_model(folder / "model.gpzed")
    assert trained.schema.bands == ("u", "g", "r")
    assert trained.transformer.names[0] == "asinh_u"
    assert trained.provenance["rows"]["train"] == 400
    assert len(trained.provenance["catalogue_sha256"]) == 64
    assert trained.config == quick_config()
    assert not list(folder.glob("*.checkpoint*"))


def test_predictions_are_good_and_columns_and_order_are_kept(folder: Path) -> None:
    report = predict(folder / "model.gpzed", folder / "survey.parquet", folder / "out.parquet")
    before, after = read_catalog(folder / "survey.parquet"), read_catalog(folder / "out.parquet")
    for name in before.names:
        np.testing.assert_array_equal(after[name], before[name])
    assert after.names[-8:] == (
        "z_phot", "z_mean", "z_std", "z_var_model", "z_var_noise", "z_var_input", "z_coverage", "z_flags",
    )  # fmt: skip
    assert after["z_flags"].dtype == np.uint32
    total = after["z_var_model"] + after["z_var_noise"] + after["z_var_input"]
    np.testing.assert_allclose(after["z_std"] ** 2, total, rtol=1e-6)
    assert report.n_rows == 300
    assert not (folder / "out.parquet.parts").exists()
    result = evaluate(folder / "out.parquet")
    assert result.metrics["fr_0.05"] > 80.0
    assert result.metrics["coverage_68"] == pytest.approx(0.68, abs=0.12)
    assert result.n_used == 300


def test_an_object_without_measurements_gets_the_prior(folder: Path) -> None:
    options = PredictConfig(point="mean", positive=False)
    predict(folder / "model.gpzed", folder / "survey.parquet", folder / "prior.parquet", options)
    table, trained = read_catalog(folder / "prior.parquet"), load_photoz_model(folder / "model.gpzed")
    assert table["z_flags"][4] & Flag.NO_MEASUREMENT
    assert table["z_phot"][4] == np.float32(trained.redshift_mean)
    assert table["z_std"][4] == pytest.approx(trained.redshift_variance**0.5)
    assert np.isfinite(table["z_phot"]).all()


def test_the_flag_of_coverage_means_coverage_and_nothing_else(folder: Path) -> None:
    table = galaxies(300, seed=5)
    columns = {name: np.array(table[name]) for name in table.names}
    columns["mag_g"][:40] -= 6.0
    write(Catalog(columns), folder / "strange.parquet")
    predict(folder / "model.gpzed", folder / "strange.parquet", folder / "strange-out.parquet")
    table = read_catalog(folder / "strange-out.parquet")
    flagged = (np.asarray(table["z_flags"]) & np.uint32(Flag.OUTSIDE_COVERAGE)) != 0
    np.testing.assert_array_equal(flagged, np.asarray(table["z_coverage"]) < 0.01)
    assert flagged[:40].mean() > 0.9
    assert flagged[40:].mean() < 0.05


def test_the_parts_of_the_variance_sum_to_the_total_in_files_and_survive_them(folder: Path) -> None:
    table = with_sentinels(galaxies(600, seed=7))
    columns = {name: np.array(table[name]) for name in table.names}
    columns["mag_u"][50:250], columns["mag_r"][200:300] = np.nan, np.nan
    columns["z_spec"][::3] += 1.0  # two possible redshifts: heads are needed
    write(Catalog(columns), folder / "gaps.parquet")
    config = quick_config(
        model={"n_basis": 5, "n_members": 2, "n_heads": 2, "calibrate": "noise"},
        training={"patience": 2, "tol": 1e-4, "n_epochs": 10, "density_components": 2},
    )
    train(folder / "gaps.parquet", folder / "heads.gpzed", config)
    predict(folder / "heads.gpzed", folder / "gaps.parquet", folder / "heads.parquet")
    out, trained = read_catalog(folder / "heads.parquet"), load_photoz_model(folder / "heads.gpzed")
    parts = {name: out[f"z_var_{name}"] for name in ("model", "noise", "input")}
    np.testing.assert_allclose(sum(parts.values()), out["z_std"] ** 2, rtol=1e-6)
    whole = np.isfinite(columns["mag_u"]) & np.isfinite(columns["mag_r"]) & (np.arange(600) > 5)
    assert np.all(parts["input"][whole] == 0.0)
    assert np.all(parts["input"][50:300] > 0.0)
    assert any(member.mixture is not None for member in trained.regressor.members_)
    prediction, _ = predict_table(trained, read_catalog(folder / "gaps.parquet"))
    labels = prediction.components
    assert set(labels.member[:-1].tolist()) == {0, 1, 2, 3}
    assert set(labels.input.tolist()) == {0, 1}
    again = read_predictions(folder / "heads.parquet").prediction
    for name, values in parts.items():
        np.testing.assert_allclose(getattr(prediction, f"{name}_variance"), values, rtol=1e-6)
        np.testing.assert_allclose(getattr(again, f"{name}_variance"), values, rtol=1e-6, atol=1e-9)


def test_metadata_documents_flags_and_provenance(folder: Path) -> None:
    predict(folder / "model.gpzed", folder / "survey.parquet", folder / "meta.parquet")
    metadata = catalog_info(folder / "meta.parquet").metadata
    assert "8 CLIPPED_INPUT" in metadata["gpzed_flags"]
    assert len(metadata["gpzed_model_sha256"]) == 64
    assert metadata["gpzed_config"]["model"]["n_basis"] == 5


def test_chunks_shrink_with_the_columns_that_they_give(folder: Path) -> None:
    info = catalog_info(folder / "survey.parquet")
    few, many = (prediction_plan._chunk_rows(info, ["id"], added) for added in (32, 4000))
    assert few == prediction_plan.MAX_CHUNK_ROWS
    assert many * 4000 <= prediction_plan.CHUNK_BYTES < 2 * many * 4000


@pytest.mark.parametrize("chunk_rows", [1, 37, 1000])
def test_chunking_does_not_change_predictions(chunk_rows: int, folder: Path) -> None:
    predict(folder / "model.gpzed", folder / "survey.parquet", folder / "whole.parquet")
    options = PredictConfig(chunk_rows=chunk_rows)
    predict(folder / "model.gpzed", folder / "survey.parquet", folder / "parts.parquet", options)
    whole, parts = read_catalog(folder / "whole.parquet"), read_catalog(folder / "parts.parquet")
    np.testing.assert_array_equal(parts["z_flags"], whole["z_flags"])
    for name in ("z_phot", "z_std", "z_var_model", "z_var_noise", "z_var_input"):
        np.testing.assert_allclose(parts[name], whole[name], rtol=1e-6)


def test_quantiles_columns_and_components(folder: Path) -> None:
    config = quick_config()
    config = config.override("model", n_members=2)
    train(folder / "train.parquet", folder / "committee.gpzed", config)
    options = PredictConfig(positive=False, quantiles=(0.05, 0.16, 0.5, 0.975), columns=("id", "z_spec"), pdf="full")
    options = replace(options, risk=True)
    predict(folder / "committee.gpzed", folder / "survey.parquet", folder / "q.parquet", options)
    table = read_catalog(folder / "q.parquet")
    assert table.names[:2] == ("id", "z_spec")
    assert {"z_q05", "z_q16", "z_q50", "z_q97.5", "z_pdf_weight", "z_pdf_mean", "z_pdf_std"} <= set(table.names)
    assert "name" not in table
    assert (np.diff([table[f"z_q{q}"] for q in ("05", "16", "50", "97.5")], axis=0) > 0).all()
    mean = (table["z_pdf_weight"].astype(float) * table["z_pdf_mean"]).sum(axis=1)
    np.testing.assert_allclose(table["z_mean"], mean, rtol=1e-6)
    prediction = read_predictions(folder / "q.parquet").prediction
    assert prediction.n_components == 2 + 1
    np.testing.assert_allclose(prediction.quantile(0.16), table["z_q16"], rtol=1e-5)
    np.testing.assert_allclose(outlier_risk(prediction), table["z_risk"], atol=1e-5)


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize(("point", "model"), [("best", 1), ("best", 2), ("mean", 2), ("median", 2), ("mode", 2)])
def test_the_redshift_quoted_is_chosen_and_read_back(folder: Path, point: str, model: int, positive: bool) -> None:
    path = folder / f"members{model}.gpzed"
    if not path.exists():
        train(folder / "train.parquet", path, quick_config().override("model", n_members=model))
    options = PredictConfig(point=point, positive=positive)
    predict(path, folder / "survey.parquet", folder / "point.parquet", options)
    table = read_catalog(folder / "point.parquet")
    prediction = read_predictions(folder / "point.parquet").prediction
    assert prediction.lower == (0.0 if positive else None)
    np.testing.assert_array_equal(prediction.z_phot, table["z_phot"])
    np.testing.assert_allclose(getattr(prediction, point), table["z_phot"], atol=0.01 * table["z_std"].max())
    np.testing.assert_allclose(prediction.mean, table["z_mean"], rtol=1e-12)
    for part in ("model", "noise", "input"):
        np.testing.assert_allclose(
            getattr(prediction, f"{part}_variance"), table[f"z_var_{part}"], rtol=1e-5, atol=1e-12
        )
    if positive:
        assert (np.asarray(table["z_phot"]) >= 0.0).all()


class Killed(BaseException):
    pass


def test_a_resumed_run_is_byte_for_byte_the_uninterrupted_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = PredictConfig(chunk_rows=50)
    arguments = (folder / "model.gpzed", folder / "survey.parquet")
    predict(*arguments, folder / "smooth.parquet", options)
    computed = []
    original = predict_module.PredictionRun._compute

    def count(self: object, table: Catalog) -> object:
        computed.append(table.provenance.row_offset)
        if len(computed) == 4:
            raise Killed
        return original(self, table)  # type: ignore[arg-type]

    monkeypatch.setattr(predict_module.PredictionRun, "_compute", count)
    target = folder / "bumpy.parquet"
    with pytest.raises(Killed):
        predict(*arguments, target, options)
    assert not target.exists()
    with pytest.raises(ConfigError, match=r"left from an interrupted run; add --resume"):
        predict(*arguments, target, options)
    with pytest.raises(ConfigError, match="belongs to another run: `chunk_rows` is not the same"):
        predict(*arguments, target, PredictConfig(chunk_rows=51), resume=True)
    for name, other in (("point", "mode"), ("positive", False), ("quantiles", (0.5,))):
        with pytest.raises(ConfigError, match=f"belongs to another run: `{name}` is not the same"):
            predict(*arguments, target, replace(options, **{name: other}), resume=True)
    done = len(list((folder / "bumpy.parquet.parts").glob("*.npy")))
    assert 1 <= done <= 3
    computed[:] = [-1] * 10
    report = predict(*arguments, target, options, resume=True)
    assert report.n_resumed == 50 * done
    assert len(computed) == 10 + 6 - done
    assert target.read_bytes() == (folder / "smooth.parquet").read_bytes()
    assert not (folder / "bumpy.parquet.parts").exists()


@pytest.mark.parametrize("suffix", ["fits", "hdf5", "csv"])
def test_equal_runs_give_equal_files_in_every_format(suffix: str, folder: Path) -> None:
    if suffix == "hdf5":
        pytest.importorskip("h5py", minversion="3.15", reason="earlier ones put the time into groups")
    for name in ("one", "two"):
        predict(folder / "model.gpzed", folder / "survey.parquet", folder / f"{name}.{suffix}")
    assert (folder / f"one.{suffix}").read_bytes() == (folder / f"two.{suffix}").read_bytes()


def test_an_error_half_way_leaves_nothing_under_the_final_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (folder / "short.csv", folder / "broken.csv")
    predict(folder / "model.gpzed", folder / "survey.parquet", lines[0], PredictConfig(columns=("mag_u",)))
    table = read_catalog(folder / "survey.parquet").select(["mag_u", "mag_err_u"])
    write(table, lines[1])
    with pytest.raises(SchemaError, match=r"lacks 4 column.*'mag_g' first"):
        predict(folder / "model.gpzed", lines[1], folder / "never.parquet")
    assert not list(folder.glob("never*"))

    def full(self: object, index: int, values: object) -> None:
        raise CatalogError("the disk is full")

    monkeypatch.setattr(predict_module.FinishedChunks, "store", full)
    with pytest.raises(CatalogError, match="disk is full"):
        predict(folder / "model.gpzed", folder / "survey.parquet", folder / "never.parquet")
    assert not (folder / "never.parquet").exists()
    assert not list(folder.glob(".never*"))


def test_columns_that_the_output_cannot_hold_leave_nothing_behind(folder: Path) -> None:
    """The parts of the run that failed made the next one refuse to start, though none could finish it."""
    table = galaxies(50, seed=8)
    write(Catalog({name: table[name] for name in table.names} | {"image": np.zeros((50, 2, 3))}), folder / "image.fits")
    for suffix in ("parquet", "csv"):
        for _ in range(2):
            with pytest.raises(CatalogError, match=r"column 'image' has .*leave it out"):
                predict(folder / "model.gpzed", folder / "image.fits", folder / f"image_out.{suffix}")
    assert not list(folder.glob("image_out*"))


def test_a_row_group_that_cannot_be_read_is_a_clear_error(folder: Path) -> None:
    path = write(galaxies(3000, seed=2), folder / "damaged.parquet")
    payload = bytearray(path.read_bytes())
    payload[2000:60000] = bytes(58000)
    path.write_bytes(payload)
    with pytest.raises(CatalogError, match="cannot be read"):
        predict(folder / "model.gpzed", path, folder / "never2.parquet")
    assert not (folder / "never2.parquet").exists()


def test_a_catalogue_of_other_names_is_guessed(folder: Path) -> None:
    table = galaxies(50, seed=8)
    renamed = {f"modelMag_{b}": table[f"mag_{b}"] for b in "ugr"} | {
        f"modelMagErr_{b}": table[f"mag_err_{b}"] for b in "ugr"
    }
    write(Catalog(renamed), folder / "sdss.csv")
    report = predict(folder / "model.gpzed", folder / "sdss.csv", folder / "sdss_out.csv")
    assert report.schema.convention == "sdss_model"
    write(table, folder / "plain.csv")
    predict(folder / "model.gpzed", folder / "plain.csv", folder / "plain_out.csv")
    one, two = read_catalog(folder / "sdss_out.csv"), read_catalog(folder / "plain_out.csv")
    np.testing.assert_array_equal(one["z_phot"], two["z_phot"])
    with pytest.warns(DataWarning, match="band u of the model is not used here"):
        predict(folder / "model.gpzed", folder / "plain.csv", folder / "x.csv", schema=SchemaConfig(bands=("r", "g")))
    with pytest.raises(SchemaError, match="the model was trained on"):
        predict(folder / "model.gpzed", folder / "plain.csv", folder / "y.csv", schema=SchemaConfig(bands=("J", "K")))


def test_predicting_twice_replaces_the_old_columns(folder: Path) -> None:
    predict(folder / "model.gpzed", folder / "survey.parquet", folder / "first.parquet")
    loud = Loud()
    predict(folder / "model.gpzed", folder / "first.parquet", folder / "second.parquet", progress=loud)
    assert catalog_info(folder / "second.parquet").names == catalog_info(folder / "first.parquet").names
    assert any("replaced" in line for line in loud.lines)


def test_messages_of_predict(folder: Path) -> None:
    survey, model = folder / "survey.parquet", folder / "model.gpzed"
    with pytest.raises(ConfigError, match="would overwrite"):
        predict(model, survey, survey)
    with pytest.raises(CatalogError, match="no column 'ids' to copy"):
        predict(model, survey, folder / "x.parquet", PredictConfig(columns=("ids",)))
    with pytest.raises(ConfigError, match=r"folder .* does not exist"):
        predict(model, survey, folder / "none" / "x.parquet")
    with pytest.raises(ModelFormatError, match="does not begin like a gpzed file"):
        predict(survey, survey, folder / "x.parquet")
    load_photoz_model(model).regressor.save(folder / "bare.gpzed")
    with pytest.raises(ModelFormatError, match="without schema and features"):
        predict(folder / "bare.gpzed", survey, folder / "x.parquet")


def test_a_model_file_of_another_version_is_named_as_such(folder: Path) -> None:
    file = unpack_model((folder / "model.gpzed").read_bytes(), "model.gpzed")
    assert file.pipeline is not None
    file.pipeline["config"]["model"]["n_necks"] = 3
    (folder / "later.gpzed").write_bytes(pack_model(file))
    with pytest.raises(ModelFormatError, match=r"another version of gpzed.*n_necks"):
        load_photoz_model(folder / "later.gpzed")


def test_rows_are_left_out_and_counted(folder: Path) -> None:
    table = galaxies(200)
    z = table["z_spec"].copy()
    z[:3], z[3:5] = (np.nan, -9999.0, -99.0), 0.001
    mags = {f"mag_{b}": np.where(np.arange(200) == 10, np.nan, table[f"mag_{b}"]) for b in "ugr"}
    write(table.with_columns({"z_spec": z, **mags}), folder / "holes.parquet")
    plan = plan_training(folder / "holes.parquet", quick_config(split={"min_redshift": 0.002, "test": 0.25}))
    assert plan.counts["no redshift"] == 3
    assert plan.counts["redshift out of range"] == 2
    assert plan.counts["no band measured"] == 1
    assert (plan.counts["train"], plan.counts["test"]) == (146, 48)


@pytest.mark.parametrize("method", ["redshift", "balanced", "column"])
def test_every_kind_of_weight_trains(method: str, folder: Path) -> None:
    table = galaxies(300).with_columns({"weight": np.linspace(0.1, 2.0, 300)})
    write(table, folder / "weighted.parquet")
    report = train(folder / "weighted.parquet", folder / "w.gpzed", quick_config(weights={"method": method})).report
    assert report.scores["train"]["fr_0.15"] > 90.0


def test_split_column_and_validation_rows(folder: Path) -> None:
    split = np.repeat(["train", "validation", "test"], 100)
    write(galaxies(300).with_columns({"part": split}), folder / "split.parquet")
    report = train(folder / "split.parquet", folder / "s.gpzed", quick_config(split={"column": "part"})).report
    assert {name: report.plan.counts[name] for name in ("train", "validation", "test")} == {
        "train": 100, "validation": 100, "test": 100,
    }  # fmt: skip
    assert set(report.scores) == {"train", "validation", "test"}


def test_scores_without_a_test_set_are_those_of_held_out_rows_by_members_that_did_not_see_them(folder: Path) -> None:
    options = {"n_basis": 5, "n_heads": 1, "n_members": 2, "validation_fraction": 0.3}
    model = train(galaxies(400), None, quick_config(model=options))
    held = model.regressor.held_out_
    assert model.report.scores["held_out"]["n"] == len(held.y) == 240  # 120 of each member
    z = galaxies(400)["z_spec"]
    assert set(held.y) <= set(z)
    assert held.prediction.n_components == 1
    members = train(galaxies(400), None, quick_config(model={**options, "calibrate": "none"}))
    assert set(members.report.scores) == {"train", "held_out"}
    with_test = train(galaxies(400), None, quick_config(model=options, split={"test": 0.25}))
    assert set(with_test.report.scores) == {"train", "test"}


def test_seconds_are_wall_time_of_all_members() -> None:
    start = time.perf_counter()
    options = {"n_basis": 5, "n_heads": 1, "n_members": 3, "n_threads": 1}
    model = train(galaxies(400), None, quick_config(model=options))
    took = time.perf_counter() - start
    assert sum(one.seconds for one in model.regressor.reports_) < model.report.seconds < took  # one after the other


def test_the_same_seed_gives_the_same_model(folder: Path) -> None:
    outputs = []
    for seed in (1, 1, 2):
        train(folder / "train.parquet", folder / "seed.gpzed", quick_config().override("", seed=seed))
        predict(folder / "seed.gpzed", folder / "survey.parquet", folder / "seed.csv")
        outputs.append(read_catalog(folder / "seed.csv")["z_phot"])
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert (outputs[0] != outputs[2]).any()


def test_nothing_to_resume_is_said(folder: Path) -> None:
    target, out = folder / "anew.gpzed", folder / "anew.csv"
    with pytest.warns(GPzWarning, match=r"no '.*anew\.gpzed\.checkpoint'; the run starts from the beginning$"):
        train(folder / "train.parquet", target, quick_config(), resume=True)
    with pytest.warns(GPzWarning, match=r"from the beginning, and '.*anew\.gpzed', which is there, will be replaced"):
        train(folder / "train.parquet", target, quick_config(), resume=True)
    predict(target, folder / "survey.parquet", out)
    with pytest.warns(GPzWarning, match=r"no '.*anew\.csv\.parts'.* '.*anew\.csv', which is there, will be replaced"):
        predict(target, folder / "survey.parquet", out, resume=True)


def test_stopping_leaves_a_checkpoint_to_go_on_from(folder: Path) -> None:
    target = folder / "stopped.gpzed"
    with pytest.raises(TrainingInterruptedError, match="training was stopped"):
        train(folder / "train.parquet", target, quick_config(), run=Run(should_stop=lambda: True))
    assert not target.exists()
    assert (folder / "stopped.gpzed.checkpoint").exists()
    with pytest.raises(ConfigError, match="left from an interrupted run"):
        train(folder / "train.parquet", target, quick_config())
    train(folder / "train.parquet", target, quick_config(), resume=True)
    assert not (folder / "stopped.gpzed.checkpoint").exists()
    for model in ("stopped.gpzed", "model.gpzed"):
        predict(folder / model, folder / "survey.parquet", folder / f"{model}.csv")
    one, two = (read_catalog(folder / f"{model}.csv") for model in ("stopped.gpzed", "model.gpzed"))
    np.testing.assert_array_equal(one["z_phot"], two["z_phot"])


def test_messages_of_train(folder: Path) -> None:
    write(galaxies(50).select(["mag_u", "mag_err_u", "mag_g", "mag_err_g"]), folder / "noz.parquet")
    with pytest.raises(SchemaError, match="no redshift column"):
        train(folder / "noz.parquet", folder / "x.gpzed")
    with pytest.raises(CatalogError, match="only 5 rows are left to train on"):
        train(write(galaxies(5), folder / "few.parquet"), folder / "x.gpzed")
    with pytest.raises(ConfigError, match=r"folder .* does not exist"):
        train(folder / "train.parquet", folder / "none" / "x.gpzed")
    with pytest.raises(ConfigError, match="no weight column is known"):
        train(folder / "train.parquet", folder / "x.gpzed", quick_config(weights={"method": "column"}))


def test_messages_of_evaluate(folder: Path) -> None:
    with pytest.raises(SchemaError, match="no column 'z_phot'"):
        evaluate(folder / "train.parquet")
    predict(folder / "model.gpzed", folder / "survey.parquet", folder / "bare.csv", PredictConfig(columns=()))
    with pytest.raises(SchemaError, match="no column of true redshifts"):
        evaluate(folder / "bare.csv")
    with pytest.raises(SchemaError, match="no column 'redshift'"):
        evaluate(folder / "bare.csv", redshift="redshift")
    predict(folder / "model.gpzed", folder / "survey.parquet", folder / "high.csv")
    with pytest.raises(CatalogError, match="nothing to score"):
        evaluate(folder / "high.csv", min_redshift=5.0)


def test_an_empty_catalogue_gives_an_empty_one(folder: Path) -> None:
    write(galaxies(3).slice(0, 0), folder / "empty.parquet")
    report = predict(folder / "model.gpzed", folder / "empty.parquet", folder / "empty_out.parquet")
    assert report.n_rows == 0
    assert "z_phot" in catalog_info(folder / "empty_out.parquet").names


def two_photometries(n: int, seed: int = 0) -> Catalog:
    """Return galaxies with SDSS model magnitudes besides, one magnitude off."""
    table = galaxies(n, seed)
    other = {f"modelMag_{b}": table[f"mag_{b}"] + 1.0 for b in "ugr"}
    return table.with_columns({**other, **{f"modelMagErr_{b}": table[f"mag_err_{b}"] for b in "ugr"}})


def test_naming_the_redshift_keeps_the_photometry_of_training(folder: Path) -> None:
    table = two_photometries(60).with_columns({"zz": np.linspace(0.1, 0.9, 60), "ebv": np.full(60, 0.1)})
    write(table, folder / "two.parquet")
    config = quick_config(schema={"convention": "sdss_model"})
    train(folder / "two.parquet", folder / "two.gpzed", config)
    assert load_photoz_model(folder / "two.gpzed").schema.ebv == "ebv"
    write(table.select([name for name in table.names if name != "ebv"]), folder / "no_ebv.parquet")
    paths = (folder / "two.gpzed", folder / "no_ebv.parquet", folder / "two_out.parquet")
    used = predict(*paths, schema=SchemaConfig(redshift="zz")).schema
    assert used.mag["u"] == "modelMag_u"
    assert (used.redshift, used.ebv, used.id) == ("zz", None, "id")
    assert predict(*paths, schema=SchemaConfig(convention="gpzed")).schema.mag["u"] == "mag_u"
    with pytest.raises(SchemaError, match="redshift: there is no column 'zzz'"):
        predict(*paths, schema=SchemaConfig(redshift="zzz"))


def test_the_target_catalogue_is_read_like_the_training_catalogue(folder: Path) -> None:
    write(two_photometries(300), folder / "both.parquet")
    target = write(two_photometries(200, seed=3), folder / "target.csv")
    target.rename(folder / "target.dat")
    (folder / "both.csv").unlink(missing_ok=True)
    plain = write(two_photometries(300), folder / "both.csv").rename(folder / "both.dat")
    schema = {"format": "csv", "bands": ["u", "g", "r"], "mag": "modelMag_{band}", "err": "modelMagErr_{band}"}
    config = quick_config(schema=schema, target={"catalogue": str(folder / "target.dat"), "adapt": "weights"})
    assert plan_training(plain, config).schema.mag["u"] == "modelMag_u"
    other = config.override("target", catalogue=str(folder / "survey.parquet"))
    with pytest.raises(SchemaError, match="target catalogue: band 'u': there is no column 'modelMag_u'"):
        plan_training(plain, other)
    other = config.override("target", catalogue=str(folder / "both.parquet"))
    assert plan_training(plain, other).counts["train"] == 300


def test_a_catalogue_that_gives_fewer_rows_than_it_said_is_not_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = predict_module.iter_catalog

    def shrink(*args: object, **options: object) -> object:
        for chunk in original(*args, **options):
            yield chunk.slice(0, len(chunk) - 1)

    monkeypatch.setattr(predict_module, "iter_catalog", shrink)
    with pytest.raises(CatalogError, match="gave 299 rows but has 300"):
        predict(folder / "model.gpzed", folder / "survey.parquet", folder / "fewer.parquet")
    assert not (folder / "fewer.parquet").exists()


def test_validation_rows_get_cost_weights_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}
    original = train_module.GPzRegressor.fit

    def spy(*arguments: object, **options: object) -> object:
        seen["validation"] = options["validation_data"]
        return original(*arguments, **options)

    monkeypatch.setattr(train_module.GPzRegressor, "fit", spy)
    config = quick_config(weights={"method": "redshift"}, split={"validation": 0.25})
    train(folder / "train.parquet", folder / "v.gpzed", config)
    _, z, weight, *_ = seen["validation"]
    expected = (1.0 + z) ** -2.0
    np.testing.assert_allclose(weight, expected / expected.mean())


@pytest.mark.parametrize("n_members", [1, 2])
def test_the_checkpoint_outlives_training_until_the_model_is_written(
    n_members: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = quick_config().override("model", n_members=n_members)
    output = folder / f"full_{n_members}.gpzed"
    with monkeypatch.context() as patch:

        def full(self: object, path: Path) -> None:
            raise CatalogError("the disk is full")

        patch.setattr(train_module.PhotozModel, "save", full)
        with pytest.raises(CatalogError, match="disk is full"):
            train(folder / "train.parquet", output, config, run=Run(checkpoint_every=1))
    assert len(list(folder.glob(f"{output.name}.checkpoint*"))) == n_members
    train(folder / "train.parquet", output, config, resume=True)
    assert output.exists()
    assert not list(folder.glob(f"{output.name}.checkpoint*"))


def test_a_committee_that_is_stopped_names_its_files(folder: Path) -> None:
    config = quick_config().override("model", n_members=2)
    config = config.override("training", patience=1000, tol=0.0, max_iter=50)
    output = folder / "stop.gpzed"
    with pytest.raises(TrainingInterruptedError, match=r"kept in '.*stop\.gpzed\.checkpoint\.[01]'") as caught:
        train(folder / "train.parquet", output, config, run=Run(should_stop=lambda: True))
    files = list(folder.glob("stop.gpzed.checkpoint*"))
    assert files
    assert all(f"'{file}'" in str(caught.value) for file in files)
    with pytest.warns(ConvergenceWarning):
        train(folder / "train.parquet", output, config, resume=True)
    assert not list(folder.glob("stop.gpzed.checkpoint*"))


def test_what_stands_for_no_redshift_is_counted_and_left_out(folder: Path) -> None:
    table = galaxies(200)
    z = table["z_spec"].astype(np.float32)
    z[:7] = (99.0, 999.0, 9.9999, 99.99, -9.0, -99.0, np.nan)
    write(table.with_columns({"z_spec": z}), folder / "odd.parquet")
    plan = plan_training(folder / "odd.parquet", quick_config())
    expected = {"NaN or masked": 1, "<= -1": 2, "= 9.9999": 1, "= 99": 1, "= 99.99": 1, "= 999": 1}
    assert plan.no_redshift == expected
    assert plan.counts["no redshift"] == 7
    assert plan.redshift_range == (float(z[7:].min()), float(z[7:].max()))
    predict(folder / "model.gpzed", folder / "odd.parquet", folder / "odd_out.parquet")
    result = evaluate(folder / "odd_out.parquet")
    assert (result.n_used, result.no_redshift) == (193, expected)
    assert result.redshift_range == plan.redshift_range
    allowed = quick_config(sentinels={"no_redshift": []})
    assert plan_training(folder / "odd.parquet", allowed).out_of_range == {"z > 20": 3}
    far = quick_config(sentinels={"no_redshift": []}, split={"max_redshift": 1000.0})
    assert plan_training(folder / "odd.parquet", far).redshift_range[1] == 999.0


def test_a_folder_of_parts_in_use_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = (folder / "model.gpzed", folder / "survey.parquet", folder / "shared.parquet")
    original = predict_module.PredictionRun._compute
    messages = []

    def compute(self: object, table: Catalog) -> object:
        with pytest.raises(ConfigError, match=r"in use by process \d+") as caught:
            predict(*arguments, resume=True)
        messages.append(str(caught.value))
        return original(self, table)

    with monkeypatch.context() as patch:
        patch.setattr(predict_module.PredictionRun, "_compute", compute)
        predict(*arguments)
    assert messages
    parts = folder / "shared.parquet.parts"
    assert not parts.exists()
    for owner in ({"pid": os.getppid(), "machine": platform.node()}, "", {"pid": 1, "machine": "elsewhere"}):
        parts.mkdir(exist_ok=True)
        (parts / "lock.json").write_text(json.dumps(owner) if owner else "")
        if owner and owner["machine"] == "elsewhere":
            with pytest.raises(ConfigError, match="in use by process 1 on elsewhere"):
                predict(*arguments, resume=True)
        else:  # nobody has locked the file
            with pytest.warns(GPzWarning, match="nothing to resume"):
                assert predict(*arguments, resume=True).n_rows == 300
    (parts / "lock.json").unlink()
    parts.rmdir()


def test_two_trainings_to_one_output_are_refused(folder: Path) -> None:
    target, messages = folder / "shared.gpzed", []

    def second(_: object) -> None:
        for resume in (False, True):
            with pytest.raises(ConfigError, match=r"shared.gpzed' is in use by process \d+") as caught:
                train(folder / "train.parquet", target, quick_config(), resume=resume)
            messages.append(str(caught.value))

    train(folder / "train.parquet", target, quick_config(), run=Run(callback=second))
    assert messages
    assert not [file.name for file in folder.glob("*shared.gpzed?*")]
    (folder / "shared.gpzed.lock").write_text("")  # of a process that was killed
    train(folder / "train.parquet", target, quick_config())
    assert not (folder / "shared.gpzed.lock").exists()


def test_a_table_in_memory_gives_the_model_and_predictions_of_its_file(folder: Path) -> None:
    table = galaxies(300, seed=3)
    path = write(table, folder / "memory.parquet")
    train(path, folder / "file.gpzed", quick_config())
    by_file, columns = load_photoz_model(folder / "file.gpzed"), ["mag_u", "mag_g", "mag_r"]
    errors = [name.replace("mag_", "mag_err_") for name in columns]
    schema = PhotometrySchema.from_columns(columns, errors, redshift="z_spec", id="id")
    trained = train_table(table, schema, quick_config())
    assert trained.provenance["catalogue"] == "a table in memory"
    assert trained.provenance["rows"] == by_file.provenance["rows"]
    expected, report = predict_table(by_file, table)
    found, _ = predict_table(trained, table)
    np.testing.assert_array_equal(found.means, expected.means)
    np.testing.assert_array_equal(found.std, expected.std)
    assert report.n_rows == 300
    trained.save(folder / "memory.gpzed")
    again, _ = predict_table(load_photoz_model(folder / "memory.gpzed"), table)
    np.testing.assert_array_equal(again.means, expected.means)
    with pytest.raises(ConfigError, match="no weight column is known"):
        train_table(table, schema, quick_config(weights={"method": "column"}))


def test_a_table_may_name_its_columns_and_sentinels_otherwise(folder: Path) -> None:
    def fainter_is(sentinel: float, stem: str) -> Catalog:
        table = galaxies(20, seed=4)
        cut = {name: np.where(table[name] > 21.0, sentinel, table[name]) for name in magnitudes}
        return Catalog({stem + name: cut.get(name, table[name]) for name in table.names})

    trained = load_photoz_model(folder / "model.gpzed")
    magnitudes = [f"mag_{band}" for band in trained.schema.bands]
    schema = PhotometrySchema.from_columns(
        [f"x_{name}" for name in magnitudes], [f"x_{name.replace('mag_', 'mag_err_')}" for name in magnitudes]
    )
    found, report = predict_table(trained, fainter_is(50.0, "x_"), schema, Sentinels(not_detected=(50.0,)))
    assert report.counts[:, Status.NOT_DETECTED].sum() > 0
    expected, usual = predict_table(trained, fainter_is(99.0, ""))
    np.testing.assert_array_equal(found.means, expected.means)
    np.testing.assert_array_equal(report.counts, usual.counts)
