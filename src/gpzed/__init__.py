"""Photometric redshifts with uncertainties you can trust: GPz (Almosallam, Jarvis & Roberts 2016)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpzed.model import GPzRegressor, Run, Training, load_model
    from gpzed.prediction import Prediction

__version__ = "0.1.0"

_PUBLIC = {
    "GPzRegressor": "gpzed.model",
    "Run": "gpzed.model",
    "Training": "gpzed.model",
    "load_model": "gpzed.model",
    "Prediction": "gpzed.prediction",
}

__all__ = [
    "GPzRegressor",
    "Prediction",
    "Run",
    "Training",
    "__version__",
    "load_model",
]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'gpzed' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
