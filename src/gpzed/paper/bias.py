"""Figure 6: bias in bins of redshift at four percentages kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpzed.paper.bench import Experiment
from gpzed.paper.drawing import legend_below, panels, style
from gpzed.paper.runs import table_parts, usable
from gpzed.paper.store import floats

MIN_COUNT = 5
"""Objects in a bin below which its bias is not drawn."""


def _assemble(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"methods": {run["method"]: run["bias"] for run in usable(parts)}}


def _draw(content: dict[str, Any]) -> Any:
    figure, axes = panels(2, 2, sharex=True)
    fractions = next(iter(content["methods"].values()))["fractions"]
    for index, (ax, fraction) in enumerate(zip(axes.flat, fractions, strict=True)):
        for name, bins in content["methods"].items():
            edges = floats(bins["edges"])
            values = np.where(floats(bins["counts"][index]) >= MIN_COUNT, floats(bins["values"][index]), np.nan)
            ax.plot(0.5 * (edges[1:] + edges[:-1]), values, marker="o", ms=3, label=name, **style(name))
        ax.axhline(0.0, color="black", lw=0.6)
        ax.set(title=f"{100 * fraction:.0f} % kept", xlabel="spectroscopic redshift", ylabel="bias")
    legend_below(figure, axes[0, 0])
    return figure


BIAS = Experiment("bias", "Figure 6, section 7.4", "bias in bins of redshift", table_parts, _assemble, _draw)
