"""Figure 3: photometric against spectroscopic redshifts, coloured by the predicted uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpzed.paper.bench import Experiment
from gpzed.paper.drawing import panels
from gpzed.paper.runs import table_parts, usable
from gpzed.paper.store import floats

#: Panels in the order of the paper; the first that is there of each.
PANELS = (("GPVC",), ("SPGP",), ("TPZ", "forest"), ("ANNz2", "randomised"))


def _assemble(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    runs = {run["method"]: run["scatter"] for run in usable(parts)}
    shown = [next((name for name in choices if name in runs), None) for choices in PANELS]
    return {"methods": {name: runs[name] for name in shown if name is not None}}


def _draw(content: dict[str, Any]) -> Any:
    methods = content["methods"]
    figure, axes = panels(2, 2, sharex=True, sharey=True)
    std = np.concatenate([floats(points["std"]) for points in methods.values()])
    low, high = np.quantile(np.log10(std), [0.01, 0.99])
    limit = 1.05 * max(float(np.quantile(floats(points["z_spec"]), 0.998)) for points in methods.values())
    drawn = None
    for ax, (name, points) in zip(axes.flat, methods.items(), strict=False):
        order = np.argsort(-floats(points["std"]))  # the certain ones on top
        x, y, s = (floats(points[key])[order] for key in ("z_spec", "z_phot", "std"))
        drawn = ax.scatter(x, y, c=np.log10(s), s=3, lw=0, vmin=low, vmax=high, cmap="viridis_r", rasterized=True)
        ax.plot([0, limit], [0, limit], color="black", lw=0.7)
        ax.set(title=name, xlim=(0, limit), ylim=(0, limit))
    for ax in axes[-1]:
        ax.set_xlabel("spectroscopic redshift")
    for ax in axes[:, 0]:
        ax.set_ylabel("photometric redshift")
    if drawn is not None:
        figure.colorbar(drawn, ax=axes, label="log10 of the predicted standard deviation")
    return figure


SCATTER = Experiment(
    "scatter", "Figure 3, section 7.2", "photometric against spectroscopic redshifts", table_parts, _assemble, _draw
)
