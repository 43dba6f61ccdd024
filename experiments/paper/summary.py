"""All that the tables and figures of section 7 show of one method, from its predictions of the test set."""

from __future__ import annotations

from typing import Any

import numpy as np

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


def summarise(z: FloatArray, prediction: Prediction) -> dict[str, Any]:
    """Return metrics, curves, bins and a few objects.

    Parameters
    ----------
    z : ndarray of shape (n,)
        True redshifts.
    prediction : Prediction
        Of the same objects.

    Returns
    -------
    dict
        ``metrics``, ``fr``, ``rejection``, ``bias``, ``boxes`` and ``scatter``.
    """
    curves = rejection_curves(z, prediction, PAPER_METRICS)
    retained = retained_curve(z, prediction, thresholds=THRESHOLDS)
    bins = binned_metrics(z, prediction, ["bias"], fractions=PAPER_FRACTIONS)
    boxes = uncertainty_boxes(z, prediction, edges=bins.edges)
    some = slice(0, SCATTER_POINTS)
    return {
        "metrics": evaluate(z, prediction),
        "fr": {"threshold": THRESHOLDS, "percent": retained.values},
        "rejection": {
            "fraction": curves["rmse"].fractions,
            **{name: curve.values for name, curve in curves.items()},
        },
        "bias": {
            "edges": bins.edges,
            "fractions": bins.fractions,
            "counts": bins.counts,
            "values": bins.values["bias"],
        },
        "boxes": {
            "edges": bins.edges,
            **{name: {part: getattr(boxes[name], part) for part in BOX_PARTS} for name in ("model", "noise")},
        },
        "scatter": {
            "z_spec": z[some],
            "z_phot": prediction.z_phot[some],
            "std": prediction.std[some],
        },
    }
