"""Files in, files out: train, predict and evaluate as the command line and other front ends call them."""

from __future__ import annotations

from gpzed.pipeline.evaluate import Evaluation, EvaluationOptions, evaluate, improvements, read_predictions
from gpzed.pipeline.modelfile import TrainedPipeline, load_estimator, load_pipeline, model_hash
from gpzed.pipeline.partitions import predict_partitions
from gpzed.pipeline.predict import PredictReport, predict, predict_columns, predict_table
from gpzed.pipeline.predictions import PredictionFile, read_prediction_file
from gpzed.pipeline.report import PageReport, write_report
from gpzed.pipeline.reporter import Reporter, Task
from gpzed.pipeline.select import SelectionReport, select
from gpzed.pipeline.train import TrainingInterruptedError, TrainReport, train, train_table
from gpzed.pipeline.training_rows import TrainingPlan, plan_training

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
    "TrainingInterruptedError",
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
