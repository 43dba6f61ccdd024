"""Figure 7: model and noise uncertainty of GPVC in bins of redshift."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from experiments.paper.bench import Bench, Experiment, Table
from experiments.paper.drawing import panels
from experiments.paper.runs import run_part, usable
from experiments.paper.store import Part, floats
from experiments.paper.summary import BOX_PARTS
from gpzed.evaluation import BoxStatistics
from gpzed.plots import plot_variance_boxes

TITLES = {"model": "model uncertainty", "noise": "noise uncertainty"}


def _parts(bench: Bench) -> Sequence[Part]:
    return [run_part(bench, "GPVC", bench.size)]


def _assemble(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return dict(usable(parts)[0]["boxes"])


def _draw(content: dict[str, Any]) -> Any:
    figure, axes = panels(1, 2)
    for ax, (key, title) in zip(axes.flat, TITLES.items(), strict=True):
        statistics = {part: floats(content[key][part]) for part in BOX_PARTS}
        counts = np.isfinite(statistics["median"]).astype(np.intp)  # bins that hold anything
        plot_variance_boxes(BoxStatistics(floats(content["edges"]), counts, **statistics), ax)
        ax.set_title(title)
    return figure


def _table(content: dict[str, Any]) -> Table:
    edges = content["edges"]
    rows = []
    for index, (low, high) in enumerate(pairwise(edges)):
        model, noise = content["model"]["median"][index], content["noise"]["median"][index]
        if model is not None:
            rows.append((f"{low:.1f} to {high:.1f}", f"{model:.4f}", f"{noise:.4f}", f"{noise / model:.1f}"))
    return Table(("redshift", "median model std", "median noise std", "ratio"), tuple(rows))


UNCERTAINTY = Experiment(
    "uncertainty", "Figure 7, section 7.5", "model and noise uncertainty of GPVC", _parts, _assemble, _draw, _table
)
