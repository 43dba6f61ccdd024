"""Whether the probabilities are true: PIT histogram, Q-Q and reliability."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpzed.evaluation import PitHistogram, QQCurve, Reliability
from gpzed.plots._style import COLOURS, FAINT, INK, add_legend, as_mapping, drawn, line_styles


@drawn
def plot_pit(histograms: PitHistogram | Mapping[str, PitHistogram], ax: Any = None) -> Any:
    """Draw the histogram of the probability integral transform; flat if the uncertainties are right.

    Parameters
    ----------
    histograms : PitHistogram, or mapping of names to PitHistogram
        From `gpzed.evaluation.pit_histogram`. The grey band is where 95 % of the bars of the first would lie.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
    """
    named = as_mapping(histograms)
    error = next(iter(named.values())).error
    ax.axhspan(1.0 - 2.0 * error, 1.0 + 2.0 * error, color=FAINT, alpha=0.35, lw=0)
    ax.axhline(1.0, color=INK, lw=0.8)
    for histogram, style in zip(named.values(), line_styles(named), strict=True):
        if len(named) == 1:
            ax.stairs(histogram.density, histogram.edges, fill=True, color=COLOURS[0], alpha=0.35)
        ax.stairs(histogram.density, histogram.edges, lw=1.4, **style)
    ax.set(xlim=(0.0, 1.0), xlabel="probability below the true redshift (PIT)", ylabel="density")
    ax.set_ylim(bottom=0.0)
    add_legend(ax)
    return ax


@drawn
def plot_qq(curves: QQCurve | Mapping[str, QQCurve], ax: Any = None, *, difference: bool = False) -> Any:
    """Draw quantiles of the PIT values against those of the uniform distribution.

    Parameters
    ----------
    curves : QQCurve, or mapping of names to QQCurve
        From `gpzed.evaluation.qq_curve`.
    ax : matplotlib axes, optional
    difference : bool
        Draw the difference from the diagonal, which shows more.

    Returns
    -------
    matplotlib axes
    """
    named = as_mapping(curves)
    ax.plot([0.0, 1.0], [0.0, 0.0 if difference else 1.0], color=FAINT, lw=0.8)
    for curve, style in zip(named.values(), line_styles(named), strict=True):
        ax.plot(curve.theoretical, curve.difference if difference else curve.empirical, **style)
    ax.set(xlim=(0.0, 1.0), xlabel="quantile of the uniform distribution")
    ax.set_ylabel(r"$\Delta$ quantile of the PIT values" if difference else "quantile of the PIT values")
    if not difference:
        ax.set_ylim(0.0, 1.0)
    add_legend(ax)
    return ax


@drawn
def plot_reliability(curves: Reliability | Mapping[str, Reliability], ax: Any = None) -> Any:
    """Draw the actual coverage of central intervals against the nominal one.

    Parameters
    ----------
    curves : Reliability, or mapping of names to Reliability
        From `gpzed.evaluation.reliability`. The grey band is two standard deviations of the first if it were
        calibrated; a curve below the diagonal is over-confident.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
    """
    named = as_mapping(curves)
    first = next(iter(named.values()))
    low, high = first.nominal - 2.0 * first.error, first.nominal + 2.0 * first.error
    ax.fill_between(first.nominal, low, high, color=FAINT, alpha=0.35, lw=0)
    ax.plot([0.0, 1.0], [0.0, 1.0], color=FAINT, lw=0.8)
    for curve, style in zip(named.values(), line_styles(named), strict=True):
        ax.plot(curve.nominal, curve.actual, marker="o", ms=3, **style)
    ax.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    ax.set(xlabel="probability of the interval", ylabel="share of objects inside")
    add_legend(ax)
    return ax
