"""`gpzed train`."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from gpzed.cli.console import Terminal
from gpzed.cli.options import common, load, schema_options, with_schema
from gpzed.cli.show import metrics_table, show_plan
from gpzed.config import RunConfig
from gpzed.errors import TrainingInterruptedError
from gpzed.model import Run
from gpzed.workflows import plan_training, train


@click.command("train")
@click.argument("catalogue", metavar="FILE")
@click.option("--output", "-o", help="Model file to write; needed unless --dry-run.")
@click.option("--config", "config_path", help="Configuration (TOML); options of the command line win over it.")
@schema_options
@click.option("--seed", type=int, help="Seed of all that is random.")
@click.option("--n-basis", help="Number of basis functions, or 'auto'.")
@click.option("--covariance", help="Structure of the basis functions: VC, GC, VD, GD, VL or GL.")
@click.option("--members", type=int, help="Models in the committee.")
@click.option("--heads", type=int, help="Gaussians that one model gives for an object; 1 for the paper's model.")
@click.option("--max-iter", type=int, help="Limit on iterations, per member.")
@click.option("--max-time", type=float, help="Limit on seconds, per member.")
@click.option("--magnitudes", type=click.Choice(["auto", "asinh", "pogson"]), help="Kind of magnitudes as inputs.")
@click.option(
    "--errors",
    type=click.Choice(["inputs", "noise", "both", "none"]),
    help="Errors as inputs, as their noise (where the target is shallower or deeper), as both, or not at all.",
)
@click.option("--colours/--no-colours", default=None, help="Whether inputs are colours and one magnitude.")
@click.option("--weights", help="Cost weights: none, redshift, balanced, column or target.")
@click.option("--target", help="Catalogue that the training photometry is weighted to look like.")
@click.option("--split-column", help="Column that says train, validation or test.")
@click.option("--validation", type=float, help="Part of the rows that only chooses the iterate.")
@click.option("--test", type=float, help="Part of the rows put aside and scored.")
@click.option("--min-redshift", type=float, help="Leave out rows at or below this redshift.")
@click.option("--max-redshift", type=float, help="Leave out rows above this redshift.")
@click.option("--threads", type=int, help="Threads to use; all cores by default.")
@click.option("--dask", help="Cluster to train on: local:N (processes of this machine) or tcp://HOST:PORT.")
@click.option("--checkpoint", help="Where to keep the state of training. Default: MODEL.checkpoint.")
@click.option(
    "--checkpoint-every", type=int, default=Run.checkpoint_every, show_default=True, help="Steps between checkpoints."
)
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
    with _stop_on_interrupt(terminal) as should_stop:
        try:
            report = train(
                catalogue,
                output,
                config,
                run=Run(
                    checkpoint=given["checkpoint"],
                    checkpoint_every=given["checkpoint_every"],
                    should_stop=should_stop,
                    cluster=given["dask"],
                ),
                resume=given["resume"],
                reporter=terminal,
                on_plan=lambda plan: show_plan(terminal, plan, config),
            )
        except TrainingInterruptedError as stopped:
            terminal.error(f"{stopped}. Go on with:\n  {_resume_command()}")
            return 1
    if given["as_json"]:
        terminal.json(report.to_dict())
    else:
        terminal.table(metrics_table(report.scores, ""))
        terminal.result(
            f"wrote {report.model_path}: {report.n_members} x {report.n_basis} basis functions, trained in "
            f"{report.seconds:.1f} s ({', '.join(sorted(set(report.status)))})"
        )
    return 0


def _config(given: dict[str, Any]) -> RunConfig:
    config = with_schema(load(given["config_path"]), given)
    config = config.override("", seed=given["seed"])
    config = config.override(
        "model",
        n_basis=_n_basis(given["n_basis"]),
        covariance=given["covariance"],
        n_members=given["members"],
        n_heads=given["heads"],
        n_threads=given["threads"],
    )
    config = config.override("training", max_iter=given["max_iter"], max_time=given["max_time"])
    config = config.override(
        "features", magnitudes=given["magnitudes"], errors=given["errors"], colours=given["colours"]
    )
    method = given["weights"] or ("target" if given["target"] else None)
    target = "" if given["target"] is None and method not in (None, "target") else given["target"]
    config = config.override("weights", method=method, target=target)
    column, validation, test = given["split_column"], given["validation"], given["test"]
    if column is None and (validation is not None or test is not None):
        column = ""  # parts on the command line win over the column of the configuration
    elif column and validation is None and test is None:
        validation = test = 0.0
    return config.override(
        "split",
        column=column,
        validation=validation,
        test=test,
        min_redshift=given["min_redshift"],
        max_redshift=given["max_redshift"],
    )


def _n_basis(text: str | None) -> int | str | None:
    if text is None or text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise click.BadParameter(f"'{text}' is not a number of basis functions; give one, or 'auto'") from None


def _resume_command() -> str:
    arguments = [argument for argument in sys.argv[1:] if argument != "--resume"]
    return shlex.join(["gpzed", *arguments, "--resume"])


@contextmanager
def _stop_on_interrupt(terminal: Terminal) -> Iterator[Any]:
    """Let the first Ctrl-C ask training to stop at a good place, the second stop it at once."""
    asked = False

    def handle(number: int, frame: Any) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        terminal.warn("stopping after the next step, to leave a checkpoint (Ctrl-C again: at once)")

    try:
        before = signal.signal(signal.SIGINT, handle)
    except ValueError:  # not in the main thread
        yield lambda: False
        return
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)
