"""Scores as curves: against the error allowed, the fraction kept, and the size of the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from gpzed.evaluation import Improvement, RejectionCurve, RetainedCurve
from gpzed.plots._labels import ERROR, KEPT, metric_label
from gpzed.plots._style import FAINT, as_mapping, draw_lines, drawn, line_styles


@drawn
def plot_retained(curves: RetainedCurve | Mapping[str, RetainedCurve], ax: Any = None) -> None:
    """Draw FR_e, the percentage of objects with an error below e, against e."""
    named = as_mapping(curves)
    draw_lines(ax, named, lambda curve: (curve.thresholds, curve.values))
    last = max(float(curve.thresholds[-1]) for curve in named.values())
    ax.set(xlim=(0.0, last), ylim=(0.0, 101.0), xlabel=f"$e$, largest {ERROR}", ylabel=r"FR$_e$ [%]")


@drawn
def plot_rejection(curves: RejectionCurve | Mapping[str, RejectionCurve], ax: Any = None) -> None:
    """Draw a metric, the same in all curves, against the percentage of objects kept, the most certain first."""
    named = as_mapping(curves)
    metric = _one_metric(named)
    draw_lines(ax, named, lambda curve: (100.0 * curve.fractions, curve.values))
    ax.set(xlim=(0.0, 100.0), xlabel=KEPT, ylabel=metric_label(metric))


@drawn
def plot_improvement(curves: Improvement | Mapping[str, Improvement], ax: Any = None, *, reference: str = "") -> None:
    """Draw the relative difference of methods from a `reference` along the fraction kept, on a cubic-root axis.

    All curves, from `gpzed.evaluation.relative_improvement`, are of the same metric.
    """
    from matplotlib.ticker import NullLocator

    named = as_mapping(curves)
    metric = _one_metric(named)
    draw_lines(ax, named, lambda curve: (100.0 * curve.fractions, curve.values))
    ax.axhline(0.0, color=FAINT, lw=0.8)
    ax.set_yscale("function", functions=(np.cbrt, lambda y: y**3))
    values = np.concatenate([[0.0], *(curve.values[np.isfinite(curve.values)] for curve in named.values())])
    low, high = np.cbrt([values.min(), values.max()])
    margin = 0.05 * (high - low or 1.0)
    ax.set_yticks(_cubic_ticks(low - margin, high + margin))
    ax.set_ylim((low - margin) ** 3, (high + margin) ** 3)
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    where = f" to {reference}" if reference else ""
    ax.set(xlim=(0.0, 100.0), xlabel=KEPT, ylabel=f"{metric_label(metric).removesuffix(' [%]')}, relative{where} [%]")


@drawn
def plot_complexity(
    curves: Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike]],
    ax: Any = None,
    *,
    metric: str = "rmse",
    unit: str = "basis functions",
) -> None:
    """Draw a metric against the number of basis functions, or another `unit`: (sizes, values) by name in `curves`."""
    ticks: set[float] = set()
    for (sizes, values), style in zip(curves.values(), line_styles(curves), strict=True):
        at = np.asarray(sizes, dtype=np.float64)
        ax.plot(at, np.asarray(values, dtype=np.float64), marker="o", ms=3.5, **style)
        ticks |= set(at.tolist())
    ax.set_xscale("log")
    ax.set_xticks(sorted(ticks), [f"{tick:g}" for tick in sorted(ticks)])
    ax.minorticks_off()
    ax.set(xlabel=f"number of {unit}", ylabel=metric_label(metric))


def _cubic_ticks(low: float, high: float) -> list[float]:
    """Return round numbers, zero among them, whose cubic roots lie between low and high and not too close together."""
    ticks = [0.0]
    for sign, end in ((1.0, high), (-1.0, -low)):
        last = 0.0
        for size in (0.01, 0.1, 1.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 5000.0, 10000.0):
            if last + 0.08 * (high - low) <= np.cbrt(size) <= end:
                ticks.append(sign * size)
                last = float(np.cbrt(size))
    return sorted(ticks)


def _one_metric(curves: Mapping[str, Any]) -> str:
    """Return the metric of all curves."""
    found = {curve.metric for curve in curves.values()}
    if len(found) != 1:
        raise ValueError(
            f"the curves are of {sorted(found) or 'no metric'}; draw those of one metric on one pair of axes."
        )
    return str(found.pop())
