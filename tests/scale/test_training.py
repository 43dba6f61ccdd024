"""Training on a cluster: the same model as in one process, from arrays, delayed chunks and Dask collections."""

from __future__ import annotations

import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import pytest

from gpzed import Run
from gpzed.distributed import data as partitioned
from gpzed.distributed.data import lottery
from gpzed.errors import ClusterError
from helpers import one_model
from scale.parts import reads, store, wave

pytestmark = pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")
QUICK = {"n_basis": 6, "max_iter": 4, "n_threads": 1, "random_state": 0}


@pytest.fixture(autouse=True)
def spread_few_rows(monkeypatch):
    monkeypatch.setattr(partitioned, "MIN_SPREAD_ROWS", 0)


@pytest.fixture(scope="module")
def rows():
    return wave()


def quick(**options):
    return one_model(**(QUICK | options))


def both(model, X):
    return np.stack(model.predict(X, return_std=True))


@pytest.fixture(scope="module")
def expected(rows):
    return both(quick().fit(*rows), rows[0])


def test_arrays_spread_over_the_workers_give_the_same_model(client, rows, expected):
    model = quick().fit(*rows, run=Run(cluster=client))
    np.testing.assert_allclose(both(model, rows[0]), expected, rtol=1e-6)
    assert model.report_.n_rows == (480,)


@pytest.mark.slow
def test_weights_validation_data_and_committees(client, rows):
    X, y = rows
    weight = np.linspace(0.5, 1.5, len(y))
    options = {"n_members": 2, "max_iter": 2}
    given = {"sample_weight": weight[100:], "validation_data": (X[:100], y[:100], weight[:100])}
    here, there = (
        quick(**options).fit(X[100:], y[100:], **given, run=Run(cluster=cluster)) for cluster in (None, client)
    )
    np.testing.assert_allclose(both(there, X), both(here, X), rtol=1e-6)


@pytest.fixture(scope="module")
def by_partitions(client, rows, tmp_path_factory):
    def fit(*bounds, **options):
        folder = tmp_path_factory.mktemp("parts")
        return quick(**options).fit_stream(store(folder, *rows, [0, *bounds, 600]), run=Run(cluster=client)), folder

    return fit


def test_partitions_are_loaded_once_and_their_number_does_not_matter(by_partitions, rows):
    one, _ = by_partitions()
    many, folder = by_partitions(0, 10, 200, 300, 444)
    np.testing.assert_allclose(both(many, rows[0]), both(one, rows[0]), rtol=1e-6)
    assert sorted(reads(folder)) == [0, 0, 1, 2, 3, 4, 5]  # the first one was asked for the number of features, too
    assert many.report_.n_rows[0] + 600 - 480 == pytest.approx(600, abs=30)


def test_partitions_train_a_good_model(by_partitions, rows):
    model, _ = by_partitions(200, 400, max_iter=10)
    assert model.score(*rows) > 0.95
    assert model.report_.best_score > 0.3


@pytest.mark.slow
def test_stages_on_subsets(by_partitions, rows, monkeypatch):
    monkeypatch.setattr("gpzed.model.training.FIRST_STAGE_ROWS", 20)
    for limit in (10, 100_000):  # subsets on the workers, and fetched
        monkeypatch.setattr(partitioned, "MAX_STREAM_SUBSET", limit)
        model, _ = by_partitions(300)
        assert len(model.report_.n_rows) == 3
        assert model.score(*rows) > 0.9


def test_lottery_belongs_to_the_row():
    whole = lottery(3, 0, 10_000)
    np.testing.assert_array_equal(np.concatenate([lottery(3, 0, 17), lottery(3, 17, 9983)]), whole)
    assert not np.array_equal(lottery(4, 0, 10_000), whole)
    assert whole.min() >= 0.0
    assert whole.max() < 1.0
    assert abs(whole.mean() - 0.5) < 0.01
    assert abs(np.corrcoef(whole[1:], whole[:-1])[0, 1]) < 0.03
    assert np.histogram(whole, 10)[0] == pytest.approx(1000, abs=120)


