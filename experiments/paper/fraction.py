"""Figure 2: the fraction retained against its threshold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.paper.bench import Experiment
from experiments.paper.drawing import legend_below, panels
from experiments.paper.runs import table_parts, usable
from experiments.paper.store import floats
from gpzed.evaluation import RetainedCurve
from gpzed.plots import plot_retained

REFERENCE = "GPVC"


def _assemble(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    runs = usable(parts)
    return {
        "threshold": runs[0]["fr"]["threshold"],
        "percent": {run["method"]: run["fr"]["percent"] for run in runs},
    }


def _draw(content: dict[str, Any]) -> Any:
    """Draw the curves, and beside them their distance to that of GPVC: they lie close together."""
    threshold = floats(content["threshold"])
    percent = {name: floats(values) for name, values in content["percent"].items()}
    reference = percent.get(REFERENCE)
    figure, axes = panels(1, 1 if reference is None else 2)
    plot_retained({name: RetainedCurve(threshold, values) for name, values in percent.items()}, axes[0, 0])
    if reference is not None:
        ax = axes[0, 1]
        for name, values in percent.items():
            ax.plot(threshold, values - reference, label=name)
        ax.set(
            xlim=axes[0, 0].get_xlim(), xlabel=axes[0, 0].get_xlabel(), ylabel=f"FR$_e$ minus that of {REFERENCE} [%]"
        )
    legend_below(figure, axes)
    return figure


FRACTION = Experiment(
    "fr", "Figure 2, section 7.2", "fraction retained against its threshold", table_parts, _assemble, _draw
)
