"""What goes into a file comes out of it: every format, whole or in chunks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gpzed.catalog import Catalog, catalog_info, iter_catalog, open_writer, read_catalog, write_catalog

SUFFIXES = (".fits", ".parquet", ".hdf5", ".csv", ".csv.gz")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def rich(n: int = 203, seed: int = 0) -> Catalog:
    """Return a table with every kind of column that all formats keep exactly."""
    rng = np.random.default_rng(seed)
    columns = {"id": rng.integers(2**53, 2**63 - 1, n)}
    columns["mag_g"] = rng.normal(22, 1, n).astype(np.float32)
    columns["z_spec"] = np.where(rng.random(n) < 0.1, np.nan, rng.gamma(2, 0.3, n))
    for name in INTEGERS:
        low, high = np.iinfo(name).min + 1, np.iinfo(name).max - 1
        columns[f"n_{name}"] = rng.integers(low, high, n, dtype=name, endpoint=True)
    columns["is_star"] = rng.random(n) < 0.5
    words = np.array(["", "NGC 1", "a,b", 'say "x"', "it's", "two\nlines", "µ é", "null", "#no"])
    columns["name"] = words[rng.integers(0, len(words), n)]
    masked = ("id", *(f"n_{name}" for name in INTEGERS), "is_star", "name")
    return Catalog(
        columns,
        masks={name: rng.random(n) < 0.2 for name in masked},
        units={"mag_g": "mag", "z_spec": "µJy"},
        metadata={"model": "x'y & z", "n": 3, "f": 0.1, "list": [1, None, "ü"], "long": "ab & 'cd' " * 300},
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_round_trip_is_exact(tmp_path, suffix):
    table = rich()
    path = tmp_path / f"t{suffix}"
    write_catalog(table, path)
    assert read_catalog(path).equals(table)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("chunk_rows", [11, 203, 1000])
def test_chunks_in_and_out_equal_whole(tmp_path, suffix, chunk_rows):
    table = rich()
    path = tmp_path / f"t{suffix}"
    with open_writer(path) as writer:
        for start in range(0, len(table), 41):
            writer.write(table.slice(start, start + 41))
    assert writer.rows_written == len(table)
    chunks = list(iter_catalog(path, chunk_rows=chunk_rows))
    assert [len(c) for c in chunks[:-1]] == [chunk_rows] * (len(chunks) - 1)
    assert [c.provenance.row_offset for c in chunks] == [i * chunk_rows for i in range(len(chunks))]
    assert Catalog.concatenate(chunks).equals(table)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("start_row", [0, 5, 100, 202, 203])
def test_start_row_and_columns(tmp_path, suffix, start_row):
    table = rich()
    path = tmp_path / f"t{suffix}"
    write_catalog(table, path)
    chunks = list(iter_catalog(path, chunk_rows=50, start_row=start_row, columns=["name", "id"]))
    if start_row == len(table):
        assert chunks == []
    else:
        assert Catalog.concatenate(chunks).equals(table.select(["name", "id"]).slice(start_row))
        assert chunks[0].provenance.row_offset == start_row


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_info_knows_without_reading(tmp_path, suffix):
    table = rich()
    path = tmp_path / f"t{suffix}"
    write_catalog(table, path)
    info = catalog_info(path)
    assert info.names == table.names
    assert info.n_rows == len(table)
    assert info.units == table.units
    assert info.metadata == table.metadata
    expected = {k: "str" if table[k].dtype.kind == "U" else table[k].dtype.name for k in table.names}
    assert info.dtypes == expected


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_zero_rows_in_zero_rows_out(tmp_path, suffix):
    table = rich().slice(0, 0)
    path = tmp_path / f"t{suffix}"
    write_catalog(table, path)
    assert read_catalog(path).equals(table)
    (only,) = iter_catalog(path, columns=["mag_g"])
    assert (len(only), only.names) == (0, ("mag_g",))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_same_table_gives_the_same_bytes(tmp_path, suffix):
    for name in "ab":
        write_catalog(rich(), tmp_path / f"{name}{suffix}")
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


@pytest.mark.parametrize("suffix", [".fits", ".parquet", ".hdf5"])
def test_columns_with_several_values_per_row(tmp_path, suffix):
    table = Catalog(
        {"mags": np.arange(20.0, dtype=np.float32).reshape(4, 5), "n": np.arange(8).reshape(4, 2)},
        masks={"n": [[False, True], [False, False], [True, True], [False, False]]},
    )
    write_catalog(table, tmp_path / f"t{suffix}")
    assert read_catalog(tmp_path / f"t{suffix}").equals(table)
    assert Catalog.concatenate(iter_catalog(tmp_path / f"t{suffix}", chunk_rows=3)).equals(table)


@pytest.mark.parametrize("suffix", [".parquet", ".hdf5", ".csv"])
def test_masked_floats_stay_apart_from_nan_where_the_format_can(tmp_path, suffix):
    table = Catalog({"a": [1.0, np.nan, 3.0], "id": [1, 2, 3]}, masks={"a": [True, False, False]})
    write_catalog(table, tmp_path / f"t{suffix}")
    assert read_catalog(tmp_path / f"t{suffix}").equals(table)


def test_fits_turns_masked_floats_into_nan(tmp_path):
    write_catalog(Catalog({"a": [1.0, 2.0]}, masks={"a": [True, False]}), tmp_path / "t.fits")
    back = read_catalog(tmp_path / "t.fits")
    np.testing.assert_array_equal(back["a"], [np.nan, 2.0])
    assert not back.has_mask("a")


def test_time_stamps(tmp_path):
    times = np.array(["2026-11-16T01:02:03", "NaT"], dtype="datetime64[ms]")
    table = Catalog({"t": times, "id": [1, 2]}, masks={"t": [False, True]})
    for suffix in (".parquet", ".csv"):
        write_catalog(table, tmp_path / f"t{suffix}")
        assert read_catalog(tmp_path / f"t{suffix}").equals(table)
    for suffix in (".fits", ".hdf5"):
        write_catalog(table, tmp_path / f"t{suffix}")
        assert read_catalog(tmp_path / f"t{suffix}")["t"][0] == "2026-11-16T01:02:03.000"


@pytest.mark.parametrize("suffix", [".fits", ".parquet", ".hdf5", ".csv"])
def test_half_floats(tmp_path, suffix):
    table = Catalog({"h": np.array([0.5, 2.0], np.float16), "id": [1, 2]})
    write_catalog(table, tmp_path / f"t{suffix}")
    back = read_catalog(tmp_path / f"t{suffix}")
    assert back["h"].dtype == (np.float32 if suffix == ".fits" else np.float16)
    np.testing.assert_array_equal(back["h"], table["h"])


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=8).map(lambda s: s.rstrip(" "))


@pytest.mark.parametrize("suffix", [".fits", ".parquet", ".hdf5", ".csv"])
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_table_survives_every_format(tmp_path, suffix, data):
    n = data.draw(st.integers(1, 12))
    floats = data.draw(hnp.arrays(np.float64, n))
    singles = data.draw(hnp.arrays(np.float32, n))
    ids = data.draw(hnp.arrays(np.int64, n, elements=st.integers(-(2**63) + 1, 2**63 - 1)))
    texts = data.draw(st.lists(TEXT, min_size=n, max_size=n))
    masks = data.draw(hnp.arrays(bool, (2, n)))
    table = Catalog(
        {"f": floats, "s": singles, "id": ids, "t": np.array(texts, dtype=np.str_)},
        masks={"id": masks[0], "t": masks[1]},
        metadata=data.draw(st.dictionaries(TEXT.filter(bool), TEXT | st.integers() | st.none(), max_size=3)),
    )
    path = tmp_path / f"t{suffix}"
    chunk_rows = data.draw(st.integers(1, n))
    with open_writer(path) as writer:
        for start in range(0, n, chunk_rows):
            writer.write(table.slice(start, start + chunk_rows))
    assert read_catalog(path).equals(table)
    assert Catalog.concatenate(iter_catalog(path, chunk_rows=data.draw(st.integers(1, n)))).equals(table)
