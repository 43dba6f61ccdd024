"""n(z): sums, samples, weights, and error bars that mean what they say."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gpzed.evaluation import Stack, stack
from gpzed.prediction import Prediction

EDGES = np.linspace(-1.0, 3.0, 81)


def galaxies(n, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.gamma(4.0, 0.2, n)
    mean = z + 0.1 * rng.standard_normal(n)
    return z, Prediction.gaussian(mean, np.full(n, 0.004), np.full(n, 0.006))


def test_is_the_weighted_mean_of_the_densities():
    _, p = galaxies(500)
    weight = np.random.default_rng(1).uniform(0, 2, 500)
    nz = stack(p, EDGES, sample_weight=weight, n_resamples=0)
    expected = weight @ np.diff(p.cdf_grid(EDGES), axis=1) / weight.sum() / np.diff(EDGES)
    np.testing.assert_allclose(nz.density[0], expected, rtol=1e-12)
    assert nz.density[0] @ np.diff(EDGES) == pytest.approx(1.0, abs=1e-3)
    assert nz.mean[0] == pytest.approx(np.average(p.mean, weights=weight))
    assert nz.weight[0] == pytest.approx(weight.sum())
    assert not nz.error.any()


def test_samples_are_cut_in_the_mean():
    _, p = galaxies(800)
    cuts = [0.3, 0.7, 1.2]
    nz = stack(p, EDGES, sample_edges=cuts, n_resamples=2)
    for k, (low, high) in enumerate(itertools.pairwise(cuts)):
        rows = (p.mean >= low) & (p.mean < high)
        assert nz.n[k] == rows.sum()
        alone = stack(p[rows], EDGES, n_resamples=0)
        np.testing.assert_allclose(nz.density[k], alone.density[0], rtol=1e-12)


def test_bootstrap_error_is_the_scatter_between_samples():
    many = np.array([stack(galaxies(400, seed)[1], EDGES, n_resamples=0).density[0] for seed in range(120)])
    nz = stack(galaxies(400, 999)[1], EDGES, n_resamples=300)
    busy = many.mean(axis=0) > 0.3
    np.testing.assert_allclose(nz.bootstrap_error[0][busy].mean(), many.std(axis=0)[busy].mean(), rtol=0.15)
    means = [stack(galaxies(400, seed)[1], EDGES, n_resamples=0).mean[0] for seed in range(120)]
    assert nz.mean_error[0] == pytest.approx(np.std(means), rel=0.3)


def test_committee_error_is_the_scatter_between_members():
    _, p = galaxies(300)
    members = [Prediction.gaussian(p.mean + shift, p.model_variance, p.noise_variance) for shift in (-0.1, 0.0, 0.1)]
    whole = Prediction.mixture(members)
    nz = stack(whole, EDGES, n_members=3, n_resamples=0)
    each = np.array([stack(m, EDGES, n_resamples=0).density[0] for m in members])
    np.testing.assert_allclose(nz.committee_error[0], each.std(axis=0, ddof=1), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(nz.density[0], each.mean(axis=0), rtol=1e-9, atol=1e-15)
    assert nz.mean_error[0] == pytest.approx(0.1)


def test_chunks_add_up():
    _, p = galaxies(700)
    total = Stack(EDGES, [0.0, 0.8, 2.0], n_resamples=0)
    for part in (p[:100], p[100:101], p[101:]):
        total.add(part)
    np.testing.assert_allclose(total.result().density, stack(p, EDGES, sample_edges=[0.0, 0.8, 2.0]).density)


def test_what_cannot_be():
    _, p = galaxies(10)
    with pytest.raises(ValueError, match="predictions are those of 1 models"):
        stack(p, EDGES, n_members=2)
    with pytest.raises(ValueError, match="nothing to stack"):
        Stack(EDGES).result()
    with pytest.raises(ValueError, match="strictly increasing"):
        stack(p, [1.0, 0.0])
