"""Parameters: all of gpzed's options are there, and every one that is accepted is used."""

from __future__ import annotations

from typing import Literal, get_args, get_origin

import numpy as np
import pytest
import yaml
from ceci.config import StageConfig
from rail.core.common_params import SHARED_PARAMS

from gpzed.catalog import PhotometrySchema
from gpzed.config import RunConfig, option_docs, option_hints
from gpzed.errors import ConfigError, SchemaError
from gpzed.workflows import predict_table
from rail.estimation.algos._gpzed_options import LEFT_OUT, OF_GPZ_V1, PREFIXES, informer_options
from rail.estimation.algos.gpzed import GPZedEstimator, GPZedInformer, as_catalog
from rail_data import GROUP, QUICK, inform

OTHER = {
    "n_basis": 7,
    "covariance": "VD",
    "wrong_labels": 0.25,
    "features_clip": 4.0,
    "features_extinction": {"mag_u_lsst": 4.8},
    "weights_method": "redshift",
    "target_catalogue": "other.parquet",
    "target_n_rows": 500,
    "target_simulated": "lsst",
    "features_non_detections": "marginalise",
    "split_column": "part",
    "sentinels_limit_range": [15.0, 35.0],
}
"""Another value than the default for every parameter of the informer that is one of gpzed's options."""
TOGETHER: dict[str, dict[str, str]] = {}
"""What must be set with it."""


def other(name: str, hint: object, default: object) -> object:
    """Return a value that differs from the default and is valid."""
    if name in OTHER:
        return OTHER[name]
    choices = [choice for part in (hint, *get_args(hint)) if get_origin(part) is Literal for choice in get_args(part)]
    if any(choice != default for choice in choices):
        return next(choice for choice in choices if choice != default)
    if isinstance(default, bool):
        return not default
    if isinstance(default, int):
        return default + 1
    if isinstance(default, float):
        return default * 0.75 if default else 0.25
    if isinstance(default, list):
        return [*default, 77.0]
    if default is None or int in get_args(hint):
        return 3 if "int" in str(hint) else 0.5
    pytest.fail(f"{name} has default {default!r} of hint {hint}: put another value into OTHER")


def gpzed_parameters() -> list[tuple[str, str, str]]:
    return [
        (section, name, prefix + name)
        for section, prefix in PREFIXES.items()
        for name in option_hints(section)
        if (section, name) not in LEFT_OUT
    ]


@pytest.mark.parametrize(("section", "name", "parameter"), gpzed_parameters())
def test_every_option_has_gpzeds_default_and_help_and_reaches_gpzed(section: str, name: str, parameter: str) -> None:
    param = GPZedInformer.config_options[parameter]
    stored = getattr(RunConfig(), section)
    default = getattr(stored, name)
    assert param.default == (list(default) if isinstance(default, tuple) else default)
    assert param.msg == option_docs(section)[name]
    assert not param.required
    value = other(parameter, option_hints(section)[name], param.default)
    stage = GPZedInformer.make_stage(name="options", **{parameter: value}, **TOGETHER.get(parameter, {}))
    config = stage.run_config()
    expected = {"u": 4.8} if parameter == "features_extinction" else value
    expected = tuple(expected) if isinstance(expected, list) else expected
    assert getattr(getattr(config, section), name) == expected


def test_nothing_of_gpzed_is_forgotten() -> None:
    sections = set(RunConfig().to_dict()) - {"seed"}
    assert sections - set(PREFIXES) == {"schema", "predict"}  # columns by RAIL's names; output of the estimator
    for section, name in LEFT_OUT:
        assert name in option_hints(section)


def test_defaults_can_be_written_to_yaml() -> None:
    config = StageConfig(**GPZedInformer.config_options).to_dict()
    assert yaml.safe_load(yaml.safe_dump(config)) == config
    config = StageConfig(**GPZedEstimator.config_options).to_dict()
    assert yaml.safe_load(yaml.safe_dump(config)) == config


