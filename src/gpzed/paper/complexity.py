"""Figure 1: scores against the number of basis functions or trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpzed.paper.bench import Bench, Experiment, Table
from gpzed.paper.drawing import LABELS, legend_below, panels, style
from gpzed.paper.runs import complexity_parts, usable
from gpzed.paper.store import Part

NAMES = ("forest", "SPGP", "GPGL", "GPVL", "GPVC")


def _parts(bench: Bench) -> Sequence[Part]:
    return complexity_parts(bench, NAMES)


def _assemble(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    runs = usable(parts)
    return {
        "methods": {
            name: {
                "size": [run["size"] for run in runs if run["method"] == name],
                **{key: [run["metrics"][key] for run in runs if run["method"] == name] for key in LABELS},
                "seconds": [run["seconds"]["train"] for run in runs if run["method"] == name],
            }
            for name in NAMES
        },
    }


def _draw(content: dict[str, Any]) -> Any:
    figure, axes = panels(2, 2)
    for ax, (key, label) in zip(axes.flat, LABELS.items(), strict=True):
        for name, curve in content["methods"].items():
            ax.plot(curve["size"], curve[key], marker="o", ms=3, label=name, **style(name))
        ax.set(xscale="log", xlabel="basis functions / trees", ylabel=label)
    legend_below(figure, axes[0, 0])
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
