"""Figure 4, Figure 5 and Table 2: scores of the objects kept by predicted variance, and GPVC against the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.paper import published
from experiments.paper.bench import Experiment, Table
from experiments.paper.drawing import PANELS, legend_below, panels
from experiments.paper.runs import table_parts, usable
from experiments.paper.store import ResultError, floats
from gpzed.evaluation import Improvement, RejectionCurve, relative_improvement
from gpzed.plots import plot_improvement, plot_rejection

REFERENCE = "GPVC"


def _assemble(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    runs = usable(parts)
    return {
        "fraction": runs[0]["rejection"]["fraction"],
        "methods": {run["method"]: {key: run["rejection"][key] for key in PANELS} for run in runs},
    }


def _curve(content: dict[str, Any], name: str, key: str) -> RejectionCurve:
    fraction = floats(content["fraction"])
    return RejectionCurve(key, fraction, np.zeros(len(fraction), np.intp), floats(content["methods"][name][key]))


def _draw(content: dict[str, Any]) -> Any:
    figure, axes = panels(2, 2)
    for ax, key in zip(axes.flat, PANELS, strict=True):
        plot_rejection({name: _curve(content, name, key) for name in content["methods"]}, ax)
    legend_below(figure, axes)
    return figure


def improvement(content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return mean and curve of the relative improvement of GPVC over each other method, by metric."""
    methods = content["methods"]
    if REFERENCE not in methods:
        raise ResultError(f"the results have no {REFERENCE} to compare with; run the table `metrics` again")
    found: dict[str, dict[str, Any]] = {}
    for name in methods:
        if name != REFERENCE:
            each = {
                key: relative_improvement(_curve(content, REFERENCE, key), _curve(content, name, key)) for key in PANELS
            }
            found[name] = {key: {"mean": one.mean, "values": one.values} for key, one in each.items()}
    return found


def _assemble_improvement(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    content = _assemble(parts)
    return {"fraction": content["fraction"], "reference": REFERENCE, "methods": improvement(content)}


def _draw_improvement(content: dict[str, Any]) -> Any:
    """Draw ``100 (method - GPVC) / |method|`` on the paper's cubic-root axis."""
    figure, axes = panels(2, 2)
    fraction = floats(content["fraction"])
    for ax, key in zip(axes.flat, PANELS, strict=True):
        curves = {
            name: Improvement(key, fraction, floats(metrics[key]["values"]), metrics[key]["mean"])
            for name, metrics in content["methods"].items()
        }
        plot_improvement(curves, ax, reference=content["reference"])
    legend_below(figure, axes)
    return figure


def _table_improvement(content: dict[str, Any]) -> Table:
    """Return ours with the paper's in brackets."""
    rows = []
    for name, metrics in content["methods"].items():
        theirs = published.IMPROVEMENT.get(published.STANDS_FOR.get(name, name), {})
        texts = []
        for key in ("rmse", "mll", "fr_0.15", "fr_0.05"):
            mean = metrics[key]["mean"]
            text = "-" if mean is None else f"{mean:.3g}"
            texts.append(f"{text} ({theirs[key]:g})" if theirs else text)
        rows.append((name, *texts))
    return Table(("GPVC better than", "RMSE %", "MLL %", "FR0.15 %", "FR0.05 %"), tuple(rows))


REJECTION = Experiment(
    "rejection", "Figure 4, section 7.3", "scores against the percentage kept", table_parts, _assemble, _draw
)
IMPROVEMENT = Experiment(
    "improvement",
    "Figure 5 and Table 2, section 7.3",
    "relative improvement of GPVC over the others",
    table_parts,
    _assemble_improvement,
    _draw_improvement,
    _table_improvement,
)
