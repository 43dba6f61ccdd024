"""`gpzed select`."""

from __future__ import annotations

import sys
from typing import Any

import click

from gpzed.cli.console import Terminal
from gpzed.cli.help import Command
from gpzed.cli.options import common, field_options, names_of, source, source_options, values_of
from gpzed.cli.show import metrics_table
from gpzed.workflows import Criteria, SelectionReport, select

EXAMPLES = (
    "gpzed select redshifts.parquet --keep 0.5 -o reliable.csv  # the most certain half",
    "gpzed select redshifts.parquet --max-rmse 0.02 --columns ra,dec -o reliable.fits  # as many as the error allows",
)


@click.command("select", cls=Command, examples=EXAMPLES)
@click.argument("predictions", metavar="FILE")
@field_options(Criteria, "keep", "max_std", "max_rmse", "max_risk", "by_risk", "min_completeness", "expected")
@click.option("--output", "-o", help="File to write: .csv, .parquet, .fits or .hdf5. Default: ids to the screen.")
@click.option("--columns", help="Other columns of FILE to write: ra,dec.")
@source_options("id", "truth", "redshift")
@click.option("--format", "format_", help="Format of the output, if its suffix does not tell.")
@common
def command(predictions: str, output: str | None, **given: Any) -> int:
    """Choose the objects of FILE with the smallest predicted variance, or risk, as many as all criteria allow.

    Writes their ids, z_phot, z_std and z_risk to a file, or the ids alone to standard output, one per line. Says what
    was traded: how many objects for which RMSE and bias of dz/(1+z) and FR, where FILE has true redshifts.
    """
    if given["columns"] is not None and output is None:
        raise click.UsageError("--columns are written to a file; name it with -o")
    criteria = Criteria(**values_of(Criteria, given))
    terminal = Terminal(given["quiet"])
    report = select(
        source(predictions, given), criteria, output, columns=names_of(given["columns"]) or (), format=given["format_"]
    )
    if given["as_json"]:
        terminal.json(report.to_dict() | ({} if output is not None else {"ids": report.ids.tolist()}))
        return 0
    _tell(terminal, report)
    if output is None:
        sys.stdout.write("".join(f"{identifier}\n" for identifier in report.ids.tolist()))
    elif not given["quiet"]:
        terminal.result(f"wrote {report.output}: {report.n_kept:,} objects")
    return 0


def _tell(terminal: Terminal, report: SelectionReport) -> None:
    """Say what was traded for what."""
    what = f"column '{report.id}'" if report.id else "no identifier is known, so rows are numbered from 0"
    terminal.say(f"{report.path}: {report.n_objects:,} of {report.n_rows:,} rows have a prediction; {what}")
    terminal.say(
        f"kept {report.n_kept:,} of {report.n_objects:,} objects ({100 * report.completeness:.2f} %), with a predicted "
        f"standard deviation up to {report.max_std:.4g}; the limit is set by --{report.binding.replace('_', '-')}"
    )
    before, after = report.expected_rmse
    terminal.say(f"RMSE of dz/(1+z) expected from the predicted variances: {before:.4f} before, {after:.4f} after")
    if not report.before:
        terminal.say("no true redshifts in the file: what was gained is not measured")
        return
    if report.n_truth < report.n_objects:
        terminal.say(f"measured on the {report.n_truth:,} objects with a true redshift, {report.cuts}:")
    terminal.note(metrics_table({"all": report.before, "kept": report.after}, ""))
