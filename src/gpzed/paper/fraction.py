"""Figure 2: the fraction retained against its threshold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpzed.paper.bench import Experiment
from gpzed.paper.drawing import panels, style
from gpzed.paper.runs import table_parts, usable


def _assemble(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    runs = usable(parts)
    return {
        "threshold": runs[0]["fr"]["threshold"],
        "percent": {run["method"]: run["fr"]["percent"] for run in runs},
    }


def _draw(content: dict[str, Any]) -> Any:
    figure, axes = panels(1, 1, 6.0, 4.5)
    for name, percent in content["percent"].items():
        axes[0, 0].plot(content["threshold"], percent, label=name, **style(name))
    axes[0, 0].set(xlabel="threshold e", ylabel="FR$_e$ (%)", ylim=(None, 100))
    axes[0, 0].legend(frameon=False)
    return figure


FRACTION = Experiment(
    "fr", "Figure 2, section 7.2", "fraction retained against its threshold", table_parts, _assemble, _draw
)
