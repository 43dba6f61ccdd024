"""Tables 1 and 2, Figures 1 to 7 and appendix B: views of the same runs, one of each method and size."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from experiments.paper import published
from experiments.paper.bench import Bench, Experiment, Table
from experiments.paper.drawing import PANELS, legend_below, panels
from experiments.paper.runs import BOX_PARTS, run_part, table_parts, usable
from experiments.paper.store import Part, ResultError, floats
from experiments.results.views import cell
from gpzed.evaluation import (
    BinnedMetrics,
    BoxStatistics,
    Improvement,
    RejectionCurve,
    RetainedCurve,
    relative_improvement,
)
from gpzed.evaluation.binned import PAPER_FRACTIONS
from gpzed.plots import (
    plot_binned,
    plot_complexity,
    plot_improvement,
    plot_rejection,
    plot_retained,
    plot_scatter,
    plot_variance_boxes,
)
from gpzed.prediction import Prediction

Parts = Sequence[dict[str, Any]]
Content = dict[str, Any]

REFERENCE = "GPVC"
"""What the others are compared with."""
FORMATS = {"rmse": ".4f", "mll": ".3f", "fr_0.15": ".2f", "fr_0.05": ".2f"}
MORE_FORMATS = {"bias": "+.4f", "coverage_68": ".3f"}
NOT_HERE = "-"
RMSE = "RMSE of Δz/(1+z)"
COMPLEXITY_NAMES = ("forest", "SPGP", "GPGL", "GPVL", "GPVC")
NETWORK_NAMES = ("MLP", "ANN", "GPVL", "GPVC")
NETWORK_SIZES = (10, 25, 50)
WORDS = {"MLP": "network, least squares", "ANN": "network, evidence"}
"""What the networks of appendix B are called."""
SCATTER_PANELS = (("GPVC",), ("SPGP",), ("TPZ", "forest"), ("ANNz2", "randomised"))
"""Panels of the scatter plot in the order of the paper; the first that is there of each."""
BOX_TITLES = {"model": "model uncertainty", "noise": "noise uncertainty"}


def _theirs(name: str, table: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return the paper's row of a method, or of the one that it stands for."""
    return table.get(published.STANDS_FOR.get(name, name), {})


def _assemble_metrics(parts: Parts) -> Content:
    kept = ("method", "size", "counted", "rows", "seconds", "training", "metrics", "unavailable")
    return {"methods": [{key: part["result"][key] for key in kept if key in part["result"]} for part in parts]}


def _table_metrics(*contents: Content) -> Table:
    """Return ours, means over the seeds with their standard errors, with the paper's in brackets."""
    rows = []
    for runs in zip(*(content["methods"] for content in contents), strict=True):
        name = runs[0]["method"]
        theirs = _theirs(name, published.METRICS)
        here = [run for run in runs if "unavailable" not in run]
        texts = []
        for key, form in (FORMATS | MORE_FORMATS).items():
            text = cell([run["metrics"][key] for run in here], form) or NOT_HERE
            texts.append(f"{text} ({theirs[key]:g})" if key in theirs else text)
        rows.append((name, *texts))
    return Table(("method", RMSE, "MLL", "FR0.15 %", "FR0.05 %", "bias", "in 68 %"), tuple(rows))


def _complexity_parts(bench: Bench) -> Sequence[Part]:
    return [run_part(bench, name, size) for size in bench.complexities for name in COMPLEXITY_NAMES]


def _network_parts(bench: Bench) -> Sequence[Part]:
    sizes = [size for size in NETWORK_SIZES if size < bench.size]
    return [run_part(bench, name, size) for size in [*sizes, bench.size] for name in NETWORK_NAMES]


def _assemble_complexity(parts: Parts) -> Content:
    methods: dict[str, dict[str, list[Any]]] = {}
    for run in usable(parts):
        curve = methods.setdefault(run["method"], {key: [] for key in ("size", *PANELS, "seconds")})
        curve["size"].append(run["size"])
        curve["seconds"].append(run["seconds"]["train"])
        for key in PANELS:
            curve[key].append(run["metrics"][key])
    return {"methods": methods}


