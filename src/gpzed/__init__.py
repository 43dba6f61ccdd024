"""Photometric redshifts with uncertainties you can trust: GPz (Almosallam, Jarvis & Roberts 2016)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpzed.model import GPzRegressor
    from gpzed.model import Run as Run
    from gpzed.model import Training as Training
    from gpzed.prediction import Prediction
    from gpzed.workflows.evaluate import evaluate
    from gpzed.workflows.model import load_model
    from gpzed.workflows.predict import predict
    from gpzed.workflows.train import train

__version__ = "0.1.0"

_PUBLIC = {
    "GPzRegressor": "gpzed.model",
    "Run": "gpzed.model",  # records for arguments of the others
    "Training": "gpzed.model",
    "Prediction": "gpzed.prediction",
    "train": "gpzed.workflows",
    "predict": "gpzed.workflows",
    "evaluate": "gpzed.workflows",
    "load_model": "gpzed.workflows",
}

__all__ = ["GPzRegressor", "Prediction", "__version__", "evaluate", "load_model", "predict", "train"]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'gpzed' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
