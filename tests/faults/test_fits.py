"""Random fits: those that broke once, and a few more."""

from __future__ import annotations

import numpy as np
import pytest

from faults import fits
from gpzed import GPzRegressor
from gpzed.model import Training


def test_a_few_cases(tmp_path):
    cases = list(fits.run(4, np.random.default_rng(1), tmp_path))
    assert len(cases) == 4
    assert all(case.held for case in cases), cases


@pytest.mark.filterwarnings("ignore::gpzed.errors.GPzWarning")
def test_a_constant_input_with_gaps_may_be_another_one_later():
    """Without variance to fill gaps from, the density of such an input closed in on it, and other rows had none."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.full(32, 3e5), 40.0 * rng.standard_normal(32)])
    X[::4, 0] = np.nan
    training = Training(max_iter=3, density_components=1)
    model = GPzRegressor(3, n_heads=1, n_members=1, training=training, random_state=0).fit(X, X[:, 1])
    new = np.column_stack([np.full(5, 3e6), np.full(5, np.nan)])
    prediction = model.predict_distribution(new)
    assert np.isfinite(prediction.mean).all()
    assert (prediction.variance > 0.0).all()


@pytest.mark.filterwarnings("ignore::gpzed.errors.GPzWarning")
def test_rows_that_are_all_the_same():
    """Whitening scaled the rounding of their mean up, and the covariance of the coverage was singular."""
    rng = np.random.default_rng(0)
    X = np.tile(rng.standard_normal(4), (62, 1))
    training = Training(max_iter=2, n_epochs=1)
    model = GPzRegressor(4, n_members=1, n_heads=2, training=training, random_state=0).fit(X, rng.standard_normal(62))
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.filterwarnings("ignore::gpzed.errors.GPzWarning")
def test_an_input_that_only_held_out_rows_have():
    """Its mean over the training rows was that of none, and coverage broke down with a LinAlgError."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    X[:, 2] = np.nan
    X[7, 2] = 1.0
    for seed in range(4):
        model = GPzRegressor(
            3, n_heads=1, n_members=1, validation_fraction=0.5, training=Training(max_iter=3), random_state=seed
        ).fit(X, X[:, 0])
        assert np.isfinite(model.predict_distribution(X).variance).all()


@pytest.mark.filterwarnings("ignore::gpzed.errors.GPzWarning")
@pytest.mark.parametrize("seed", [34, 39])
def test_inputs_of_which_errors_explain_all(seed):
    """Rounding made the variance that was left negative, and whitening broke down with a LinAlgError."""
    rng = np.random.default_rng(seed)
    X = np.tile(rng.standard_normal(3) * [1e5, 1.0, 1.0], (3, 1))
    X[0, 0] = np.nextafter(X[0, 0], np.inf)
    X_std = np.abs(rng.standard_normal((3, 3))) * (rng.random((3, 3)) < 0.5)
    X_std[:, 0] = 0.0
    model = GPzRegressor(2, n_members=1, n_heads=1, n_networks=0, random_state=0, training=Training(max_iter=2))
    model.fit(X, rng.standard_normal(3), X_std=X_std)
    assert np.isfinite(model.predict_distribution(X, X_std=X_std).variance).all()


@pytest.mark.filterwarnings("ignore::gpzed.errors.GPzWarning", "ignore::RuntimeWarning")
def test_inputs_whose_squares_overflow_are_refused():
    """Clusters of them crashed in SciPy; no component of their density had any row."""
    assert fits.fit(84993276).outcome == "refused with a clear error"
