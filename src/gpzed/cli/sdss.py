"""`gpzed sdss`."""

from __future__ import annotations

import sys

import click

from gpzed._files import check_output
from gpzed.catalog import casjobs_query, download_sdss, write_catalog
from gpzed.cli.console import DEBUG, Terminal
from gpzed.cli.help import Command
from gpzed.cli.options import names_of

EXAMPLES = (
    "gpzed sdss --sql > query.sql  # for CasJobs",
    "gpzed sdss --sql --release DR17 --limit 10000",
    "gpzed sdss --download sdss.fits --limit 20000  # a small sample, from the server",
)


@click.command("sdss", cls=Command, examples=EXAMPLES)
@click.option("--sql", is_flag=True, help="Print the query.")
@click.option("--download", metavar="FILE", help="Fetch a small sample, and write it to FILE; needs astroquery.")
@click.option("--release", help="Data release; DR12 for --sql and DR17 for --download by default.")
@click.option("--flags/--no-flags", default=True, help="Whether to leave out objects with bad photometry flags.")
@click.option("--table", default="mydb.modelmag_dataset", show_default=True, help="Table of your MyDB.")
@click.option("--limit", type=int, help="Only this many objects; 10000 for --download by default.")
@click.option("--bands", default="u,g,r,i,z", show_default=True, help="Bands.")
@DEBUG
def command(
    sql: bool,
    download: str | None,
    release: str | None,
    flags: bool,
    table: str,
    limit: int | None,
    bands: str,
    debug: bool,
) -> int:
    """Print the CasJobs query for the SDSS galaxies of the paper (appendix D), or fetch a small sample of them."""
    if sql == (download is not None):
        raise click.UsageError("give --sql to print the query, or --download FILE to fetch a small sample")
    chosen, unwanted = names_of(bands) or (), None if flags else ()
    if download is None:
        sys.stdout.write(casjobs_query(release or "DR12", bands=chosen, flags=unwanted, table=table, limit=limit))
        return 0
    check_output(download, "the sample")
    sample = download_sdss(10_000 if limit is None else limit, release or "DR17", bands=chosen, flags=unwanted)
    write_catalog(sample, download)
    Terminal().result(f"wrote {download}: {len(sample):,} galaxies")
    return 0