def test_text_of_the_command_line_becomes_numbers() -> None:
    args = GPZedInformer.parse_command_line(
        ["GPZedInformer", "--n_basis=12", "--sentinels_failed_errors=98,97", "--max_time=3.5", "--no-coverage"]
    )
    stage = GPZedInformer.make_stage(**{k: v for k, v in vars(args).items() if v is not None})
    config = stage.run_config()
    assert (config.model.n_basis, config.training.max_time, config.model.coverage) == (12, 3.5, False)
    assert config.sentinels.failed_errors == (98.0, 97.0)
    assert GPZedInformer.make_stage(name="auto", n_basis="auto").run_config().model.n_basis == "auto"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_basis": 0}, "n_basis"),
        ({"covariance": "XX"}, "covariance"),
        ({"n_bassis": 5}, "no parameter `n_bassis`; did you mean `n_basis`"),
        ({"gpz_method": "VC"}, "`gpz_method`, which is one of RAIL's GPz; use `covariance`"),
        ({"bands": ["mag_u_lsst"]}, "6 error columns are given for 1 magnitude columns"),
        ({"ref_band": "mag_r_lsst", "features_colours": False}, "`ref_band` is 'mag_r_lsst' but the inputs are no"),
        ({"ref_band": "mag_q_lsst", "features_colours": True}, "`ref_band` is 'mag_q_lsst'; expected one of `bands`"),
        ({"nondetect_val": np.nan, "nonobserved_val": np.nan}, "are both NaN"),
        ({"features_extinction": {"q": 1.0}}, "`features_extinction` has 'q'; expected columns of `bands`"),
    ],
)
def test_bad_parameters_are_refused_when_the_stage_is_made(options: dict[str, object], message: str) -> None:
    with pytest.raises((ConfigError, SchemaError), match=message):
        GPZedInformer.make_stage(name="bad", **options)


def test_a_name_that_nobody_knows_is_warned_about(capsys: pytest.CaptureFixture[str]) -> None:
    GPZedInformer.make_stage(name="odd", colour_of_the_sky="blue")
    assert "`colour_of_the_sky` is no parameter of GPZedInformer and is not used" in capsys.readouterr().out


def test_the_table_of_rails_gpz_names_parameters_that_exist() -> None:
    words = [text.split("`")[1] for text in OF_GPZ_V1.values() if "`" in text]
    assert len(words) == len(OF_GPZ_V1) - 1
    assert set(words) <= set(GPZedInformer.config_options)


def test_shared_parameters_are_those_of_rail() -> None:
    for name in ("bands", "err_bands", "ref_band", "nondetect_val", "mag_limits", "redshift_col", "id_col"):
        assert GPZedInformer.make_stage(name="shared").config[name] == SHARED_PARAMS[name]


def test_a_changed_default_of_rail_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SHARED_PARAMS.get("nondetect_val"), "_default", 98.0)
    assert GPZedInformer.make_stage(name="late").run_config().sentinels.not_detected == (98.0,)


def unseen(table: dict[str, np.ndarray], value: float, rows: slice = slice(0, 20)) -> dict[str, np.ndarray]:
    """Return the table with non-detections in u, marked by a value."""
    u = table["mag_u_lsst"].copy()
    u[rows] = value
    return {**table, "mag_u_lsst": u}


def means(model: object, table: dict[str, np.ndarray]) -> np.ndarray:
    columns = as_catalog(table, model.schema.photometry_columns, None)
    return predict_table(model, columns)[0].means


@pytest.mark.parametrize("value", [99.0, 28.9, np.nan])
def test_nondetect_val_is_what_a_non_detection_is(training: dict[str, np.ndarray], value: float) -> None:
    usual = inform(unseen(training, 99.0))
    model = inform(unseen(training, value), nondetect_val=value)
    np.testing.assert_array_equal(means(model, unseen(training, value)), means(usual, unseen(training, 99.0)))


def test_nonobserved_val_is_no_observation(training: dict[str, np.ndarray]) -> None:
    usual = inform(unseen(training, np.nan))
    model = inform(unseen(training, -5.5), nonobserved_val=-5.5)
    np.testing.assert_array_equal(means(model, unseen(training, -5.5)), means(usual, unseen(training, np.nan)))


