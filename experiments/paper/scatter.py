"""Figure 3: photometric against spectroscopic redshifts, coloured by the predicted uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.paper.bench import Experiment
from experiments.paper.drawing import panels
from experiments.paper.runs import table_parts, usable
from experiments.paper.store import floats
from gpzed.plots import plot_scatter
from gpzed.prediction import Prediction

PANELS = (("GPVC",), ("SPGP",), ("TPZ", "forest"), ("ANNz2", "randomised"))
"""Panels in the order of the paper; the first that is there of each."""


def _assemble(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    runs = {run["method"]: run["scatter"] for run in usable(parts)}
    shown = [next((name for name in choices if name in runs), None) for choices in PANELS]
    return {"methods": {name: runs[name] for name in shown if name is not None}}


def _draw(content: dict[str, Any]) -> Any:
    figure, axes = panels(2, 2, 4.6, 4.0)
    runs = content["methods"]
    redshifts = np.concatenate([floats(points[key]) for points in runs.values() for key in ("z_spec", "z_phot")])
    log_std = np.log10(np.concatenate([floats(points["std"]) for points in runs.values()]))
    shared: dict[str, tuple[float, float]] = {
        "limits": (0.0, 1.02 * float(np.quantile(redshifts, 0.9995))),
        "log_std_limits": (float(np.quantile(log_std, 0.01)), float(np.quantile(log_std, 0.99))),
    }
    for ax, (name, points) in zip(axes.flat, runs.items(), strict=False):
        prediction = Prediction.gaussian(floats(points["z_phot"]), 0.0, floats(points["std"]) ** 2)
        plot_scatter(floats(points["z_spec"]), prediction, ax, **shared)
        ax.set_title(name)
    for ax in axes.flat[len(runs) :]:
        ax.axis("off")
    return figure


SCATTER = Experiment(
    "scatter", "Figure 3, section 7.2", "photometric against spectroscopic redshifts", table_parts, _assemble, _draw
)
