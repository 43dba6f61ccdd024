"""Patterns of gaps and errors, and the parts that rows with them fall into."""

from __future__ import annotations

import numpy as np
import pytest

from gpzed.incomplete import patterns as module
from gpzed.incomplete.density import Conditional
from gpzed.incomplete.parts import merge
from gpzed.incomplete.patterns import ErrorClasses, Pattern, RawRows, patterns_of
from gpzed.model.data import ArrayData, fit_standardisation


def test_patterns_tell_gaps_and_classes_of_errors_apart():
    X = np.array([[1.0, 2.0], [np.nan, 2.0], [1.0, 3.0], [np.nan, np.nan]])
    patterns, which = patterns_of(X)
    assert set(patterns) == {Pattern(b"\x01\x01"), Pattern(b"\x00\x01"), Pattern(b"\x00\x00")}
    assert [pattern.is_complete for pattern in patterns] == [True, False, False]
    assert which[0] == which[2]
    assert len({which[0], which[1], which[3]}) == 3
    errors = ErrorClasses(np.log([[0.1, 0.1], [1.0, 1.0]]), np.array([[0.01, 0.01], [1.0, 1.0]]), np.full(2, 1e-6))
    patterns, which = patterns_of(X, np.array([[0.1, 0.1], [0.1, 0.2], [0.9, 0.9], [0.1, 0.1]]), errors)
    found = [patterns[i] for i in which]
    assert found == [(b"\x01\x01", 1), (b"\x00\x01", 1), (b"\x01\x01", 2), (b"\x00\x00", 0)]
    assert not any(pattern.is_complete for pattern in patterns)


@pytest.mark.parametrize(("columns", "high"), [(3, 2), (12, 17), (40, 90)])
def test_words_of_codes_keep_their_order(columns, high):
    codes = np.random.default_rng(columns).integers(-2, high, (500, columns)).astype(np.int16)
    codes[::3] = codes[0]
    tuples = np.array([tuple(row) for row in codes.tolist()], dtype=[("", np.int16)] * columns)
    for wanted, got in zip(
        np.unique(tuples, return_index=True, return_inverse=True)[1:],
        np.unique(module._words(codes), return_index=True, return_inverse=True)[1:],
        strict=True,
    ):
        np.testing.assert_array_equal(got.ravel(), wanted.ravel())
    assert module._words(codes[:0]).shape == (0,)


def test_classes_of_errors_are_the_nearest_ones():
    rng = np.random.default_rng(0)
    std = np.array([[0.1, 0.2], [1.0, 0.5]])[rng.integers(2, size=50)] * np.exp(0.01 * rng.standard_normal((50, 2)))
    X = rng.standard_normal((50, 2))
    X[3, 1] = np.nan
    classes = ErrorClasses.fit(X, std, 2)
    label = classes.assign(std, ~np.isnan(X))
    np.testing.assert_allclose(np.sqrt(classes.variances[label]), std, rtol=0.1)


def test_patterns_of_few_rows_train_by_one_gaussian():
    rng = np.random.default_rng(3)
    X = np.where(rng.random((1200, 1)) < 0.5, [[-3.0, 2.0]], [[3.0, 2.0]]) + 0.5 * rng.standard_normal((1200, 2))
    X[:300, 0], X[300:330, 1] = np.nan, np.nan
    data = ArrayData(RawRows(X, X[:, 1], np.ones(1200)), None)
    table = fit_standardisation(data, "pca", 2).table
    common, rare = Pattern(bytes([0, 1])), Pattern(bytes([1, 0]))
    assert [pattern for pattern, _ in table.labels].count(common) == 3
    assert [pattern for pattern, _ in table.labels].count(rare) == 1
    parts = table.parts(X)
    assert set(parts.blur[np.isin(parts.row, np.arange(300, 330))]) == {1 + table.labels.index((rare, 2))}
    assert set(parts.blur[np.isin(parts.row, np.arange(330, 1200))]) == {0}


def test_components_that_are_merged_keep_mean_and_covariance():
    rng = np.random.default_rng(5)
    roots = rng.standard_normal((4, 6, 3, 3))
    given = Conditional(rng.dirichlet(np.ones(6), 4), rng.standard_normal((4, 6, 3)), roots @ np.swapaxes(roots, 2, 3))

    def moments(share, mean, Psi):
        centre = np.einsum("ng,nga->na", share, mean)
        off = mean - centre[:, None]
        return centre, np.einsum("ng,ngab->nab", share, Psi + off[:, :, :, None] * off[:, :, None, :])

    merged = merge(given, 3)
    assert merged.probabilities.shape == (4, 3)
    np.testing.assert_allclose(merged.probabilities[:, :2], -np.sort(-given.probabilities, axis=1)[:, :2])
    for one, other in zip(moments(*merged), moments(*given), strict=True):
        np.testing.assert_allclose(one, other)
