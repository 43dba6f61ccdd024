"""Files in, files out: train, predict and evaluate as the command line and other front ends call them."""

from __future__ import annotations

from gpzed.pipeline.evaluate import Evaluation, evaluate, read_predictions
from gpzed.pipeline.modelfile import TrainedPipeline, load_pipeline, model_hash
from gpzed.pipeline.predict import PredictReport, predict, predict_columns, predict_table
from gpzed.pipeline.reporter import Reporter, Task
from gpzed.pipeline.train import (
    TrainingInterruptedError,
    TrainingPlan,
    TrainReport,
    plan_training,
    train,
    train_table,
)

__all__ = [
    "Evaluation",
    "PredictReport",
    "Reporter",
    "Task",
    "TrainReport",
    "TrainedPipeline",
    "TrainingInterruptedError",
    "TrainingPlan",
    "evaluate",
    "load_pipeline",
    "model_hash",
    "plan_training",
    "predict",
    "predict_columns",
    "predict_table",
    "read_predictions",
    "train",
    "train_table",
]
