"""Catalogues in other units, with exchanged bands or of another depth: converted, refused, or warned of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpzed
from foreign import write_votable
from gpzed.catalog import Catalog
from gpzed.catalog.units import parse_unit
from gpzed.cli import main
from gpzed.config import RunConfig, SchemaConfig
from gpzed.errors import CatalogError, DataWarning, SchemaError
from gpzed.workflows import PhotozModel, plan_training
from workflows.galaxy_files import BANDS, galaxies, quick_config, write

FLUXES = {"flux": "f_{band}", "err": "df_{band}", "bands": BANDS}
ZERO_POINTS = {
    "nJy": 31.4, "mJy": 16.4, "nanomaggy": 22.5, "1e-29 erg s-1 cm-2 Hz-1": 23.9, "erg / (Hz s cm2)": -48.6,
}  # fmt: skip
"""AB magnitude of flux 1 in each unit."""
astropy_table = pytest.importorskip("astropy.table")


def fluxes(table: Catalog, zero_point: float) -> dict[str, Any]:
    """Return the galaxies with fluxes in the place of magnitudes."""
    columns: dict[str, Any] = {"z_spec": np.array(table["z_spec"])}
    for band in BANDS:
        flux = 10.0 ** (0.4 * (zero_point - table.floats(f"mag_{band}")))
        columns[f"f_{band}"] = flux
        columns[f"df_{band}"] = flux * table.floats(f"mag_err_{band}") / 1.0857
    return columns


def with_units(columns: dict[str, Any], unit: str) -> Any:
    table = astropy_table.Table(columns)
    for name in table.colnames:
        if name != "z_spec":
            table[name].unit = unit
    return table


@pytest.fixture(scope="module")
def model() -> PhotozModel:
    """A model trained on fluxes in microjansky, which the table says."""
    table = with_units(fluxes(galaxies(400), 23.9), "uJy")
    return gpzed.train(table, None, quick_config(schema={k: list(v) if k == "bands" else v for k, v in FLUXES.items()}))


@pytest.fixture(scope="module")
def survey() -> Catalog:
    return galaxies(200, seed=3)


def test_fluxes_with_units_need_no_zero_point(model: PhotozModel) -> None:
    assert model.schema.zero_point == 23.9
    assert model.schema.units["f_u"] == "uJy"


@pytest.mark.filterwarnings("ignore:The unit:astropy.units.UnitsWarning")  # of writing them
@pytest.mark.parametrize(
    ("suffix", "unit"),
    [
        (suffix, unit)
        for suffix in ("table", "fits", "ecsv", "vot", "parquet", "hdf5", "astropy.hdf5")
        for unit in ZERO_POINTS
        if unit != "nanomaggy" or suffix in ("table", "parquet", "hdf5")  # astropy has no such unit to write
    ],
)
def test_every_unit_of_every_format_gives_the_same_redshifts(
    unit: str, suffix: str, model: PhotozModel, survey: Catalog, tmp_path: Path
) -> None:
    zero_point = ZERO_POINTS[unit]
    expected = model.predict(with_units(fluxes(survey, 23.9), "uJy"))["z_phot"]
    data: Any = with_units(fluxes(survey, zero_point), unit)
    if suffix in ("parquet", "hdf5"):
        columns = fluxes(survey, zero_point)
        units = {name: unit for name in columns if name != "z_spec"}
        data = write(Catalog(columns, units=units), tmp_path / f"survey.{suffix}")
    elif suffix != "table":
        path = tmp_path / f"survey.{suffix}"
        options = {"path": "data", "serialize_meta": True} if suffix == "astropy.hdf5" else {}
        write_votable(data, path) if suffix == "vot" else data.write(path, **options)
        data = path
    np.testing.assert_allclose(model.predict(data)["z_phot"], expected, atol=1e-6)


def test_without_units_another_scale_is_refused_and_a_word_helps(
    model: PhotozModel, survey: Catalog, tmp_path: Path
) -> None:
    plain = fluxes(survey, 31.4)
    with pytest.raises(CatalogError, match=r"not in the units of the training catalogue.*about 1000.*`unit=`"):
        model.predict(plain)
    path = write(Catalog(plain), tmp_path / "plain.parquet")
    with pytest.raises(CatalogError, match="not in the units"):
        gpzed.predict(model, path, tmp_path / "out.parquet")
    assert [file.name for file in tmp_path.iterdir()] == ["plain.parquet"]
    expected = model.predict(fluxes(survey, 23.9))["z_phot"]
    for said in (SchemaConfig(unit="nJy"), SchemaConfig(zero_point=31.4)):
        np.testing.assert_allclose(model.predict(plain, schema=said)["z_phot"], expected, atol=1e-5)


@pytest.mark.parametrize("zero_point", [31.4, 23.9, 22.5, 8.9, 0.0])
def test_fluxes_under_names_of_magnitudes_are_refused(
    zero_point: float, survey: Catalog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = fluxes(survey, zero_point)
    columns = {**{f"lsst.{b}": found[f"f_{b}"] for b in BANDS}, **{f"lsst.{b}_err": found[f"df_{b}"] for b in BANDS}}
    path = write(Catalog({**columns, "z_spec": found["z_spec"]}), tmp_path / "fluxes.parquet")
    assert main(["train", str(path), "--dry-run"]) != 0
    shown = capsys.readouterr().err
    assert "lsst.r are taken for magnitudes" in shown
    assert "name them with --flux and say their unit with --unit, one of nJy" in shown
    assert "--bands u,g,r --flux 'lsst.{band}' --err 'lsst.{band}_err' --unit UNIT" in shown
    with pytest.raises(SchemaError, match="taken for magnitudes"):
        gpzed.train(path, None, quick_config(), mag="lsst.{band}", err="lsst.{band}_err", bands=BANDS)
    if zero_point == 23.9:
        plan_training(path, RunConfig.from_dict({"schema": {"unit": "mag"}}))


@pytest.mark.filterwarnings("ignore::gpzed.errors.DataWarning")  # of zeros, 20 mag brighter than the rest
@pytest.mark.parametrize("values", ["instrumental", "bright", "missing"])
def test_magnitudes_of_any_kind_are_none_of_fluxes(values: str, survey: Catalog) -> None:
    columns: dict[str, Any] = {name: np.array(survey[name]) for name in survey.names}
    for band in BANDS:
        magnitude = columns[f"mag_{band}"]
        if values == "missing":  # by a number that nobody declared
            magnitude[:150] = 0.0
        else:
            magnitude -= 30.0 if values == "instrumental" else 12.0
    assert plan_training(columns).schema.kind == "magnitude"


def test_a_unit_that_there_is_not_is_refused_under_the_names_of_training(model: PhotozModel, survey: Catalog) -> None:
    with pytest.raises(SchemaError, match=r"`unit` is 'furlong'; expected mag, nJy"):
        model.predict(fluxes(survey, 23.9), schema=SchemaConfig(unit="furlong"))


def test_a_unit_that_is_none_of_photometry_is_warned_of(model: PhotozModel, survey: Catalog, tmp_path: Path) -> None:
    table = with_units(fluxes(survey, 23.9), "km / s")
    with pytest.warns(DataWarning, match=r"unit 'km / s' of f_u, .* is none of photometry.*taken to be in uJy.*`unit="):
        out = model.predict(table)
    table.write(tmp_path / "velocities.ecsv")
    with pytest.warns(DataWarning, match="none of photometry"):
        gpzed.predict(model, tmp_path / "velocities.ecsv", tmp_path / "out.parquet")
    expected = model.predict(table, schema=SchemaConfig(unit="uJy"))  # no warning: the user says it
    np.testing.assert_array_equal(out["z_phot"], expected["z_phot"])


def test_a_wrong_unit_is_the_first_cause(model: PhotozModel, survey: Catalog) -> None:
    with pytest.warns(
        DataWarning, match=r"\(1\) the unit that is stated is wrong: all is 7.* fainter.* as uJy for nJy"
    ):
        model.predict(with_units(fluxes(survey, 23.9), "nJy"))


def test_the_terminal_tells_units_of_training_from_those_of_the_catalogue(
    model: PhotozModel, survey: Catalog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model.save(tmp_path / "m.gpzed")
    table = with_units(fluxes(survey, 23.9), "uJy")
    table["f_g"].unit, table["f_r"].unit = None, "km / s"
    table.write(tmp_path / "half.ecsv")
    command = ["predict", str(tmp_path / "m.gpzed"), str(tmp_path / "half.ecsv"), "-o", str(tmp_path / "out.parquet")]
    assert main(command) == 0
    shown = capsys.readouterr().err
    assert "f_u, df_u [uJy]\n" in shown
    assert "f_g, df_g [no unit; taken as in training: uJy]\n" in shown
    assert "f_r, df_r ['km / s' is no unit of photometry; taken as in training: uJy]\n" in shown
    assert main([*command, "--unit", "uJy"]) == 0
    assert "no unit" not in capsys.readouterr().err


def test_one_band_in_another_unit_is_named(model: PhotozModel, survey: Catalog) -> None:
    columns = fluxes(survey, 23.9)
    columns["f_g"] *= 1000.0
    columns["df_g"] *= 1000.0
    with pytest.raises(CatalogError, match="band g is not in the units of the other bands"):
        model.predict(columns)


def test_rows_in_two_units_are_told_of(model: PhotozModel, survey: Catalog) -> None:
    columns = fluxes(survey, 23.9)
    for name in columns:
        if name != "z_spec":
            columns[name][::4] *= 1000.0
    with pytest.warns(DataWarning) as said:
        model.predict(columns)
    assert "25 % of the rows are in other units than the rest" in str(said[0].message)
    with pytest.warns(DataWarning, match="25 % of the rows are in other units"):
        gpzed.train(columns, None, quick_config(), zero_point=23.9, **FLUXES)


def test_exchanged_bands_are_the_first_cause(survey: Catalog) -> None:
    model = gpzed.train(galaxies(400), None, quick_config())
    columns = {name: np.array(survey[name]) for name in survey.names}
    columns["mag_u"], columns["mag_r"] = columns["mag_r"], columns["mag_u"]
    expected = r"outside the coverage.*\(1\) the columns of u and r are exchanged"
    with pytest.warns(DataWarning, match=expected):
        model.predict(columns)
    columns["mag_err_g"] = np.full_like(columns["mag_err_g"], 2.0)  # too faint a band to compare
    with pytest.warns(DataWarning, match=expected):
        model.predict(columns)


def test_a_deeper_catalogue_is_warned_of_with_its_depth(survey: Catalog) -> None:
    model = gpzed.train(galaxies(400), None, quick_config())
    columns = {name: np.array(survey[name]) for name in survey.names}
    for band in BANDS:
        columns[f"mag_{band}"] = columns[f"mag_{band}"] + 4.0
    with pytest.warns(DataWarning, match=r"Likely causes: \(1\) a deeper catalogue, 4.0 mag fainter"):
        model.predict(columns)


def test_errors_of_another_depth_are_warned_of_where_they_are_an_input(tmp_path: Path) -> None:
    def with_errors(seed: int, factor: float, n: int = 400) -> dict[str, Any]:
        table = galaxies(n, seed=seed)
        columns: dict[str, Any] = {name: np.array(table[name]) for name in table.names}
        for band in BANDS:
            scatter = np.exp(0.1 * np.random.default_rng(seed).standard_normal(n))
            columns[f"mag_err_{band}"] = factor * scatter * 0.01 * np.exp(0.3 * (columns[f"mag_{band}"] - 18.0))
        return columns

    model = gpzed.train(with_errors(0, 1.0), None, quick_config(features={"errors": "excess"}))
    assert model.predict(with_errors(1, 1.0)).to_table()
    deeper = write(Catalog(with_errors(1, 0.87)), tmp_path / "deep.parquet")
    with pytest.warns(DataWarning, match="errors are smaller than training rows have.*--errors none"):
        gpzed.predict(model, deeper, tmp_path / "out.parquet")
    with pytest.warns(DataWarning, match="errors are larger than training rows have"):
        model.predict(with_errors(1, 1.15))


def test_an_undetected_band_is_warned_of(survey: Catalog) -> None:
    model = gpzed.train(galaxies(400), None, quick_config())
    columns = {name: np.array(survey[name]) for name in survey.names}
    columns["mag_u"][::2] = 99.0
    with pytest.warns(DataWarning, match=r"u is undetected in 50 % \(0 % in training\)"):
        model.predict(columns)


def test_a_catalogue_like_training_is_no_cause_for_words(model: PhotozModel, survey: Catalog, tmp_path: Path) -> None:
    path = write(Catalog(fluxes(survey, 23.9)), tmp_path / "in.parquet")
    assert gpzed.predict(model, path, tmp_path / "out.parquet").warnings == ()


def test_units_of_the_wrong_kind_are_refused() -> None:
    table = Catalog({"mag_g": [1.0], "mag_err_g": [0.1], "mag_r": [1.0], "mag_err_r": [0.1]})
    units = {"mag_g": "nJy", "mag_r": "nJy"}
    with pytest.raises(SchemaError, match=r"'mag_g' is taken for a magnitude but its unit is nJy.*`flux=`"):
        gpzed.catalog.guess_schema(table.names, units=units)
    with pytest.raises(SchemaError, match="flux per wavelength"):
        parse_unit("erg / (Angstrom s cm2)")
    with pytest.raises(SchemaError, match="`unit` is 'parsec'; expected"):
        gpzed.catalog.guess_schema(table.names, unit="parsec")


def test_zero_points_of_magnitudes_or_beside_units_are_refused(model: PhotozModel, survey: Catalog) -> None:
    with pytest.raises(SchemaError, match=r"`zero_point` is 25, .* but column 'mag_u' is taken for a magnitude; leave"):
        gpzed.train(galaxies(100), zero_point=25.0)
    plain = gpzed.train(galaxies(400), None, quick_config())
    with pytest.raises(SchemaError, match=r"`zero_point` is 25, .* but column 'mag_u' is taken for a magnitude; leave"):
        plain.predict(survey, schema=SchemaConfig(zero_point=25.0))
    with pytest.raises(SchemaError, match="`unit` and `zero_point` are both given"):
        model.predict(fluxes(survey, 23.9), schema=SchemaConfig(zero_point=31.4, unit="uJy"))


def test_poor_training_sets_are_warned_of() -> None:
    table = galaxies(400)
    columns = {name: np.array(table[name]) for name in table.names}
    columns["mag_r"][:] = 20.0
    columns["mag_u"][:300] = np.nan
    with pytest.warns(DataWarning) as said:
        gpzed.train(columns, None, quick_config())
    texts = [str(one.message) for one in said]
    assert any("band u is missing in 75 % of the training rows" in text for text in texts)
    assert any("band r has the same magnitude in every row" in text for text in texts)
    assert not any("cannot inform the fit" in text for text in texts)  # that would say it again, by a number
    with pytest.warns(DataWarning, match="only 150 rows to train on"):
        gpzed.train(galaxies(150), None, quick_config())


def test_other_constant_inputs_are_warned_of_beside_a_constant_band() -> None:
    table = galaxies(400)
    columns = {name: np.array(table[name]) for name in table.names}
    columns["mag_r"][:], columns["mag_err_g"][:] = 20.0, 0.1
    with pytest.warns(DataWarning) as said:
        gpzed.train(columns, None, quick_config(), errors="inputs", magnitudes="pogson")
    assert any("features 2, 4 (counted from 0) are constant" in str(one.message) for one in said)
