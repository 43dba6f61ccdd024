"""Tables as inputs, names of features, and kinds of arrays."""

from __future__ import annotations

import numpy as np
import pytest

from gpzed import load_model
from helpers import one_model

pytestmark = pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")
NAMES = ["g-r", "i_mag"]


def quick(**options):
    return one_model(**({"n_basis": 5, "max_iter": 15, "n_threads": 1, "random_state": 0} | options))


def pandas_table(X, names=NAMES):
    return pytest.importorskip("pandas").DataFrame(np.array(X), columns=names)


def polars_table(X, names=NAMES):
    return pytest.importorskip("polars").DataFrame(np.array(X), schema=list(names))


def astropy_table(X, names=NAMES):
    return pytest.importorskip("astropy.table").Table(np.array(X), names=list(names))


def astropy_qtable(X, names=NAMES):
    units = pytest.importorskip("astropy.units")
    table = pytest.importorskip("astropy.table").QTable()
    for name, column in zip(names, np.array(X).T, strict=True):
        table[name] = column * units.mag
    return table


TABLES = [pandas_table, polars_table, astropy_table, astropy_qtable]


@pytest.fixture(scope="module")
def expected(wave):
    X, y = wave
    return quick().fit(X, y).predict(X, return_std=True)


@pytest.mark.parametrize("table", TABLES)
def test_tables_give_what_arrays_give(table, wave, expected):
    X, y = wave
    model = quick().fit(table(X), y)
    np.testing.assert_array_equal(model.feature_names_in_, NAMES)
    mean, std = model.predict(table(X), return_std=True)
    np.testing.assert_array_equal(mean, expected[0])
    np.testing.assert_array_equal(std, expected[1])


@pytest.mark.parametrize("fit", TABLES)
@pytest.mark.parametrize("use", TABLES)
def test_names_are_checked_across_kinds_of_tables(fit, use, wave):
    X, y = wave
    model = quick(max_iter=3).fit(fit(X), y)
    model.predict(use(X))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(use(X, NAMES[::-1]))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(use(X, ["g-r", "other"]))


def test_names_survive_the_model_file(wave, tmp_path):
    X, y = wave
    quick(max_iter=3).fit(pandas_table(X), y).save(tmp_path / "m")
    model = load_model(tmp_path / "m")
    np.testing.assert_array_equal(model.feature_names_in_, NAMES)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(pandas_table(X, NAMES[::-1]))


def test_masked_values_are_missing_values(wave):
    X, y = wave
    tables = pytest.importorskip("astropy.table")
    table = tables.Table(np.array(X), names=NAMES, masked=True)
    table["g-r"].mask[3] = True
    with pytest.raises(ValueError, match="NaN"):
        quick(missing="error").fit(table, y)
    gap = np.array(X)
    gap[3, NAMES.index("g-r")] = np.nan
    np.testing.assert_array_equal(quick().fit(table, y).predict(table), quick().fit(gap, y).predict(gap))


def test_masks_of_numpy_are_missing_values(wave):
    X, y = wave
    mask = np.zeros(X.shape, dtype=bool)
    mask[[3, 5], [0, 1]] = True
    masked, gaps = np.ma.masked_array(X, mask=mask), np.where(mask, np.nan, X)
    model = quick(max_iter=3).fit(masked, y, validation_data=(masked, y))
    expected = quick(max_iter=3).fit(gaps, y, validation_data=(gaps, y)).predict(gaps)
    np.testing.assert_array_equal(model.predict(masked), expected)
    streamed = quick(max_iter=3).fit_stream([(masked, y)]).predict(masked)
    np.testing.assert_array_equal(streamed, quick(max_iter=3).fit_stream([(gaps, y)]).predict(gaps))
    with pytest.raises(ValueError, match="NaN"):
        quick(missing="error").fit(masked, y)


def test_masked_targets_and_weights_are_refused(wave):
    X, y = wave
    lost = np.ma.masked_array(y, mask=np.arange(len(y)) == 7)
    with pytest.raises(ValueError, match=f"`y` is masked in 1 of {len(y)} rows, the first is row 7"):
        quick().fit(X, lost)
    with pytest.raises(ValueError, match="`sample_weight` has 1 negative or non-finite values, the first in row 7"):
        quick().fit(X, y, np.ma.masked_array(np.ones(len(y)), mask=lost.mask))
    with pytest.raises(ValueError, match="`y_std` has 1 values that it cannot have, the first in row 7"):
        quick().fit(X, y, y_std=np.ma.masked_array(np.ones(len(y)), mask=lost.mask))


def test_missing_values_of_data_frames(wave):
    X, y = wave
    frame = pandas_table(X)
    frame.loc[3, "g-r"] = None
    with pytest.raises(ValueError, match="NaN"):
        quick(missing="error").fit(frame, y)
    assert np.isfinite(quick().fit(frame, y).predict(frame)).all()


def test_targets_and_weights_as_series(wave, expected):
    X, y = wave
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for series in (pandas.Series, polars.Series, list):
        model = quick().fit(X, series(np.array(y)), series(np.ones(len(y))))
        np.testing.assert_array_equal(model.predict(X), expected[0])


def variants(X):
    wide = np.repeat(X, 2, axis=1)
    frozen = X.copy()
    frozen.setflags(write=False)
    return {
        "fortran": np.asfortranarray(X),
        "non-contiguous": wide[:, ::2],
        "reversed twice": X[::-1].copy()[::-1],
        "read-only": frozen,
        "list": X.tolist(),
        "big endian": X.astype(">f8"),
    }


@pytest.mark.parametrize("kind", variants(np.zeros((2, 2))))
def test_layout_of_arrays_does_not_matter(kind, wave, expected):
    X, y = variants(wave[0])[kind], wave[1]
    before = np.array(X, copy=True)
    model = quick().fit(X, y)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, expected[0], rtol=1e-12)
    np.testing.assert_allclose(std, expected[1], rtol=1e-12)
    np.testing.assert_array_equal(np.array(X), before)


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint16, np.float32, np.float16, bool])
def test_types_of_numbers(dtype):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2 if dtype is bool else 20, (200, 2)).astype(dtype)
    y = (X[:, 0].astype(float) + rng.integers(0, 3, 200)).astype(np.float64)
    same = X.astype(np.float64)
    np.testing.assert_array_equal(quick().fit(X, y).predict(X), quick().fit(same, y).predict(same))
    kind = np.float32 if dtype is bool else dtype
    np.testing.assert_array_equal(quick().fit(X, y.astype(kind)).predict(X), quick().fit(same, y).predict(same))


def test_inputs_are_not_modified(wave):
    X, y = (np.array(a) for a in wave)
    weights = np.linspace(0.0, 1.0, len(y))
    copies = X.copy(), y.copy(), weights.copy()
    model = quick().fit(X, y, weights, validation_data=(X, y, weights))
    model.predict_distribution(X)
    model.sample_y(X, 2)
    for array, copy in zip((X, y, weights), copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_no_training_rows_are_kept(wave):
    X, y = (np.array(a) for a in wave)
    model = quick(max_iter=3).fit(X, y)

    def arrays(value):
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, list | tuple):
            for item in value:
                yield from arrays(item)
        elif hasattr(value, "__dict__"):
            for item in vars(value).values():
                yield from arrays(item)

    found = list(arrays(model))
    assert found
    assert max(a.shape[0] if a.ndim else 0 for a in found) < len(y)
