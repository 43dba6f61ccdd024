from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gpzed.catalog import (
    Catalog,
    PhotometrySchema,
    SentinelReport,
    Sentinels,
    Status,
    extract_photometry,
    guess_schema,
    iter_catalog,
    write_catalog,
)
from gpzed.errors import CatalogError, ConfigError, SchemaError

M, N, D, F = Status.MEASURED, Status.NOT_OBSERVED, Status.NOT_DETECTED, Status.FAILED
MAGNITUDES = PhotometrySchema(("g",), mag={"g": "m"}, mag_err={"g": "e"})
FLUXES = PhotometrySchema(("g",), flux={"g": "m"}, flux_err={"g": "e"}, zero_point=31.4)
FLAGGED = PhotometrySchema(("g",), mag={"g": "m"}, mag_err={"g": "e"}, flag={"g": "f"})
nan, inf = np.nan, np.inf


@pytest.mark.parametrize(
    ("value", "error", "status", "cause"),
    [
        (21.0, 0.1, M, None),
        (33.0, 1e4, M, None),
        (-5.0, 0.1, M, None),
        (99.0, 99.0, D, "= 99"),
        (99.0, 0.0, D, "= 99"),
        (99.9, 1.0, D, "> 90"),
        (-99.0, -99.0, N, "= -99"),
        (-999.0, -999.0, N, "= -999"),
        (-9999.0, -9999.0, N, "= -9999"),
        (-9999.0, 0.1, N, "= -9999"),
        (-99.9, 0.1, N, "< -90"),
        (nan, 0.1, N, "NaN"),
        (nan, nan, N, "NaN"),
        (inf, 0.1, F, "infinite"),
        (-inf, 0.1, F, "infinite"),
        (21.0, 0.0, F, "error zero"),
        (21.0, -1.0, F, "error negative"),
        (21.0, -9999.0, F, "error negative"),
        (21.0, nan, F, "no error"),
        (21.0, inf, F, "error infinite"),
        (21.0, 99.0, F, "error = 99"),
        (21.0, 98.7, M, None),
    ],
)
def test_magnitude_sentinels(value, error, status, cause):
    found = extract_photometry(Catalog({"m": [value], "e": [error]}), MAGNITUDES)
    assert found.status[0, 0] == status
    assert dict(found.report.causes) == ({cause: (1,)} if cause else {})
    if status == M:
        assert (found.values[0, 0], found.errors[0, 0]) == (value, error)
    else:
        assert np.isnan(found.values).all()
        assert np.isnan(found.errors).all()


@pytest.mark.parametrize(
    ("value", "error", "status"),
    [
        (-3.0, 1.0, M),
        (0.0, 1.0, M),
        (99.0, 99.0, M),
        (-99.0, 5.0, M),
        (-99.0, -99.0, N),
        (-9999.0, nan, N),
        (150.0, 2.0, M),
        (nan, 1.0, N),
        (inf, 1.0, F),
        (5.0, 0.0, F),
        (5.0, -1.0, F),
    ],
)
def test_fluxes_may_be_negative(value, error, status):
    found = extract_photometry(Catalog({"m": [value], "e": [error]}), FLUXES)
    assert found.status[0, 0] == status
    assert (found.kind, found.zero_point) == ("flux", 31.4)


def test_masked_values_and_integers():
    table = Catalog({"m": [21, 22, 23], "e": [1, 1, 1]}, masks={"m": [1, 0, 0], "e": [0, 1, 0]})
    found = extract_photometry(table, MAGNITUDES)
    assert found.status.ravel().tolist() == [N, F, M]
    assert found.report.causes == {"masked": (1,), "no error": (1,)}


