"""Recalibration: PIT values become uniform, nothing is invented, and mixtures stay mixtures."""

from __future__ import annotations

import numpy as np
import pytest

from gpzed import GPzRegressor, Training, load_model
from gpzed.evaluation import evaluate
from gpzed.incomplete.patterns import RawRows
from gpzed.model.data import split_rows
from gpzed.model.recalibration import MIN_ROWS, Recalibration, fit_recalibration
from gpzed.prediction import Prediction
from helpers import one_model

pytestmark = pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")


def drawn(n, seed, scale=1.0, wings=0.0):
    """Targets whose errors are `scale` times what predictions say, with some three times as large again."""
    rng = np.random.default_rng(seed)
    mean, variance = rng.uniform(0, 2, n), rng.uniform(0.5, 1.5, n) ** 2 * 0.01
    width = scale * np.sqrt(variance) * np.where(rng.random(n) < wings, 4.0, 1.0)
    return Prediction.gaussian(mean, 0.3 * variance, 0.7 * variance), mean + width * rng.standard_normal(n)


@pytest.mark.parametrize(("scale", "wings"), [(0.6, 0.0), (1.7, 0.0), (0.7, 0.1)])
def test_finds_what_was_put_in(scale, wings):
    p, y = drawn(3000, 0, scale, wings)
    r = fit_recalibration(p, y)
    assert np.exp(r.log_scale) == pytest.approx(scale, rel=0.08)
    assert r.wing_weight == pytest.approx(wings, abs=0.03)
    if wings:
        assert r.wing_scale == pytest.approx(4.0, rel=0.2)
    fresh, z = drawn(4000, 1, scale, wings)
    before, after = evaluate(z, fresh), evaluate(z, r(fresh))
    assert after["pit_ks"] < 0.025 < before["pit_ks"]
    assert after["mll"] > before["mll"] + 0.05
    assert r.after["mll"] > r.before["mll"]
    assert r.before["pit_ks"] == pytest.approx(evaluate(y, p)["pit_ks"], abs=1e-12)


def test_leaves_alone_what_is_calibrated():
    p, y = drawn(1500, 2)
    r = fit_recalibration(p, y)
    assert not r.changes
    assert r(p) is p
    few = fit_recalibration(p[: MIN_ROWS - 1], y[: MIN_ROWS - 1] * 3.0)
    assert not few.changes


def test_parts_of_the_variance_and_means_are_kept():
    p = Prediction([[0.4, 0.6]], [[0.1, 0.5]], [[0.01, 0.02]], [[0.03, 0.04]], [[0.0, 0.01]])
    r = Recalibration(np.log(0.5), 0.2, 3.0)
    q = r(p)
    np.testing.assert_allclose(q.weights, [[0.32, 0.48, 0.2]])
    assert q.mean[0] == pytest.approx(p.mean[0])
    np.testing.assert_allclose(q.components.model_variances[0, :2], 0.25 * p.components.model_variances[0])
    assert q.components.noise_variances[0, 2] == pytest.approx(0.25 * 9.0 * p.noise_variance[0])
    assert q.components.input_variances[0, 2] == pytest.approx(0.25 * 9.0 * p.input_variance[0])


def test_the_fit_sees_the_densities_that_are_used():
    rng = np.random.default_rng(3)
    p = Prediction([[0.3, 0.7]] * 400, rng.uniform(0, 1, (400, 2)), np.full((400, 2), 0.01), np.full((400, 2), 0.02))
    y = p.sample(1, 4)[:, 0] + 0.3 * rng.standard_t(2, 400)
    r = fit_recalibration(p, y)
    halves = r(p).log_pdf(y).mean()
    assert r.wing_weight > 0
    assert halves == pytest.approx(r.after["mll"], abs=0.05)  # in-sample a little above cross-validated
    assert halves >= r.after["mll"] - 1e-3


def test_regions_differ():
    p, y = drawn(4000, 5)
    shares = np.repeat(np.eye(2), 2000, axis=0)
    y = p.mean + (y - p.mean) * np.where(shares[:, 0] > 0.5, 0.8, 1.25)
    r = fit_recalibration(p, y, None, shares)
    factors = np.exp(r.log_scale + r.local)
    assert factors[0] < 0.9 < 1.1 < factors[1]
    q = r(p, shares)
    for rows in (slice(0, 2000), slice(2000, 4000)):
        assert evaluate(y[rows], q[rows])["pit_ks"] < evaluate(y[rows], p[rows])["pit_ks"]


def heavy(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 1))
    return X, 20.0 + np.sin(X[:, 0]) + 0.1 * rng.standard_t(2.5, n)


@pytest.mark.parametrize("n_members", [1, 2])
def test_a_model_learns_the_wings_of_its_data_and_keeps_them(tmp_path, n_members):
    options = {"n_basis": 8, "max_iter": 30, "n_members": n_members, "random_state": 0}
    model = one_model(**options).fit(*heavy(2500, 0))
    plain = one_model(**options, calibrate="noise").fit(*heavy(2500, 0))
    assert model.recalibration_.wing_weight > 0
    X, y = heavy(4000, 1)
    p = model.predict_distribution(X)
    before, after = evaluate(y, plain.predict_distribution(X)), evaluate(y, p)
    assert p.n_components == n_members + 1
    assert after["mll"] > before["mll"] + 0.02
    assert after["pit_ks"] < 0.03 < before["pit_ks"]
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(load_model(tmp_path / "m").predict_distribution(X).variance, p.variance)


def test_local_needs_the_density():
    with pytest.raises(ValueError, match=r'`calibrate` is "local" but `coverage` is False'):
        one_model(calibrate="local", coverage=False).fit(*heavy(100, 0))
    model = one_model(n_basis=8, max_iter=20, calibrate="local", random_state=0).fit(*heavy(2500, 0))
    assert model.recalibration_.local.size > 1


def test_members_share_half_of_the_rows_held_out():
    rows = RawRows(np.arange(1000.0)[:, None], np.arange(1000.0), np.ones(1000))
    held = [split_rows(rows, 0.2, np.random.default_rng(seed), 0.5)[1][1] for seed in (1, 2)]
    assert len(held[0]) == 200
    np.testing.assert_array_equal(held[0][:100], held[1][:100])
    assert len(np.intersect1d(held[0][100:], held[1][100:])) < 40
    train, valid = split_rows(rows, 0.2, np.random.default_rng(1), 0.5)
    np.testing.assert_array_equal(np.sort(np.concatenate([train[1], valid[1]])), rows[1])


def test_few_rows_are_held_out_by_one_member_each_and_predicted_by_it():
    n = 300
    X = np.random.default_rng(0).standard_normal((n, 2))
    y = np.arange(n) / n  # tells rows apart; not to be learned
    options = {"n_basis": 5, "n_heads": 2, "n_members": 3, "n_networks": 2, "random_state": 0}
    model = GPzRegressor(**options, training=Training(max_iter=5, n_epochs=2)).fit(X, y)
    assert model.recalibration_ is None
    held = model.held_out_
    assert len(held.y) == len(held.prediction) == 90
    assert len(np.unique(held.y)) > 75  # half of them were the same if members shared theirs
    assert np.all(np.isfinite(held.prediction.log_pdf(held.y)))
