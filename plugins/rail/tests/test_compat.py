"""GPz v1's options: an old configuration runs, means the same, and says what it cannot do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from rail.core.common_params import SHARED_PARAMS

import gpzed.workflows
from gpzed.errors import ConfigError
from rail.estimation.algos._gpzed_options import OF_GPZ_V1
from rail.estimation.algos.gpzed import GPZedEstimator
from rail.estimation.algos.gpzed_compat import (
    GPzCompatEstimator,
    GPzCompatInformer,
    limits_by_column,
    with_errors_replaced,
)
from rail_data import GROUP, TRAINING
from test_pipelines import run

Table = dict[str, np.ndarray]
QUICK = {"n_basis": 5, "max_iter": 5, "hdf5_groupname": GROUP}
V1_DEFAULTS = {
    "train_frac": 0.75, "seed": 87, "gpz_method": "VC", "n_basis": 50, "learn_jointly": True, "hetero_noise": True,
    "csl_method": "normal", "csl_binwidth": 0.1, "pca_decorrelate": True, "max_iter": 200, "max_attempt": 100,
    "log_errors": True,
}  # fmt: skip
"""Of pz-rail-gpz-v1 2.0.3."""


def test_options_and_defaults_are_those_of_gpz_v1() -> None:
    options = GPzCompatInformer.config_options
    assert {name: options[name].default for name in V1_DEFAULTS} == V1_DEFAULTS
    shared = {"nondetect_val", "mag_limits", "bands", "err_bands", "redshift_col", "replace_error_vals"}
    assert shared <= set(options)
    assert set(OF_GPZ_V1) <= set(options)
    wanted = {"zmin", "zmax", "nzbins", "nondetect_val", "mag_limits", "bands", "err_bands", "ref_band", "log_errors"}
    assert wanted | {"replace_error_vals"} <= set(GPzCompatEstimator.config_options)


def test_every_option_reaches_the_model() -> None:
    given = {
        "train_frac": 0.6, "seed": 3, "gpz_method": "GD", "n_basis": 7, "learn_jointly": False, "hetero_noise": False,
        "csl_method": "balanced", "csl_binwidth": 0.2, "pca_decorrelate": False, "max_iter": 9, "max_attempt": 4,
    }  # fmt: skip
    config = GPzCompatInformer.make_stage(name="all", **given).run_config()
    model = config.model
    assert (model.covariance, model.n_basis, model.mean_function) == ("GD", 7, "zero")
    assert (model.noise, model.whitening, model.validation_fraction) == ("homoscedastic", "scale", 0.4)
    assert (config.weights.method, config.weights.bin_width, model.weighting) == ("balanced", 0.2, "precision")
    assert (config.training.max_iter, config.training.patience, config.seed) == (9, 4, 3)
    assert (config.features.magnitudes, config.features.errors) == ("pogson", "inputs")
    assert (model.n_heads, model.n_members, config.sentinels.nan) == (1, 1, "not_detected")
    assert config.sentinels.limits["u"] == SHARED_PARAMS["mag_limits"]["mag_u_lsst"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"csl_method": "odd"}, "`csl_method` is 'odd'; expected one of normal, normalized, balanced"),
        ({"train_frac": 1.5}, "`train_frac` is 1.5"),
        ({"replace_error_vals": [0.1]}, "have 6, 6 and 1 entries"),
        ({"mag_limits": {"u": 27.0}}, "`mag_limits` has 1 values, for u, but there are 6 bands"),
        ({"gpz_metod": "VC"}, "did you mean `gpz_method`"),
    ],
)
def test_bad_values_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        GPzCompatInformer.make_stage(name="bad", **options)


def test_raw_errors_are_warned_about(capsys: pytest.CaptureFixture[str]) -> None:
    GPzCompatInformer.make_stage(name="raw", log_errors=False)
    assert "`log_errors` is false, but gpzed takes the logarithm" in capsys.readouterr().out


def test_limits_go_by_name_and_else_by_order() -> None:
    assert limits_by_column({"r": 2.0, "g": 1.0, "u": 0.0}, ["g", "r"]) == {"g": 1.0, "r": 2.0}
    assert limits_by_column({"first": 1.0, "second": 2.0}, ["g", "r"]) == {"g": 1.0, "r": 2.0}


def test_invalid_errors_are_replaced_in_a_copy() -> None:
    table = {"e": np.array([0.2, 0.0, -1.0, np.nan, np.inf], np.float32), "g": np.zeros(5)}
    replaced = with_errors_replaced(table, ["e"], [0.1])
    np.testing.assert_array_equal(replaced["e"], np.array([0.2, 0.1, 0.1, 0.1, 0.1], np.float32))
    assert np.isnan(table["e"][3])


def test_an_old_pipeline_runs_with_other_classes(training: Table) -> None:
    modules = {"nprocess": 1, "module_name": "rail.estimation.algos.gpz"}
    names = {"input": "input_train", "model": "model_inform_gpz"}
    pipeline = {
        "output_dir": "out", "log_dir": "out", "resume": False, "config": "config.yml", "modules": "rail",
        "inputs": {"input_train": TRAINING}, "site": {"max_threads": 2, "name": "local"},
        "stages": [
            {"name": "inform_gpz", "classname": "GPzInformer", **modules, "aliases": names},
            {"name": "estimate_gpz", "classname": "GPzEstimator", **modules, "aliases": names},
        ],
    }  # fmt: skip
    old = {**QUICK, "gpz_method": "VL", "csl_method": "normalized", "replace_error_vals": [0.1] * 6, "train_frac": 0.8}
    estimate = {"hdf5_groupname": GROUP, "log_errors": True, "ref_band": "mag_i_lsst", "zmax": 3.0, "nzbins": 301}
    config = {"inform_gpz": {**old, "name": "inform_gpz"}, "estimate_gpz": {**estimate, "name": "estimate_gpz"}}
    Path("config.yml").write_text(yaml.safe_dump(config))
    text = yaml.safe_dump(pipeline).replace(": GPz", ": GPzCompat").replace("algos.gpz\n", "algos.gpzed_compat\n")
    Path("pipeline.yml").write_text(text)
    Path("out").mkdir()
    run("ceci", "pipeline.yml")
    model = gpzed.workflows.load_photoz_model("out/model_inform_gpz.gpzed")
    assert (model.regressor.covariance, model.config.weights.method) == ("VL", "redshift")
    written = gpzed.workflows.read_predictions("out/output.hdf5")
    assert len(written.prediction) == len(training["redshift"])


def test_estimates_are_one_gaussian_and_gpzeds_own_stage_reads_the_model(training: Table, validation: Table) -> None:
    model = GPzCompatInformer.make_stage(name="inform", **QUICK).inform({GROUP: training})
    common = {"model": model, "hdf5_groupname": GROUP}
    found = GPzCompatEstimator.make_stage(name="old", **common).estimate({GROUP: validation}).data
    ours = GPZedEstimator.make_stage(name="new", pdf_type="norm", **common).estimate({GROUP: validation}).data
    assert found.gen_class.name == "norm"
    np.testing.assert_array_equal(found.objdata["loc"], ours.objdata["loc"])
    spoilt = {name: values.copy() for name, values in validation.items()}
    spoilt["mag_err_r_lsst"][:] = np.nan
    kept = {name: values.copy() for name, values in spoilt.items()}
    kept["mag_err_r_lsst"][:] = 0.1
    by_us, by_hand = (
        GPzCompatEstimator.make_stage(name=name, **common).estimate({GROUP: table}).data
        for name, table in (("replaced", spoilt), ("given", kept))
    )
    np.testing.assert_array_equal(by_us.objdata["loc"], by_hand.objdata["loc"])
