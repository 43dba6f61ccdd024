"""Bad files and bad disks: one clear error, nothing half-written."""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest

from gpzed.catalog import (
    Catalog,
    catalog_info,
    format_of,
    iter_catalog,
    open_writer,
    read_catalog,
    write_catalog,
)
from gpzed.catalog._csv import CsvWriter
from gpzed.catalog._fits import FitsWriter
from gpzed.catalog._hdf5 import Hdf5Writer
from gpzed.catalog._parquet import ParquetWriter
from gpzed.errors import CatalogError

SUFFIXES = (".fits", ".parquet", ".hdf5", ".csv")


def table(n: int = 5000) -> Catalog:
    rng = np.random.default_rng(1)
    return Catalog({"id": np.arange(n), "mag_g": rng.normal(size=n), "mag_r": rng.normal(size=n)})


def test_missing_file_names_a_near_one(tmp_path):
    (tmp_path / "galaxies.fits").touch()
    with pytest.raises(CatalogError, match=r"galaxie\.fits' does not exist; did you mean '.*galaxies\.fits'\?"):
        read_catalog(tmp_path / "galaxie.fits")
    with pytest.raises(CatalogError, match=r"does not exist; check the path"):
        catalog_info(tmp_path / "no" / "where.csv")


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".ecsv", ".vot"])
def test_empty_file(tmp_path, suffix):
    (tmp_path / f"t{suffix}").touch()
    with pytest.raises(CatalogError, match=r"is empty \(0 bytes\)"):
        read_catalog(tmp_path / f"t{suffix}")


@pytest.mark.parametrize("suffix", [".fits", ".fits.gz", ".parquet", ".hdf5", ".vot", ".ecsv"])
def test_junk_is_not_a_table(tmp_path, suffix):
    (tmp_path / f"t{suffix}").write_bytes(b"this is no table at all\n" * 200)
    with pytest.raises(CatalogError, match=rf"t{suffix}' (cannot be read as|has no binary table)"):
        read_catalog(tmp_path / f"t{suffix}")


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".csv.gz"])
def test_truncated_file(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    write_catalog(table(), path)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])
    if suffix == ".csv":
        path.write_bytes(data[: data.rindex(b",")])
    with pytest.raises(CatalogError, match=r"truncated"):
        read_catalog(path)


def test_truncated_fits_counts_rows(tmp_path):
    write_catalog(table(), tmp_path / "t.fits")
    data = (tmp_path / "t.fits").read_bytes()
    (tmp_path / "t.fits").write_bytes(data[: 2880 * 10])
    with pytest.raises(CatalogError, match=r"its header announces 5000 rows of 24 bytes, the file holds \d+; fetch"):
        catalog_info(tmp_path / "t.fits")
    with gzip.open(tmp_path / "z.fits.gz", "wb") as stream:
        stream.write(data[: 2880 * 10])
    with warnings.catch_warnings(), pytest.raises(CatalogError, match=r"truncated at row \d+ of 5000"):
        read_catalog(tmp_path / "z.fits.gz")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("suffix", [*SUFFIXES, ".csv.gz", ".fits.gz"])
