"""`gpzed demo`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from gpzed.cli.console import Terminal
from gpzed.cli.help import Command
from gpzed.cli.options import common
from gpzed.cli.show import metrics_table
from gpzed.demo import DEFAULT_SIZE, REPORT, run_demo

EXAMPLES = (
    "gpzed demo",
    "gpzed demo --survey lsst --size 5000 --out try  # smaller, in another folder",
)


@click.command("demo", cls=Command, examples=EXAMPLES)
@click.option("--survey", type=click.Choice(["sdss", "lsst"]), default="sdss", show_default=True, help="Which survey.")
@click.option("--size", type=click.IntRange(min=200), default=DEFAULT_SIZE, show_default=True, help="Galaxies per set.")
@click.option("--out", default="gpzed-demo", show_default=True, help="Folder for everything it makes.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of all that is random.")
@common
def command(survey: str, size: int, out: str, seed: int, **given: Any) -> int:
    """Simulate a survey, train, predict and evaluate; leaves model, predictions, figures and a log in a folder."""
    terminal = Terminal(given["quiet"])
    start = time.monotonic()
    report = run_demo(out, survey=survey, size=size, seed=seed, progress=terminal)
    scores = {f"{survey} test set": {**report.evaluation.metrics, "n": report.evaluation.n_used}}
    terminal.say(f"done in {time.monotonic() - start:.0f} s: {len(report.files)} files in '{report.folder}'")
    lines = [*terminal.log, *(f"{name}: {value:.6g}" for name, value in report.evaluation.metrics.items())]
    Path(out, "demo.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if given["as_json"]:
        terminal.json(report.to_dict())
    else:
        terminal.table(metrics_table(scores, ""))
        terminal.result(f"open {Path(report.folder, REPORT)} in a browser first")
    return 0
