"""The ways in which RAIL runs a stage: command line, YAML, notebooks, interactive functions, evaluators."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import qp
import yaml
from rail.core.data import QPHandle, TableHandle
from rail.core.introspection import RailEnv
from rail.core.stage import RailPipeline, RailStage
from rail.evaluation.dist_to_dist_evaluator import DistToDistEvaluator
from rail.evaluation.dist_to_point_evaluator import DistToPointEvaluator
from rail.evaluation.point_to_point_evaluator import PointToPointEvaluator
from rail.interfaces.pz_factory import PZFactory

import gpzed.workflows
import rail.gpzed
from rail.estimation.algos.gpzed import GPZedEstimator, GPZedInformer
from rail_data import GROUP, QUICK, TRAINING, VALIDATION, inform

BIN = Path(sys.prefix) / "bin"
PLUGIN = Path(__file__).resolve().parent.parent
Table = dict[str, np.ndarray]


def run(*command: str) -> str:
    """Run a command of this environment; its output if it succeeds."""
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [str(BIN / command[0]), *command[1:]],
        capture_output=True, text=True, env={**os.environ, "PATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_namespaces_have_no_init_and_rail_finds_the_package() -> None:
    inits = {path.relative_to(PLUGIN / "src").as_posix() for path in (PLUGIN / "src").rglob("__init__.py")}
    assert inits == {"rail/gpzed/__init__.py"}
    assert "rail.gpzed" in RailEnv.list_rail_packages()
    assert set(rail.gpzed.__all__) >= {"GPZedInformer", "GPZedEstimator"}
    assert RailStage.get_stage("GPZedInformer", "rail.estimation.algos.gpzed") is GPZedInformer
    assert gpzed.workflows.__file__ != rail.gpzed.__file__


def test_rail_info_lists_the_stages() -> None:
    found = run("rail", "info", "stages")
    assert [name for name in rail.gpzed.__all__ if not name.endswith("Handle") and name not in found] == []


def test_rail_run_estimator(model_path: str) -> None:
    run(
        "rail", "run", "estimator", "--stage_name", "cli", "--stage_class", "GPZedEstimator",
        "--stage_module", "rail.estimation.algos.gpzed", "--model_file", model_path, "--input_file", VALIDATION,
        "pdf_type=norm", "id_col=id",
    )  # fmt: skip
    ensemble = qp.read("output_cli.hdf5")
    assert (ensemble.npdf, ensemble.gen_class.name) == (10, "norm")
    assert "id" in ensemble.ancil


def test_the_example_goes_from_files_to_metrics() -> None:
    quick = {name: value for name, value in QUICK.items() if name != "hdf5_groupname"}
    Path("stages.yml").write_text(yaml.safe_dump({"inform_gpzed": quick, "estimate_gpzed": {"pdf_type": "truncnorm"}}))
    example = str(PLUGIN / "examples" / "dc2.py")
    printed = run("python", example, "out", "--training", TRAINING, "--test", VALIDATION, "--stages", "stages.yml")
    assert "cdeloss_redshift" in printed
    trained = gpzed.workflows.load_photoz_model("out/model_inform_gpzed.gpzed")
    assert trained.regressor.n_basis == 5
    assert qp.read("out/output_estimate_gpzed.hdf5").gen_class.name == "truncnorm"
    summary = TableHandle("any", path="out/summary_evaluate_gpzed.hdf5").read()
    assert np.isfinite(summary["cdeloss_redshift"]).all()
    assert np.isfinite(summary["point_stats_iqr_zmode_redshift"]).all()


def test_a_pipeline_in_python_writes_yaml_that_holds_every_option() -> None:
    class Small(RailPipeline):
        def __init__(self) -> None:
            super().__init__()
            self.inform = GPZedInformer.build(aliases={"input": "training"}, **QUICK)

    pipeline = Small()
    pipeline.initialize({"training": TRAINING}, {"output_dir": ".", "log_dir": ".", "resume": False}, None)
    pipeline.save("small.yml")
    stored = yaml.safe_load(Path("small_config.yml").read_text())["inform"]
    assert stored["n_basis"] == 5
    assert stored["features_magnitudes"] == GPZedInformer.config_options["features_magnitudes"].default


def test_a_notebook(training: Table, validation: Table) -> None:
    informer = GPZedInformer.make_stage(name="inform_note", **QUICK)
    informer.inform({GROUP: training})
    estimator = GPZedEstimator.make_stage(
        name="estimate_note", model=informer.get_handle("model"), hdf5_groupname=GROUP
    )
    found = estimator.estimate({GROUP: validation})
    assert found.data.npdf == 10


def test_rails_evaluators(model_path: str, validation: Table) -> None:
    stage = GPZedEstimator.make_stage(name="judged", model=model_path, hdf5_groupname=GROUP)
    output = stage.estimate({GROUP: validation})
    common = {"hdf5_groupname": GROUP, "force_exact": True}
    truth = TableHandle("truth", path=VALIDATION)
    truth.read()
    dist = DistToPointEvaluator.make_stage(
        name="dist", metrics=["cdeloss", "brier"], metric_config={"brier": {"limits": [0.0, 3.5]}},
        reference_dictionary_key="redshift", **common,
    )  # fmt: skip
    scores = dist.evaluate(QPHandle("densities", path=output.path), truth)
    assert np.isfinite(scores["summary"].data["cdeloss"]).all()
    point = PointToPointEvaluator.make_stage(
        name="point", metrics=["point_stats_iqr", "point_bias"], point_estimate_key="zmean",
        reference_dictionary_key="redshift", **common,
    )  # fmt: skip
    scores = point.evaluate(QPHandle("points", path=output.path), truth)
    between = DistToDistEvaluator.make_stage(
        name="between", metrics=["rmse", "kld"], limits=[0.0, 3.0], dx=0.01, **{**common, "hdf5_groupname": ""}
    )
    other = GPZedEstimator.make_stage(name="other", model=model_path, hdf5_groupname=GROUP, pdf_type="norm")
    ensemble = QPHandle("others", path=other.estimate({GROUP: validation}).path)
    distances = between.evaluate(QPHandle("again", path=output.path), ensemble)
    assert np.isfinite(distances["output"].data["rmse"]).all()
    expected = np.median((output.data.ancil["zmean"] - validation["redshift"]) / (1.0 + validation["redshift"]))
    assert float(np.ravel(scores["summary"].data["point_bias"])[0]) == pytest.approx(expected)


def test_rail_interactive(training: Table, validation: Table) -> None:
    import rail.interactive as ri

    module = ri.estimation.algos.gpzed
    model = module.gpzed_informer(training_data=training, **{**QUICK, "hdf5_groupname": ""})["model"]
    assert isinstance(model, gpzed.workflows.PhotozModel)
    output = module.gpzed_estimator(input_data=validation, model=model, hdf5_groupname="", id_col="id")["output"]
    np.testing.assert_array_equal(output.ancil["id"], validation["id"])
    stage = GPZedEstimator.make_stage(name="stage", model=inform(training), hdf5_groupname=GROUP)
    np.testing.assert_array_equal(output.objdata["means"], stage.estimate({GROUP: validation}).data.objdata["means"])
    assert "n_basis : " in module.gpzed_informer.__doc__
    assert "Number m of basis functions" in module.gpzed_informer.__doc__


def test_rail_interactive_under_the_options_of_gpz_v1(training: Table, validation: Table) -> None:
    import rail.interactive as ri

    module, options = ri.estimation.algos.gpzed_compat, {"n_basis": 5, "max_iter": 5, "hdf5_groupname": ""}
    model = module.gpz_compat_informer(training_data=training, gpz_method="VL", **options)["model"]
    assert (model.regressor.covariance, model.regressor.n_heads) == ("VL", 1)
    output = module.gpz_compat_estimator(input_data=validation, model=model, hdf5_groupname="")["output"]
    assert (output.npdf, output.gen_class.name) == (10, "norm")


def test_the_factory_of_single_estimates(model_path: str, validation: Table) -> None:
    stage = PZFactory.build_stage_instance("factory", GPZedEstimator, model_path, output_mode="return")
    one = {name: values[:1] for name, values in validation.items()}
    found = PZFactory.estimate_single_pz(stage, one, 1)
    assert found.npdf == 1


def test_gpzed_evaluates_what_rail_wrote(model_path: str, validation: Table) -> None:
    stage = GPZedEstimator.make_stage(name="scored", model=model_path, hdf5_groupname=GROUP)
    output = stage.estimate({GROUP: validation})
    result = gpzed.workflows.evaluate(output.path)
    assert (result.redshift, result.n_used) == ("redshift", 10)
    dropped = {name: values for name, values in validation.items() if name != "redshift"}
    output = GPZedEstimator.make_stage(name="blind", model=model_path, hdf5_groupname=GROUP).estimate({GROUP: dropped})
    blind = gpzed.workflows.evaluate(output.path, truth=VALIDATION)
    assert blind.metrics == pytest.approx(result.metrics)


@pytest.mark.parametrize("kind", ["norm", "mixmod", "interp", "hist", "quant", "spline"])
def test_gpzed_reads_every_representation_of_qp(kind: str) -> None:
    rng = np.random.default_rng(0)
    loc, scale = rng.uniform(0.5, 1.0, (40, 1)), rng.uniform(0.05, 0.1, (40, 1))
    truth = loc[:, 0] + scale[:, 0] * rng.standard_normal(40)
    norm = qp.Ensemble(qp.stats.norm, data={"loc": loc, "scale": scale})
    grid = np.linspace(0.0, 2.0, 401)
    forms = {
        "norm": lambda: norm,
        "mixmod": lambda: qp.Ensemble(qp.mixmod, data={"means": loc, "stds": scale, "weights": np.ones((40, 1))}),
        "interp": lambda: norm.convert_to(qp.interp_gen, xvals=grid),
        "hist": lambda: norm.convert_to(qp.hist_gen, bins=grid),
        "quant": lambda: norm.convert_to(qp.quant_gen, quants=np.linspace(0.001, 0.999, 201)),
        "spline": lambda: norm.convert_to(qp.spline_gen, xvals=grid, method="xy"),
    }
    ensemble = forms[kind]()
    ensemble.set_ancil({"redshift": truth})
    ensemble.write_to(f"{kind}.hdf5")
    norm.set_ancil({"redshift": truth})
    norm.write_to("reference.hdf5")
    found, expected = (gpzed.workflows.evaluate(path) for path in (f"{kind}.hdf5", "reference.hdf5"))
    assert found.n_used == 40
    for name in ("rmse", "mll", "crps", "pit_ks", "cde_loss"):
        assert found.metrics[name] == pytest.approx(expected.metrics[name], rel=0.05, abs=0.01), name
    file = gpzed.workflows.read_predictions(f"{kind}.hdf5")
    z, prediction = file.z_spec, file.prediction
    at = np.linspace(0.4, 1.1, 7)
    np.testing.assert_allclose(prediction.to_qp().pdf(at), prediction.pdf_grid(at), rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(z, truth)
