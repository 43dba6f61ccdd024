"""Adam: its steps, their schedule, and the mean of the parameters over the last ones."""

from __future__ import annotations

import numpy as np
import pytest

from gpzed.engine import adam as module
from gpzed.engine.adam import Adam, schedule


def test_the_first_step_is_as_long_as_the_rate():
    adam = Adam(np.zeros(3), 10)
    adam.step(np.array([2.0, -0.1, 0.5]), 1.0)
    np.testing.assert_allclose(adam.theta, -schedule(0.0)[0] * np.array([1.0, -1.0, 1.0]), rtol=1e-6)


def test_long_gradients_are_shortened(monkeypatch):
    monkeypatch.setattr(module, "MAX_NORM", 1e-3)
    adam = Adam(np.zeros(3), 10)
    assert adam.step(np.array([2.0, 1.0, 2.0]), -0.5) == pytest.approx(1.5)
    assert np.linalg.norm(adam.first) / (1.0 - module.MOMENTUM[0]) == pytest.approx(1e-3)


def test_a_quadratic_is_minimised():
    target = np.array([0.3, -0.2, 0.1])
    adam = Adam(np.zeros(3), 2000)
    for _ in range(2000):
        adam.step(adam.theta - target, 1.0)
    np.testing.assert_allclose(adam.mean, target, atol=1e-6)


def test_the_mean_is_over_the_last_steps():
    rng, total = np.random.default_rng(0), 200
    adam = Adam(np.zeros(5), total)
    course = [adam.theta.copy()]
    for _ in range(total // 2):
        adam.step(rng.standard_normal(5), 1.0)
        course.append(adam.theta.copy())
    weights = (1.0 - 1.0 / (module.MEMORY * total)) ** np.arange(len(course))[::-1]
    np.testing.assert_allclose(adam.mean, np.average(course, axis=0, weights=weights), atol=1e-3)
    assert np.abs(adam.mean - course[-1]).max() > 1e-3


def test_schedule_rises_and_falls():
    rates = [schedule(p)[0] for p in np.linspace(0.0, 1.0, 101)]
    assert np.argmax(rates) == 30
    assert rates[-1] == pytest.approx(0.0, abs=1e-12)
    assert 0.84 < schedule(0.3)[1] < 0.86 < 0.94 < schedule(1.0)[1] < 0.96
