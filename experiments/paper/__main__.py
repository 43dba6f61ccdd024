"""Run the experiments: ``python -m experiments.paper``, or ``make paper PAPER_ARGS=...``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from experiments.data import Source
from experiments.paper.bench import Bench, Table
from experiments.paper.run import EXPERIMENTS, PaperReport, draw_paper, find_experiments, quick_bench, run_paper
from experiments.rivals.base import Effort
from gpzed.cli.console import Terminal
from gpzed.cli.options import common, schema_options, with_schema
from gpzed.config import RunConfig
from gpzed.errors import ConfigError, GPzError

FORMATS = ("png", "svg", "pdf")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 done, 1 failure, 2 wrong usage."""
    try:
        return int(command.main(arguments, prog_name="python -m experiments.paper", standalone_mode=False))
    except click.ClickException as error:
        error.show()
        return 2
    except (GPzError, OSError) as error:
        Terminal().error(str(error))
        return 2 if isinstance(error, ConfigError) else 1


@click.command("paper")
@click.option("--all", "everything", is_flag=True, help="Every table and figure.")
@click.option("--table", "tables", multiple=True, metavar="NAME", help="A table: metrics, improvement, time, ...")
@click.option("--figure", "figures", multiple=True, metavar="NAME", help="A figure: complexity, rejection, sinc, ...")
@click.option("--list", "wants_list", is_flag=True, help="Show what there is, and stop.")
@click.option("--output", "-o", default="gpzed-paper", show_default=True, help="Folder for results and figures.")
@click.option("--from", "results", help="Draw from the results in this folder; nothing is computed.")
@click.option("--size", type=click.IntRange(min=100), default=100_000, show_default=True, help="Galaxies per set.")
@click.option("--catalogue", multiple=True, metavar="FILE", help="Real galaxies instead of simulated ones; repeatable.")
@click.option("--test", multiple=True, metavar="FILE", help="Catalogue to judge by; repeatable. Else a third of all.")
@click.option("--errors/--no-errors", default=True, help="Errors of the magnitudes as inputs, as in the paper, or not.")
@click.option("--annz2", multiple=True, metavar="FILE", help="Output of ANNz2 to add a row for.")
@click.option("--min-redshift", type=float, help="Only galaxies above this redshift.")
@click.option("--max-redshift", type=float, help="Only galaxies up to this redshift.")
@click.option("--max-iter", type=click.IntRange(min=1), help="Limit on iterations; by default that of each estimator.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of all that is random.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads to use; all cores by default.")
@click.option(
    "--format",
    "formats",
    multiple=True,
    type=click.Choice(FORMATS),
    help="Of the figures; by default lines as svg, others as png.",
)
@click.option("--record", is_flag=True, help="Print a JSON line for each file of results, and no tables.")
@click.option("--done-only", is_flag=True, help="Compute nothing: tables and figures of what is done so far.")
@click.option("--quick", is_flag=True, help="Everything small: shows that it works, not how well.")
@schema_options
@common
def command(everything: bool, tables: tuple[str, ...], figures: tuple[str, ...], **given: Any) -> int:
    """Reproduce the tables and figures of the paper, on simulated galaxies or on a real catalogue.

    Results go to OUTPUT/NAME.json, and figures are drawn from these alone. Results that exist already, of the same data
    and options, are not computed again: an interrupted run resumes where it stopped.
    """
    terminal = Terminal(given["quiet"])
    if given["wants_list"]:
        _show(terminal, _contents(), "", given["as_json"])
        return 0
    chosen = _chosen(everything, tables, figures)
    formats = tuple(given["formats"]) or None
    if given["results"]:
        reports = draw_paper(chosen, given["results"], given["output"], formats=formats)
    else:
        bench, done_only = _bench(given), given["done_only"]
        reports = run_paper(chosen, bench, formats=formats, progress=terminal, done_only=done_only)
    if given["as_json"]:
        terminal.json([{**r.content, "files": [str(path) for path in r.files]} for r in reports])
        return 0
    for report in reports:
        if given["record"]:
            click.echo(json.dumps(report.record))
        else:
            _print(terminal, report)
    return 0


def _chosen(everything: bool, tables: tuple[str, ...], figures: tuple[str, ...]) -> list[Any]:
    if everything and (tables or figures):
        raise ConfigError("--all is everything; leave out --table and --figure, or --all")
    if everything:
        return list(EXPERIMENTS.values())
    if not tables and not figures:
        raise ConfigError("nothing to do; give --all, --table NAME or --figure NAME, or --list for the names")
    found = [*find_experiments(tables, "table"), *find_experiments(figures, "figure")]
    return list(dict.fromkeys(found))


def _bench(given: dict[str, Any]) -> Bench:
    config = with_schema(RunConfig(), given)
    config = config.override("split", min_redshift=given["min_redshift"], max_redshift=given["max_redshift"])
    catalogues, tests = (tuple(map(_found, given[name])) for name in ("catalogue", "test"))
    source = Source(given["size"], given["seed"], catalogues, tests, config, given["errors"])
    effort = Effort(given["seed"], given["max_iter"], given["threads"])
    bench = Bench(source, effort, Path(given["output"]), annz2=given["annz2"])
    return quick_bench(bench) if given["quick"] else bench


def _found(path: str) -> str:
    """Return the path of a catalogue, which may be relative to the folder GPZED_DATA."""
    folder = os.environ.get("GPZED_DATA")
    return path if folder is None or Path(path).exists() else str(Path(folder) / path)


def _contents() -> Table:
    rows = [
        (e.name, e.where, " and ".join(["table"] * bool(e.table) + ["figure"] * bool(e.draw)), e.title)
        for e in EXPERIMENTS.values()
    ]
    return Table(("name", "in the paper", "is a", "what"), tuple(rows))


def _print(terminal: Terminal, report: PaperReport) -> None:
    if report.table is not None:
        _show(terminal, report.table, f"{report.experiment.name} ({report.experiment.where})", False)
    for path in report.files:
        terminal.say(f"  {path}")


def _show(terminal: Terminal, content: Table, title: str, as_json: bool) -> None:
    from rich.table import Table as RichTable

    if as_json:
        terminal.json([dict(zip(content.headings, row, strict=True)) for row in content.rows])
        return
    table = RichTable(*content.headings, box=None, pad_edge=False, title=title, title_justify="left")
    table.columns[0].no_wrap = True
    for row in content.rows:
        table.add_row(*row)
    terminal.table(table)


if __name__ == "__main__":
    sys.exit(main())
