"""`gpzed evaluate`."""

from __future__ import annotations

from typing import Any

import click
from rich.table import Table

from gpzed.cli.console import Terminal
from gpzed.cli.help import Command
from gpzed.cli.options import common, field_options, source, source_options, values_of
from gpzed.cli.show import bins_table, metrics_table, numbers_table, rejection_table, show_redshifts
from gpzed.evaluation.display import CHALLENGE, HEADINGS, SIGN
from gpzed.workflows import Evaluation, EvaluationOptions, evaluate, improvements

PERCENT = (25, 50, 75, 100)
"""Percentages kept in the table of --rejection."""

EXAMPLES = (
    "gpzed evaluate redshifts.parquet",
    "gpzed evaluate redshifts.parquet --bootstrap 100 --bins mag_i  # with error bars, and in bins of magnitude",
    "gpzed evaluate mine.parquet theirs.hdf5 --truth test.hdf5 --rejection  # two codes side by side",
)


@click.command("evaluate", cls=Command, examples=EXAMPLES)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@source_options("redshift", "min_redshift", "max_redshift", "truth")
@field_options(EvaluationOptions, "keep", "weight", "seed", "bins", "bin_width", "rejection", bootstrap="n_bootstrap")
@common
def command(files: tuple[str, ...], as_json: bool, quiet: bool, debug: bool, **given: Any) -> int:
    """Score predictions: FILEs that hold z_phot, z_std and true redshifts (z_spec), side by side.

    Files of qp (HDF5), which the codes of RAIL write, are scored by their densities.

    With dz = z_phot - z_spec, RMSE and bias are those of dz / (1 + z_spec): a positive bias means redshifts that are
    too high. FR0.15 is the percentage of objects with |dz| / (1 + z_spec) < 0.15. ODDS is the mean probability within
    0.098 (1 + z_phot) of z_phot, as in BPZ. With --json and one file: one object; with several: a list.
    """
    terminal = Terminal(quiet)
    options = EvaluationOptions(**values_of(EvaluationOptions, given))
    results = [evaluate(source(file, given), options) for file in files]
    for result in results:
        terminal.say(
            f"{result.path}: {result.n_used:,} of {result.n_rows:,} rows, true redshift in '{result.redshift}'"
        )
        show_redshifts(terminal, result.redshift_range, result.no_redshift, result.cuts)
    if as_json:
        stored = [result.to_dict() for result in results]
        terminal.json(stored[0] if len(stored) == 1 else stored)
    else:
        _show(terminal, results, options)
    return 0


def _show(terminal: Terminal, results: list[Evaluation], options: EvaluationOptions) -> None:
    scores = {result.path: {**result.metrics, "n": result.n_used} for result in results}
    errors = {result.path: result.errors for result in results}
    terminal.table(metrics_table(scores, "", errors))
    terminal.result("")
    terminal.table(metrics_table(scores, "as DESC's challenge defines them", errors, CHALLENGE))
    terminal.say(SIGN)
    for result in results:
        name = result.path if len(results) > 1 else ""
        if result.curves:
            terminal.result("")
            terminal.table(rejection_table(result.curves, name or "kept", PERCENT))
        if result.bins is not None:
            for table in bins_table(result.bins, f"{name} {options.bins}".strip()):
                terminal.result("")
                terminal.table(table)
    if options.rejection and len(results) > 1:
        terminal.result("")
        terminal.table(_gains(results))


def _gains(results: list[Evaluation]) -> Table:
    """Return by how much the first file is better than the others, averaged over the fractions kept."""
    gains = improvements(results)
    headings = {key: heading for key, heading, _ in HEADINGS}
    table = numbers_table(f"gain of {results[0].path} over, %", *gains)
    for name in next(iter(gains.values())):
        table.add_row(headings[name], *(f"{gain[name]:+.2f}" for gain in gains.values()))
    return table
