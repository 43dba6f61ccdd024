"""Whether the probabilities are true: PIT histogram, Q-Q and reliability."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpzed.evaluation import PitHistogram, QQCurve, Reliability
from gpzed.plots._style import COLOURS, FAINT, INK, as_mapping, draw_lines, drawn, line_styles


@drawn
def plot_pit(
    histograms: PitHistogram | Mapping[str, PitHistogram], ax: Any = None, *, difference: bool = False
) -> None:
    """Draw the histogram of the probability integral transform, or its `difference` from 1.

    It is flat if the uncertainties are right: 95 % of the bars should then lie in the grey band.
    """
    named, flat = as_mapping(histograms), 0.0 if difference else 1.0
    error = next(iter(named.values())).error
    ax.axhspan(flat - 2.0 * error, flat + 2.0 * error, color=FAINT, alpha=0.35, lw=0)
    ax.axhline(flat, color=INK, lw=0.8)
    for histogram, style in zip(named.values(), line_styles(named), strict=True):
        height = histogram.density - 1.0 + flat
        if len(named) == 1:
            ax.stairs(height, histogram.edges, fill=True, color=COLOURS[0], alpha=0.35)
        ax.stairs(height, histogram.edges, lw=1.4, baseline=None if difference else 0, **style)
    ax.set(xlim=(0.0, 1.0), xlabel="probability below the true redshift (PIT)")
    ax.set_ylabel(r"density $-$ 1" if difference else "density")
    if not difference:
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
def plot_reliability(
    curves: Reliability | Mapping[str, Reliability], ax: Any = None, *, difference: bool = False
) -> None:
    """Draw the actual coverage of central intervals against the nominal one, or the `difference` of the two.

    Over-confident predictions are below the diagonal, or below zero. The grey band is two standard deviations wide,
    for the first curve if it were calibrated.
    """
    named = as_mapping(curves)
    first = next(iter(named.values()))
    ideal = 0.0 if difference else first.nominal
    ax.fill_between(first.nominal, ideal - 2.0 * first.error, ideal + 2.0 * first.error, color=FAINT, alpha=0.35, lw=0)
    ax.plot([0.0, 1.0], [0.0, 0.0 if difference else 1.0], color=FAINT, lw=0.8)
    draw_lines(ax, named, lambda c: (c.nominal, c.actual - c.nominal if difference else c.actual), marker="o", ms=3)
    ax.set(xlim=(0.0, 1.0), xlabel="nominal coverage of the central interval")
    ax.set_ylabel(r"actual $-$ nominal coverage" if difference else "actual coverage")
    if not difference:
        ax.set_ylim(0.0, 1.0)
