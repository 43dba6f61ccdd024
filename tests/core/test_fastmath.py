"""The exponential, with and without the compiled kernel."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gpzed.core import fastmath
from gpzed.core.fastmath import exp_in_place


@pytest.fixture(params=["kernel", "numpy"])
def route(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setattr(fastmath, "_library", None)
    elif not fastmath.HAS_KERNELS:
        pytest.skip("the compiled kernel was not built")
    return request.param


@given(x=arrays(np.float64, st.integers(0, 40), elements=st.floats(-700.0, 700.0)))
def test_values(route, x):
    expected = np.exp(x)
    exp_in_place(x)
    np.testing.assert_allclose(x, expected, rtol=1e-14)


def test_accuracy_is_that_of_numpy(route):
    x = np.concatenate([np.linspace(-708.0, 708.0, 200_001), np.linspace(-1.0, 1.0, 10_001), [0.0, -0.0]])
    expected = np.exp(x)
    exp_in_place(x)
    np.testing.assert_allclose(x, expected, rtol=6e-16)
    assert x[-1] == 1.0


@pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 17])
def test_special_values(route, length):
    x = np.full(length, -1.0)
    for special, check in [
        (np.nan, np.isnan),
        (-np.inf, lambda v: v == 0.0),
        (-1000.0, lambda v: v == 0.0),
        (np.inf, lambda v: v > 1e307),
        (-708.0, lambda v: v > 0.0),
    ]:
        for position in range(length):
            x[:] = -1.0
            x[position] = special
            exp_in_place(x)
            assert check(x[position])
            np.testing.assert_allclose(np.delete(x, position), np.exp(-1.0), rtol=1e-15)


def test_shapes_and_views(route):
    rng = np.random.default_rng(0)
    base = rng.uniform(-5, 0, (12, 10))
    for view in (np.s_[::2], np.s_[:, 1:7], np.s_[:, ::-1], np.s_[3:5]):
        x = base.copy()
        exp_in_place(x[view])
        expected = base.copy()
        expected[view] = np.exp(base[view])
        np.testing.assert_allclose(x, expected, rtol=1e-15)
    x = np.asfortranarray(base)
    exp_in_place(x)
    np.testing.assert_allclose(x, np.exp(base), rtol=1e-15)
    exp_in_place(np.empty((0, 3)))


def test_a_library_that_cannot_be_loaded_is_not_used(monkeypatch, tmp_path):
    broken = tmp_path / "_kernels.so"
    broken.write_bytes(b"not a library")
    monkeypatch.setattr(fastmath, "__file__", str(tmp_path / "fastmath.py"))
    assert fastmath._load() is None
    broken.unlink()
    assert fastmath._load() is None
