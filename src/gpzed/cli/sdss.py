"""`gpzed sdss`."""

from __future__ import annotations

import sys

import click

from gpzed.catalog import casjobs_query
from gpzed.cli.console import DEBUG
from gpzed.cli.options import names_of


@click.command("sdss")
@click.option("--sql", is_flag=True, required=True, help="Print the query.")
@click.option("--release", default="DR12", show_default=True, help="Data release.")
@click.option("--flags/--no-flags", default=True, help="Whether to leave out objects with bad photometry flags.")
@click.option("--table", default="mydb.modelmag_dataset", show_default=True, help="Table of your MyDB.")
@click.option("--limit", type=int, help="Only this many objects, for a try.")
@click.option("--bands", default="u,g,r,i,z", show_default=True, help="Bands.")
@DEBUG
def command(sql: bool, release: str, flags: bool, table: str, limit: int | None, bands: str, debug: bool) -> int:
    """Print the CasJobs query for the SDSS galaxies of the paper (appendix D)."""
    query = casjobs_query(release, bands=names_of(bands) or (), flags=None if flags else (), table=table, limit=limit)
    sys.stdout.write(query)
    return 0
