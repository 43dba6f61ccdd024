"""The risk of a catastrophic outlier, and selection by it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpzed.evaluation import outlier_risk, select
from gpzed.prediction import Prediction


def two_peaks(n, seed=0):
    """Return densities of which some have a second peak far away, others are broad but safe, and redshifts drawn."""
    rng = np.random.default_rng(seed)
    first = rng.uniform(0.3, 0.6, n)
    share = np.where(np.arange(n) % 2, rng.uniform(0.0, 0.4, n), 0.0)
    std = np.where(np.arange(n) % 2, 0.01, 0.1)
    parts = [Prediction.gaussian(first + shift, 0 * std, std**2) for shift in (0.0, 0.6)]
    p = Prediction.mixture(parts)
    weights = np.column_stack([1.0 - share, share])
    p = p.changed(components=replace(p.components, weights=weights), point=first)
    return p, p.sample(1, rng)[:, 0]


def test_is_the_rate_of_outliers():
    p, z = two_peaks(20_000)
    far = np.abs(p.z_phot - z) > 0.2 * (1.0 + z)
    risk = outlier_risk(p)
    assert risk.mean() == pytest.approx(far.mean(), abs=0.005)
    for low, high in ((0.0, 0.1), (0.1, 0.2), (0.2, 0.3)):
        inside = (risk > low) & (risk <= high)
        assert far[inside].mean() == pytest.approx(risk[inside].mean(), abs=0.02)


def test_least_risk_removes_more_outliers_than_least_variance():
    p, z = two_peaks(5000)
    far = np.abs(p.z_phot - z) > 0.2 * (1.0 + z)
    by_risk, by_variance = select(p, keep=0.8, by_risk=True), select(p, keep=0.8)
    assert far[by_risk.mask].sum() <= far[by_variance.mask].sum()
    assert outlier_risk(p)[by_risk.mask].max() <= outlier_risk(p)[~by_risk.mask].min()
    assert np.all(outlier_risk(p)[select(p, max_risk=0.1).mask] <= 0.1)


def test_what_cannot_be():
    p, _ = two_peaks(10)
    with pytest.raises(ValueError, match=r"`threshold` is 1\.5"):
        outlier_risk(p, 1.5)
    with pytest.raises(ValueError, match="`max_std` is given, but objects are ordered by risk"):
        select(p, max_risk=0.1, max_std=0.1)
