"""From a data frame to redshifts and back, through the public functions: the same numbers as from files."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpzed
from gpzed.catalog import Catalog, read_catalog
from gpzed.config import PredictConfig, RunConfig
from gpzed.errors import CatalogError, ConfigError, SchemaError
from gpzed.model.records import to_parts
from gpzed.workflows import EvaluationOptions, PhotozCatalog, PhotozModel
from workflows.galaxy_files import galaxies, quick_config, with_sentinels, write

COLUMNS = ("z_phot", "z_mean", "z_std", "z_var_model", "z_var_noise", "z_var_input", "z_coverage", "z_flags")


def as_dict(table: Catalog) -> dict[str, np.ndarray]:
    return {name: np.array(table[name]) for name in table.names}


def as_kind(table: Catalog, kind: str) -> Any:
    columns = as_dict(table)
    if kind == "dict":
        return columns
    if kind == "pandas":
        return pytest.importorskip("pandas").DataFrame(columns, index=np.arange(len(table)) * 2)
    if kind == "polars":
        return pytest.importorskip("polars").DataFrame(columns)
    if kind == "pyarrow":
        return pytest.importorskip("pyarrow").table(columns)
    return pytest.importorskip("astropy.table").Table(columns)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("doors")
    write(galaxies(400), path / "train.parquet")
    write(with_sentinels(galaxies(120, seed=5)), path / "survey.parquet")
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> PhotozModel:
    return gpzed.train(folder / "train.parquet", folder / "model.gpzed", quick_config())


def same_model(one: PhotozModel, other: PhotozModel) -> None:
    """Compare all that a model file holds, but for where the rows came from and times."""
    (stored, arrays), (stored_other, arrays_other) = (to_parts(m.regressor.to_file()) for m in (one, other))
    assert set(arrays) == set(arrays_other)
    for name, array in arrays.items():
        if not name.endswith("history"):  # has seconds
            np.testing.assert_array_equal(array, arrays_other[name], err_msg=name)
    for part in (stored, stored_other):
        for member in part["members"]:
            member["report"].pop("seconds")
    assert stored == stored_other
    assert (one.schema, one.transformer, one.config) == (other.schema, other.transformer, other.config)
    assert (one.redshift_mean, one.redshift_variance) == (other.redshift_mean, other.redshift_variance)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "astropy", "dict"])
def test_a_table_gives_the_model_and_the_redshifts_of_its_file(kind: str, folder: Path, model: PhotozModel) -> None:
    trained = gpzed.train(as_kind(read_catalog(folder / "train.parquet"), kind), config=quick_config())
    same_model(trained, model)
    survey = read_catalog(folder / "survey.parquet")
    given = as_kind(survey, kind)
    result = trained.predict(given)
    gpzed.predict(folder / "model.gpzed", folder / "survey.parquet", folder / f"{kind}.parquet")
    expected = read_catalog(folder / f"{kind}.parquet")
    table = result.to_table()
    assert type(table) is type(given)
    assert len(result) == len(survey)
    for name in COLUMNS:
        np.testing.assert_array_equal(np.asarray(table[name]), expected[name], err_msg=name)
        np.testing.assert_array_equal(result[name], expected[name])
    np.testing.assert_array_equal(np.asarray(table["mag_u"]), survey["mag_u"])
    if kind == "pandas":
        assert list(table.index) == list(given.index)
        assert "z_phot" not in given.columns


def test_the_estimator_gives_the_same_predictions_on_the_same_features(folder: Path, model: PhotozModel) -> None:
    from gpzed.progress import Progress
    from gpzed.workflows.training_set import prepare

    config = quick_config()
    rows = prepare(folder / "train.parquet", config, Progress())
    part, held = rows.split.train, rows.split.validation
    regressor = gpzed.GPzRegressor(**{
        name: getattr(config.model, name) for name in config.model.__dataclass_fields__
    }, training=config.training, random_state=config.seed)  # fmt: skip
    validation = (rows.X[held], rows.z[held]) if len(held) else None
    regressor.fit(rows.X[part], rows.z[part], validation_data=validation)
    prediction = regressor.predict_distribution(rows.X)
    ours = model.regressor.predict_distribution(rows.X)
    np.testing.assert_array_equal(prediction.means, ours.means)
    np.testing.assert_array_equal(prediction.weights, ours.weights)


def test_a_saved_model_loses_nothing(folder: Path, model: PhotozModel) -> None:
    loaded = gpzed.load_model(folder / "model.gpzed")
    assert isinstance(loaded, PhotozModel)
    same_model(loaded, model)
    assert loaded.provenance == model.provenance
    assert loaded.sha256 == model.sha256
    loaded.save(folder / "again.gpzed")
    assert (folder / "again.gpzed").read_bytes() == (folder / "model.gpzed").read_bytes()
    loaded.regressor.save(folder / "bare.gpzed")
    assert isinstance(gpzed.load_model(folder / "bare.gpzed"), gpzed.GPzRegressor)
    for one in (loaded, loaded.regressor):
        with pytest.raises(ConfigError, match=r"folder '.*no' does not exist; create it"):
            one.save(folder / "no" / "m.gpzed")


def test_the_report_of_training_comes_with_the_model(model: PhotozModel) -> None:
    assert model.report is not None
    assert model.report.n_basis == model.regressor.n_basis_
    assert model.report.scores["train"]["rmse"] < 0.2


def test_missing_values_of_tables_are_missing_bands(folder: Path, model: PhotozModel) -> None:
    columns = as_dict(galaxies(6, seed=3))
    columns["mag_g"][2] = columns["mag_err_g"][2] = np.nan
    expected = model.predict(columns)
    lists = {name: [None if v != v else v for v in values.tolist()] for name, values in columns.items()}
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    pandas, table = pytest.importorskip("pandas"), pytest.importorskip("astropy.table")
    masked = table.Table({n: np.ma.masked_invalid(v) if v.dtype.kind == "f" else v for n, v in columns.items()})
    nullable = pandas.DataFrame(columns).convert_dtypes()
    for data in (polars.DataFrame(lists), pyarrow.table(lists), nullable, masked):
        np.testing.assert_array_equal(model.predict(data)["z_phot"], expected["z_phot"])


def test_columns_that_are_not_needed_may_be_of_any_kind(model: PhotozModel) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(as_dict(galaxies(5))).assign(notes=[[], {}, None, "x", 1])
    table = model.predict(frame).to_table()
    assert table["notes"].tolist() == [[], {}, None, "x", 1]


def test_predict_and_evaluate_in_memory_and_through_files_agree(folder: Path, model: PhotozModel) -> None:
    columns = as_dict(galaxies(150, seed=9))
    result = gpzed.predict(model, columns, folder / "memory.parquet")
    assert isinstance(result, PhotozCatalog)
    again = read_catalog(folder / "memory.parquet")
    np.testing.assert_array_equal(again["z_phot"], result["z_phot"])
    in_memory, from_file = gpzed.evaluate(result), gpzed.evaluate(folder / "memory.parquet")
    assert in_memory.redshift == from_file.redshift == "z_spec"
    assert in_memory.n_used == 150
    assert in_memory.metrics["rmse"] == pytest.approx(from_file.metrics["rmse"], rel=1e-5)
    assert in_memory.metrics["crps"] == pytest.approx(from_file.metrics["crps"], rel=1e-5)
    binned = gpzed.evaluate(result, EvaluationOptions(bins="mag_u", keep=0.5))
    assert binned.n_used == 75
    assert binned.bins is not None
    with pytest.raises(SchemaError, match="no column 'nothing'"):
        gpzed.evaluate(result, EvaluationOptions(bins="nothing"))
    del columns["z_spec"]
    with pytest.raises(SchemaError, match=r"no column of true redshifts that is known .*; name it with `redshift=`"):
        gpzed.evaluate(gpzed.predict(model, columns))


def test_options_of_predictions(model: PhotozModel) -> None:
    options = PredictConfig(point="mean", quantiles=(0.16, 0.84), columns=("id",))
    table = model.predict(as_dict(galaxies(20)), options).to_table()
    np.testing.assert_array_equal(table["z_phot"], table["z_mean"])
    assert np.all(table["z_q16"] < table["z_q84"])
    assert "mag_u" not in table.names


def test_columns_of_the_table_are_there_too(folder: Path, model: PhotozModel) -> None:
    table = read_catalog(folder / "survey.parquet")
    result = model.predict(as_dict(table))
    np.testing.assert_array_equal(result["z_spec"], table["z_spec"])
    np.testing.assert_array_equal(model.predict(folder / "survey.parquet")["z_spec"], table["z_spec"])
    assert "z_spec" in result
    assert "z_spek" not in result
    assert dict(result).keys() == set(result.keys())
    assert result.keys()[-1] == "z_flags"
    with pytest.raises(TypeError, match="not iterable"):
        iter(result)
    with pytest.raises(KeyError, match=r"no column 'z_spek'; there are .*z_spec.*z_phot"):
        result["z_spek"]


def test_densities_as_qp(model: PhotozModel) -> None:
    pytest.importorskip("qp")
    result = model.predict(as_dict(galaxies(7)))
    at = np.linspace(0.0, 2.0, 101)
    on_grid, whole = result.to_qp(at), result.to_qp()
    assert on_grid.npdf == whole.npdf == 7
    np.testing.assert_array_equal(whole.ancil["z_phot"], result["z_phot"])
    assert result.prediction.lower == 0.0
    np.testing.assert_allclose(on_grid.pdf(at), result.prediction.pdf_grid(at), rtol=0.01, atol=1e-9)
    np.testing.assert_allclose(whole.pdf(at), result.prediction.pdf_grid(at), rtol=0.02, atol=0.02)


def test_options_are_found_in_their_section(folder: Path) -> None:
    quick = quick_config()
    frame = as_dict(read_catalog(folder / "train.parquet"))
    model = gpzed.train(frame, config=quick, seed=3, bands=["u", "g"], colours=True)
    assert (model.config.seed, model.config.schema.bands, model.config.features.colours) == (3, ("u", "g"), True)
    assert model.schema.bands == ("u", "g")
    stored = gpzed.train(frame, config={**quick.to_dict(), "seed": 5}).config
    assert stored == replace(quick, seed=5)
    for options, message in (
        ({"n_member": 2}, "unknown option `n_member`; did you mean `n_members`"),
        ({"missing": "fill"}, r"`missing` is in sections \[features\], \[model\]; say which"),
        ({"seed": "one"}, "`seed` is 'one'; expected a whole number"),
        ({"n_members": 0}, "`n_members` is 0"),
    ):
        with pytest.raises(ConfigError, match=message):
            gpzed.train(frame, **options)


def test_a_target_may_be_a_file_or_a_table(folder: Path) -> None:
    frame, quick = as_dict(read_catalog(folder / "train.parquet")), quick_config()
    quick = quick.override("target", adapt="weights")
    by_file = gpzed.train(frame, config=quick, target=folder / "survey.parquet")
    by_table = gpzed.train(frame, config=quick, target=as_dict(read_catalog(folder / "survey.parquet")))
    np.testing.assert_array_equal(by_file.regressor.weights_, by_table.regressor.weights_)
    assert by_file.config.target.catalogue == str(folder / "survey.parquet")
    assert by_file.report.plan.target.adapted == "weights"
    plain = gpzed.train(frame, config=quick_config())
    assert not np.array_equal(by_file.regressor.weights_, plain.regressor.weights_)


def test_other_things_are_no_tables(model: PhotozModel) -> None:
    with pytest.raises(CatalogError, match=r"`data` is a builtins.int; expected a data frame"):
        model.predict(3)
    with pytest.raises(SchemaError, match="lacks 6 column"):
        model.predict({"a": np.zeros(3)})


def test_series_and_repeated_names_are_refused(model: PhotozModel, folder: Path) -> None:
    pandas = pytest.importorskip("pandas")
    table = as_kind(read_catalog(folder / "train.parquet"), "pandas")
    for call in (gpzed.train, model.predict):
        with pytest.raises(CatalogError, match=r"`data` is a pandas\.Series; expected a data frame"):
            call(table["mag_g"])
        with pytest.raises(CatalogError, match="`data`: column 'mag_g' appears twice; rename one"):
            call(pandas.concat([table, table[["mag_g"]]], axis=1))


def test_defaults_are_those_of_the_command_line() -> None:
    config = RunConfig()
    assert config.regressor().get_params() == gpzed.GPzRegressor(training=config.training, random_state=0).get_params()


def test_importing_loads_nothing_of_dask() -> None:
    code = (
        "import json, sys, gpzed\n"
        "first = [m for m in ('numpy', 'sklearn', 'dask', 'distributed') if m in sys.modules]\n"
        "from gpzed import GPzRegressor, train, predict, evaluate, load_model\n"
        "then = [m for m in ('dask', 'distributed', 'lsdb', 'gpzed.distributed') if m in sys.modules]\n"
        "print(json.dumps([first, then]))\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(result.stdout) == [[], []]
    assert set(gpzed.__all__) == {
        "GPzRegressor", "Prediction", "train", "predict", "evaluate", "load_model", "__version__",
    }  # fmt: skip
