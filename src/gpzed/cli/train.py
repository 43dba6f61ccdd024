"""`gpzed train`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from gpzed._files import refuse_overwriting
from gpzed.cli.console import Terminal, on_stop
from gpzed.cli.help import Command
from gpzed.cli.options import common, field_options, load, schema_options, section_options, values_of, with_schema
from gpzed.cli.show import metrics_table, show_plan
from gpzed.config import RunConfig
from gpzed.errors import TrainingInterruptedError
from gpzed.model import Run
from gpzed.workflows import plan_training, train

EXAMPLES = (
    "gpzed train spectra.fits -o galaxies.gpzed  # columns recognised by their names",
    "gpzed train spectra.fits -o galaxies.gpzed --bands u,g,r,i,z --redshift ZSPEC --seed 1  # some columns named",
    "gpzed train spectra.fits -o galaxies.gpzed --target survey.fits  # for a survey that is fainter than the spectra",
    "gpzed train deep.parquet -o deep.gpzed --redshift zspec,zphot_manyband --nan not-detected  # imperfect labels",
    "gpzed train spectra.fits --dry-run  # what would be done",
)


@click.command("train", cls=Command, examples=EXAMPLES)
@click.argument("catalogue", metavar="FILE")
@click.option("--output", "-o", help="Model file to write; needed unless --dry-run.")
@click.option("--config", "config_path", help="Configuration (TOML); options of the command line win over it.")
@schema_options
@section_options("schema", "redshift_err", "redshift_wrong", "redshift_quality")
@section_options("sentinels", "nan")
@section_options("", "seed")
@section_options(
    "model",
    "n_basis",
    "covariance",
    "wrong_labels",
    members="n_members",
    heads="n_heads",
    networks="n_networks",
    threads="n_threads",
)
@section_options("training", "max_iter", "max_time")
@section_options("features", "magnitudes", "errors", "colours")
@section_options("weights", weights="method")
@section_options("target", target="catalogue")
@section_options("target", "adapt", "simulated")
@section_options("split", "validation", "test", "min_redshift", "max_redshift", split_column="column")
@field_options(Run, "checkpoint", "checkpoint_every", dask="cluster")
@click.option("--resume", is_flag=True, help="Resume an interrupted run.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and stop.")
@common
def command(catalogue: str, output: str | None, dry_run: bool, **given: Any) -> int:
    """Train a model on FILE, a catalogue with photometry and spectroscopic redshifts.

    Columns are recognised by their names (mag_g, mag_err_g, z_spec; SDSS, LSST, DES, HSC, KiDS, Euclid), and shown.
    """
    terminal = Terminal(given["quiet"])
    config = _config(given)
    if dry_run:
        plan = plan_training(catalogue, config, terminal)
        show_plan(terminal, plan, config)
        if given["as_json"]:
            terminal.json({**plan.to_dict(), "config": config.to_dict(), "dry_run": True})
        terminal.say("dry run: nothing was trained or written")
        return 0
    if output is None:
        raise click.UsageError("give the model file to write: -o MODEL (or --dry-run to see what would be done)")
    refuse_overwriting(output, "the model", [given["config_path"]])
    with _stop_on_request(terminal) as should_stop:
        try:
            model = train(
                catalogue,
                output,
                config,
                run=Run(**values_of(Run, given), should_stop=should_stop),
                resume=given["resume"],
                progress=terminal,
                on_plan=lambda plan: show_plan(terminal, plan, config),
            )
        except TrainingInterruptedError as stopped:
            terminal.error(f"{stopped}. Resume with:\n  {_resume_command()}")
            return 1
    report = model.report
    assert report is not None
    if given["as_json"]:
        terminal.json(report.to_dict())
    else:
        _show_scores(terminal, report.scores)
        terminal.result(
            f"wrote {report.model_path}: {report.n_members} x {report.n_basis} basis functions, trained in "
            f"{report.seconds:.1f} s ({', '.join(sorted(set(report.status)))})"
        )
    return 0


SCORED = {
    "test": "of test rows, which were put aside",
    "held_out": "of held-out rows, by members not trained on them; they chose iterates, and widths of densities",
    "validation": "of validation rows, which chose the iterates",
}
"""Rows that scores are shown of, and what they are."""


def _show_scores(terminal: Terminal, scores: dict[str, dict[str, float]]) -> None:
    """Show the scores of rows that the model has not seen; those of its training rows only if there are no others."""
    shown = {name: scores[name] for name in SCORED if name in scores}
    for name in shown:
        terminal.say(f"scores {SCORED[name]}")
    if not shown:
        terminal.warn("scores of the training rows themselves, which are too good; set rows aside with --test 0.2")
    terminal.table(metrics_table({name.replace("_", "-"): part for name, part in (shown or scores).items()}, ""))


def _config(given: dict[str, Any]) -> RunConfig:
    config = with_schema(load(given["config_path"]), given)
    split = values_of("split", given)
    parts = {"validation", "test"} & split.keys()
    if "column" not in split and parts:
        split["column"] = ""  # parts on the command line win over the column of the configuration
    elif split.get("column") and not parts:
        split |= {"validation": 0.0, "test": 0.0}
    config = config.override("split", **split)
    for section in ("", "sentinels", "model", "training", "features", "weights", "target"):
        config = config.override(section, **values_of(section, given))
    return config


def _resume_command() -> str:
    arguments = [argument for argument in sys.argv[1:] if argument != "--resume"]
    return shlex.join(["gpzed", *arguments, "--resume"])


@contextmanager
def _stop_on_request(terminal: Terminal) -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C ask training to stop at a good place, the second stop it at once."""
    asked = False

    def handle(number: int, frame: Any) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        terminal.warn_at_once("stopping after the next step, to leave a checkpoint (Ctrl-C again: at once)")

    with on_stop(handle):
        yield lambda: asked
