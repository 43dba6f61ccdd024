"""Figure 1: scores against the number of basis functions or trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpzed.paper.bench import Bench, Experiment, Table
from gpzed.paper.drawing import PANELS, legend_below, panels
from gpzed.paper.runs import complexity_parts, usable
from gpzed.paper.store import Part
from gpzed.plots import plot_complexity

NAMES = ("forest", "SPGP", "GPGL", "GPVL", "GPVC")


def _parts(bench: Bench) -> Sequence[Part]:
    return complexity_parts(bench, NAMES)


def _assemble(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    runs = usable(parts)
    return {
        "methods": {
            name: {
                "size": [run["size"] for run in runs if run["method"] == name],
                **{key: [run["metrics"][key] for run in runs if run["method"] == name] for key in PANELS},
                "seconds": [run["seconds"]["train"] for run in runs if run["method"] == name],
            }
            for name in NAMES
        },
    }


def _draw(content: dict[str, Any]) -> Any:
    figure, axes = panels(2, 2)
    for ax, key in zip(axes.flat, PANELS, strict=True):
        curves = {name: (curve["size"], curve[key]) for name, curve in content["methods"].items()}
        plot_complexity(curves, ax, metric=key, unit="basis functions or trees")
    legend_below(figure, axes)
    return figure


def _table(content: dict[str, Any]) -> Table:
    rows = []
    for name, curve in content["methods"].items():
        for index, size in enumerate(curve["size"]):
            values = (curve["rmse"][index], curve["mll"][index], curve["fr_0.15"][index], curve["fr_0.05"][index])
            texts = [format(value, form) for value, form in zip(values, (".4f", ".3f", ".2f", ".2f"), strict=True)]
            rows.append((name, str(size), *texts, f"{curve['seconds'][index]:.0f}"))
    return Table(("method", "size", "RMSE", "MLL", "FR0.15 %", "FR0.05 %", "training s"), tuple(rows))


COMPLEXITY = Experiment(
    "complexity", "Figure 1, section 7.1", "scores against model complexity", _parts, _assemble, _draw, _table
)
