"""The risk that a redshift is far off, from its whole density.

A density with a second peak far away has a small variance if that peak is low, and one with broad wings a large one
though its redshift is safe; the probability of being far off tells them apart.
"""

from __future__ import annotations

import numpy as np

from gpzed._types import FloatArray, IntArray
from gpzed.prediction import Prediction

CATASTROPHIC = 0.2
"""|z_phot - z| / (1 + z) of a catastrophic outlier, as DESC's photo-z challenge has it."""


def outlier_risk(prediction: Prediction, threshold: float = CATASTROPHIC) -> FloatArray:
    """Return the predicted probability (n,) that ``|z_phot - z| > threshold (1 + z)``.

    Examples
    --------
    >>> p = Prediction.gaussian([0.5, 0.5], [0.01, 0.0001], [0.0, 0.0])
    >>> outlier_risk(p, 0.1).round(3).tolist()
    [0.134, 0.0]
    """
    if not 0.0 < threshold < 1.0:
        raise ValueError(f"`threshold` is {threshold}; expected a number above 0 and below 1, such as {CATASTROPHIC}.")
    z = prediction.z_phot
    low, high = (z - threshold) / (1.0 + threshold), (z + threshold) / (1.0 - threshold)
    return np.asarray(np.clip(1.0 - (prediction.cdf(high) - prediction.cdf(low)), 0.0, 1.0))


def order_by_risk(prediction: Prediction) -> IntArray:
    """Return positions (n,) from the safest to the riskiest object; ties keep their order."""
    return np.argsort(outlier_risk(prediction), kind="stable")
