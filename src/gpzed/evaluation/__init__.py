"""Numbers from true redshifts and predictions: metrics, rejection, bins, calibration, selection."""

from __future__ import annotations

from gpzed.evaluation._table import METRICS
from gpzed.evaluation.binned import BinnedMetrics, BoxStatistics, binned_metrics, uncertainty_boxes
from gpzed.evaluation.calibration import (
    PitHistogram,
    Pulls,
    QQCurve,
    Reliability,
    pit_histogram,
    pulls,
    qq_curve,
    reliability,
)
from gpzed.evaluation.metrics import (
    bias,
    brier,
    cde_loss,
    coverage,
    crps,
    evaluate,
    fraction_retained,
    mll,
    outlier_fraction,
    pit,
    pit_ad,
    pit_cvm,
    pit_ks,
    rmse,
    sigma_nmad,
)
from gpzed.evaluation.rejection import (
    Improvement,
    RejectionCurve,
    rejection_curve,
    rejection_curves,
    relative_improvement,
)
from gpzed.evaluation.resampling import BootstrapResult, bootstrap, bootstrap_metrics
from gpzed.evaluation.retained import RetainedCurve, retained_curve
from gpzed.evaluation.selection import Selection, select
from gpzed.evaluation.stack import RedshiftDistribution, Stack, stack

__all__ = [
    "METRICS",
    "BinnedMetrics",
    "BootstrapResult",
    "BoxStatistics",
    "Improvement",
    "PitHistogram",
    "Pulls",
    "QQCurve",
    "RedshiftDistribution",
    "RejectionCurve",
    "Reliability",
    "RetainedCurve",
    "Selection",
    "Stack",
    "bias",
    "binned_metrics",
    "bootstrap",
    "bootstrap_metrics",
    "brier",
    "cde_loss",
    "coverage",
    "crps",
    "evaluate",
    "fraction_retained",
    "mll",
    "outlier_fraction",
    "pit",
    "pit_ad",
    "pit_cvm",
    "pit_histogram",
    "pit_ks",
    "pulls",
    "qq_curve",
    "rejection_curve",
    "rejection_curves",
    "relative_improvement",
    "reliability",
    "retained_curve",
    "rmse",
    "select",
    "sigma_nmad",
    "stack",
    "uncertainty_boxes",
]
