"""Runs of one method each on the test set: what the tables and figures of section 7 show of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.paper.bench import Bench
from experiments.paper.methods import EXACT_ROWS, METHODS, NETWORKS
from experiments.paper.store import Part
from experiments.rivals.annz2 import read_annz2
from gpzed._files import file_hash
from gpzed._types import FloatArray
from gpzed.evaluation import binned_metrics, evaluate, rejection_curves, retained_curve, uncertainty_boxes
from gpzed.evaluation.binned import PAPER_FRACTIONS
from gpzed.evaluation.rejection import PAPER_METRICS
from gpzed.prediction import Prediction

THRESHOLDS = np.round(np.arange(1, 31) * 0.005, 3)
"""Thresholds e of the FR_e curve."""
SCATTER_POINTS = 1_500
"""Objects in a scatter plot, the first of the test set."""
BOX_PARTS = ("low", "q1", "median", "q3", "high")


def run_part(bench: Bench, name: str, size: int) -> Part:
    """Return the part that trains one method of a size and scores it on the test set."""
    method = METHODS[name] if name in METHODS else NETWORKS[name]
    inputs = {"data": bench.identity, "method": name, "size": size, **bench.effort_inputs}
    if not method.available():
        inputs["available"] = False  # so that it runs once it can

    def compute() -> dict[str, Any]:
        facts: dict[str, Any] = {"method": name, "size": size, "counted": method.counted}
        if not method.available():
            return facts | {"unavailable": method.how_to_get}
        test = bench.sets.test.head(method.max_test)
        started = time.perf_counter()
        trained = method.train(bench.sets, size, bench.effort)
        trained_at = time.perf_counter()
        prediction = trained.predict(test.X)
        seconds = {"train": trained_at - started, "predict": time.perf_counter() - trained_at}
        rows = {"train": len(bench.sets.train), "validation": len(bench.sets.valid), "test": len(test)}
        facts |= {"data_sha256": bench.sets.sha256, "rows": rows, "seconds": seconds, "training": trained.details}
        return facts | summarise(test.z, prediction)

    return Part(f"{name.replace(' ', '-').lower()}-{size}", inputs, compute)


def table_parts(bench: Bench) -> list[Part]:
    """Return the parts of all methods at the size of the tables, and of the ANNz2 files given."""
    sizes = {"exact GP": min(EXACT_ROWS, bench.source.size)}
    parts = [run_part(bench, name, sizes.get(name, bench.size)) for name in METHODS]
    return [*parts, *(_annz2_part(path) for path in bench.annz2)]


def _annz2_part(path: str) -> Part:
    """Return the part that scores an output file of ANNz2."""

    def compute() -> dict[str, Any]:
        z, prediction = read_annz2(path)
        facts = {"method": "ANNz2", "size": None, "counted": "learners", "rows": {"test": len(z)}}
        return facts | summarise(z, prediction)

    return Part("annz2", {"annz2": file_hash(path)}, compute)


def usable(parts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the results of stored parts whose method was available."""
    return [part["result"] for part in parts if "unavailable" not in part["result"]]


def summarise(z: FloatArray, prediction: Prediction) -> dict[str, Any]:
    """Return metrics, curves, bins and a few objects from true redshifts (n,) and predictions of the same objects."""
    curves = rejection_curves(z, prediction, PAPER_METRICS)
    retained = retained_curve(z, prediction, thresholds=THRESHOLDS)
    bins = binned_metrics(z, prediction, ["bias"], fractions=PAPER_FRACTIONS)
    boxes = uncertainty_boxes(z, prediction, edges=bins.edges)
    box_values = {name: {part: getattr(boxes[name], part) for part in BOX_PARTS} for name in ("model", "noise")}
    bias = {"edges": bins.edges, "fractions": bins.fractions, "counts": bins.counts, "values": bins.values["bias"]}
    some = slice(0, SCATTER_POINTS)
    return {
        "metrics": evaluate(z, prediction),
        "fr": {"threshold": THRESHOLDS, "percent": retained.values},
        "rejection": {"fraction": curves["rmse"].fractions} | {name: curve.values for name, curve in curves.items()},
        "bias": bias,
        "boxes": {"edges": bins.edges, **box_values},
        "scatter": {"z_spec": z[some], "z_phot": prediction.z_phot[some], "std": prediction.std[some]},
    }
