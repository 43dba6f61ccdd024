"""The predictive distribution: a (possibly truncated) mixture of Gaussians per object."""

from __future__ import annotations

from gpzed.prediction.distribution import Prediction

__all__ = ["Prediction"]