# ------------------------------------------------------------- Dask collections


def collections(rows, kind, chunks=250):
    X, y = rows
    if kind == "array":
        return dask.array.from_array(X, (chunks, 1)), dask.array.from_array(y, chunks // 2)
    frame = dask.dataframe.from_pandas(pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "z": y}), chunksize=chunks)
    return frame[["a", "b"]], frame["z"]


@pytest.mark.parametrize("kind", ["array", "frame"])
@pytest.mark.parametrize("where", [pytest.param("cluster", marks=pytest.mark.slow), "here"])
def test_dask_collections_lazily(client, rows, kind, where):
    lazy = collections(rows, kind)
    model = quick(max_iter=8).fit(*lazy, run=Run(cluster=client if where == "cluster" else None))
    assert model.score(*rows if kind == "array" else (lazy[0].compute(), rows[1])) > 0.9
    mean, std = model.predict(lazy[0], return_std=True)
    assert isinstance(mean, dask.array.Array if kind == "array" else dask.dataframe.Series)
    plain = lazy[0].compute()
    expected = model.predict(plain, return_std=True)
    with client.as_current() if where == "cluster" else dask.config.set(scheduler="synchronous"):
        found = dask.compute(mean, std)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    if kind == "frame":
        assert list(model.feature_names_in_) == ["a", "b"]
        assert list(found[0].index) == list(plain.index)
        assert mean.divisions == lazy[0].divisions
    with pytest.raises(TypeError, match="distributions are not lazy"):
        model.predict_distribution(lazy[0])


def test_collections_that_do_not_match(client, rows):
    X, y = collections(rows, "array")
    with pytest.raises(TypeError, match="expected Dask collections throughout"):
        quick().fit(X, rows[1], run=Run(cluster=client))
    with pytest.raises(ValueError, match="500 rows but `X` has 600"):
        quick().fit(X, y[:500], run=Run(cluster=client))
    frame, z = collections(rows, "frame")
    with pytest.raises(ValueError, match="different numbers of partitions"):
        quick().fit(frame, z.repartition(npartitions=1), run=Run(cluster=client))


def test_bad_values_in_a_partition_are_told(client, rows, tmp_path):
    X, y = rows[0].copy(), rows[1]
    X[450, 1] = np.inf
    with pytest.raises(ValueError, match=r"chunk 2 of `source` has .*infinity in 1 rows, the first in row 50"):
        quick().fit_stream(store(tmp_path, X, y, [0, 200, 400, 600]), run=Run(cluster=client))


# ------------------------------------------------------------- the option


@pytest.mark.slow
def test_cluster_by_name(client, rows, expected):
    with client.as_current():
        model = quick().fit(*rows, run=Run(cluster="dask"))
    np.testing.assert_allclose(both(model, rows[0]), expected, rtol=1e-6)
    by_address = quick().fit(*rows, run=Run(cluster=client.scheduler.address))
    np.testing.assert_array_equal(both(by_address, rows[0]), both(model, rows[0]))


@pytest.mark.parametrize(
    ("cluster", "kind", "message"),
    [
        ("local:0", ValueError, "`cluster` is 'local:0'; expected"),
        ("cluster", ValueError, "local:N"),
        (7, TypeError, "`cluster` is a int"),
        ("dask", ClusterError, "no Dask client"),
        ("tcp://127.0.0.1:9", ClusterError, "no Dask scheduler answers at tcp://127.0.0.1:9"),
    ],
)
def test_clusters_that_cannot_be(rows, cluster, kind, message, monkeypatch):
    monkeypatch.setattr("gpzed.distributed.connection.CONNECT_SECONDS", 1.0)
    with pytest.raises(kind, match=message):
        quick().fit(*rows, run=Run(cluster=cluster))


def test_chunks_of_this_process_have_no_place_on_a_cluster(client, rows):
    with pytest.raises(TypeError, match=r"expected a list of dask\.delayed chunks"):
        quick().fit_stream([rows], run=Run(cluster=client))
