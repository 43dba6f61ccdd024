"""`gpzed report`."""

from __future__ import annotations

from typing import Any

import click

from gpzed.cli.console import Terminal
from gpzed.cli.help import Command
from gpzed.cli.options import common, names_of, source, source_options
from gpzed.workflows import write_report

EXAMPLES = (
    "gpzed report redshifts.parquet -o report.html",
    "gpzed report redshifts.parquet -o report.html --training spectra.fits  # training against target in colours",
    'gpzed report mine.parquet theirs.hdf5 -o comparison.html --title "Two codes"',
)


@click.command("report", cls=Command, examples=EXAMPLES)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--output", "-o", required=True, help="Page to write: report.html.")
@click.option("--title", help="Title of the page.")
@click.option("--training", help="Training catalogue, to compare with the objects in the space of colours.")
@click.option("--objects", help="Identifiers of objects to tell everything about: 17,23. Others are a sample.")
@source_options("truth", "redshift", "id", "min_redshift", "max_redshift")
@common
def command(files: tuple[str, ...], output: str, title: str | None, **given: Any) -> int:
    """Make one interactive page about predictions: FILEs that hold z_phot, z_std and, for scores, true redshifts.

    The page is one file that works offline. Its slider keeps the objects with the smallest predicted variance, and
    shows what that does to scatter, bias, n(z) and scores. A click on an object, or a search for its id, shows its
    p(z); in large FILEs, that of a sample. Several FILEs can be compared on one page.
    """
    terminal = Terminal(given["quiet"])
    report = write_report(
        [source(file, given) for file in files],
        output,
        title=title,
        training=given["training"],
        objects=names_of(given["objects"]) or (),
        progress=terminal,
    )
    if given["as_json"]:
        terminal.json(report.to_dict())
    elif not given["quiet"]:
        terminal.result(f"wrote {report.output}: {report.size / 1e6:.1f} MB; open it in a browser")
    return 0
