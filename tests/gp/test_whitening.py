"""Whitening of inputs that hardly vary, or lie far from zero."""

from __future__ import annotations

import numpy as np
import pytest

from gpzed.errors import DataWarning, NumericalError
from gpzed.gp.whitening import Moments, fit_whitening


def moments(X):
    return Moments.of(X, np.ones(len(X)))


def test_rounding_of_constant_inputs_is_not_whitened():
    """All columns equal but for the last bit: their scatter is dust, and no direction may be scaled by it."""
    X = np.tile([0.1, 0.7, -1.3], (60, 1))
    X[::2] += 1e-16 * np.sign(X[::2])
    with pytest.warns(DataWarning, match="constant"):
        whitening = fit_whitening(moments(X), "pca")
    np.testing.assert_allclose(np.linalg.svd(whitening.matrix, compute_uv=False), 1.0)
    assert np.abs(whitening(X)).max() < 1e-14


def test_constant_inputs_leave_the_others_alone():
    X = np.random.default_rng(0).standard_normal((50, 3)) * [1.0, 1e-3, 0.0] + [0.0, 0.0, 5.0]
    with pytest.warns(DataWarning, match="feature 2 "):
        whitened = fit_whitening(moments(X), "pca")(X)
    np.testing.assert_allclose(np.sort(whitened.std(axis=0)), [0.0, 1.0, 1.0], atol=1e-12)


@pytest.mark.parametrize("scatter", [0.0, 1.0, 1e9])
def test_inputs_far_from_zero_need_whitening(scatter):
    X = 1e9 + scatter * np.random.default_rng(0).standard_normal((50, 1))
    with pytest.raises(NumericalError, match=r"feature 0 .*Use whitening"):
        fit_whitening(moments(X), "none")
    if scatter < 2.0:
        assert fit_whitening(moments(X - 1e9), "none").matrix == 1.0
