"""`gpzed nz`."""

from __future__ import annotations

import itertools
from typing import Any

import click
import numpy as np

from gpzed.cli.console import Terminal
from gpzed.cli.help import Command
from gpzed.cli.options import check_outputs, common, numbers_of, source, source_options
from gpzed.errors import ConfigError
from gpzed.evaluation.stack import redshift_bins
from gpzed.workflows.nzfile import write_qp, write_realisations
from gpzed.workflows.predictions import read_predictions
from gpzed.workflows.stack import StackReport, stack, write_distribution

MAX_OUTSIDE = 0.01
"""Part of the probability outside the range of redshifts from which on it is worth a warning."""
DEFAULT_BINS = 60
"""Bins in a range of redshifts of which the width is left open."""

EXAMPLES = (
    "gpzed nz redshifts.parquet -o nz.csv --figure nz.pdf",
    "gpzed nz redshifts.parquet --bins 0.2,0.4,0.6,0.8 -o nz.fits  # in tomographic bins",
    "gpzed nz redshifts.parquet --bins 5 --realisations nz.hdf5  # of equal numbers, with covariance and modes",
)


@click.command("nz", cls=Command, examples=EXAMPLES)
@click.argument("predictions", metavar="PREDICTIONS")
@click.option("--output", "-o", help="Table to write: .csv, .parquet, .fits or .hdf5.")
@click.option("--realisations", help="HDF5 file to write, with realisations, their covariance and modes.")
@click.option("--qp", help="Ensemble of qp to write, a histogram for each bin: .hdf5.")
@click.option("--figure", help="Figure to write: .pdf, .svg or .png.")
@click.option("--bins", help="Tomographic bins: edges in z_phot like 0.2,0.4,0.6, or how many of equal numbers.")
@click.option("--bin-column", help="Column whose values are the tomographic bins.")
@click.option("--range", "limits", help="Range of redshifts, like 0,3. Default: all that is predicted.")
@click.option("--width", type=float, help="Width of the bins in redshift. Default: half a typical error.")
@click.option("--weight", help="Column of weights.")
@click.option("--min-coverage", type=float, default=0.0, help="Leave out objects with a lower z_coverage.")
@click.option("--bootstrap", type=int, default=100, show_default=True, help="Resamples of the objects.")
@click.option("--draws", type=int, default=200, show_default=True, help="Realisations of n(z).")
@click.option("--labels", type=float, help="Redshifts the model was trained on. Default: what PREDICTIONS says.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of all that is random.")
@source_options()
@common
def command(predictions: str, **given: Any) -> int:
    """Stack the predictions of a file to the redshift distribution n(z) of its objects, with error bars.

    Errors of mean redshifts come from realisations: what single redshifts and a finite training set leave open. Those
    of n(z) are also given from resampling the objects and from the differences between members of a committee, where
    PREDICTIONS tells these apart.
    """
    terminal = Terminal(given["quiet"])
    asked = source(predictions, given)
    check_outputs(asked.files, given["output"], given["figure"], given["realisations"], given["qp"])
    n_samples, edges = _samples(given["bins"])
    report = stack(
        asked,
        _redshift_edges(asked, given["limits"], given["width"]),
        sample_edges=edges,
        n_samples=n_samples,
        sample_column=given["bin_column"],
        weight=given["weight"],
        min_coverage=given["min_coverage"],
        n_resamples=given["bootstrap"],
        n_realisations=given["draws"],
        n_labels=given["labels"],
        seed=given["seed"],
    )
    _say(terminal, report)
    terminal.save(given["output"], lambda path: write_distribution(report, path))
    terminal.save(given["realisations"], lambda path: write_realisations(report, path))
    terminal.save(given["qp"], lambda path: write_qp(report, path))
    terminal.save(given["figure"], lambda path: _draw(report, path))
    terminal.answer(given["as_json"], report.to_dict(), _lines(report))
    return 0


def _say(terminal: Terminal, report: StackReport) -> None:
    nz = report.distribution
    terminal.say(
        f"{report.n_rows:,} rows, {report.n_skipped:,} left out; "
        + (f"{report.n_members} members told apart" if report.n_members > 1 else "no members to compare")
    )
    n_bins, width = len(nz.edges) - 1, nz.edges[1] - nz.edges[0]
    terminal.say(f"redshifts {nz.edges[0]:g} to {nz.edges[-1]:g} in {n_bins} bins of {width:.4g}")
    lost = float(np.nanmax(np.where(nz.n > 0, nz.outside, np.nan)))
    if lost > MAX_OUTSIDE:
        terminal.warn(f"up to {100 * lost:.1f} % of the probability of a sample lies outside this range; widen --range")
    if report.n_labels is None:
        terminal.warn(
            "errors of mean redshifts leave out what the training set makes uncertain: the file does not say how large "
            "that was; say so with --labels"
        )


def _draw(report: StackReport, path: str) -> None:
    from gpzed.plots import plot_stack, save_figure

    save_figure(plot_stack(report.distribution), path)


def _redshift_edges(asked: Any, limits: str | None, width: float | None) -> Any:
    """Return bins in redshift; None to choose them by the data."""
    if limits is None and width is None:
        return None
    ends = numbers_of(limits)
    if ends is None:
        found = redshift_bins(read_predictions(asked, need_truth=False).prediction)
        ends = float(found[0]), float(found[-1])
    wanted = (ends[-1] - ends[0]) / DEFAULT_BINS if width is None else width
    if len(ends) != 2 or not ends[0] < ends[1] or not 0.0 < wanted <= ends[1] - ends[0]:
        given = [] if limits is None else [f"--range {limits}"]
        both = " and ".join(given if width is None else [*given, f"--width {width:g}"])
        raise ConfigError(f"{both}: no bins; expected something like --range 0,3 --width 0.05")
    return np.linspace(ends[0], ends[1], round((ends[1] - ends[0]) / wanted) + 1)


def _samples(text: str | None) -> tuple[int | None, tuple[float, ...] | None]:
    """Return the number of tomographic bins, or their edges."""
    edges = numbers_of(text)
    if edges is not None and len(edges) == 1 and edges[0] == int(edges[0]) >= 1:
        return int(edges[0]), None
    if edges is not None and (len(edges) < 2 or any(b <= a for a, b in itertools.pairwise(edges))):
        raise ConfigError(
            f"--bins {text} are no bins; expected two or more increasing numbers, like 0.2,0.4,0.6, or how many"
        )
    return None, edges


def _lines(report: StackReport) -> list[str]:
    known = any(shift is not None for shift in report.shifts)
    lines = ["z_phot           objects   mean z             outside" + ("   known z - predicted" if known else "")]
    for sample, shift in zip(report.to_dict()["samples"], report.shifts, strict=True):
        mean, outside = "", ""
        if sample["mean"] is not None:
            mean = f"{sample['mean']:.4f} +- {sample['mean_error']:.4f}"
            outside = f"{100 * sample['outside']:6.2f} %"
        more = "" if shift is None else f"   {shift.shift:+.4f} +- {shift.error:.4f} ({shift.n:,})"
        lines.append(f"{sample['name']:14s} {sample['n']:9,d}   {mean:18s} {outside}{more}")
    return lines
