"""Figure 6: bias in bins of redshift at four percentages kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.paper.bench import Experiment
from experiments.paper.drawing import legend_below, panels
from experiments.paper.runs import table_parts, usable
from experiments.paper.store import floats
from gpzed.evaluation import BinnedMetrics
from gpzed.evaluation.binned import PAPER_FRACTIONS
from gpzed.plots import plot_binned


def _assemble(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"methods": {run["method"]: run["bias"] for run in usable(parts)}}


def _draw(content: dict[str, Any]) -> Any:
    figure, axes = panels(2, 2)
    bins = {
        name: BinnedMetrics(
            floats(stored["edges"]),
            floats(stored["fractions"]),
            np.array(stored["counts"], dtype=np.intp),
            {"bias": floats(stored["values"])},
        )
        for name, stored in content["methods"].items()
    }
    for ax, fraction in zip(axes.flat, PAPER_FRACTIONS, strict=True):
        plot_binned(bins, ax, metric="bias", fraction=fraction)
        ax.set_title(f"{100 * fraction:.0f} % kept")
    legend_below(figure, axes)
    return figure


BIAS = Experiment("bias", "Figure 6, section 7.4", "bias in bins of redshift", table_parts, _assemble, _draw)
