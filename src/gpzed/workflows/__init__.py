"""Files in, files out: train, predict and evaluate as the command line and other front ends call them."""

from __future__ import annotations

from gpzed.distributed.predict import predict_partitions
from gpzed.workflows.evaluate import Evaluation, EvaluationOptions, evaluate, improvements, read_predictions
from gpzed.workflows.modelfile import TrainedPipeline, load_estimator, load_pipeline, model_hash
from gpzed.workflows.predict import PredictReport, predict, predict_columns, predict_table
from gpzed.workflows.predictions import PredictionFile, read_prediction_file
from gpzed.workflows.report import PageReport, write_report
from gpzed.workflows.reporter import Reporter, Task
from gpzed.workflows.select import SelectionReport, select
from gpzed.workflows.train import TrainReport, train, train_table
from gpzed.workflows.training_rows import TrainingPlan, plan_training

__all__ = [
    "Evaluation",
    "EvaluationOptions",
    "PageReport",
    "PredictReport",
    "PredictionFile",
    "Reporter",
    "SelectionReport",
    "Task",
    "TrainReport",
    "TrainedPipeline",
    "TrainingPlan",
    "evaluate",
    "improvements",
    "load_estimator",
    "load_pipeline",
    "model_hash",
    "plan_training",
    "predict",
    "predict_columns",
    "predict_partitions",
    "predict_table",
    "read_prediction_file",
    "read_predictions",
    "select",
    "train",
    "train_table",
    "write_report",
]
