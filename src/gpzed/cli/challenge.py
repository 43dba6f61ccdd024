"""`gpzed challenge`."""

from __future__ import annotations

from typing import Any

import click

from gpzed.cli.console import Terminal
from gpzed.cli.help import Command
from gpzed.cli.options import common, section_options, values_of
from gpzed.errors import ConfigError
from gpzed.workflows.challenge import EntryReport, make_entry

EXAMPLES = ("gpzed challenge data -o entry --name mine --seed 1",)


@click.command("challenge", cls=Command, examples=EXAMPLES)
@click.argument("folder", metavar="FOLDER")
@click.option("--output", "-o", required=True, help="Folder for the entry.")
@click.option("--name", default="gpzed", show_default=True, help="Name of the entry.")
@click.option("--tasksets", help="Task sets to enter, like 1,2. Default: all whose files are there.")
@section_options("", "seed")
@section_options("model", "n_basis", members="n_members", heads="n_heads", networks="n_networks", threads="n_threads")
@section_options("training", "max_iter")
@common
def command(folder: str, output: str, name: str, tasksets: str | None, **given: Any) -> int:
    """Make an entry to DESC's photo-z data challenge from the training and test files in FOLDER.

    For every pair pz_challenge_taskset_N_SIMULATION_{training,test}_SCENARIO.hdf5 it trains a model, writes the qp
    ensemble with zmode and object_id, and repeats the challenge's checks. Beside them it writes the two functions for
    each task set and the requirements file. A second run uses the models that are there.
    """
    terminal = Terminal(given["quiet"])
    options = {key: value for section in ("", "model", "training") for key, value in values_of(section, given).items()}
    reports = make_entry(folder, output, name=name, tasksets=_numbers(tasksets), progress=terminal, **options)
    terminal.answer(given["as_json"], [report.to_dict() for report in reports], _lines(reports))
    return 1 if any(report.problems for report in reports) else 0


def _numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"--tasksets {text} are no numbers; expected like --tasksets 1,2") from None


def _lines(reports: list[EntryReport]) -> list[str]:
    lines = ["task set   simulation  scenario     rows   train s  estimate s  model MB  bytes/object  checks"]
    for r in reports:
        lines.append(
            f"{r.taskset:8d}   {r.simulation:10s}  {r.scenario:8s} {r.rows:8,d} {r.training_seconds:9.1f} "
            f"{r.estimation_seconds:11.1f} {r.model_bytes / 1e6:9.2f} {r.bytes_per_object:13.0f}  "
            + ("; ".join(r.problems) or "passed")
        )
    return lines