def test_flags_win_over_sentinels():
    table = Catalog(
        {
            "m": [21.0, nan, nan, 21.0, 99.0, nan, 99.0, 21.0],
            "e": [0.1, nan, nan, 0.1, 0.1, 0.1, 0.1, 0.0],
            "f": np.array([0, 1, 2, 1, 0, 0, 9, 0], np.int8),
        },
        masks={"f": np.arange(8) == 6},
    )
    found = extract_photometry(table, FLAGGED)
    assert found.status.ravel().tolist() == [M, D, N, D, M, F, D, F]


def test_unknown_flag_says_where():
    table = Catalog({"m": [21.0, 21.0], "e": [0.1, 0.1], "f": [0, 4]})
    with pytest.raises(CatalogError, match=r"the table, row 1: flag column 'f' is 4; expected 0 .measured."):
        extract_photometry(table, FLAGGED)


def test_limits_in_the_error_column():
    table = Catalog({"m": [99.0, 99.0, 99.0, 21.0], "e": [26.5, 99.0, 0.5, 26.0]})
    found = extract_photometry(table, MAGNITUDES)
    np.testing.assert_array_equal(found.limit, [[26.5], [nan], [nan], [nan]])
    assert extract_photometry(table.slice(1), MAGNITUDES).limit is None


def test_no_error_columns():
    schema = PhotometrySchema(("g",), mag={"g": "m"})
    found = extract_photometry(Catalog({"m": [21.0, 99.0]}), schema)
    assert found.status.ravel().tolist() == [M, D]
    assert np.isnan(found.errors).all()


def test_other_sentinels_can_be_declared():
    rules = Sentinels(not_detected=(50.0,), not_detected_above=60.0, not_observed=(0.0,), failed_errors=(7.0,))
    table = Catalog({"m": [50.0, 61.0, 0.0, 21.0, 21.0], "e": [1.0, 1.0, 1.0, 7.0, 99.0]})
    assert extract_photometry(table, MAGNITUDES, rules).status.ravel().tolist() == [D, D, N, F, M]


def test_the_callers_arrays_are_not_touched():
    values, errors = np.array([99.0, 21.0]), np.array([99.0, 0.1])
    extract_photometry(Catalog({"m": values, "e": errors}), MAGNITUDES)
    assert values.tolist() == [99.0, 21.0]
    assert errors.tolist() == [99.0, 0.1]


def test_report_adds_up_and_prints():
    table = Catalog(
        {"mag_g": [21.0, 99.0, nan], "mag_err_g": [0.1] * 3, "mag_r": [20.0] * 3, "mag_err_r": [0.1, 0.0, 0.1]}
    )
    schema = guess_schema(table.names)
    whole = extract_photometry(table, schema).report
    parts = [extract_photometry(table.slice(i, i + 1), schema).report for i in range(3)]
    added = parts[0] + parts[1] + parts[2]
    assert added.to_dict() == whole.to_dict()
    assert (whole.n_rows, whole.n_missing) == (3, 3)
    assert whole.count("g", Status.NOT_DETECTED) == 1
    assert str(whole).splitlines() == [
        "band  measured  not observed  not detected  failed",
        "   g         1             1             1       0",
        "   r         2             0             0       1",
        "because: NaN: 1, = 99: 1, error zero: 1",
    ]
    with pytest.raises(SchemaError, match="reports of different bands cannot be added"):
        added + SentinelReport(("u",), 0, np.zeros((1, 4), np.int64))


def test_missing_and_text_columns():
    with pytest.raises(SchemaError, match=r"missing: 'e'"):
        extract_photometry(Catalog({"m": [1.0]}), MAGNITUDES)
    with pytest.raises(CatalogError, match="column 'e' holds text"):
        extract_photometry(Catalog({"m": [1.0], "e": ["x"]}), MAGNITUDES)


def test_no_rows():
    found = extract_photometry(Catalog({"m": np.empty(0), "e": np.empty(0)}), MAGNITUDES)
    assert found.values.shape == (0, 1)
    assert len(found) == 0
    assert found.report.n_rows == 0


