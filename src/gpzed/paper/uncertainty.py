"""Figure 7: model and noise uncertainty of GPVC in bins of redshift."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from gpzed.paper.bench import Bench, Experiment, Table
from gpzed.paper.drawing import panels
from gpzed.paper.runs import run_part, usable
from gpzed.paper.store import Part, floats
from gpzed.paper.summary import BOX_PARTS

TITLES = {"model": "model uncertainty", "noise": "noise uncertainty"}
BOXPLOT_NAMES = {"low": "whislo", "q1": "q1", "median": "med", "q3": "q3", "high": "whishi"}


def _parts(bench: Bench) -> Sequence[Part]:
    return [run_part(bench, "GPVC", bench.size)]


def _assemble(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return dict(usable(parts)[0]["boxes"])


def _draw(content: dict[str, Any]) -> Any:
    figure, axes = panels(1, 2)
    edges = floats(content["edges"])
    centres, width = 0.5 * (edges[1:] + edges[:-1]), 0.7 * float(np.diff(edges).min())
    for ax, (key, title) in zip(axes.flat, TITLES.items(), strict=True):
        boxes, places = [], []
        for index, centre in enumerate(centres):
            if content[key]["median"][index] is not None:
                boxes.append({BOXPLOT_NAMES[part]: content[key][part][index] for part in BOX_PARTS})
                places.append(centre)
        ax.bxp(boxes, positions=places, widths=width, showfliers=False, manage_ticks=False)
        ax.set(title=title, xlabel="spectroscopic redshift", ylabel="standard deviation", yscale="log")
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
