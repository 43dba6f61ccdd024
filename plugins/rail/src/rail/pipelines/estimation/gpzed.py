"""From a training file and a test file to metrics: train gpzed, estimate, and judge with RAIL's own evaluator."""

from __future__ import annotations

from rail.core.stage import RailPipeline
from rail.evaluation.single_evaluator import SingleEvaluator

from rail.estimation.algos.gpzed import GPZedEstimator, GPZedInformer

METRICS = ["cdeloss", "pit", "brier", "point_stats_ez", "point_stats_iqr", "point_bias", "point_outlier_rate"]
"""Metrics of RAIL and qp for densities against true redshifts, and for point estimates against them."""


class GPZedPipeline(RailPipeline):
    """Inform, estimate, evaluate; for files whose columns are in the group ``photometry``, like RAIL's DC2 samples."""

    default_input_dict = {"input_train": "dummy.in", "input_test": "dummy.in"}

    def __init__(self) -> None:
        super().__init__()
        self.inform_gpzed = GPZedInformer.build(aliases={"input": "input_train"}, hdf5_groupname="photometry")
        self.estimate_gpzed = GPZedEstimator.build(
            aliases={"input": "input_test"},
            connections={"model": self.inform_gpzed.io.model},
            hdf5_groupname="photometry",
            id_col="id",
        )
        self.evaluate_gpzed = SingleEvaluator.build(
            aliases={"truth": "input_test"},
            connections={"input": self.estimate_gpzed.io.output},
            point_estimates=["zmode"],
            truth_point_estimates=["redshift"],
            metrics=METRICS,
            metric_config={"brier": {"limits": [0.0, 3.5]}},
            force_exact=True,
            hdf5_groupname="photometry",
        )
