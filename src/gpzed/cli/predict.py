"""`gpzed predict`."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from typing import Any

import click

from gpzed._files import refuse_overwriting
from gpzed.cli.console import Terminal
from gpzed.cli.help import Command
from gpzed.cli.options import common, load, schema_options, section_options, values_of, with_schema
from gpzed.cli.show import show_flags, show_schema, show_sentinels
from gpzed.config import PDF_GRID, PredictConfig, RunConfig
from gpzed.workflows import PredictReport, load_photoz_model, predict
from gpzed.workflows.columns import grouped

EXAMPLES = (
    "gpzed predict galaxies.gpzed survey.fits -o redshifts.parquet  # all columns of the survey, and the redshifts",
    "gpzed predict galaxies.gpzed survey.fits -o redshifts.parquet --resume  # after an interruption",
    "gpzed predict galaxies.gpzed survey.fits -o z.fits --columns objid,ra,dec --quantiles 0.16,0.84  # a smaller file",
)


@click.command("predict", cls=Command, examples=EXAMPLES)
@click.argument("model", metavar="MODEL")
@click.argument("catalogue", metavar="FILE")
@click.option(
    "--output",
    "-o",
    required=True,
    help="File to write: .parquet, .fits, .hdf5, .csv, .ecsv or .vot. A folder if FILE is one (HATS, or with --dask).",
)
@click.option("--config", "config_path", help="Configuration (TOML); sections [schema] and [predict] are used.")
@section_options(
    "predict", "point", "positive", "quantiles", "pdf", "pdf_grid", "columns", "chunk_rows", "risk", "exact"
)
@click.option("--pdf-file", help="File for the densities, beside the output, which then has the points only.")
@click.option("--qp", "as_qp", is_flag=True, help="Write an HDF5 file of qp: -o out.hdf5 --qp.")
@click.option("--no-passthrough", is_flag=True, help="Copy no column of FILE.")
@click.option("--format", "format_", help="Format of the output, if its suffix does not tell.")
@click.option("--resume", is_flag=True, help="Resume an interrupted run.")
@click.option(
    "--dask",
    help="Cluster to predict on, file by file of a folder: local:N (processes of this machine) or tcp://HOST:PORT.",
)
@click.option("--threads", type=int, help="Threads to use; all cores by default.")
@schema_options
@common
def command(model: str, catalogue: str, output: str, **given: Any) -> int:
    """Predict a redshift for every row of FILE, with its uncertainty and where that comes from.

    Adds z_phot, z_mean, z_std, z_var_model, z_var_noise, z_var_input, z_coverage, z_flags and the densities (--pdf) to
    the columns of FILE; rows keep their order.
    FILE may be of any size: it is read in chunks.
    """
    if given["no_passthrough"] and given["predict__columns"] is not None:
        raise click.UsageError("--columns names columns to copy and --no-passthrough copies none; give one of the two")
    if given["dask"] is not None and given["threads"] is not None:
        raise click.UsageError("workers of a cluster have the threads they were started with; leave out --threads")
    if given["as_qp"] and given["format_"] is not None:
        raise click.UsageError("--qp and --format both say what is written; give one of the two")
    refuse_overwriting(output, "the predictions", [model, catalogue, given["config_path"]])
    terminal = Terminal(given["quiet"])
    trained = load_photoz_model(model)
    config = with_schema(load(given["config_path"]), given)
    try:
        report = predict(
            trained,
            catalogue,
            output,
            _options(config if given["config_path"] else trained.config, given),
            schema=config.schema,
            format="qp" if given["as_qp"] else given["format_"],
            pdf_file=given["pdf_file"],
            resume=given["resume"],
            n_threads=given["threads"],
            cluster=given["dask"],
            progress=terminal,
            on_plan=lambda used, silent: show_schema(terminal, used, silent),
        )
    except KeyboardInterrupt:
        arguments = [argument for argument in sys.argv[1:] if argument != "--resume"]
        terminal.error(f"interrupted; resume with:\n  {shlex.join(['gpzed', *arguments, '--resume'])}")
        return 1
    assert isinstance(report, PredictReport)
    n_computed = report.n_rows - report.n_resumed
    if report.n_resumed:
        terminal.say(f"of the {n_computed:,} rows computed in this run (flags: of all {report.n_rows:,} rows):")
    show_sentinels(terminal, report.sentinels)
    show_flags(terminal, report.flags, "objects")
    if given["as_json"]:
        terminal.json(report.to_dict())
    elif not given["quiet"]:
        rate = n_computed / max(report.seconds, 1e-9)
        kept = f", {report.n_resumed:,} of them by an earlier run," if report.n_resumed else ""
        terminal.result(
            f"wrote {report.output}: {report.n_rows:,} rows{kept} in {report.seconds:.1f} s ({rate:,.0f} rows/s); "
            f"added {grouped(report.columns)}"
        )
    return 0


def _options(config: RunConfig, given: dict[str, Any]) -> PredictConfig:
    """Return what to write: the command line wins over the configuration, and this over the model file."""
    chosen = values_of("predict", given) | ({"columns": ()} if given["no_passthrough"] else {})
    if chosen.get("pdf", "grid") != "grid":  # nor on a grid that the configuration has
        config = replace(config, predict=replace(config.predict, pdf_grid=PDF_GRID))
    return config.override("predict", **chosen).predict
