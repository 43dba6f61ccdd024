"""Rejection curves and binned statistics against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from gpzed.evaluation import (
    METRICS,
    RejectionCurve,
    binned_metrics,
    evaluate,
    rejection_curve,
    rejection_curves,
    relative_improvement,
    uncertainty_boxes,
)
from gpzed.prediction import Prediction


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    std = rng.uniform(0.02, 0.4, 203)
    mean = rng.uniform(0.1, 1.5, 203)
    parts = std**2 * rng.dirichlet(np.ones(3), 203).T  # in no fixed proportion
    return np.abs(rng.normal(mean, std)), Prediction.gaussian(mean, *parts)


@pytest.mark.parametrize("weighted", [False, True])
def test_every_metric_equals_the_metric_of_the_subsample(data, weighted):
    z, p = data
    weight = np.random.default_rng(1).uniform(0, 2, len(z)) if weighted else None
    fractions = [0.1, 0.37, 1.0]
    curves = rejection_curves(z, p, list(METRICS), fractions=fractions, sample_weight=weight)
    order = np.argsort(p.variance)
    for i, f in enumerate(fractions):
        rows = order[: round(f * len(z))]
        expected = evaluate(z[rows], p[rows], None if weight is None else weight[rows])
        for name, curve in curves.items():
            assert curve.values[i] == pytest.approx(expected[name], rel=1e-9), name
            assert curve.n_kept[i] == len(rows)


def test_rejection_improves_an_honest_model(data):
    z, p = data
    curve = rejection_curve(z, p, "rmse")
    assert len(curve.fractions) == 100
    assert curve.values[19] < curve.values[-1]
    assert curve.values.min() < curve.area < curve.values.max()
    line = RejectionCurve("rmse", np.array([0.5, 0.75, 1.0]), np.array([2, 3, 4]), np.array([1.0, 2.0, 3.0]))
    assert line.area == pytest.approx(2.0)


def curve(metric, values, fractions=(0.5, 1.0)):
    return RejectionCurve(metric, np.array(fractions), np.array([1, 2]), np.array(values))


def test_improvement_has_the_papers_formula_and_sign():
    loss = relative_improvement(curve("rmse", [0.9, 1.8]), curve("rmse", [1.0, 2.0]))
    np.testing.assert_allclose(loss.values, [10, 10])
    assert loss.mean == pytest.approx(10)
    score = relative_improvement(curve("mll", [1.5, -1.0]), curve("mll", [1.0, -2.0]))
    np.testing.assert_allclose(score.values, [-50, -50])
    assert score.mean == pytest.approx(50)
    gap = relative_improvement(curve("rmse", [0.9, 0.5]), curve("rmse", [0.0, 1.0]))
    assert np.isnan(gap.values[0])
    assert gap.mean == pytest.approx(50)


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        (curve("rmse", [1, 1]), curve("mll", [1, 1]), "`reference` is a curve of 'rmse'"),
        (curve("bias", [1, 1]), curve("bias", [1, 1]), "best near a target"),
        (curve("rmse", [1, 1]), curve("rmse", [1, 1], (0.4, 1)), "different `fractions`"),
    ],
)
def test_improvement_refuses_what_cannot_be_compared(one, other, message):
    with pytest.raises(ValueError, match=message):
        relative_improvement(one, other)


def test_rejection_arguments(data):
    z, p = data
    with pytest.raises(ValueError, match="`fractions` must be fractions above 0"):
        rejection_curve(z, p, fractions=[0.0, 0.5])
    with pytest.raises(ValueError, match="give a list of names"):
        rejection_curves(z, p, "rmse")
    with pytest.raises(ValueError, match="unknown metric 'mse'"):
        rejection_curve(z, p, "mse")
    with pytest.raises(ValueError, match="the prediction has no objects"):
        rejection_curve([], p[:0])
    one = rejection_curve(z[:1], p[:1])
    assert one.area == pytest.approx(one.values[0])


@pytest.mark.parametrize("weighted", [False, True])
def test_bins_equal_loops(data, weighted):
    z, p = data
    weight = np.linspace(0.1, 2, len(z)) if weighted else np.ones(len(z))
    table = binned_metrics(z, p, ["bias", "sigma_nmad"], edges=[0.2, 0.5, 1.0, 1.4], sample_weight=weight)
    order = np.argsort(p.variance)
    for i, f in enumerate((1.0, 0.75, 0.5, 0.25)):
        rows = order[: round(f * len(z))]
        for b, (lo, hi) in enumerate(((0.2, 0.5), (0.5, 1.0), (1.0, 1.4))):
            inside = np.sort(rows[(z[rows] >= lo) & (z[rows] < hi)])
            assert table.counts[i, b] == len(inside)
            scores = evaluate(z[inside], p[inside], weight[inside])
            assert table.values["bias"][i, b] == pytest.approx(scores["bias"], rel=1e-9)
            assert table.values["sigma_nmad"][i, b] == pytest.approx(scores["sigma_nmad"], rel=1e-9)
    np.testing.assert_allclose(table.centers, [0.35, 0.75, 1.2])


def test_default_bins_hold_every_object_and_empty_bins_are_nan(data):
    z, p = data
    table = binned_metrics(z, p, ["rmse"])
    assert table.counts[0].sum() == len(z)
    np.testing.assert_allclose(np.diff(table.edges), 0.1)
    np.testing.assert_array_equal(np.isnan(table.values["rmse"]), table.counts == 0)
    magnitude = np.linspace(18, 24, len(z))
    by = binned_metrics(z, p, ["rmse"], by=magnitude, edges=[18, 20, 22, 24])
    assert by.counts[0].sum() == len(z)
    one = binned_metrics([0.3, 0.3], p[:2], ["rmse"])
    assert one.counts.max() == 2


def test_boxes_are_quantiles(data):
    z, p = data
    boxes = uncertainty_boxes(z, p, edges=[0.0, 0.6, 1.2, 9.0, 10.0])
    first = z < 0.6
    parts = {"model": p.model_variance, "noise": p.noise_variance, "input": p.input_variance, "total": p.variance}
    assert set(boxes) == set(parts)
    for name, variance in parts.items():
        box, std = boxes[name], np.sqrt(variance[first])
        assert box.counts[0] == first.sum()
        for field, q in (("low", 0), ("q1", 0.25), ("median", 0.5), ("q3", 0.75), ("high", 1)):
            assert getattr(box, field)[0] == pytest.approx(np.quantile(std, q))
            assert np.isnan(getattr(box, field)[3])


def test_bin_arguments(data):
    z, p = data
    with pytest.raises(ValueError, match=r"`by` has shape \(1,\)"):
        binned_metrics(z, p, by=[1.0])
    with pytest.raises(ValueError, match="remove missing-value codes"):
        binned_metrics(z, p, by=np.where(z == z[0], -9999.0, 20.0))
    with pytest.raises(ValueError, match="`edges` must be two or more"):
        uncertainty_boxes(z, p, edges=[1.0])
    with pytest.raises(ValueError, match="`whiskers` is"):
        uncertainty_boxes(z, p, whiskers=(0.5, 1.0))
