"""`gpzed report`."""

from __future__ import annotations

from typing import Any

import click

from gpzed.cli.console import Terminal
from gpzed.cli.options import common
from gpzed.workflows import write_report


@click.command("report")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--output", "-o", required=True, help="Page to write: report.html.")
@click.option("--title", help="Title of the page.")
@click.option("--truth", metavar="CATALOGUE", help="True redshifts, row by row, for files of qp that have none.")
@click.option("--redshift", help="Column of the true redshift; guessed by its name otherwise.")
@click.option("--id", help="Column of the identifiers; guessed by its name otherwise.")
@click.option("--min-redshift", type=float, help="Only rows above this redshift.")
@click.option("--max-redshift", type=float, help="Only rows up to this redshift.")
@click.option("--input-format", "format", help="Format of the files, if the suffix does not tell.")
@common
def command(files: tuple[str, ...], output: str, as_json: bool, quiet: bool, debug: bool, **given: Any) -> int:
    """Make one interactive page about predictions: FILEs that hold z_phot, z_std and, for scores, true redshifts.

    The page is one file that works offline. Its slider keeps the objects with the smallest predicted variance, and
    shows what that does to scatter, bias, n(z) and scores. Several FILEs can be compared on one page.
    """
    terminal = Terminal(quiet)
    report = write_report(files, output, reporter=terminal, **given)
    if as_json:
        terminal.json(report.to_dict())
    elif not quiet:
        terminal.result(f"wrote {report.output}: {report.size / 1e6:.1f} MB; open it in a browser")
    return 0
