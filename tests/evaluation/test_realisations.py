"""Realisations of n(z): their scatter is that of redshifts about predictions, by numbers of objects and labels."""

from __future__ import annotations

import numpy as np
import pytest

from gpzed.evaluation.realisations import EFFICIENCY, realise
from gpzed.prediction import Prediction

EDGES = np.linspace(0.0, 2.0, 41)
STD = 0.1


def galaxies(n, seed=0):
    z = np.random.default_rng(seed).uniform(0.5, 1.5, n)
    return Prediction.gaussian(z, np.full(n, STD**2 / 2), np.full(n, STD**2 / 2))


@pytest.mark.parametrize("n_labels", [None, 300])
def test_means_scatter_by_the_numbers_of_objects_and_labels(n_labels):
    p, n = galaxies(1200), 1200
    sample = (p.mean > 1.0).astype(int)
    drawn = realise(p, EDGES, sample, 2, n_labels=n_labels, n_realisations=400)
    share = np.bincount(sample) / n
    expected = STD * np.sqrt(1.0 / (n * share) + (0.0 if n_labels is None else 1.0 / (EFFICIENCY * n_labels * share)))
    np.testing.assert_allclose(drawn.mean_error, expected, rtol=0.15)
    np.testing.assert_allclose(drawn.mean.mean(axis=0), [p.mean[sample == k].mean() for k in (0, 1)], atol=0.003)
    np.testing.assert_allclose(drawn.density.sum(axis=2) * 0.05, 1.0, atol=0.01)
    assert drawn.mean_covariance.shape == (2, 2)
    low, high = drawn.interval()
    np.testing.assert_allclose(high - low, 2.0 * expected, rtol=0.25)


def test_members_that_disagree_scatter_together():
    p = galaxies(1000)
    members = [Prediction.gaussian(p.mean + shift, p.model_variance, p.noise_variance) for shift in (-0.1, 0.0, 0.1)]
    whole, sample = Prediction.mixture(members), (p.mean > 1.0).astype(int)
    drawn = realise(whole, EDGES, sample, 2, n_members=3, n_realisations=300)
    correlation = np.corrcoef(drawn.mean.T)[0, 1]
    assert correlation > 0.8
    assert 0.02 < drawn.mean_error[0] < 0.1


def test_leading_modes_hold_most_of_the_variance():
    p = galaxies(400)
    drawn = realise(p, np.linspace(0, 2, 9), np.zeros(400, dtype=int), 1, n_labels=100, n_realisations=300)
    modes, shares = drawn.modes(7)
    assert modes.shape == (7, 1, 8)
    assert np.all(np.diff(shares) <= 0.0)
    rebuilt = np.einsum("ki,kj->ij", modes[:, 0], modes[:, 0])
    np.testing.assert_allclose(rebuilt, drawn.covariance, atol=0.02 * drawn.covariance.max())


def test_weights_and_objects_outside():
    p = galaxies(500)
    weight = np.where(p.mean > 1.2, 1.0, 0.0)
    drawn = realise(p, EDGES, np.zeros(500, dtype=int), 2, sample_weight=weight, n_realisations=50)
    assert drawn.mean[:, 0].min() > 1.25
    assert np.isnan(drawn.mean[:, 1]).all()
