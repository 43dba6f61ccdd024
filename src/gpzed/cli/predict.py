"""`gpzed predict`."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from typing import Any

import click

from gpzed.cli.console import Terminal
from gpzed.cli.options import common, load, names_of, numbers_of, schema_options, with_schema
from gpzed.cli.show import show_flags, show_schema, show_sentinels
from gpzed.config import PredictConfig
from gpzed.distributed.lsdb import is_hats, predict_hats
from gpzed.workflows import load_pipeline, predict, predict_partitions


@click.command("predict")
@click.argument("model", metavar="MODEL")
@click.argument("catalogue", metavar="FILE")
@click.option(
    "--output",
    "-o",
    required=True,
    help="File to write: .parquet, .fits, .hdf5 or .csv. A folder if FILE is a HATS catalogue, or with --dask.",
)
@click.option("--config", "config_path", help="Configuration (TOML); sections [schema] and [predict] are used.")
@click.option(
    "--point",
    type=click.Choice(["best", "mean", "median", "mode"]),
    help="What z_phot is: the redshift of least expected loss (default), or another number from the density.",
)
@click.option("--positive/--no-positive", default=None, help="Cut densities at zero redshift. Default: cut.")
@click.option("--quantiles", help="Quantiles to add: 0.16,0.5,0.84 gives z_q16, z_q50, z_q84.")
@click.option(
    "--components/--no-components",
    default=None,
    help="Add every Gaussian of the mixture. Default: where there is more than one.",
)
@click.option("--columns", help="Columns of FILE to copy, instead of all: id,ra,dec.")
@click.option("--no-passthrough", is_flag=True, help="Copy no column of FILE.")
@click.option("--chunk-rows", type=int, help="Rows worked on at a time.")
@click.option("--format", "format_", help="Format of the output, if its suffix does not tell.")
@click.option("--resume", is_flag=True, help="Go on with an interrupted run.")
@click.option(
    "--dask",
    help="Cluster to predict on, file by file of a folder: local:N (processes of this machine) or tcp://HOST:PORT.",
)
@click.option("--threads", type=int, help="Threads to use; all cores by default.")
@schema_options
@common
def command(model: str, catalogue: str, output: str, **given: Any) -> int:
    """Predict a redshift for every row of FILE, with its uncertainty and where that comes from.

    Adds z_phot, z_mean, z_std, z_var_model, z_var_noise, z_var_input, z_coverage and z_flags to the columns of FILE;
    rows keep their order.
    FILE may be of any size: it is read in chunks.
    """
    if given["no_passthrough"] and given["columns"] is not None:
        raise click.UsageError("--columns names columns to copy and --no-passthrough copies none; give one of the two")
    if given["dask"] is not None and given["threads"] is not None:
        raise click.UsageError("workers of a cluster have the threads they were started with; leave out --threads")
    terminal = Terminal(given["quiet"])
    options = _options(model, given)
    schema = with_schema(load(given["config_path"]), given).schema
    try:
        report = _predict(
            given,
            model,
            catalogue,
            output,
            options,
            schema=schema,
            resume=given["resume"],
            reporter=terminal,
            on_plan=lambda used: show_schema(terminal, used),
        )
    except KeyboardInterrupt:
        arguments = [argument for argument in sys.argv[1:] if argument != "--resume"]
        terminal.error(f"interrupted; go on with:\n  {shlex.join(['gpzed', *arguments, '--resume'])}")
        return 1
    show_sentinels(terminal, report.sentinels)
    show_flags(terminal, report.flags, "objects")
    if given["as_json"]:
        terminal.json(report.to_dict())
    elif not given["quiet"]:
        rate = report.n_rows / max(report.seconds, 1e-9)
        terminal.result(
            f"wrote {report.output}: {report.n_rows:,} rows in {report.seconds:.1f} s ({rate:,.0f} rows/s); "
            f"added {', '.join(report.columns)}"
        )
    return 0


def _predict(given: dict[str, Any], model: str, catalogue: str, output: str, *arguments: Any, **options: Any) -> Any:
    """Predict for a HATS catalogue, for a folder on a cluster, or for one catalogue here."""
    if is_hats(catalogue):
        options |= {"dask": given["dask"], "n_threads": given["threads"]}
        return predict_hats(model, catalogue, output, *arguments, **options)
    if given["dask"] is not None:
        return predict_partitions(model, catalogue, output, *arguments, dask=given["dask"], **options)
    options |= {"format": given["format_"], "n_threads": given["threads"]}
    return predict(model, catalogue, output, *arguments, **options)


def _options(model: str, given: dict[str, Any]) -> PredictConfig:
    """Return what to write: the command line wins over the configuration, and this over the model file."""
    base = load(given["config_path"]).predict if given["config_path"] else load_pipeline(model).config.predict
    chosen = {
        "point": given["point"],
        "positive": given["positive"],
        "quantiles": numbers_of(given["quantiles"]),
        "components": given["components"],
        "columns": () if given["no_passthrough"] else names_of(given["columns"]),
        "chunk_rows": given["chunk_rows"],
    }
    return dataclasses.replace(base, **{key: value for key, value in chosen.items() if value is not None})
