"""Whether the probabilities are true: PIT histogram, Q-Q and reliability."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpzed.evaluation import PitHistogram, QQCurve, Reliability
from gpzed.plots._style import COLOURS, FAINT, INK, as_mapping, draw_lines, drawn, line_styles


@drawn
def plot_pit(histograms: PitHistogram | Mapping[str, PitHistogram], ax: Any = None) -> None:
    """Draw the histogram of the probability integral transform; flat if the uncertainties are right.

    95 % of the bars should lie in the grey band.
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


@drawn
def plot_qq(curves: QQCurve | Mapping[str, QQCurve], ax: Any = None, *, difference: bool = False) -> None:
    """Draw quantiles of the PIT values against those of the uniform distribution, or the `difference` of the two."""
    named = as_mapping(curves)
    ax.plot([0.0, 1.0], [0.0, 0.0 if difference else 1.0], color=FAINT, lw=0.8)
    draw_lines(ax, named, lambda curve: (curve.theoretical, curve.difference if difference else curve.empirical))
    ax.set(xlim=(0.0, 1.0), xlabel="quantile of the uniform distribution")
    ax.set_ylabel(r"$\Delta$ quantile of the PIT values" if difference else "quantile of the PIT values")
    if not difference:
        ax.set_ylim(0.0, 1.0)


@drawn
def plot_reliability(curves: Reliability | Mapping[str, Reliability], ax: Any = None) -> None:
    """Draw the actual coverage of central intervals against the nominal one; over-confident below the diagonal.

    The grey band is two standard deviations wide, for the first curve if it were calibrated.
    """
    named = as_mapping(curves)
    first = next(iter(named.values()))
    low, high = first.nominal - 2.0 * first.error, first.nominal + 2.0 * first.error
    ax.fill_between(first.nominal, low, high, color=FAINT, alpha=0.35, lw=0)
    ax.plot([0.0, 1.0], [0.0, 1.0], color=FAINT, lw=0.8)
    draw_lines(ax, named, lambda curve: (curve.nominal, curve.actual), marker="o", ms=3)
    ax.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    ax.set(xlabel="probability of the interval", ylabel="share of objects inside")
