"""Training from chunks that are read again and again."""

from __future__ import annotations

import numpy as np
import pytest

from gpzed.model import training
from helpers import one_model

pytestmark = pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")


def quick(**options):
    return one_model(**({"n_basis": 6, "max_iter": 30, "n_threads": 1, "random_state": 0} | options))


def both(model, X):
    return np.stack(model.predict(X, return_std=True))


def chunks(X, y, size=70):
    return [(X[i : i + size], y[i : i + size]) for i in range(0, len(y), size)]


@pytest.fixture
def rows(wave):
    return np.array(wave[0]), np.array(wave[1])


def test_close_to_training_in_memory(rows):
    X, y = rows
    memory, stream = quick(coverage=False).fit(X, y), quick(coverage=False).fit_stream(chunks(X, y))
    assert stream.report_.n_rows[0] == pytest.approx(240, abs=30)
    np.testing.assert_allclose(stream.predict(X), memory.predict(X), atol=0.15)
    np.testing.assert_allclose(both(stream, X)[1], both(memory, X)[1], rtol=0.5)
    assert stream.score(X, y) > 0.95


def test_size_of_chunks_does_not_matter_with_given_validation_data(rows):
    X, y = rows
    valid = X[::5], y[::5]
    results = [both(quick().fit_stream(chunks(X, y, size), validation_data=valid), X) for size in (300, 100, 37)]
    for other in results[1:]:
        np.testing.assert_allclose(other, results[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n_threads", [2, None])
def test_number_of_threads_does_not_matter(rows, n_threads):
    X, y = rows
    one, two = quick().fit_stream(chunks(X, y)), quick(n_threads=n_threads).fit_stream(chunks(X, y))
    np.testing.assert_allclose(both(one, X), both(two, X), rtol=1e-10)


def test_same_seed_same_bits(rows):
    X, y = rows
    one, two = (quick().fit_stream(chunks(X, y)) for _ in range(2))
    np.testing.assert_array_equal(both(one, X), both(two, X))


def test_parquet(rows, tmp_path):
    pytest.importorskip("pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    X, y = rows
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "z": y})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=70)

    class Source:
        def __iter__(self):
            for batch in pq.ParquetFile(tmp_path / "rows.parquet").iter_batches(70):
                columns = [batch.column(name).to_numpy(zero_copy_only=False) for name in ("a", "b", "z")]
                yield np.stack(columns[:2], axis=1), columns[2]

    model = quick().fit_stream(Source())
    np.testing.assert_array_equal(both(model, X), both(quick().fit_stream(chunks(X, y)), X))


def test_weights_in_chunks(rows):
    X, y = rows
    weights = np.linspace(0.0, 2.0, len(y))
    source = [(*chunk, weights[70 * i : 70 * i + 70]) for i, chunk in enumerate(chunks(X, y))]
    plain, weighted = quick().fit_stream(chunks(X, y)), quick().fit_stream(source)
    assert not np.array_equal(both(plain, X), both(weighted, X))


def test_chunks_without_any_weight_or_any_row(rows):
    X, y = rows
    source = [(X[:150], y[:150], np.ones(150)), (X[150:], y[150:], np.zeros(150)), (X[:0], y[:0], y[:0])]
    model = quick().fit_stream(source)
    assert np.all(np.isfinite(both(model, X)))
    with pytest.raises(ValueError, match=r"weight"):
        quick().fit_stream([(X, y, np.zeros(300))])


def test_tables_as_chunks(rows):
    pandas = pytest.importorskip("pandas")
    X, y = rows
    source = [(pandas.DataFrame(a, columns=["g", "r"]), pandas.Series(b)) for a, b in chunks(X, y)]
    model = quick().fit_stream(source)
    np.testing.assert_array_equal(model.feature_names_in_, ["g", "r"])
    np.testing.assert_array_equal(
        model.predict(pandas.DataFrame(X, columns=["g", "r"])), quick().fit_stream(chunks(X, y)).predict(X)
    )


def test_committee_and_stages(rows, monkeypatch):
    monkeypatch.setattr(training, "FIRST_STAGE_ROWS", 30)
    X, y = rows
    model = quick(n_members=2, max_iter=60).fit_stream(chunks(X, y))
    assert len(model.members_) == 2
    assert len(model.report_.n_rows) == 2
    assert model.score(X, y) > 0.95


@pytest.mark.filterwarnings("ignore::gpzed.errors.DataWarning")  # two rows may share a value
@pytest.mark.parametrize("n", [2, 3, 8, 20])
@pytest.mark.parametrize("seed", range(6))
def test_few_rows(rows, n, seed):
    X, y = rows
    model = quick(n_basis=2, random_state=seed).fit_stream(chunks(X[:n], y[:n], 3))
    assert np.all(np.isfinite(both(model, X)))
    assert np.isfinite(model.report_.best_score)
    assert model.report_.best_iteration > 0


def test_a_generator_is_refused(rows):
    X, y = rows
    with pytest.raises(TypeError, match="can be iterated over only once"):
        quick().fit_stream(chunk for chunk in chunks(X, y))


def test_no_chunks():
    with pytest.raises(ValueError, match="`source` has no chunks"):
        quick().fit_stream([])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda X, y: (X[:, :1], y), r"chunk 2 of `source` has X of shape \(70, 1\).*expected \(rows, 2\)"),
        (lambda X, y: (X, y[:-1]), "chunk 2 of `source` has X of shape"),
        (lambda X, y: (X[0], y), "chunk 2 of `source` has X of shape"),
        (lambda X, y: (X, np.stack([y, y], 1)), "chunk 2 of `source` has X of shape"),
        (lambda X, y: (np.where(X[4] == X, np.nan, X), y), r"chunk 2 of `source` has NaN.* in 1 rows.*in row 4"),
        (lambda X, y: (X, np.where(y == y[6], np.inf, y)), r"chunk 2 of `source` has NaN.* in 1 rows.*in row 6"),
        (lambda X, y: (X, y, -np.ones(len(y))), "`sample_weight` has 70 negative"),
        (lambda X, y: (X, y, np.ones(3)), r"`sample_weight` has shape \(3,\)"),
    ],
)
def test_bad_chunks(rows, bad, message):
    source = chunks(*rows)
    source[2] = bad(*source[2])
    with pytest.raises(ValueError, match=message):
        quick(missing="error").fit_stream(source)


def test_a_chunk_that_is_no_pair(rows):
    source = chunks(*rows)
    for chunk in [(source[0][0],), (*source[0], *source[0], *source[0], source[0])]:
        with pytest.raises(ValueError, match="chunk 1"):
            quick().fit_stream([source[0], chunk])
