"""Files in, files out: train, predict and evaluate as the command line and other front ends call them."""

from __future__ import annotations

from gpzed.progress import Progress, Task
from gpzed.workflows.columns import predict_columns
from gpzed.workflows.ensemble import read_ensemble
from gpzed.workflows.evaluate import Evaluation, EvaluationOptions, evaluate, improvements
from gpzed.workflows.model import PhotozModel, load_model, load_photoz_model
from gpzed.workflows.photoz_catalog import PhotozCatalog
from gpzed.workflows.predict import predict
from gpzed.workflows.prediction_plan import PredictReport
from gpzed.workflows.predictions import PredictionFile, PredictionSource, read_predictions
from gpzed.workflows.report import PageReport, write_report
from gpzed.workflows.rows import predict_table
from gpzed.workflows.select import Criteria, SelectionReport, select
from gpzed.workflows.train import TrainReport, train, train_table
from gpzed.workflows.training_set import TrainingPlan, plan_training

__all__ = [
    "Criteria",
    "Evaluation",
    "EvaluationOptions",
    "PageReport",
    "PhotozCatalog",
    "PhotozModel",
    "PredictReport",
    "PredictionFile",
    "PredictionSource",
    "Progress",
    "SelectionReport",
    "Task",
    "TrainReport",
    "TrainingPlan",
    "evaluate",
    "improvements",
    "load_model",
    "load_photoz_model",
    "plan_training",
    "predict",
    "predict_columns",
    "predict_table",
    "read_ensemble",
    "read_predictions",
    "select",
    "train",
    "train_table",
    "write_report",
]
