"""Model variances as sums of squares: their fit, its refusal, and predictions with them."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from scipy.optimize import nnls
from scipy.special import expit

from gpzed import GPzRegressor, Training, load_model
from gpzed.compiled import substitute
from gpzed.engine.blocks import Block, Rows, Scratch
from gpzed.gp.linalg import cholesky, non_negative_least_squares
from gpzed.gp.parameters import Layout
from gpzed.gp.state import responses
from gpzed.gp.whitening import Whitening
from gpzed.mixture import quick
from gpzed.mixture.heads import Heads
from gpzed.mixture.likelihood import moments_of
from gpzed.mixture.network import QuickNetwork
from gpzed.mixture.quick import Columns, Place, SquareForms, fill_columns, fit_squares
from helpers import assert_same_rows


def galaxies(n, seed):
    """Two branches of a redshift behind the same colour: heads are needed."""
    rng = np.random.default_rng(seed)
    z = rng.uniform(0.1, 1.5, n)
    X = np.stack([np.sin(4.0 * z), np.cos(2.5 * z), z + 0.3 * rng.standard_normal(n)], axis=1)
    return X + 0.05 * rng.standard_normal((n, 3)), z


def fitted(**options):
    defaults = {"n_basis": 20, "n_members": 2, "n_heads": 3, "random_state": 0}
    return GPzRegressor(**defaults | {"training": Training(tol=1e-3, n_epochs=20)} | options).fit(*galaxies(900, 0))


@pytest.fixture(scope="module")
def model():
    model = fitted()
    assert all(member.quick is not None for member in model.members_)
    return model


@pytest.mark.parametrize("seed", range(5))
def test_least_squares_are_those_of_scipy(seed):
    rng = np.random.default_rng(seed)
    A, b = rng.standard_normal((60, 12)) ** 2, rng.standard_normal(60)
    A[:, 3] = 0.0
    np.testing.assert_allclose(non_negative_least_squares(A, b), nnls(A, b)[0], atol=1e-9)


def test_predictions_are_close_to_exact_ones_and_differ_in_model_variance_alone(model):
    X, z = galaxies(2000, 1)
    some, exact = model.predict_distribution(X), model.predict_distribution(X, exact=True)
    np.testing.assert_allclose(some.mean, exact.mean, atol=1e-4)
    np.testing.assert_allclose(some.components.noise_variances, exact.components.noise_variances, rtol=1e-4)
    np.testing.assert_allclose(some.weights, exact.weights, atol=1e-5)
    assert np.quantile(np.abs(some.std / exact.std - 1.0), 0.99) < quick.MAX_ERROR
    assert abs(np.mean(some.log_pdf(z) - exact.log_pdf(z))) < 0.01
    assert not np.array_equal(some.components.model_variances, exact.components.model_variances)


def test_exact_is_what_members_say(model):
    from gpzed.engine.threads import Team

    X = galaxies(50, 2)[0]
    exact = model.committee_.recalibrated(X, Team(1), exact=True).components
    for index, member in enumerate(model.members_):
        own = member.components(X, Team(1))
        np.testing.assert_array_equal(exact.model_variances[:, exact.member == index], own.model_variances)
        share = model.committee_.shares[index]
        np.testing.assert_allclose(exact.weights[:, exact.member == index], share * own.weights, rtol=1e-15)


def test_chunks_and_threads_change_nothing(model):
    X = galaxies(5000, 3)[0]
    whole = model.predict_distribution(X).components
    pieces = [model.predict_distribution(X[i : i + 777]).components for i in range(0, 5000, 777)]
    model.n_threads = 3
    threaded = model.predict_distribution(X).components
    model.n_threads = None
    for name in ("weights", "means", "model_variances", "noise_variances"):
        assert_same_rows(getattr(threaded, name), getattr(whole, name))
        assert_same_rows(np.concatenate([getattr(p, name) for p in pieces]), getattr(whole, name))


def test_rows_with_gaps_beside_complete_ones_are_as_they_are_alone(model):
    X = galaxies(300, 4)[0]
    X[::7, 1] = np.nan
    whole = model.predict_distribution(X)
    gaps = np.isnan(X).any(axis=1)
    for rows in (gaps, ~gaps):
        assert_same_rows(whole[rows].components.means, model.predict_distribution(X[rows]).means)
        assert_same_rows(whole[rows].std, model.predict_distribution(X[rows]).std)
    exact = model.predict_distribution(X[gaps], exact=True)
    assert_same_rows(whole[gaps].std, exact.std)


def test_gaussians_without_weight_may_be_left_out():
    X, z = galaxies(900, 0)
    X[::3, 1] = np.nan
    model = GPzRegressor(
        n_basis=20, n_members=2, n_heads=3, random_state=0, training=Training(tol=1e-3, n_epochs=20)
    ).fit(X, z)
    X = galaxies(300, 3)[0]
    X[7] += 30.0  # not covered
    whole, lean = model.predict_distribution(X), model.predict_distribution(X, lean=True)
    assert lean.n_components < whole.n_components == model.n_components_
    for name in ("mean", "model_variance", "noise_variance", "input_variance", "coverage"):
        np.testing.assert_allclose(getattr(lean, name), getattr(whole, name), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(lean.log_pdf(0.7), whole.log_pdf(0.7), rtol=1e-9)
    np.testing.assert_allclose(lean.best, whole.best, rtol=1e-9)
    X[5, 1] = np.nan
    assert model.predict_distribution(X, lean=True).n_components == model.n_components_


def network(K):
    rng = np.random.default_rng(0)
    layers = tuple(rng.standard_normal(shape) / 3.0 for shape in ((6, 7), (8, 9), (10, 3 * K)))  # 3 inputs and 2 marks
    whitening = Whitening(np.array([0.1, 0.2, 0.3]), rng.standard_normal((3, 3)))
    return QuickNetwork(whitening, np.full(3, -1.5), np.full(3, 2.0), layers)


@pytest.mark.parametrize("K", [4, 8, 11])  # of the network: whole vectors, and more or less
@pytest.mark.parametrize("repeats", [1, 3])
def test_compiled_columns_are_those_of_numpy(lanes, model, repeats, K):
    X, heads = galaxies(101, 5)[0], model.members_[1].quick
    X[5, 1] = np.nan
    n_heads = repeats * heads.squares.shape[1]
    members = [(heads, Place(0, repeats, 0.5, 0.3, 2.0)), (network(K), Place(n_heads, 1, 0.5, 0.1, 1.5))]

    def run(fill, part):
        arrays = Columns(*(np.full((101, n_heads + K + 1), np.nan) for _ in range(4)))
        assert fill(X, part, arrays, Scratch(), spare=len(part) == 2)
        return arrays

    found, expected = run(substitute(fill_columns), members), run(fill_columns, members)
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=3e-4, atol=1e-5)
    np.testing.assert_allclose(found.weights.sum(axis=1), 1.0, rtol=1e-12)
    alone = run(substitute(fill_columns), members[1:])
    for one, two in zip(found, alone, strict=True):
        np.testing.assert_array_equal(one[:, n_heads:-1], two[:, n_heads:-1])
        assert np.isnan(two[:, :n_heads]).all()


@pytest.mark.parametrize("value", [-1e4, -90.0, -20.0, 0.0, 20.0, 90.0, 1e4])
def test_hidden_units_far_from_zero_are_right(lanes, value):
    layers = (np.array([[1.0], [0.0]]), np.array([[1e-3, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    one = QuickNetwork(Whitening(np.zeros(1), np.eye(1)), np.full(1, -2e4), np.full(1, 2e4), layers)
    columns = Columns(*(np.empty((1, 1)) for _ in range(4)))
    assert substitute(fill_columns)(np.array([[value]]), [(one, Place(0, 1, 1.0, 0.0, 1.0))], columns, Scratch())
    np.testing.assert_allclose(columns.means, 1e-3 * value * expit(value), rtol=1e-6, atol=1e-9)


def test_sums_that_are_not_good_enough_are_refused(monkeypatch):
    monkeypatch.setattr(quick, "MAX_LOSS", 0.0)
    model = fitted(n_networks=0)
    assert all(member.mixture is not None and member.quick is None for member in model.members_)
    X = galaxies(100, 6)[0]
    np.testing.assert_array_equal(model.predict_distribution(X).std, model.predict_distribution(X, exact=True).std)


def test_basis_functions_that_no_row_sees_keep_the_variance_of_their_weights():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((800, 2))
    layout = Layout.of(6, 2, "VC", mean_function="constant")
    P = np.vstack([rng.standard_normal((5, 2)), [[9.0, 9.0]]])  # responses to the last are rounding
    heads = Heads(P, np.tile(np.eye(2), (6, 1, 1)), 0.3 * rng.standard_normal((7, 6)))
    rows, state = Rows(X, np.sin(X[:, 0]), np.ones(800)), heads.state(layout)
    _, Phi, _ = responses(Block.of_inputs(X), Scratch(), state)
    assert 0.0 < Phi[5].max() < 1e-6
    factors = [cholesky(Phi @ Phi.T + np.eye(7)) for _ in range(2)]
    forms = fit_squares(rows, heads, state, factors, rng)
    assert forms is not None
    _, Phi, _ = responses(Block.of_inputs(P[5:]), Scratch(), state)
    exact = moments_of(Phi, heads.Theta, factors)[2]
    np.testing.assert_allclose(forms.squares.T @ Phi**2, exact, rtol=0.1)


def test_model_files_hold_them(model, tmp_path):
    model.save(tmp_path / "m.gpzed")
    again, X = load_model(tmp_path / "m.gpzed"), galaxies(100, 7)[0]
    np.testing.assert_array_equal(again.predict_distribution(X).std, model.predict_distribution(X).std)
    assert again.members_[0].mixture.quick.loss == model.members_[0].mixture.quick.loss


def test_inputs_out_of_all_scale_are_refused(model):
    from gpzed.errors import NumericalError

    X = galaxies(10, 8)[0]
    X[3] = 1e300
    with pytest.raises(NumericalError, match="beyond double precision"), np.errstate(all="ignore"):
        model.predict_distribution(X)


def test_coefficients_beyond_single_precision_are_no_good() -> None:
    assert SquareForms(np.array([[1.0]]), 0.0, 0.0).is_good
    assert not SquareForms(np.array([[1.0], [1e40]]), 0.0, 0.0).is_good


def test_members_are_freed_with_their_model(model, tmp_path):
    model.save(tmp_path / "m.gpzed")
    again = load_model(tmp_path / "m.gpzed")
    again.predict_distribution(galaxies(50, 2)[0])
    members = [weakref.ref(member.quick) for member in again.members_]
    assert all(member() is not None for member in members)
    del again
    gc.collect()
    assert all(member() is None for member in members)
