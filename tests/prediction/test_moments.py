"""Moments of mixtures: the compiled ones are those of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from gpzed.prediction import Components
from gpzed.prediction import components as module


@pytest.mark.parametrize("lower", [None, 0.0])
@pytest.mark.parametrize("input_", [[0, 0, 0, 0, 0], [0, 1, 0, 1, 0]])
def test_compiled_moments_are_those_of_numpy(lower, input_, monkeypatch):
    rng = np.random.default_rng(0)
    n, member = 400, np.array([0, 0, 1, 1, -1])
    weights = rng.gamma(0.5, size=(n, 5))
    weights[rng.random((n, 5)) < 0.2] = 0.0
    weights[:, 0] += 0.01
    weights /= weights.sum(axis=1, keepdims=True)
    means = rng.normal(0.4, 0.5, (n, 5))
    means[:20] -= 40.0  # all far below the cut
    variances = rng.gamma(0.5, 0.01, (3, n, 5)) + 1e-8
    made = Components(weights, means, *variances, member, np.array(input_))
    found = made.moments(lower)
    monkeypatch.setattr(module, "is_compiled", lambda: False)
    for one, two in zip(found, made.moments(lower), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-7, atol=1e-15)
