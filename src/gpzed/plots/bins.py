"""What changes with redshift: bias, and the parts of the uncertainty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpzed._types import FloatArray
from gpzed.evaluation import BinnedMetrics, BoxStatistics
from gpzed.evaluation.binned import drawable
from gpzed.plots._labels import Z_SPEC, metric_label
from gpzed.plots._style import COLOURS, FAINT, INK, as_mapping, drawn, line_styles

MIN_COUNT = 5
"""Bins with fewer objects are not drawn: their points would only be noise."""
MARKERS = "osD^vP"


@drawn
def plot_binned(
    data: BinnedMetrics | Mapping[str, BinnedMetrics],
    ax: Any = None,
    *,
    metric: str = "bias",
    fraction: float | None = None,
    label: str = Z_SPEC,
    min_count: int = MIN_COUNT,
) -> None:
    """Draw a metric in bins of redshift: the fractions kept of one method, or several methods at one fraction.

    Error bars are standard errors, where the metric is a mean of the objects. Of one method the number of objects in
    each bin is drawn above.

    Parameters
    ----------
    data : BinnedMetrics, or mapping of names to BinnedMetrics
    metric : str
        Which of its metrics.
    fraction : float, optional
        Draw this fraction only; by default all there are, or for several methods the largest.
    label : str
        What the bins are of.
    min_count : int
        Bins with fewer objects are left out.
    """
    named = as_mapping(data)
    lines: dict[str, tuple[FloatArray, FloatArray, FloatArray | None]] = {}
    for name, binned in named.items():
        if metric not in binned.values:
            raise ValueError(
                f"`metric` is {metric!r} but the bins hold {', '.join(binned.values)}; compute it with the others."
            )
        for i in _chosen(binned, fraction, len(named) > 1):
            enough = binned.counts[i] >= min_count
            key = name if len(named) > 1 else f"{name} {100 * binned.fractions[i]:g} % kept".strip()
            error = binned.errors.get(metric)
            lines[key] = (
                binned.centers[enough],
                binned.values[metric][i][enough],
                None if error is None else error[i][enough],
            )
    ax.axhline(0.0, color=FAINT, lw=0.8)
    for i, ((x, y, error), style) in enumerate(zip(lines.values(), line_styles(lines), strict=True)):
        ax.errorbar(x, y, error, marker=MARKERS[i % len(MARKERS)], ms=3, elinewidth=0.8, capsize=1.5, **style)
    ax.set(xlabel=label, ylabel=metric_label(metric))
    if len(named) == 1:
        _draw_counts(ax, next(iter(named.values())))


def _draw_counts(ax: Any, binned: BinnedMetrics) -> None:
    """Draw the number of objects in each bin above, all that are kept at the largest fraction."""
    counts = binned.counts[int(np.argmax(binned.fractions))]
    strip = ax.inset_axes((0.0, 1.03, 1.0, 0.16), sharex=ax)
    strip.stairs(np.maximum(counts, 0.5), binned.edges, fill=True, color=FAINT, alpha=0.5)
    strip.set_yscale("log")
    strip.set_ylim(0.5, 2.0 * max(int(counts.max()), 1))
    strip.set_ylabel("objects", fontsize=7)
    strip.tick_params(labelbottom=False, labelsize=7)


def _chosen(binned: BinnedMetrics, fraction: float | None, one_only: bool) -> list[int]:
    if fraction is None:
        return [int(np.argmax(binned.fractions))] if one_only else list(range(len(binned.fractions)))
    found = np.flatnonzero(np.isclose(binned.fractions, fraction))
    if not found.size:
        raise ValueError(
            f"`fraction` is {fraction} but the bins are of {binned.fractions.tolist()}; choose one of these."
        )
    return [int(found[0])]


@drawn
def plot_variance_boxes(
    boxes: BoxStatistics | Mapping[str, BoxStatistics],
    ax: Any = None,
    *,
    parts: tuple[str, ...] = ("model", "noise"),
    label: str = Z_SPEC,
) -> None:
    """Draw box plots of the predicted standard deviation, and of its parts, in bins of redshift.

    Parameters
    ----------
    boxes : BoxStatistics, or mapping of parts to BoxStatistics
        From `gpzed.evaluation.uncertainty_boxes`.
    parts : tuple of str
        Which parts of a mapping, side by side in each bin.
    label : str
        What the bins are of.
    """
    if isinstance(boxes, BoxStatistics):
        named = drawable({"": boxes})
    else:
        shown = drawable(boxes)
        named = {name: shown[name] for name in parts if name in shown}
    for i, (name, box) in enumerate(named.items()):
        width = np.diff(box.edges) / len(named)
        filled = np.flatnonzero(box.counts > 0)
        statistics = [
            {"whislo": box.low[b], "q1": box.q1[b], "med": box.median[b], "q3": box.q3[b], "whishi": box.high[b]}
            for b in filled
        ]
        colour = COLOURS[i % len(COLOURS)]
        drawn_boxes = ax.bxp(
            statistics,
            positions=(box.edges[:-1] + (i + 0.5) * width)[filled],
            widths=0.75 * width[filled],
            showfliers=False,
            manage_ticks=False,
            patch_artist=True,
            boxprops={"facecolor": colour, "alpha": 0.55, "edgecolor": colour, "lw": 0.8},
            medianprops={"color": INK, "lw": 1.2},
            whiskerprops={"color": colour, "lw": 0.8},
            capprops={"color": colour, "lw": 0.8},
        )
        if name and drawn_boxes["boxes"]:
            drawn_boxes["boxes"][0].set_label(name)
    first = boxes if isinstance(boxes, BoxStatistics) else next(iter(boxes.values()))
    edges = first.edges
    low, high = (f"{100 * part:g}" for part in first.whiskers)
    ax.set_title(f"line: median; box: quartiles; whiskers: {low} to {high} % of the objects", fontsize=7.5)
    ax.set_yscale("log")
    ax.set(xlim=(edges[0], edges[-1]), xlabel=label, ylabel=r"predicted standard deviation $\sigma_z$")
