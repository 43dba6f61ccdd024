from __future__ import annotations

import inspect
import tomllib
from dataclasses import asdict, fields
from pathlib import Path

import pytest

from gpzed import GPzRegressor, Training
from gpzed.config import NOT_OPTIONS, ModelConfig, PredictConfig, RunConfig, as_config, config_template, load_config
from gpzed.errors import ConfigError


def test_template_parses_back_to_the_defaults() -> None:
    text = config_template()
    assert RunConfig.from_dict(tomllib.loads(text)) == RunConfig()
    assert "\nn_basis = " in text
    assert all(len(line) < 130 for line in text.splitlines())


def test_template_of_other_values_parses_back_to_them() -> None:
    config = RunConfig.from_dict(
        {
            "seed": 7,
            "schema": {"bands": ["u", "g"], "zero_point": 31.4},
            "features": {"extinction": {"u": 4.2}, "magnitudes": "asinh"},
            "model": {"n_basis": 12},
            "training": {"max_time": 5},
            "predict": {"quantiles": [0.16], "columns": []},
        }
    )
    assert RunConfig.from_dict(tomllib.loads(config_template(config))) == config
    assert RunConfig.from_dict(config.to_dict()) == config
    assert config.training.max_time == 5.0


def test_options_of_the_model_are_those_of_the_estimator() -> None:
    signature = inspect.signature(GPzRegressor.__init__).parameters
    assert [f.name for f in fields(ModelConfig)] == [name for name in signature if name not in NOT_OPTIONS]
    defaults = {k: p.default for k, p in signature.items() if k not in NOT_OPTIONS}
    assert asdict(ModelConfig()) == defaults


def test_a_run_from_files_trains_the_estimator_with_its_defaults() -> None:
    given = RunConfig().regressor().get_params()
    assert given == GPzRegressor(training=Training(), random_state=0).get_params()


def test_the_paper_is_the_same_model_from_files_and_from_python() -> None:
    config = RunConfig.paper()
    assert config.regressor().get_params() == GPzRegressor.paper(random_state=0).get_params()
    assert (config.features.errors, config.features.colours, config.features.magnitudes) == ("inputs", False, "pogson")
    assert RunConfig.from_dict(tomllib.loads(config_template(config))) == config


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[modle]\n", "unknown key `modle`; did you mean `model`"),
        ("[model]\nn_bais = 3", r"unknown key `n_bais` in section \[model\]; did you mean `n_basis`"),
        ("n_basis = 3", r"did you mean `n_basis` in section \[model\]"),
        ("[model]\nclip = 3", r"did you mean `clip` in section \[features\]"),
        ("[model]\nn_basis = 'many'", "`model.n_basis` is 'many'; expected a whole number or \"auto\""),
        ("[model]\nn_basis = 0", r"section \[model\]: `n_basis` is 0"),
        ("[model]\ncovariance = 'VX'", "expected one of"),
        ("[model]\nmax_iter = 3", r"did you mean `max_iter` in section \[training\]"),
        ("[training]\nmax_iter = 0", r"section \[training\]: `max_iter` is 0; expected a whole number >= 1"),
        ("[training]\ninit = 'here'", "`training.init` is 'here'; expected one of"),
        ("[features]\nclip = 'wide'", "`features.clip` is 'wide'; expected a number"),
        ("[features]\nmagnitudes = 'log'", 'expected one of "auto", "asinh", "pogson"'),
        ("[features]\nextinction = 3", "a table, each value a number"),
        ("[schema]\nbands = 'ugr'", "a list, each entry text"),
        ("[sentinels]\nlimit_range = [1]", "a list"),
        ("[weights]\nmethod = 'target'", "`weights.method` is 'target'; expected one of"),
        ("[predict]\nquantiles = [16]", "`quantiles` has 16"),
        ("[predict]\nchunk_rows = 0", "`chunk_rows` is 0"),
        ("seed = -1", "`seed` is -1"),
        ("seed = 1.5", "`seed` is 1.5; expected a whole number"),
        ("model = 3", r"expected a section: write \[model\]"),
        ("seed = ", "is not valid TOML"),
    ],
)
def test_mistakes_are_named(text: str, match: str, tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=match) as caught:
        load_config(path)
    assert "run.toml" in str(caught.value)


def test_a_missing_file_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "none.toml")


def test_words_may_be_written_as_on_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("[sentinels]\nnan = 'not-detected'")
    for config in (load_config(path), as_config(None, {"nan": "not-detected"})):
        assert config.sentinels.nan == "not_detected"


def test_options_of_a_section_are_taken_together() -> None:
    for options in ({"pdf_grid": (0.0, 2.0, 50.0), "pdf": "grid"}, {"pdf": "grid", "pdf_grid": (0.0, 2.0, 50.0)}):
        assert as_config(None, options).predict == PredictConfig(pdf="grid", pdf_grid=(0.0, 2.0, 50.0))


def test_an_unknown_point_is_refused_in_a_script_too() -> None:
    with pytest.raises(ConfigError, match="`point` is 'average'; expected one of best, safe, mean, median, mode"):
        PredictConfig(point="average")  # type: ignore[arg-type]
