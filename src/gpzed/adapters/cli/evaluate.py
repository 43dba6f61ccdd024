"""`gpzed evaluate`."""

from __future__ import annotations

from typing import Any

import click

from gpzed.adapters.cli.console import Terminal
from gpzed.adapters.cli.options import common
from gpzed.adapters.cli.show import metrics_table, show_redshifts
from gpzed.pipeline import evaluate


@click.command("evaluate")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--redshift", help="Column of the true redshift; guessed by its name otherwise.")
@click.option("--min-redshift", type=float, help="Only rows above this redshift.")
@click.option("--max-redshift", type=float, help="Only rows up to this redshift.")
@click.option("--truth", metavar="CATALOGUE", help="True redshifts, row by row, for files of qp that have none.")
@click.option("--input-format", help="Format of the files, if the suffix does not tell.")
@common
def command(files: tuple[str, ...], **given: Any) -> int:
    """Score predictions: FILEs that hold z_phot, z_std and true redshifts (z_spec), side by side.

    Files of qp (HDF5), which the codes of RAIL write, are scored by their densities.

    RMSE, MLL, FR and bias are those of the paper (section 6.3): FR0.15 is the percentage of objects with
    |z_spec - z_phot| / (1 + z_spec) < 0.15. With --json and one file: one object; with several: a list.
    """
    terminal = Terminal(given["quiet"])
    results = evaluate(
        files,
        redshift=given["redshift"],
        min_redshift=given["min_redshift"],
        max_redshift=given["max_redshift"],
        format=given["input_format"],
        truth=given["truth"],
    )
    for result in results:
        terminal.say(
            f"{result.path}: {result.n_used:,} of {result.n_rows:,} rows, true redshift in '{result.redshift}'"
        )
        show_redshifts(terminal, result.redshift_range, result.no_redshift)
    if given["as_json"]:
        stored = [result.to_dict() for result in results]
        terminal.json(stored[0] if len(stored) == 1 else stored)
    else:
        terminal.table(metrics_table({r.path: {**r.metrics, "n": r.n_used} for r in results}, ""))
    return 0
