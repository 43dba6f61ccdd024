"""Figure 2: the fraction retained against its threshold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpzed.evaluation import RetainedCurve
from gpzed.paper.bench import Experiment
from gpzed.paper.drawing import panels
from gpzed.paper.runs import table_parts, usable
from gpzed.paper.store import floats
from gpzed.plots import plot_retained


def _assemble(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    runs = usable(parts)
    return {
        "threshold": runs[0]["fr"]["threshold"],
        "percent": {run["method"]: run["fr"]["percent"] for run in runs},
    }


def _draw(content: dict[str, Any]) -> Any:
    figure, axes = panels(1, 1, 6.0, 4.5)
    threshold = floats(content["threshold"])
    curves = {name: RetainedCurve(threshold, floats(percent)) for name, percent in content["percent"].items()}
    plot_retained(curves, axes[0, 0])
    return figure


FRACTION = Experiment(
    "fr", "Figure 2, section 7.2", "fraction retained against its threshold", table_parts, _assemble, _draw
)
