"""Targets that may be wrong: each is right, with an error of known variance, or drawn from anywhere.

    p(y) = (1 - q) f(y | x) + q p0(y),

with q the probability that the label of a row is wrong, f what the model predicts, the label's error included, and p0
the distribution of all targets, a Gaussian in their standardised units. The gradient of ``ln p`` is that of ``ln f``
times the probability that the label is right, given what the model says of it: training gives it as a weight to the
row, and learns it anew between stages (EM).
"""

from __future__ import annotations

import numpy as np

from gpzed._types import FloatArray

LOG_2PI = float(np.log(2.0 * np.pi))


def log_anywhere(y: FloatArray) -> FloatArray:
    """Return the log density of wrong targets, target standardised."""
    return -0.5 * (y**2 + LOG_2PI)


def log_likelihood(log_density: FloatArray, log_wrong: FloatArray, wrong: FloatArray | None) -> FloatArray:
    """Return the log-likelihood of targets that may be wrong, from their log densities (..., n) if right and if not."""
    if wrong is None:
        return log_density
    with np.errstate(divide="ignore"):
        return np.asarray(np.logaddexp(np.log1p(-wrong) + log_density, np.log(wrong) + log_wrong))


def trust(log_density: FloatArray, log_wrong: FloatArray, wrong: FloatArray) -> FloatArray:
    """Return the probability (n,) that targets are right, given their log densities if right and if not."""
    with np.errstate(divide="ignore", over="ignore"):
        odds_against = np.exp(np.log(wrong) - np.log1p(-wrong) + log_wrong - log_density)
    return np.asarray(1.0 / (1.0 + odds_against))
