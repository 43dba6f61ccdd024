"""Metrics against those of qp and properscoring, which the field uses."""

from __future__ import annotations

import numpy as np
import pytest

from gpzed.evaluation import brier, coverage, crps, mll, pit, pit_cvm, pit_ks
from gpzed.prediction import Prediction

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs
N = 300


@pytest.fixture(scope="module")
def mixture() -> tuple[np.ndarray, Prediction]:
    rng = np.random.default_rng(11)
    p = Prediction(rng.dirichlet(np.ones(3), N), rng.uniform(0.4, 1.5, (N, 3)), *rng.gamma(2.0, 0.003, (2, N, 3)))
    return p.sample(1, rng)[:, 0], p


def test_crps_of_gaussians_is_that_of_properscoring() -> None:
    properscoring = pytest.importorskip("properscoring")
    rng = np.random.default_rng(0)
    mean, std = rng.uniform(0, 2, N), rng.uniform(0.02, 0.4, N)
    z = np.abs(rng.normal(mean, 1.5 * std))
    theirs = properscoring.crps_gaussian(z, mu=mean, sig=std)
    p = Prediction.gaussian(mean, 0.3 * std**2, 0.7 * std**2)
    np.testing.assert_allclose(p.crps(z), theirs, rtol=1e-10)
    assert crps(z, p) == pytest.approx(theirs.mean(), rel=1e-12)


def test_crps_of_mixtures_is_that_of_many_draws(mixture: tuple[np.ndarray, Prediction]) -> None:
    properscoring = pytest.importorskip("properscoring")
    z, p = mixture
    theirs = properscoring.crps_ensemble(z[:20], p[:20].sample(1000, random_state=1))
    np.testing.assert_allclose(p[:20].crps(z[:20]), theirs, rtol=0.1, atol=1e-3)
    assert crps(z[:20], p[:20]) == pytest.approx(theirs.mean(), rel=0.01)


def test_pit_and_its_statistics_are_those_of_qp(mixture: tuple[np.ndarray, Prediction]) -> None:
    pytest.importorskip("qp")
    from qp.metrics.pit import PIT

    z, p = mixture
    theirs = PIT(p.to_qp(), z)
    np.testing.assert_allclose(np.ravel(theirs.pit_samps), pit(z, p), atol=1e-10)
    assert pit_ks(z, p) == pytest.approx(float(theirs.evaluate_PIT_KS().statistic), rel=1e-9)
    assert pit_cvm(z, p) == pytest.approx(float(theirs.evaluate_PIT_CvM().statistic), rel=1e-9)


def test_brier_score_is_that_of_qp_for_bin_probabilities(mixture: tuple[np.ndarray, Prediction]) -> None:
    pytest.importorskip("qp")
    from qp.metrics.brier import Brier

    z, p = mixture
    edges = np.linspace(-0.5, 3.0, 36)  # all redshifts and all probability lie inside
    probability = np.diff(p.to_qp().cdf(edges), axis=1)
    truth = (z[:, None] >= edges[:-1]) & (z[:, None] < edges[1:])
    theirs = Brier(probability, truth.astype(float)).evaluate()
    assert brier(z, p, edges=edges) == pytest.approx(float(theirs), rel=1e-9)


def test_densities_and_intervals_are_those_of_qp(mixture: tuple[np.ndarray, Prediction]) -> None:
    pytest.importorskip("qp")
    z, p = mixture
    ensemble = p.to_qp()
    assert mll(z, p) == pytest.approx(float(np.mean(np.log(ensemble.pdf(z[:, None])))), rel=1e-9)
    below = np.ravel(ensemble.cdf(z[:, None]))
    for level in (0.68, 0.95):
        inside = np.abs(below - 0.5) <= 0.5 * level
        assert coverage(z, p, level=level) == pytest.approx(inside.mean())