def _draw_complexity(content: Content, unit: str = "basis functions or trees") -> Any:
    figure, axes = panels(2, 2)
    for ax, key in zip(axes.flat, PANELS, strict=True):
        curves = {WORDS.get(name, name): (curve["size"], curve[key]) for name, curve in content["methods"].items()}
        plot_complexity(curves, ax, metric=key, unit=unit)
    legend_below(figure, axes)
    return figure


def _draw_network(content: Content) -> Any:
    return _draw_complexity(content, "basis functions or neurons")


def _table_complexity(content: Content) -> Table:
    rows = []
    for name, curve in content["methods"].items():
        for index, size in enumerate(curve["size"]):
            texts = [format(curve[key][index], form) for key, form in FORMATS.items()]
            rows.append((WORDS.get(name, name), str(size), *texts))
    return Table(("method", "size", RMSE, "MLL", "FR0.15 %", "FR0.05 %"), tuple(rows))


def _assemble_fraction(parts: Parts) -> Content:
    runs = usable(parts)
    return {
        "threshold": runs[0]["fr"]["threshold"],
        "percent": {run["method"]: run["fr"]["percent"] for run in runs},
    }


def _draw_fraction(content: Content) -> Any:
    """Draw the curves, and beside them their distance to that of GPVC: they lie close together."""
    threshold = floats(content["threshold"])
    percent = {name: floats(values) for name, values in content["percent"].items()}
    reference = percent.get(REFERENCE)
    figure, axes = panels(1, 1 if reference is None else 2)
    plot_retained({name: RetainedCurve(threshold, values) for name, values in percent.items()}, axes[0, 0])
    if reference is not None:
        first, ax = axes[0]
        for name, values in percent.items():
            ax.plot(threshold, values - reference, label=name)
        ylabel = f"FR$_e$ minus that of {REFERENCE} [%]"
        ax.set(xlim=first.get_xlim(), xlabel=first.get_xlabel(), ylabel=ylabel)
    legend_below(figure, axes)
    return figure


def _assemble_scatter(parts: Parts) -> Content:
    runs = {run["method"]: run["scatter"] for run in usable(parts)}
    shown = [next((name for name in choices if name in runs), None) for choices in SCATTER_PANELS]
    return {"methods": {name: runs[name] for name in shown if name is not None}}


def _draw_scatter(content: Content) -> Any:
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
        plot_scatter(floats(points["z_spec"]), prediction, ax, scores=False, residuals=False, **shared)
        ax.set_title(name)
    for ax in axes.flat[len(runs) :]:
        ax.axis("off")
    return figure


def _assemble_rejection(parts: Parts) -> Content:
    runs = usable(parts)
    return {
        "fraction": runs[0]["rejection"]["fraction"],
        "methods": {run["method"]: {key: run["rejection"][key] for key in PANELS} for run in runs},
    }


def _curve(content: Content, name: str, key: str) -> RejectionCurve:
    fraction = floats(content["fraction"])
    return RejectionCurve(key, fraction, np.zeros(len(fraction), np.intp), floats(content["methods"][name][key]))


def _draw_rejection(content: Content) -> Any:
    figure, axes = panels(2, 2)
    for ax, key in zip(axes.flat, PANELS, strict=True):
        plot_rejection({name: _curve(content, name, key) for name in content["methods"]}, ax)
    legend_below(figure, axes)
    return figure


def improvement(content: Content) -> dict[str, dict[str, Any]]:
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


def _assemble_improvement(parts: Parts) -> Content:
    content = _assemble_rejection(parts)
    return {"fraction": content["fraction"], "reference": REFERENCE, "methods": improvement(content)}


def _draw_improvement(content: Content) -> Any:
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


