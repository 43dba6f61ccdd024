"""Photometric redshifts with uncertainties you can trust: GPz (Almosallam, Jarvis & Roberts 2016)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from gpzed.model import GPzRegressor
    from gpzed.model import Run as Run
    from gpzed.model import Training as Training
    from gpzed.prediction import Prediction
    from gpzed.workflows.evaluate import evaluate
    from gpzed.workflows.model import load_model
    from gpzed.workflows.predict import predict
    from gpzed.workflows.train import train

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
    if name == "__version__":
        return _version()
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'gpzed' has no attribute {name!r}")


def _version() -> str:
    """Return the version that was installed; a tree on the path that nobody installed has none."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("gpzed")
    except PackageNotFoundError:
        return "0+unknown"


def __dir__() -> list[str]:
    return sorted(__all__)
