"""Figure 1 and appendix B: scores against the number of basis functions, trees or neurons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.paper.bench import Bench, Experiment, Table
from experiments.paper.drawing import PANELS, legend_below, panels
from experiments.paper.runs import complexity_parts, usable
from experiments.paper.store import Part
from gpzed.plots import plot_complexity

NAMES = ("forest", "SPGP", "GPGL", "GPVL", "GPVC")
NETWORK_NAMES = ("MLP", "ANN", "GPVL", "GPVC")
NETWORK_SIZES = (10, 25, 50)
WORDS = {"MLP": "network, least squares", "ANN": "network, evidence"}
"""What the networks of appendix B are called."""


def _parts(bench: Bench) -> Sequence[Part]:
    return complexity_parts(bench, NAMES, bench.complexities)


def _network_parts(bench: Bench) -> Sequence[Part]:
    sizes = [size for size in NETWORK_SIZES if size < bench.size]
    return complexity_parts(bench, NETWORK_NAMES, [*sizes, bench.size])


def _assemble(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    methods: dict[str, dict[str, list[Any]]] = {}
    for run in usable(parts):
        curve = methods.setdefault(run["method"], {key: [] for key in ("size", *PANELS, "seconds")})
        curve["size"].append(run["size"])
        curve["seconds"].append(run["seconds"]["train"])
        for key in PANELS:
            curve[key].append(run["metrics"][key])
    return {"methods": methods}


def _draw(content: dict[str, Any], unit: str = "basis functions or trees") -> Any:
    figure, axes = panels(2, 2)
    for ax, key in zip(axes.flat, PANELS, strict=True):
        curves = {WORDS.get(name, name): (curve["size"], curve[key]) for name, curve in content["methods"].items()}
        plot_complexity(curves, ax, metric=key, unit=unit)
    legend_below(figure, axes)
    return figure


def _draw_network(content: dict[str, Any]) -> Any:
    return _draw(content, "basis functions or neurons")


def _table(content: dict[str, Any]) -> Table:
    rows = []
    for name, curve in content["methods"].items():
        for index, size in enumerate(curve["size"]):
            values = (curve["rmse"][index], curve["mll"][index], curve["fr_0.15"][index], curve["fr_0.05"][index])
            texts = [format(value, form) for value, form in zip(values, (".4f", ".3f", ".2f", ".2f"), strict=True)]
            rows.append((WORDS.get(name, name), str(size), *texts, f"{curve['seconds'][index]:.0f}"))
    return Table(("method", "size", "RMSE", "MLL", "FR0.15 %", "FR0.05 %", "training s"), tuple(rows))


COMPLEXITY = Experiment(
    "complexity", "Figure 1, section 7.1", "scores against model complexity", _parts, _assemble, _draw, _table
)
NETWORK = Experiment(
    "network", "Appendix B", "a network as a basis function model", _network_parts, _assemble, _draw_network, _table
)