@pytest.mark.parametrize("suffix", [".fits", ".parquet", ".hdf5", ".csv"])
def test_photometry_is_the_same_from_every_format_and_chunking(tmp_path, suffix):
    rng = np.random.default_rng(3)
    values = rng.choice([21.0, 99.0, -9999.0, np.nan, np.inf], 60).astype(np.float32)
    errors = rng.choice([0.1, 0.0, -1.0, np.nan, 26.0], 60).astype(np.float32)
    table = Catalog({"m": values, "e": errors})
    whole = extract_photometry(table, MAGNITUDES)
    write_catalog(table, tmp_path / f"t{suffix}")
    parts = [extract_photometry(c, MAGNITUDES) for c in iter_catalog(tmp_path / f"t{suffix}", chunk_rows=7)]
    np.testing.assert_array_equal(np.concatenate([p.status for p in parts]), whole.status)
    np.testing.assert_array_equal(np.concatenate([p.values for p in parts]), whole.values)


@settings(deadline=None)
@given(
    hnp.arrays(np.float64, 6, elements=st.sampled_from([21.0, 99.0, -99.0, 0.0]) | st.floats()),
    hnp.arrays(np.float64, 6, elements=st.sampled_from([0.1, 99.0, 0.0]) | st.floats()),
    st.sampled_from([MAGNITUDES, FLUXES]),
)
def test_every_value_has_one_status_and_measured_ones_are_usable(values, errors, schema):
    found = extract_photometry(Catalog({"m": values, "e": errors}), schema)
    assert found.report.counts.sum() == 6
    assert sum(sum(n) for n in found.report.causes.values()) == found.report.n_missing
    assert np.isfinite(found.values[found.measured]).all()
    assert (found.errors[found.measured] > 0).all()
    assert np.isnan(found.values[~found.measured]).all()


def test_nan_may_mean_that_nothing_was_seen():
    table = Catalog({"m": [nan, 21.0, 99.0], "e": [nan, 0.1, 99.0]})
    seen = extract_photometry(table, MAGNITUDES, Sentinels(nan="not_detected"))
    assert seen.status.ravel().tolist() == [Status.NOT_DETECTED, Status.MEASURED, Status.NOT_DETECTED]
    assert extract_photometry(table, MAGNITUDES).status[0, 0] == Status.NOT_OBSERVED
    masked = Catalog({"m": [20.0, 21.0], "e": [0.1, 0.1]}, masks={"m": [True, False]})  # null in a Parquet file
    assert extract_photometry(masked, MAGNITUDES, Sentinels(nan="not_detected")).status[0, 0] == Status.NOT_DETECTED
    assert extract_photometry(masked, MAGNITUDES).status[0, 0] == Status.NOT_OBSERVED


def test_limits_by_band_stand_beside_non_detections_that_have_none():
    table = Catalog({"m": [99.0, 99.0, -99.0, 21.0], "e": [99.0, 26.5, -99.0, 0.1]})
    found = extract_photometry(table, MAGNITUDES, Sentinels(limits={"g": 27.0}))
    np.testing.assert_array_equal(found.limit, [[27.0], [26.5], [nan], [nan]])
    with pytest.raises(SchemaError, match="`limits` has band 'q'; the bands are g"):
        extract_photometry(table, MAGNITUDES, Sentinels(limits={"q": 27.0}))
    with pytest.raises(ConfigError, match="`limits` is nan for band 'g'; expected a limiting magnitude"):
        Sentinels(limits={"g": nan})
    with pytest.raises(ConfigError, match="`nan` is 'missing'; expected"):
        Sentinels(nan="missing")


def test_a_sentinel_in_single_precision_is_one():
    table = Catalog({"m": np.array([28.9, 21.0], dtype=np.float32), "e": [0.1, 0.1]})
    found = extract_photometry(table, MAGNITUDES, Sentinels(not_detected=(28.9,)))
    assert found.status.ravel().tolist() == [Status.NOT_DETECTED, Status.MEASURED]
