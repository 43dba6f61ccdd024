"""Training for a target that is not like the training rows: what is done, what it gains, and what is said."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import gpzed
from gpzed.catalog import Catalog
from gpzed.cli import main
from gpzed.config import PredictConfig, RunConfig
from gpzed.errors import CatalogError, ConfigError, DataWarning, SchemaError
from gpzed.evaluation import evaluate
from gpzed.features.bands import POGSON
from gpzed.features.fluxes import Survey
from gpzed.features.library import Galaxies
from gpzed.progress import Progress
from gpzed.simulate import simulate_survey
from gpzed.workflows import plan_training, predict_columns
from gpzed.workflows.simulated import zero_points
from gpzed.workflows.train import MIN_LOCAL, regressor_for
from gpzed.workflows.training_set import prepare
from workflows.galaxy_files import write

pytestmark = pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning", "ignore::gpzed.errors.DataWarning")
QUICK = {"errors": "none", "n_members": 1, "n_basis": 25, "max_iter": 60, "n_epochs": 30}


def table(rows: np.ndarray, columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: values[rows] for name, values in columns.items() if name not in ("spectroscopic", "id", "ra", "dec")}


@pytest.fixture(scope="module")
def sky() -> dict[str, dict[str, np.ndarray]]:
    """Bright galaxies with redshifts, and a survey that goes three magnitudes deeper, with redshifts to judge by."""
    columns = simulate_survey(9000, survey="lsst", random_state=3).columns(truth=True)
    columns = {name: values for name, values in columns.items() if not name.startswith("true_")}
    columns["z_spec"] = columns.pop("z_true")
    faint = columns["mag_i"] > 22.5
    order = np.random.default_rng(0).permutation(9000)
    half = np.isin(np.arange(9000), order[:6000])
    many = simulate_survey(6000, survey="lsst", random_state=4, magnitude_limit=22.5).columns(truth=True)
    many["z_spec"] = many.pop("z_true")
    many = {name: values for name, values in many.items() if not name.startswith("true_")}
    return {
        "bright": table(np.arange(2500), many),
        "survey": table(np.flatnonzero(half), columns),
        "faint": table(np.flatnonzero(~half & faint), columns),
        "alike": table(np.arange(2500, 6000), many),
    }


def without_redshifts(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: values for name, values in columns.items() if name != "z_spec"}


def scores(model: gpzed.workflows.PhotozModel, columns: dict[str, np.ndarray]) -> dict[str, float]:
    return evaluate(columns["z_spec"], model.predict(columns).prediction)


def test_dimmed_galaxies_beat_the_training_rows_alone(sky: dict[str, dict[str, np.ndarray]]) -> None:
    plain = scores(gpzed.train(sky["bright"], **QUICK), sky["faint"])
    model = gpzed.train(sky["bright"], target=without_redshifts(sky["survey"]), **QUICK)
    found = scores(model, sky["faint"])
    assert found["mll"] > plain["mll"]
    assert found["crps"] < 0.9 * plain["crps"]
    assert abs(found["coverage_68"] - 0.68) < 0.12
    report = model.report
    assert report is not None
    target = report.plan.target
    assert target is not None
    assert target.adapted == "dim"
    assert target.scores["dim"] < target.scores["none"]
    assert target.outside > 0.1
    assert target.unexplained is not None
    assert target.unexplained < 0.2
    assert "rows are made of galaxies dimmed by" in str(target)
    assert report.to_dict()["target"]["n_dimmed"] == target.n_dimmed == 5000
    assert "validation" in report.scores  # held-out galaxies, dimmed
    for options, name in (
        (None, "safe"),
        (PredictConfig(quantiles=(0.5,)), "safe"),
        (PredictConfig(point="best"), "best"),
    ):
        out = model.predict(sky["faint"], options)
        np.testing.assert_array_equal(out["z_phot"], getattr(out.prediction, name).astype(np.float32))
    assert np.mean(out.prediction.safe != out.prediction.best) > 0.1
    assert not target.is_hedged
    assert model.predict(sky["faint"]).metadata["gpzed_point"] == "safe"
    for chosen in (None, PredictConfig(quantiles=(0.5,))):  # as other programs' stages ask for them
        columns = predict_columns(out.prediction.changed(point="safe"), chosen)
        np.testing.assert_array_equal(columns["z_phot"], out.prediction.safe.astype(np.float32))


def test_a_target_like_the_training_rows_changes_nothing(sky: dict[str, dict[str, np.ndarray]]) -> None:
    plain = gpzed.train(sky["bright"], **QUICK)
    model = gpzed.train(sky["bright"], target=without_redshifts(sky["alike"]), **QUICK)
    assert model.report is not None
    assert model.report.plan.target is not None
    assert model.report.plan.target.adapted == "none"
    assert "training rows stay as they are" in str(model.report.plan.target)
    np.testing.assert_array_equal(model.regressor.weights_, plain.regressor.weights_)


def fluxes(columns: dict[str, np.ndarray], zero_point: float) -> dict[str, np.ndarray]:
    found = {"z_spec": columns["z_spec"]}
    for band in "ugrizy":
        found[f"flux_{band}"] = 10.0 ** (0.4 * (zero_point - columns[f"mag_{band}"]))
        found[f"flux_err_{band}"] = found[f"flux_{band}"] * columns[f"mag_err_{band}"] / POGSON
    return found


def test_a_target_in_other_units_is_refused_unless_it_says_so(
    sky: dict[str, dict[str, np.ndarray]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spectra = write(Catalog(fluxes(sky["bright"], 31.4)), tmp_path / "spectra.parquet")
    other = fluxes(sky["alike"], 23.9)
    survey = write(Catalog(other), tmp_path / "survey.parquet")
    command = ["train", str(spectra), "--unit", "nJy", "--dry-run", "--target"]
    assert main([*command, str(survey)]) == 1
    shown = capsys.readouterr().err
    assert "not in the units of the training catalogue" in shown
    assert "--unit and --zero-point are for the training catalogue alone: give the target in" in shown
    units = {name: "uJy" for name in other if name != "z_spec"}
    assert main([*command, str(write(Catalog(other, units=units), tmp_path / "stated.parquet"))]) == 0


def test_a_target_may_have_magnitudes_where_training_has_fluxes(
    sky: dict[str, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    config = RunConfig().override("features", errors="none").override("target", catalogue="survey")
    in_flux = config.override("schema", unit="nJy")
    target = prepare(fluxes(sky["bright"], 31.4), in_flux, Progress(), sky["alike"], is_plan=True).plan.target
    assert target is not None
    assert target.outside < 0.05
    with pytest.raises(SchemaError, match="target catalogue: its fluxes have no unit; `unit=` and `zero_point=` are"):
        prepare(sky["bright"], config, Progress(), fluxes(sky["alike"], 31.4), is_plan=True)


def test_a_target_with_a_band_less_names_the_bands_that_both_have(
    sky: dict[str, dict[str, np.ndarray]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spectra = write(Catalog(sky["bright"]), tmp_path / "spectra.parquet")
    less = {name: values for name, values in sky["alike"].items() if not name.endswith("_y")}
    survey = write(Catalog(less), tmp_path / "survey.parquet")
    command = ["train", str(spectra), "--dry-run", "--target", str(survey)]
    assert main(command) == 1
    shown = capsys.readouterr().err
    assert "it lacks band y of the training catalogue (no column 'mag_y', 'mag_err_y')" in shown
    assert shown.rstrip().endswith(f"--target {survey} --bands u,g,r,i,z")
    assert main([*command, "--bands", "u,g,r,i,z"]) == 0


def test_a_plan_trains_nothing(
    sky: dict[str, dict[str, np.ndarray]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("trained")

    monkeypatch.setattr(gpzed.GPzRegressor, "fit", refuse)
    files = {name: write(Catalog(sky[name]), tmp_path / f"{name}.parquet") for name in ("bright", "survey", "alike")}
    for name, low, high in (("survey", 0.1, 1.0), ("alike", 0.0, 0.05)):
        config = RunConfig().override("target", catalogue=str(files[name])).override("features", errors="none")
        target = plan_training(files["bright"], config).target
        assert target is not None
        assert low <= target.outside <= high
        assert "trial models decide" in str(target)


def test_one_outlier_does_not_hide_that_the_target_is_outside(
    sky: dict[str, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    bright = {name: values.copy() for name, values in sky["bright"].items()}
    for band, offset in zip("ugrizy", (9.0, -8.0, 9.0, -8.0, 9.0, -8.0), strict=True):
        bright[f"mag_{band}"][:8] += offset
    survey = write(Catalog(sky["survey"]), tmp_path / "survey.parquet")
    config = RunConfig().override("target", catalogue=str(survey)).override("features", errors="none")
    target = plan_training(bright, config).target
    assert target is not None
    assert target.outside > 0.1


def test_samples_that_have_nothing_in_common_work(sky: dict[str, dict[str, np.ndarray]]) -> None:
    far = sky["survey"]
    far = {name: values[far["mag_i"] > 24.0] for name, values in far.items()}
    with pytest.warns(DataWarning, match=r"no redshift tells whether galaxies like it are dimmed ones.*`--adapt none`"):
        model = gpzed.train(sky["bright"], target=without_redshifts(far), **QUICK)
    assert model.report is not None
    assert model.report.plan.target is not None
    assert model.report.plan.target.adapted == "dim"
    assert not model.report.plan.target.is_hedged  # one member alone
    options = {**QUICK, "n_members": 2, "n_networks": 0}
    with pytest.warns(DataWarning, match="Every second member of the committee is trained without them"):
        hedged = gpzed.train(sky["bright"], target=without_redshifts(far), **options)
    assert hedged.report is not None
    assert "every second member of the committee does without them" in str(hedged.report.plan.target)
    with_dimmed, without = (member.standardisation.y_mean for member in hedged.regressor.members_)
    assert without < with_dimmed  # dimmed galaxies are farther away
    assert abs(without - sky["bright"]["z_spec"].mean()) < 0.02


def test_a_few_rows_do_not_stand_for_the_target(sky: dict[str, dict[str, np.ndarray]]) -> None:
    faint = sky["survey"]["mag_i"] > np.quantile(sky["bright"]["mag_i"], 0.95)
    target = {name: values[faint] for name, values in without_redshifts(sky["survey"]).items()}
    model = gpzed.train(sky["bright"], target=target, **QUICK)
    assert model.report is not None
    assert model.report.plan.target is not None
    assert set(model.report.plan.target.scores) == {"none", "dim"}


def test_simulated_galaxies_join_with_their_zero_points_moved(
    sky: dict[str, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    extra = simulate_survey(6000, survey="lsst", random_state=9).columns(truth=True)
    extra = {f"mag_{band}": extra[f"true_mag_{band}"] for band in "ugrizy"} | {"z_spec": extra["z_true"]}
    extra |= {f"mag_err_{band}": np.full(6000, 0.001) for band in "ugrizy"}
    extra["mag_u"] = extra["mag_u"] + 0.2
    path = write(Catalog(extra), tmp_path / "simulated.parquet")
    options = {**QUICK, "simulated": str(path), "adapt": "dim"}
    model = gpzed.train(sky["bright"], target=without_redshifts(sky["survey"]), **options)
    assert model.report is not None
    assert model.report.plan.target is not None
    moved = model.report.plan.target.zero_points
    assert moved["u"] == pytest.approx(-0.2, abs=0.08)
    assert max(abs(shift) for band, shift in moved.items() if band != "u") < 0.08
    assert not model.report.plan.target.refuses
    assert "used too" in str(model.report.plan.target)
    assert scores(model, sky["faint"])["crps"] < scores(gpzed.train(sky["bright"], **QUICK), sky["faint"])["crps"]


def test_simulated_galaxies_of_another_universe_are_refused(
    sky: dict[str, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    alien = {f"mag_{band}": sky["survey"]["mag_i"] + rng.normal(0.0, 1.0, 6000) for band in "ugrizy"}
    alien |= {f"mag_err_{band}": np.full(6000, 0.01) for band in "ugrizy"} | {"z_spec": sky["survey"]["z_spec"]}
    path = write(Catalog(alien), tmp_path / "alien.parquet")
    target, options = without_redshifts(sky["survey"]), {**QUICK, "adapt": "dim", "n_members": 1}
    with pytest.warns(DataWarning, match=r"alien\.parquet' are refused: .*give a catalogue more like"):
        model = gpzed.train(sky["bright"], target=target, simulated=str(path), **options)
    assert model.report is not None
    report = model.report.plan.target
    assert report is not None
    assert report.refuses
    assert "are refused" in str(report)
    plain = gpzed.train(sky["bright"], target=target, **options)
    np.testing.assert_array_equal(model.predict(target)["z_phot"], plain.predict(target)["z_phot"])


def test_simulated_catalogues_that_do_not_fit_are_named(sky: dict[str, dict[str, np.ndarray]], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="`simulated` is given but no target"):
        gpzed.train(sky["bright"], simulated="lsst", **QUICK)
    with pytest.raises(ConfigError, match=r"`adapt` is dim but no target; .* with `target=`"):
        gpzed.train(sky["bright"], adapt="dim", **QUICK)
    target = without_redshifts(sky["survey"])
    settings = RunConfig().override("target", catalogue=str(write(Catalog(target), tmp_path / "t.parquet")))
    with pytest.raises(CatalogError, match="simulated catalogue 'nosuch' does not exist; expected a file, or lsst or"):
        plan_training(sky["bright"], settings.override("target", simulated="nosuch"))
    with pytest.raises(SchemaError, match="the simulator's 'sdss' has bands u, g, r, i, z, but not 'y'"):
        gpzed.train(sky["bright"], target=target, simulated="sdss", **QUICK)
    path = write(Catalog({**without_redshifts(sky["alike"])}), tmp_path / "blind.parquet")
    with pytest.raises(SchemaError, match="simulated catalogue"):
        gpzed.train(sky["bright"], target=target, simulated=str(path), **QUICK)


def test_zero_points_need_an_overlap() -> None:
    flux = np.exp(-np.full((100, 2), 20.0) / POGSON)
    training = Survey(flux, 0.01 * flux, np.zeros((100, 2), dtype=np.int8))
    with pytest.raises(CatalogError, match="only 0 training rows have the redshift and magnitude"):
        zero_points(Galaxies.of(flux, 0.01 * flux, np.full(100, 5.0)), training, np.full(100, 0.5))


def test_a_target_without_errors_serves_for_weights_only(sky: dict[str, dict[str, np.ndarray]]) -> None:
    bands = [f"mag_{band}" for band in "ugrizy"]
    bright = {name: sky["bright"][name] for name in (*bands, "z_spec")}
    target = {name: sky["alike"][name] for name in bands}
    options = {**QUICK, "mag": "mag_{band}", "bands": list("ugrizy")}
    with pytest.raises(CatalogError, match="cannot be dimmed without errors"):
        gpzed.train(bright, target=target, adapt="dim", **options)
    model = gpzed.train(bright, target=target, **options)
    assert model.report is not None
    assert model.report.plan.target is not None
    assert set(model.report.plan.target.scores) == {"none", "weights"}


@pytest.mark.parametrize(("n_spectra", "expected"), [(MIN_LOCAL, "local"), (MIN_LOCAL - 1, "global")])
def test_widths_are_corrected_by_region_only_with_many_spectra(n_spectra: int, expected: str) -> None:
    plan = SimpleNamespace(target=SimpleNamespace(adapted="dim"), counts={"train": n_spectra})
    assert regressor_for(SimpleNamespace(plan=plan), RunConfig()).calibrate == expected  # type: ignore[arg-type]
