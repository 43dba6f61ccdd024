"""The predictive distribution: a (possibly truncated) mixture of Gaussians per object, or densities on a grid."""

from __future__ import annotations

from gpzed.prediction.components import OF_ALL, Components
from gpzed.prediction.distribution import Prediction
from gpzed.prediction.gridded import GriddedPrediction

__all__ = ["OF_ALL", "Components", "GriddedPrediction", "Prediction"]