def test_damage_anywhere_raises_our_error_or_none(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    plain = tmp_path / f"t{suffix}".removesuffix(".gz")
    write_catalog(table(100).with_columns({"name": ["é", "b"] * 50}), plain, metadata={"survey": "ü" * 50})
    data = plain.read_bytes() if path == plain else gzip.compress(plain.read_bytes(), mtime=0)
    rng = np.random.default_rng(3)
    for trial in range(40):
        damaged = bytearray(data)
        for place in rng.integers(0, min(len(data), (6000, 10**9)[trial % 2]), 4):
            damaged[place : place + trial % 3] = rng.bytes(1)
        path.write_bytes(damaged)
        with contextlib.suppress(CatalogError):
            read_catalog(path)


@pytest.mark.filterwarnings("ignore")
def test_a_damaged_hdu_ends_the_search(tmp_path):
    write_catalog(table(100), tmp_path / "t.fits")
    data = gzip.compress((tmp_path / "t.fits").read_bytes(), mtime=0)
    for place in range(90, 240):  # some of these make astropy find one damaged HDU after the other
        flipped = bytes([data[place] ^ 4])
        (tmp_path / "t.fits.gz").write_bytes(data[:place] + flipped + data[place + 1 :])
        with contextlib.suppress(CatalogError):
            read_catalog(tmp_path / "t.fits.gz")


def test_no_table_hdu(tmp_path):
    from astropy.io import fits

    fits.PrimaryHDU(np.zeros((3, 3))).writeto(tmp_path / "t.fits")
    with pytest.raises(CatalogError, match=r"has no binary table; it has HDUs 0: PRIMARY \(IMAGE\)"):
        read_catalog(tmp_path / "t.fits")


def test_fits_with_a_name_twice(tmp_path):
    write_catalog(Catalog({"mag_g": [20.0], "mag_r": [21.0]}), tmp_path / "t.fits")
    raw = (tmp_path / "t.fits").read_bytes()
    (tmp_path / "t.fits").write_bytes(raw.replace(b"'mag_r   '", b"'mag_g   '"))
    with pytest.raises(CatalogError, match=r"t\.fits': column 'mag_g' appears twice; rename one"):
        read_catalog(tmp_path / "t.fits")


def test_unreadable_row_group_is_named(tmp_path):
    import pyarrow.parquet as pq

    path = tmp_path / "t.parquet"
    with open_writer(path) as writer:
        for start in range(0, 5000, 1000):
            writer.write(table().slice(start, start + 1000))
    where = pq.ParquetFile(path).metadata.row_group(3).column(1)
    data = bytearray(path.read_bytes())
    start = where.data_page_offset
    data[start : start + where.total_compressed_size] = b"\xff" * where.total_compressed_size
    path.write_bytes(bytes(data))
    chunks = iter_catalog(path, chunk_rows=1000)
    assert [len(next(chunks)) for _ in range(3)] == [1000] * 3
    with pytest.raises(CatalogError, match=r"t\.parquet', row group 3 of 5 \(1000 rows\) cannot be read"):
        next(chunks)
    assert len(read_catalog(path, columns=["id"])) == 5000


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_missing_column_is_found_at_the_call(tmp_path, suffix):
    write_catalog(table(5), tmp_path / f"t{suffix}")
    with pytest.raises(CatalogError, match=r"has no column 'mag_i'; did you mean 'mag_[rg]'.*It has 3 columns: 'id'"):
        iter_catalog(tmp_path / f"t{suffix}", columns=["id", "mag_i"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2\n3,4\n", "has no header line: its first line is '1,2'"),
        ("a,a\n1,2\n", "column 'a' appears twice; rename one"),
        (",a,index\n0,1,2\n", "column 1 of 3 has no name"),
        ("a,,c\n1,2,3\n", "column 2 of 3 has no name"),
        ("a,b\n1,2\n3\n", r"Expected 2 columns, got 1"),
        ("a,b\n1,2\n3,4,5\n", r"Expected 2 columns, got 3"),
        ("#only a comment\n", "has no header line|Empty CSV"),
        (
            '# gpzed_columns: {"a": {"dtype": "int64"}}\na\nx\n',
            "column 'a' is declared int64 but .*invalid value 'x'",
        ),
    ],
)
def test_bad_csv(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(CatalogError, match=message):
        read_catalog(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (",a,b\n0,1,True\n", ["index", "a", "b"]),  # as pandas and R have it
        ("# made by me, today\nid,24\n1,2\n", ["id", "24"]),  # numbers below "id"
        ("# by some program\n# id,a,good\n7,1.5,True\n", ["id", "a", "good"]),
        ("# id,a,good\nx,1.5,True\n", ["id", "a", "good"]),
        ("# 3 columns, of which 1 is text, follow\nid,a,good\nx,1.5,True\n", ["id", "a", "good"]),
    ],
)
def test_headers_of_other_programs(tmp_path, text, names):
    (tmp_path / "t.csv").write_text(text)
    found = read_catalog(tmp_path / "t.csv")
    assert (list(found.names), len(found)) == (names, 1)


@pytest.mark.parametrize("format", ["fixed", "table"])
def test_hdf5_of_pandas(tmp_path, format):
    pytest.importorskip("tables")
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"a": [1.0, 2.0], "b": [1, 2]}).to_hdf(tmp_path / "t.h5", key="df", format=format)
    with pytest.raises(CatalogError, match=r"t\.h5' is a file of pandas.*to_parquet"):
        read_catalog(tmp_path / "t.h5")


