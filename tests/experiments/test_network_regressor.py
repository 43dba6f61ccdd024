"""`covariance="ANN"`: a network with one hidden layer, trained by the evidence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.rivals.network import NETWORK
from gpzed import load_model
from gpzed.errors import ConvergenceWarning
from helpers import one_model


def test_a_network_learns_predicts_and_is_saved(wave, tmp_path: Path) -> None:
    X, y = wave
    model = one_model(8, NETWORK.code, random_state=0, max_iter=200, n_threads=1).fit(X[:200], y[:200])
    mean, std = model.predict(X[200:], return_std=True)
    assert np.sqrt(np.mean((mean - y[200:]) ** 2)) < 0.13  # the noise is 0.1
    assert 0.5 < np.mean(np.abs(mean - y[200:]) < std) < 0.85
    assert model.basis_centers_.shape == (8, 2)
    assert model.basis_factors_.shape == (8,)
    model.save(tmp_path / "network.gpzed")
    np.testing.assert_array_equal(load_model(tmp_path / "network.gpzed").predict(X[200:]), mean)


def test_the_number_of_neurons_follows_the_rows(wave) -> None:
    X, y = wave
    model = one_model("auto", NETWORK.code, random_state=0, max_iter=2, n_threads=1)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X, y, validation_data=(X[:50], y[:50]))
    assert model.n_basis_ == 300 // 6


def test_missing_inputs_are_refused(wave) -> None:
    X, y = wave
    gaps = X.copy()
    gaps[0, 1] = np.nan
    with pytest.raises(ValueError, match=r"missing .* not supported"):
        one_model(5, NETWORK.code, random_state=0, n_threads=1).fit(gaps, y)
    model = one_model(5, NETWORK.code, random_state=0, n_threads=1).fit(X, y)
    with pytest.raises(ValueError, match=r"missing .* not supported"):
        model.predict(gaps)


def test_mixtures_are_refused(wave) -> None:
    X, y = wave
    with pytest.raises(ValueError, match="mixtures, are not supported"):
        one_model(5, NETWORK.code, n_heads=2, max_iter=2, random_state=0, n_threads=1).fit(X, y)
