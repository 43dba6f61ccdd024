"""Options that several commands share, and how they enter the configuration."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import click

from gpzed.config import RunConfig, load_config

F = TypeVar("F", bound=Callable[..., Any])


def common(function: F) -> F:
    """Add --json, --quiet and --debug."""
    for option in reversed(
        [
            click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, for machines."),
            click.option("--quiet", "-q", is_flag=True, help="Print errors and results only."),
            click.option("--debug", is_flag=True, help="Show where in the code an error came from."),
        ]
    ):
        function = option(function)
    return function


def schema_options(function: F) -> F:
    """Add the options that say which column is what."""
    for option in reversed(
        [
            click.option("--bands", help="Bands to use, in order: u,g,r,i,z. Default: all that are found."),
            click.option("--convention", help="Naming convention of the columns, where several fit."),
            click.option("--mag", help="Template of the magnitude columns, like 'mag_{band}_lsst'."),
            click.option("--flux", help="Template of the flux columns, instead of magnitudes."),
            click.option("--err", help="Template of the error columns."),
            click.option("--flag", help="Template of the flag columns (0 measured, 1 not detected, 2 not observed)."),
            click.option("--zero-point", type=float, help="AB magnitude of flux 1: 31.4 for nJy."),
            click.option("--redshift", help="Column of the spectroscopic redshift."),
            click.option("--ebv", help="Column of E(B-V)."),
            click.option("--input-format", help="Format of the catalogue, if its suffix does not tell."),
            click.option("--hdf5-group", help="Group of an HDF5 file that holds the columns."),
        ]
    ):
        function = option(function)
    return function


SCHEMA_NAMES = ("convention", "mag", "flux", "err", "flag", "zero_point", "redshift", "ebv", "hdf5_group")


def names_of(text: str | None) -> tuple[str, ...] | None:
    """Return the names of a comma-separated list."""
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


def numbers_of(text: str | None) -> tuple[float, ...] | None:
    """Return the numbers of a comma-separated list."""
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise click.BadParameter(f"'{text}' is not a list of numbers; write it like 0.16,0.5,0.84") from None


def load(path: str | None) -> RunConfig:
    """Return the configuration of a file, or the defaults."""
    return RunConfig() if path is None else load_config(path)


def with_schema(config: RunConfig, given: dict[str, Any]) -> RunConfig:
    """Return the configuration with the schema options of the command line put in."""
    options = {name: given.get(name) for name in SCHEMA_NAMES}
    for said, other in (("mag", "flux"), ("flux", "mag")):
        if options[said] is not None and options[other] is None:  # wins over the other in the configuration
            config = dataclasses.replace(config, schema=dataclasses.replace(config.schema, **{other: None}))
    return config.override("schema", bands=names_of(given.get("bands")), format=given.get("input_format"), **options)