def test_hdf5_with_a_table_beside_that_of_pandas(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file.create_group("frame").attrs["pandas_type"] = "frame"
        file["frame/block0_values"] = np.zeros((3, 2))
        file["plain/mag_g"] = [20.0, 21.0]
        file.create_group("a/frame").attrs["pandas_type"] = "frame"
        file["a/frame/axis0"] = np.zeros(3)
    assert read_catalog(tmp_path / "t.h5", hdf5_group="plain")["mag_g"].tolist() == [20.0, 21.0]
    for options in ({}, {"hdf5_group": "frame"}, {"hdf5_group": "./frame"}, {"hdf5_group": "a/frame"}):
        with pytest.raises(CatalogError, match="file of pandas"):
            read_catalog(tmp_path / "t.h5", **options)


def test_csv_that_is_not_utf8(tmp_path):
    (tmp_path / "t.csv").write_bytes("a,b\n1,é\n".encode("latin-1"))
    with pytest.raises(CatalogError, match=r"cannot be read as CSV: .*utf-8"):
        read_catalog(tmp_path / "t.csv")


def test_csv_says_which_line(tmp_path):
    (tmp_path / "t.csv").write_text("#x\na,b\n1,2\n3\n")
    with pytest.raises(CatalogError, match=r"Row #4: Expected 2 columns, got 1"):
        read_catalog(tmp_path / "t.csv")


def test_formats_and_arguments(tmp_path):
    with pytest.raises(
        CatalogError, match=r"'t\.xyz': the suffix does not tell .*fits: \.fits \.fit.*parquet: \.parquet"
    ):
        format_of("t.xyz")
    with pytest.raises(CatalogError, match=r"unknown `format` 'parket'; did you mean 'parquet'\? Valid formats: fits"):
        format_of("t.xyz", "parket")
    write_catalog(table(3), tmp_path / "t.csv")
    with pytest.raises(CatalogError, match=r"`start_row` is 4 but .* has 3 rows"):
        iter_catalog(tmp_path / "t.csv", start_row=4)
    with pytest.raises(CatalogError, match="`columns` is empty"):
        read_catalog(tmp_path / "t.csv", columns=[])
    with pytest.raises(CatalogError, match="`chunk_rows` is 0"):
        iter_catalog(tmp_path / "t.csv", chunk_rows=0)
    with pytest.raises(CatalogError, match=r"`hdf5_group` is 'x' but .* is read as csv"):
        read_catalog(tmp_path / "t.csv", hdf5_group="x")
    with pytest.raises(CatalogError, match=r"holds no \.parquet or \.pq files"):
        read_catalog(tmp_path)
    with pytest.raises(CatalogError, match="only a folder of Parquet files"):
        read_catalog(tmp_path, format="fits")


def test_where_one_cannot_write(tmp_path):
    with pytest.raises(CatalogError, match=r"gzipped FITS can be read but not written; drop the '\.gz'"):
        open_writer(tmp_path / "t.fits.gz")
    with pytest.raises(CatalogError, match=r"folder '.*nowhere' does not exist; create it first"):
        open_writer(tmp_path / "nowhere" / "t.csv")
    (tmp_path / "d.parquet").mkdir()
    with pytest.raises(CatalogError, match="is a folder; give the name of a file"):
        open_writer(tmp_path / "d.parquet")


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".csv.gz"])
def test_an_error_while_writing_leaves_nothing_and_keeps_the_old_file(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"

    def interrupted(chunks):
        with open_writer(path) as writer:
            for chunk in chunks:
                writer.write(chunk)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted([table(10)])
    assert list(tmp_path.iterdir()) == []
    write_catalog(table(3), path)
    before = path.read_bytes()
    with pytest.raises(CatalogError, match="has no column 'mag_r'"):
        interrupted([table(10), table(10).select(["id", "mag_g"])])
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_swallowed_error_is_not_committed(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    with open_writer(path) as writer:
        writer.write(table(10))
        with pytest.raises(CatalogError, match="column 'id' is float64 but earlier rows were int64"):
            writer.write(table(10).with_columns({"id": np.zeros(10)}))
        with pytest.raises(CatalogError, match="is not open for writing"):
            writer.write(table(10))
    assert list(tmp_path.iterdir()) == []


def test_nothing_written_and_no_columns(tmp_path):
    with pytest.raises(CatalogError, match="nothing was written"), open_writer(tmp_path / "t.csv"):
        pass
    with pytest.raises(CatalogError, match="has no columns"):
        write_catalog(Catalog({}), tmp_path / "t.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_full_disk(tmp_path, monkeypatch, suffix):
    writer_class = {".fits": FitsWriter, ".parquet": ParquetWriter, ".hdf5": Hdf5Writer, ".csv": CsvWriter}[suffix]
    write = writer_class.write

    def full(self, chunk):
        if chunk["id"][0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(self, chunk)

    monkeypatch.setattr(writer_class, "write", full)
    message = r"could not be written: the disk is full \(after 100 rows\); nothing was left under this name"

    def two_chunks():
        with open_writer(tmp_path / f"t{suffix}") as writer:
            writer.write(table().slice(0, 100))
            writer.write(table().slice(100, 200))

    with pytest.raises(CatalogError, match=message):
        two_chunks()
    assert list(tmp_path.iterdir()) == []


LIMITED = """
import resource, sys, numpy as np
from gpzed.catalog import Catalog, open_writer
from gpzed.errors import CatalogError
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
chunk = Catalog({"a": np.random.default_rng(0).normal(size=50_000)})
try:
    with open_writer(sys.argv[1]) as writer:
        for _ in range(10):
            writer.write(chunk)
except CatalogError as error:
    sys.exit(0 if "nothing was left under this name" in str(error) else str(error))
sys.exit("no error")
"""


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_disk_that_really_refuses(tmp_path, suffix):
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, tmp_path / f"t{suffix}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


ENDLESS = """
import sys, numpy as np
from gpzed.catalog import Catalog, open_writer
with open_writer(sys.argv[1]) as writer:
    while True:
        writer.write(Catalog({"a": np.arange(1000.0)}))
        sys.stdout.write("x")
        sys.stdout.flush()
"""


def test_kill_leaves_nothing_under_the_final_name(tmp_path):
    path = tmp_path / "t.parquet"
    process = subprocess.Popen([sys.executable, "-c", ENDLESS, path], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.read(3) == b"xxx"
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    assert not path.exists()
    assert all(p.name.endswith(".part") for p in tmp_path.iterdir())


def test_fits_widens_text_and_refuses_what_it_cannot_hold(tmp_path):
    words = ["a", "", "longer", "é" * 20, "b"]
    with open_writer(tmp_path / "t.fits") as writer:
        for i, word in enumerate(words):
            writer.write(Catalog({"n": [i], "t": [word]}, masks={"t": [i == 1]}))
    back = read_catalog(tmp_path / "t.fits")
    assert back["t"].tolist() == words
    assert back.mask("t").tolist() == [False, True, False, False, False]
    assert [p.name for p in tmp_path.iterdir()] == ["t.fits"]
    every = Catalog({"u": np.arange(256, dtype=np.uint8)}, masks={"u": np.arange(256) == 7})
    with pytest.raises(CatalogError, match="column 'u' has masked values and uses every end of its range"):
        write_catalog(every, tmp_path / "u.fits")
    with pytest.raises(CatalogError, match="column name 'é' cannot be stored in FITS"):
        write_catalog(Catalog({"é": [1]}), tmp_path / "u.fits")


def test_what_other_formats_cannot_hold(tmp_path):
    with pytest.raises(CatalogError, match=r"column 'a' has shape \(2, 2\), which CSV cannot hold"):
        write_catalog(Catalog({"a": np.zeros((2, 2))}), tmp_path / "t.csv")
    with pytest.raises(CatalogError, match="column name 'a/b' cannot be stored in HDF5"):
        write_catalog(Catalog({"a/b": [1]}), tmp_path / "t.h5")
    with pytest.raises(CatalogError, match="column 'a' has 3 dimensions"):
        write_catalog(Catalog({"a": np.zeros((2, 2, 2))}), tmp_path / "t.parquet")
    with pytest.raises(CatalogError, match="metadata 'f' cannot be stored: function is not JSON"):
        write_catalog(Catalog({"a": [1]}, metadata={"f": format_of}), tmp_path / "t.parquet")
    assert list(tmp_path.iterdir()) == []


def test_permissions_follow_the_umask(tmp_path):
    write_catalog(table(3), tmp_path / "t.csv")
    (tmp_path / "plain").touch()
    assert (tmp_path / "t.csv").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_memory_stays_constant_while_streaming(tmp_path):
    import tracemalloc

    path = tmp_path / "t.fits"
    with open_writer(path) as writer:
        for _ in range(20):
            writer.write(table(20_000))
    tracemalloc.start()
    n = sum(len(chunk) for chunk in iter_catalog(path, chunk_rows=10_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert n == 400_000
    assert peak < 3_000_000  # the file is 9.6 MB, a chunk 0.24 MB