def test_mag_limits_are_matched_by_name(training: dict[str, np.ndarray]) -> None:
    limits = dict(SHARED_PARAMS["mag_limits"])
    turned = dict(reversed(limits.items()))
    assert list(turned) != list(limits)
    same, other_limit = ({**turned, "mag_nobody": 1.0}, {**limits, "mag_u_lsst": 26.0})
    stages = [GPZedInformer.make_stage(name="l", mag_limits=given) for given in (limits, same, other_limit)]
    first, second, third = (stage.run_config().sentinels.limits for stage in stages)
    assert first == second == {"u": 27.79, "g": 29.04, "r": 29.06, "i": 28.62, "z": 27.98, "y": 27.05}
    assert third["u"] == 26.0
    table = unseen(training, 99.0)
    found = [means(inform(table, mag_limits=given), table) for given in (limits, same, other_limit)]
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.allclose(found[0], found[2])


def test_mag_limits_are_used_whatever_the_magnitudes(training: dict[str, np.ndarray]) -> None:
    def treatment(**options: object) -> str:
        return GPZedInformer.make_stage(name="t", **options).run_config().features.non_detection

    assert treatment(features_magnitudes="asinh") == treatment(features_magnitudes="pogson") == "limit"
    assert treatment(features_magnitudes="asinh", mag_limits={}) == "flux"
    assert treatment(features_magnitudes="asinh", features_non_detections="flux") == "flux"
    with pytest.raises(ConfigError, match='`mag_limits` is given but `features_non_detections` is "flux"'):
        treatment(features_magnitudes="asinh", features_non_detections="flux", mag_limits={"mag_u_lsst": 26.0})
    table = unseen(training, 99.0)
    options = {"features_magnitudes": "asinh"}
    usual, bright = inform(table, **options), inform(table, **options, mag_limits={"mag_u_lsst": 25.0})
    assert not np.allclose(means(usual, table), means(bright, table))


def test_ref_band_stands_beside_the_colours(training: dict[str, np.ndarray]) -> None:
    model = inform(training, features_colours=True, ref_band="mag_r_lsst")
    assert model.transformer.config.reference_band == "r"
    assert any(name.endswith("_r") for name in model.transformer.names)


def test_the_order_of_bands_and_other_columns_do_not_matter(training: dict[str, np.ndarray]) -> None:
    turned = dict(reversed({**training, "more": np.zeros(100)}.items()))
    np.testing.assert_array_equal(means(inform(turned), turned), means(inform(training), training))


def test_names_of_columns_and_group(training: dict[str, np.ndarray]) -> None:
    renamed = {f"x_{name}": values for name, values in training.items()}
    bands, errors = ([f"x_{name}" for name in SHARED_PARAMS[key]] for key in ("bands", "err_bands"))
    limits = {f"x_{name}": limit for name, limit in SHARED_PARAMS["mag_limits"].items()}
    names = {"bands": bands, "err_bands": errors, "redshift_col": "x_redshift", "mag_limits": limits}
    stage = GPZedInformer.make_stage(name="r", **{**QUICK, **names, "hdf5_groupname": "mine"}, output_mode="return")
    model = stage.inform({"mine": renamed, GROUP: {"nothing": np.zeros(3)}}).data
    assert model.schema.mag["u"] == "x_mag_u_lsst"
    np.testing.assert_array_equal(means(model, renamed), means(inform(training), training))


def test_seed_and_weights_and_split_column(training: dict[str, np.ndarray]) -> None:
    one, again, two = inform(training, seed=1), inform(training, seed=1), inform(training, seed=2)
    np.testing.assert_array_equal(means(one, training), means(again, training))
    assert not np.array_equal(means(one, training), means(two, training))
    weighted = {**training, "cost": np.linspace(0.1, 5.0, 100)}
    model = inform(weighted, weights_method="column", weight_col="cost")
    assert not np.array_equal(means(model, training), means(inform(training), training))
    parts = {**training, "part": np.arange(100) % 2}
    assert inform(parts, split_column="part").provenance["rows"]["validation"] == 50


def test_options_of_every_section_are_parameters() -> None:
    assert {"n_basis", "features_magnitudes", "weights_method", "split_column", "seed"} <= set(informer_options())
    assert isinstance(GPZedInformer.make_stage(name="schema").schema(), PhotometrySchema)
