"""The first figures anyone looks at: scatter, PIT, n(z), training history."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpzed.errors import MissingDependencyError
from gpzed.evaluation import pit_histogram
from gpzed.model import TrainingReport
from gpzed.prediction import Prediction

#: Points drawn in a scatter plot at most; more only make it slower and darker.
MAX_POINTS = 50_000


def _axes(ax: Any) -> Any:
    """Return the axes given, or those of a new figure that no window shows."""
    if ax is not None:
        return ax
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError("figures need matplotlib; install it with `pip install gpzed[plot]`") from error
    figure = Figure(figsize=(5.6, 4.6), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    return figure.add_subplot()


def save_figure(ax: Any, path: str | os.PathLike[str]) -> None:
    """Write the figure of axes to a file; its suffix tells the format."""
    ax.figure.savefig(path)


def plot_scatter(z_spec: npt.ArrayLike, prediction: Prediction, ax: Any = None) -> Any:
    """Draw photometric against spectroscopic redshift, coloured by the predicted uncertainty.

    Parameters
    ----------
    z_spec : array-like of shape (n,)
    prediction : Prediction
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
    """
    axes = _axes(ax)
    z = np.asarray(z_spec, dtype=np.float64)
    chosen = np.random.default_rng(0).permutation(len(z))[:MAX_POINTS]
    log_std = np.log10(prediction.std[chosen])
    order = chosen[np.argsort(-log_std)]  # the confident ones on top
    points = axes.scatter(
        z[order],
        prediction.mean[order],
        c=np.log10(prediction.std[order]),
        s=2,
        lw=0,
        cmap="viridis_r",
        rasterized=True,
    )
    limit = float(np.quantile(z, 0.999)) * 1.05
    line = np.array([0.0, limit])
    axes.plot(line, line, color="black", lw=0.8)
    for sign in (-1.0, 1.0):
        axes.plot(line, line + sign * 0.15 * (1.0 + line), color="black", lw=0.6, ls=":")
    axes.set(xlim=(0.0, limit), ylim=(0.0, limit), xlabel="spectroscopic redshift", ylabel="photometric redshift")
    axes.figure.colorbar(points, ax=axes, label="log10 of the predicted standard deviation")
    return axes


def plot_pit(z_spec: npt.ArrayLike, prediction: Prediction, ax: Any = None, bins: int = 20) -> Any:
    """Draw the histogram of the probability integral transform; flat if the uncertainties are right.

    Parameters
    ----------
    z_spec : array-like of shape (n,)
    prediction : Prediction
    ax : matplotlib axes, optional
    bins : int

    Returns
    -------
    matplotlib axes
    """
    axes = _axes(ax)
    histogram = pit_histogram(z_spec, prediction, bins=bins)
    axes.stairs(histogram.density, histogram.edges, fill=True, alpha=0.6)
    axes.axhspan(1.0 - 2.0 * histogram.error, 1.0 + 2.0 * histogram.error, color="black", alpha=0.15, lw=0)
    axes.axhline(1.0, color="black", lw=0.8)
    axes.set(xlim=(0.0, 1.0), xlabel="probability below the true redshift (PIT)", ylabel="density")
    return axes


def plot_redshift_distribution(z_spec: npt.ArrayLike, prediction: Prediction, ax: Any = None, bins: int = 60) -> Any:
    """Draw the distribution of true redshifts, and the sum of the predicted densities.

    Parameters
    ----------
    z_spec : array-like of shape (n,)
    prediction : Prediction
    ax : matplotlib axes, optional
    bins : int

    Returns
    -------
    matplotlib axes
    """
    axes = _axes(ax)
    z = np.asarray(z_spec, dtype=np.float64)
    limit = float(np.quantile(z, 0.999)) * 1.05
    axes.hist(z, bins=bins, range=(0.0, limit), density=True, alpha=0.5, label="spectroscopic")
    grid = np.linspace(0.0, limit, 400)
    axes.plot(grid, prediction[:MAX_POINTS].stacked_pdf(grid), color="black", label="sum of predicted densities")
    axes.set(xlim=(0.0, limit), xlabel="redshift", ylabel="n(z)")
    axes.legend(frameon=False)
    return axes


def plot_history(reports: Sequence[TrainingReport], ax: Any = None) -> Any:
    """Draw the validation score against the steps of training, one line per member.

    Parameters
    ----------
    reports : sequence of TrainingReport
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
    """
    axes = _axes(ax)
    lowest = []
    for index, report in enumerate(reports):
        scores = np.array([step.score for step in report.history])
        axes.plot(np.arange(1, len(scores) + 1), scores, label=f"member {index + 1}")
        if 0 < report.best_iteration <= len(scores):
            axes.plot(report.best_iteration, scores[report.best_iteration - 1], "o", color="black", ms=4)
        lowest += [np.quantile(scores[np.isfinite(scores)], 0.1)] if np.isfinite(scores).any() else []
    if lowest:
        axes.set_ylim(bottom=min(lowest))
    axes.set(xlabel="step", ylabel="log-likelihood of the rows held out")
    axes.legend(frameon=False)
    return axes
