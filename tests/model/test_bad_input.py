"""What users may get wrong, and what they are told."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from gpzed.errors import DataWarning
from helpers import one_model

pytestmark = pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")


def quick(**options):
    return one_model(**({"n_basis": 5, "max_iter": 10, "n_threads": 1, "random_state": 0} | options))


@pytest.fixture
def rows(wave):
    return np.array(wave[0]), np.array(wave[1])


@pytest.mark.parametrize(("bad", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_values_that_are_not_finite(rows, bad, word):
    X, y = rows
    model = quick(max_iter=2, missing="error").fit(X, y)
    for index in (0, 150):
        broken = X.copy()
        broken[index, 1] = bad
        with pytest.raises(ValueError, match=f"Input X contains {word}"):
            quick(missing="error").fit(broken, y)
        with pytest.raises(ValueError, match=f"Input X contains {word}"):
            model.predict(broken)
        target = y.copy()
        target[index] = bad
        with pytest.raises(ValueError, match=f"Input y contains {word}"):
            quick().fit(X, target)
        weights = np.ones(len(y))
        weights[index] = bad
        with pytest.raises(ValueError, match=f"`sample_weight` has 1 negative or non-finite.*row {index}"):
            quick().fit(X, y, weights)
        for part in [(broken, y), (X, target)]:
            with pytest.raises(ValueError, match=f"contains {word}"):
                quick(missing="error").fit(X, y, validation_data=part)


def test_negative_weights(rows):
    X, y = rows
    weights = np.ones(len(y))
    weights[[7, 9]] = -0.5
    with pytest.raises(ValueError, match=r"2 negative or non-finite values, the first in row 7 \(-0.5\)"):
        quick().fit(X, y, weights)


def test_weights_all_zero(rows):
    X, y = rows
    with pytest.raises(ValueError, match="`sample_weight` is zero for all rows"):
        quick().fit(X, y, np.zeros(len(y)))


def test_only_one_row_with_a_weight(rows):
    X, y = rows
    weights = np.zeros(len(y))
    weights[3] = 1.0
    with pytest.raises(ValueError, match="only 1 sample has a positive `sample_weight`"):
        quick().fit(X, y, weights)


@pytest.mark.parametrize("shape", [(299,), (300, 1), (301,), (0,)])
def test_weights_of_another_shape(rows, shape):
    with pytest.raises(ValueError, match=r"`sample_weight` has shape .*expected \(300,\)"):
        quick().fit(*rows, np.ones(shape))


def test_one_weight_for_all_is_no_weight(rows):
    X, y = rows
    np.testing.assert_array_equal(quick().fit(X, y, 1.0).predict(X), quick().fit(X, y).predict(X))


def test_one_dimensional_inputs(rows):
    X, y = rows
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        quick().fit(X[:, 0], y)
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        quick(max_iter=2).fit(X, y).predict(X[0])


def test_three_dimensional_inputs(rows):
    X, y = rows
    with pytest.raises(ValueError, match="dim 3"):
        quick().fit(X[:, :, None], y)


def test_sparse_inputs(rows):
    X, y = rows
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        quick().fit(sparse.csr_matrix(X), y)


def test_strings(rows):
    X, y = rows
    with pytest.raises(ValueError, match="could not convert string"):
        quick().fit(np.full(X.shape, "a"), y)
    with pytest.raises(ValueError, match=r"could not convert string|dtype='numeric'|numeric"):
        quick().fit(X, np.full(len(y), "a"))


def test_complex_inputs(rows):
    X, y = rows
    with pytest.raises(ValueError, match="Complex data not supported"):
        quick().fit(X + 1j, y)


def test_lengths_that_differ(rows):
    X, y = rows
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        quick().fit(X, y[:-1])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        quick().fit(X, y, validation_data=(X, y[:-1]))


def test_targets_with_two_columns(rows):
    X, y = rows
    with pytest.raises(ValueError, match="y should be a 1d array"):
        quick().fit(X, np.stack([y, y], axis=1))


def test_no_targets(rows):
    with pytest.raises(ValueError, match="requires y to be passed"):
        quick().fit(rows[0], None)


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_rows(rows, n):
    X, y = rows
    with pytest.raises(ValueError, match=f"Found array with {n} sample"):
        quick().fit(X[:n], y[:n])


def test_no_features(rows):
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        quick().fit(np.empty((300, 0)), rows[1])


def test_another_number_of_features(rows):
    X, y = rows
    model = quick(max_iter=2).fit(X, y)
    for other in (X[:, :1], np.hstack([X, X])):
        for method in (model.predict, model.predict_distribution, model.sample_y):
            with pytest.raises(ValueError, match=rf"X has {other.shape[1]} features.*expecting 2 features"):
                method(other)
    with pytest.raises(ValueError, match="features"):
        quick().fit(X, y, validation_data=(X[:, :1], y))


def test_before_fit(rows, tmp_path):
    from sklearn.exceptions import NotFittedError

    for use in (lambda m: m.predict(rows[0]), lambda m: m.sample_y(rows[0]), lambda m: m.save(tmp_path / "m")):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            use(quick())


@pytest.mark.parametrize("parts", [1, 7])
def test_validation_data_with_other_parts(rows, parts):
    X, y = rows
    with pytest.raises(ValueError, match=rf"`validation_data` has {parts} parts; expected \(X, y\)"):
        quick().fit(X, y, validation_data=(X, *[y] * 6)[:parts])


# ------------------------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("covariance", "VX", r'`covariance` is .VX.; expected one of "GL", "VL"'),
        ("covariance", 3, "`covariance` is 3; expected one of"),
        ("noise", "hetero", 'expected one of "heteroscedastic", "homoscedastic".*Did you mean "heteroscedastic"'),
        ("relevance", "ARD", "`relevance` is 'ARD'"),
        ("mean_function", "quadratic", "`mean_function` is 'quadratic'"),
        ("whitening", "zca", "`whitening` is 'zca'"),
        ("weighting", "none", "`weighting` is 'none'"),
        ("init", "k-means", 'Did you mean "kmeans"'),
        ("n_basis", 0, 'n_basis` is 0; expected a whole number >= 1 or "auto"'),
        ("n_basis", -3, "n_basis` is -3"),
        ("n_members", 0, "`n_members` is 0; expected a whole number >= 1"),
        ("max_iter", 0, "`max_iter` is 0"),
        ("patience", 0, "`patience` is 0"),
        ("memory", 0, "`memory` is 0"),
        ("n_threads", 0, "`n_threads` is 0"),
        ("max_evaluations", 0, "`max_evaluations` is 0"),
        ("validation_fraction", 1.0, "`validation_fraction` is 1.0; expected a number from 0 to 0.9"),
        ("validation_fraction", -0.1, "`validation_fraction` is -0.1"),
        ("shape_prior", -1.0, "`shape_prior` is -1.0"),
        ("shape_prior", np.nan, "`shape_prior` is nan"),
        ("shape_prior", np.inf, "`shape_prior` is inf"),
        ("tol", -1e-3, "`tol` is -0.001"),
        ("max_time", -1.0, "`max_time` is -1.0"),
        ("max_time", np.inf, "`max_time` is inf"),
    ],
)
def test_values_out_of_range(rows, name, value, message):
    with pytest.raises(ValueError, match=message):
        quick(**{name: value}).fit(*rows)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_basis", "many"),
        ("n_basis", 3.5),
        ("n_basis", None),
        ("n_basis", True),
        ("max_iter", 10.0),
        ("max_iter", "ten"),
        ("n_members", None),
        ("n_threads", "all"),
        ("validation_fraction", "half"),
        ("validation_fraction", None),
        ("shape_prior", "strong"),
        ("max_time", "1 h"),
    ],
)
def test_values_of_another_type(rows, name, value):
    with pytest.raises(TypeError, match=f"`{name}` is {value!r}; expected"):
        quick(**{name: value}).fit(*rows)


@pytest.mark.parametrize("value", [["VC"], np.array(["VC", "GL"]), None, {"a": 1}])
def test_choices_that_are_not_even_strings(rows, value):
    with pytest.raises((ValueError, TypeError), match="`covariance` is"):
        quick(covariance=value).fit(*rows)


# --------------------------------------------------------------------------------- odd but usable data


@pytest.mark.parametrize("whitening", ["pca", "scale", "none"])
@pytest.mark.parametrize("constant", [0.0, 99.0, -1e5])
def test_constant_column(rows, whitening, constant):
    X, y = rows
    X = np.insert(X, 1, constant, axis=1)
    model = quick(whitening=whitening)
    if whitening == "none":
        X[:, 1] = 0.1  # not scaled: a far centre would lose its digits
        model.fit(X, y)
    else:
        with pytest.warns(DataWarning, match=r"feature 1 \(counted from 0\) is constant"):
            model.fit(X, y)
    assert np.all(np.isfinite(model.predict(X, return_std=True)))
    assert model.score(X, y) > 0.8


def test_a_column_twice(rows):
    X, y = rows
    X = np.hstack([X, X[:, :1]])
    model = quick(max_iter=40).fit(X, y)
    assert model.score(X, y) > 0.8


def test_all_columns_constant(rows):
    X, y = rows
    with pytest.warns(DataWarning, match="constant"):
        model = quick().fit(np.ones_like(X), y)
    mean, std = model.predict(np.ones((3, 2)), return_std=True)
    np.testing.assert_allclose(mean, y.mean(), atol=0.2)
    np.testing.assert_allclose(std, y.std(), rtol=0.3)


@pytest.mark.parametrize("value", [0.0, 0.7, -1e6])
def test_all_targets_equal(rows, value):
    X, _ = rows
    model = quick().fit(X, np.full(len(X), value))
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, value, rtol=1e-6, atol=1e-3)
    assert np.all(np.isfinite(std))
    assert np.all(std > 0)


@pytest.mark.parametrize("n", [2, 3, 5, 9, 20])
def test_fewer_rows_than_basis_functions(rows, n):
    X, y = rows
    with pytest.warns(DataWarning, match=rf"`n_basis` is 50, but there are {n} rows to train on; {n} .* would take \d"):
        model = quick(n_basis=50).fit(X[:n], y[:n])
    assert model.n_basis_ == n
    mean, std = model.predict(X, return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all(std > 0)


def test_rows_repeated_many_times(rows):
    X, y = rows
    model = quick().fit(np.repeat(X[:10], 30, axis=0), np.repeat(y[:10], 30))
    assert np.all(np.isfinite(model.predict(X, return_std=True)))


def test_the_same_inputs_with_different_targets(rows):
    _, y = rows
    X = np.repeat([[0.0, 0.0], [1.0, 1.0], [0.0, 2.0]], 100, axis=0)
    model = quick(max_iter=60).fit(X, y)
    mean = model.predict(X[::100])
    np.testing.assert_allclose(mean, [y[i : i + 100].mean() for i in (0, 100, 200)], atol=0.15)


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_units_of_inputs_and_targets_do_not_matter(rows, scale):
    X, y = rows
    plain, scaled = quick().fit(X, y), quick().fit(scale * X, scale * y)
    for one, two in zip(plain.predict(X, return_std=True), scaled.predict(scale * X, return_std=True), strict=True):
        np.testing.assert_allclose(scale * one, two, rtol=1e-4, atol=1e-4 * scale)


@pytest.mark.parametrize("distance", [30.0, 1e3, 1e6, 1e30])
def test_prediction_far_away_is_finite(rows, distance):
    X, y = rows
    model = quick().fit(X, y)
    mean, std = model.predict(np.array([[distance, 0.0], [0.0, -distance], [distance, distance]]), return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all(std > 0)


def test_zero_rows_in_zero_rows_out(rows):
    X, y = rows
    model = quick(max_iter=2).fit(X, y)
    prediction = model.predict_distribution(X[:0])
    assert prediction.mean.shape == (0,)
    assert model.predict(X[:0]).shape == (0,)
    assert model.sample_y(X[:0], 3).shape == (0, 3)
