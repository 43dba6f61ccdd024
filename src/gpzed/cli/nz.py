"""`gpzed nz`."""

from __future__ import annotations

import itertools
from typing import Any

import click
import numpy as np

from gpzed.cli.console import Terminal
from gpzed.cli.options import check_outputs, common, numbers_of, source, source_options
from gpzed.errors import ConfigError
from gpzed.workflows.stack import StackReport, stack, write_distribution


@click.command("nz")
@click.argument("predictions", metavar="PREDICTIONS")
@click.option("--output", "-o", help="Table to write: .csv, .parquet, .fits or .hdf5.")
@click.option("--figure", help="Figure to write: .pdf, .svg or .png.")
@click.option("--bins", help="Tomographic bins in z_phot: 0.2,0.4,0.6,0.8. Default: one sample of all.")
@click.option("--range", "limits", default="0,3", show_default=True, help="Range of redshifts.")
@click.option("--width", type=float, default=0.05, show_default=True, help="Width of the bins in redshift.")
@click.option("--weight", help="Column of weights.")
@click.option("--min-coverage", type=float, default=0.0, help="Leave out objects with a lower z_coverage.")
@click.option("--bootstrap", type=int, default=100, show_default=True, help="Resamples of the objects.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the bootstrap.")
@source_options()
@common
def command(predictions: str, **given: Any) -> int:
    """Stack the predictions of a file to the redshift distribution n(z) of its objects, with error bars.

    Error bars come from resampling the objects and, where PREDICTIONS holds the components of a committee, from the
    differences between its members.
    """
    terminal = Terminal(given["quiet"])
    check_outputs([predictions], given["output"], given["figure"])
    report = stack(
        source(predictions, given),
        _redshift_edges(given["limits"], given["width"]),
        sample_edges=_sample_edges(given["bins"]),
        weight=given["weight"],
        min_coverage=given["min_coverage"],
        n_resamples=given["bootstrap"],
        seed=given["seed"],
    )
    terminal.say(
        f"{report.n_rows:,} rows, {report.n_skipped:,} left out; "
        + (f"{report.n_members} members told apart" if report.n_members > 1 else "no members to compare")
    )
    terminal.save(given["output"], lambda path: write_distribution(report, path))
    terminal.save(given["figure"], lambda path: _draw(report, path))
    terminal.answer(given["as_json"], report.to_dict(), _lines(report))
    return 0


def _draw(report: StackReport, path: str) -> None:
    from gpzed.plots import plot_stack, save_figure

    save_figure(plot_stack(report.distribution), path)


def _redshift_edges(limits: str, width: float) -> Any:
    ends = numbers_of(limits)
    if ends is None or len(ends) != 2 or not ends[0] < ends[1] or not 0.0 < width <= ends[1] - ends[0]:
        raise ConfigError(f"--range {limits} and --width {width} make no bins; expected like --range 0,3 --width 0.05")
    n = round((ends[1] - ends[0]) / width)
    return np.linspace(ends[0], ends[1], n + 1)


def _sample_edges(text: str | None) -> tuple[float, ...] | None:
    edges = numbers_of(text)
    if edges is not None and (len(edges) < 2 or any(b <= a for a, b in itertools.pairwise(edges))):
        raise ConfigError(f"--bins {text} are no bins; expected two or more increasing numbers, like 0.2,0.4,0.6")
    return edges


def _lines(report: StackReport) -> list[str]:
    lines = ["z_phot           objects   mean z"]
    for sample in report.to_dict()["samples"]:
        low, high = sample["z_phot_from"], sample["z_phot_to"]
        name = "all" if low is None else f"{low:g} - {high:g}"
        mean = "" if sample["mean"] is None else f"{sample['mean']:.4f} +- {sample['mean_error']:.4f}"
        lines.append(f"{name:14s} {sample['n']:9,d}   {mean}")
    return lines
