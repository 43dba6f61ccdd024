"""Options of the command line: made from the configuration, under names that stay."""

from __future__ import annotations

import importlib

import click
import pytest

from gpzed.cli.app import COMMANDS
from gpzed.cli.options import section_options, values_of
from gpzed.config import RunConfig, option_hints
from gpzed.workflows import PredictionSource

SCHEMA = {"bands", "convention", "mag", "flux", "err", "flag", "zero-point", "redshift", "ebv", "input-format"}
FLAGS = {
    "train": SCHEMA
    | {"output", "config", "seed", "n-basis", "covariance", "members", "heads", "max-iter", "max-time", "magnitudes"}
    | {
        "errors",
        "colours",
        "weights",
        "target",
        "adapt",
        "simulated",
        "split-column",
        "validation",
        "test",
        "min-redshift",
        "max-redshift",
    }
    | {"threads", "dask", "checkpoint", "resume", "dry-run", "json", "quiet", "debug", "hdf5-group"},
    "predict": SCHEMA
    | {
        "output",
        "config",
        "point",
        "positive",
        "no-positive",
        "quantiles",
        "pdf",
        "pdf-grid",
        "pdf-file",
        "qp",
        "columns",
        "no-passthrough",
    }
    | {"chunk-rows", "format", "resume", "dask", "threads", "json"},
    "evaluate": {"redshift", "min-redshift", "max-redshift", "truth", "keep", "weight", "bootstrap", "seed", "bins"}
    | {"bin-width", "rejection", "input-format", "json"},
    "select": {"keep", "max-std", "max-rmse", "min-completeness", "expected", "output", "columns", "id", "truth"}
    | {"redshift", "input-format", "format", "json"},
    "report": {"output", "title", "truth", "redshift", "id", "min-redshift", "max-redshift", "input-format", "json"},
    "survey": {"cells-table", "objects", "figure", "n-spectra", "max-magnitude", "magnitude", "colour", "cells"}
    | {"per-cell", "max-objects", "seed", "json"},
}


@pytest.mark.parametrize("name", FLAGS)
def test_names_stay(name: str) -> None:
    command: click.Command = importlib.import_module(COMMANDS[name][0]).command
    flags = {opt.lstrip("-") for parameter in command.params for opt in (*parameter.opts, *parameter.secondary_opts)}
    assert FLAGS[name] <= flags
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help
            assert len(parameter.help) > 8, parameter.name
            assert "et al." not in (parameter.help or "")[-7:]


def test_types_and_help_come_from_the_fields() -> None:
    @click.command()
    @section_options("", "seed")
    @section_options("model", "n_basis", members="n_members")
    @section_options("predict", "point", "positive", "quantiles", "columns")
    def command(**given: object) -> dict[str, object]:
        return given

    run = command.main(
        ["--n-basis", "auto", "--members", "3", "--no-positive", "--quantiles", "0.1,0.9", "--columns", "id, ra"],
        standalone_mode=False,
    )
    assert values_of("model", run) == {"n_basis": "auto", "n_members": 3}
    assert values_of("predict", run) == {"positive": False, "quantiles": (0.1, 0.9), "columns": ("id", "ra")}
    assert values_of("", run) == {}
    config = RunConfig().override("predict", **values_of("predict", run))
    assert config.predict.columns == ("id", "ra")
    for wrong in (["--n-basis", "many"], ["--point", "middle"], ["--quantiles", "a,b"], ["--members", "x"]):
        with pytest.raises(click.UsageError, match="is not"):
            command.main(wrong, standalone_mode=False)
    assert set(option_hints("")) == {"seed"}


def test_fields_of_records() -> None:
    assert values_of(PredictionSource, {"PredictionSource__redshift": "z", "PredictionSource__id": None, "x": 1}) == {
        "redshift": "z"
    }
