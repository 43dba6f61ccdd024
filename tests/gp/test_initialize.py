"""Starting values: shapes, determinism, sense."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpzed.engine.threads import ThreadEngine
from gpzed.gp.covariance import local_precision
from gpzed.gp.evidence import evaluate
from gpzed.gp.initialize import clusters, initialize, start_centres
from gpzed.gp.parameters import Layout
from helpers import CODES
from strategies import codes, seeds

METHODS = ["kmeans", "data", "random"]


def rows(n=200, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("relevance", [True, False])
def test_shapes_and_a_finite_evidence(code, method, relevance):
    X, y = rows()
    layout = Layout.of(7, 2, code, relevance=relevance, mean_function="constant")
    start = initialize(X, y, layout, np.random.default_rng(0), method=method)
    for name, shape in layout.shapes().items():
        assert np.shape(getattr(start, name)) == shape
    result = evaluate(ThreadEngine(X, y, width=layout.n_weights), start, layout)
    assert np.isfinite(result.evidence.total)


@pytest.mark.parametrize("method", METHODS)
def test_same_generator_same_start(method):
    X, y = rows()
    layout = Layout.of(7, 2, "VC")
    one, two, other = (
        layout.pack(initialize(X, y, layout, np.random.default_rng(seed), method=method)) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)


@settings(max_examples=25)
@given(code=codes, seed=seeds, n=st.integers(1, 30), d=st.integers(1, 4), m=st.integers(1, 8))
def test_any_shape_of_data(code, seed, n, d, m):
    X, y = rows(n, d, seed)
    layout = Layout.of(m, d, code)
    start = initialize(X, y, layout, np.random.default_rng(0))
    assert np.all(np.isfinite(layout.pack(start)))


def test_duplicated_rows_are_no_obstacle():
    X, y = np.zeros((50, 3)), np.zeros(50)
    layout = Layout.of(5, 3, "VC")
    assert np.all(np.isfinite(layout.pack(initialize(X, y, layout, np.random.default_rng(0)))))


def test_centres():
    X, _ = rows()
    rng = np.random.default_rng(0)
    data = start_centres(X, 10, "data", rng)
    assert all(np.any(np.all(p == X, axis=1)) for p in data)
    assert len(np.unique(data, axis=0)) == 10
    box = start_centres(X, 10, "random", rng)
    assert np.all((box >= X.min(axis=0)) & (box <= X.max(axis=0)))
    clusters = start_centres(X, 10, "kmeans", rng)
    distance = np.linalg.norm(X[:, None] - clusters, axis=2).min(axis=1).mean()
    assert distance < np.linalg.norm(X[:, None] - data, axis=2).min(axis=1).mean()


def test_shapes_follow_the_scatter_of_the_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 2)) * [1.0, 0.1]
    Lambda = local_precision(X, np.zeros((1, 2)))[0]
    assert Lambda[1, 1] / Lambda[0, 0] == pytest.approx(100.0, rel=0.2)
    assert np.all(np.linalg.eigvalsh(local_precision(X, X[:20])) > 0)


def test_noise_starts_at_the_residuals():
    X, y = rows(2000)
    start = initialize(X, y, Layout.of(20, 2, "VC"), np.random.default_rng(0))
    assert 0.01 < np.exp(-start.b) < 0.03, "the true noise, and what a start cannot fit"


def test_clusters_of_huge_numbers():
    """Squares of their distances overflowed, and SciPy went on with labels that it had never set, up to a crash."""
    X = np.random.default_rng(0).standard_normal((50, 2)) * [1.0, 1e179]
    centres, label = clusters(X, X[:5], 10)
    assert np.isfinite(centres).all()
    assert set(label) <= set(range(5))
