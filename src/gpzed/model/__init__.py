"""Fitted models: the scikit-learn estimator, its committee and the model file."""

from __future__ import annotations

from gpzed.model.estimator import GPzRegressor
from gpzed.model.member import TrainingReport
from gpzed.model.options import Training
from gpzed.model.run import HEADS_STAGE, NETWORK_STAGE, Run, StepInfo

__all__ = ["HEADS_STAGE", "NETWORK_STAGE", "GPzRegressor", "Run", "StepInfo", "Training", "TrainingReport"]