def _table_improvement(content: Content) -> Table:
    """Return ours with the paper's in brackets."""
    rows = []
    for name, metrics in content["methods"].items():
        theirs = _theirs(name, published.IMPROVEMENT)
        texts = []
        for key in FORMATS:
            mean = metrics[key]["mean"]
            text = NOT_HERE if mean is None else f"{mean:.3g}"
            texts.append(f"{text} ({theirs[key]:g})" if theirs else text)
        rows.append((name, *texts))
    return Table(("GPVC better than", "RMSE %", "MLL %", "FR0.15 %", "FR0.05 %"), tuple(rows))


def _assemble_bias(parts: Parts) -> Content:
    return {"methods": {run["method"]: run["bias"] for run in usable(parts)}}


def _draw_bias(content: Content) -> Any:
    figure, axes = panels(2, 2)
    bins = {
        name: BinnedMetrics(
            floats(stored["edges"]),
            floats(stored["fractions"]),
            np.array(stored["counts"], dtype=np.intp),
            {"bias": floats(stored["values"])},
        )
        for name, stored in content["methods"].items()
    }
    for ax, fraction in zip(axes.flat, PAPER_FRACTIONS, strict=True):
        plot_binned(bins, ax, metric="bias", fraction=fraction)
        ax.set_title(f"{100 * fraction:.0f} % kept")
    legend_below(figure, axes)
    return figure


def _uncertainty_parts(bench: Bench) -> Sequence[Part]:
    return [run_part(bench, "GPVC", bench.size)]


def _assemble_uncertainty(parts: Parts) -> Content:
    return dict(usable(parts)[0]["boxes"])


def _draw_uncertainty(content: Content) -> Any:
    figure, axes = panels(1, 2)
    for ax, (key, title) in zip(axes.flat, BOX_TITLES.items(), strict=True):
        statistics = {part: floats(content[key][part]) for part in BOX_PARTS}
        counts = np.isfinite(statistics["median"]).astype(np.intp)  # bins that hold anything
        plot_variance_boxes(BoxStatistics(floats(content["edges"]), counts, **statistics), ax)
        ax.set_title(title)
    return figure


def _table_uncertainty(content: Content) -> Table:
    rows = []
    for index, (low, high) in enumerate(pairwise(content["edges"])):
        model, noise = content["model"]["median"][index], content["noise"]["median"][index]
        if model is not None:
            rows.append((f"{low:.1f} to {high:.1f}", f"{model:.4f}", f"{noise:.4f}", f"{noise / model:.1f}"))
    return Table(("redshift", "median model std", "median noise std", "ratio"), tuple(rows))


COMPLEXITY = Experiment(
    "complexity",
    "Figure 1, section 7.1",
    "scores against model complexity",
    _complexity_parts,
    _assemble_complexity,
    _draw_complexity,
    _table_complexity,
)
METRICS = Experiment(
    "metrics", "Table 1, section 7.2", "metrics of all methods", table_parts, _assemble_metrics, None, _table_metrics
)
FRACTION = Experiment(
    "fr",
    "Figure 2, section 7.2",
    "fraction retained against its threshold",
    table_parts,
    _assemble_fraction,
    _draw_fraction,
)
SCATTER = Experiment(
    "scatter",
    "Figure 3, section 7.2",
    "photometric against spectroscopic redshifts",
    table_parts,
    _assemble_scatter,
    _draw_scatter,
)
REJECTION = Experiment(
    "rejection",
    "Figure 4, section 7.3",
    "scores against the percentage kept",
    table_parts,
    _assemble_rejection,
    _draw_rejection,
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
BIAS = Experiment("bias", "Figure 6, section 7.4", "bias in bins of redshift", table_parts, _assemble_bias, _draw_bias)
UNCERTAINTY = Experiment(
    "uncertainty",
    "Figure 7, section 7.5",
    "model and noise uncertainty of GPVC",
    _uncertainty_parts,
    _assemble_uncertainty,
    _draw_uncertainty,
    _table_uncertainty,
)
NETWORK = Experiment(
    "network",
    "Appendix B",
    "a network as a basis function model",
    _network_parts,
    _assemble_complexity,
    _draw_network,
    _table_complexity,
)
