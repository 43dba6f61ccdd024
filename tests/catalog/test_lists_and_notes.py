"""Columns of lists, and what columns say of themselves: kept by every format that can, refused by the others."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpzed.catalog import Catalog, Lists, Note, catalog_info, iter_catalog, open_writer, read_catalog, write_catalog
from gpzed.errors import CatalogError

LENGTHS = [3, 0, 1, 2, 5, 0, 4]
PHOT = Note("photometric redshift", "src.redshift.phot")


def lists(dtype=np.float32, seed=0):
    values = 100.0 * np.random.default_rng(seed).random((len(LENGTHS), 5))
    return Lists.from_padded(values.astype(dtype), LENGTHS)


def test_rows_of_lists():
    column = lists()
    assert column.lengths.tolist() == LENGTHS
    assert column.padded(np.nan).shape == (7, 5)
    assert np.isnan(column.padded(np.nan)[1]).all()
    for rows in (slice(2, 5), [4, 0, 0], np.array(LENGTHS) > 2, slice(None, None, 2), slice(5, 2)):
        expected = [list(column)[i].tolist() for i in np.arange(7)[rows]]
        assert [row.tolist() for row in column[rows]] == expected
    assert Lists.concatenate([column[:3], column[3:]]).equals(column)
    assert not column.equals(lists(seed=1))
    with pytest.raises(ValueError, match="read-only"):
        column.values[0] = 1.0


def test_lists_that_are_none():
    with pytest.raises(CatalogError, match="expected flat numbers"):
        Lists([["a"]], [0, 1])
    with pytest.raises(CatalogError, match="must grow"):
        Lists([1.0, 2.0], [0, 2, 1])
    with pytest.raises(CatalogError, match="column 'l' holds lists; expected one number per row"):
        Catalog({"l": lists()}).floats("l")


@pytest.mark.parametrize("suffix", [".parquet", ".hdf5"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_lists_in_files(tmp_path, suffix, dtype):
    table = Catalog({"id": np.arange(7), "l": lists(dtype)}, masks={"l": [False, True, *5 * [False]]})
    path = tmp_path / f"t{suffix}"
    with open_writer(path) as writer:
        writer.write(table.slice(0, 2))
        writer.write(table.slice(2))
    assert catalog_info(path).lists == {"l"}
    assert read_catalog(path).equals(table)
    for chunk_rows in (1, 3, 7):
        assert Catalog.concatenate(iter_catalog(path, chunk_rows=chunk_rows)).equals(table)
    none = tmp_path / f"none{suffix}"
    write_catalog(table.slice(0, 0), none)
    assert read_catalog(none).equals(table.slice(0, 0))


def test_lists_of_others(tmp_path):
    pq.write_table(pa.table({"l": [[1.0, None], None, [], [2.5]]}), tmp_path / "t.parquet")
    column = read_catalog(tmp_path / "t.parquet")["l"]
    np.testing.assert_array_equal(column.values, [1.0, np.nan, 2.5])
    assert column.lengths.tolist() == [2, 0, 0, 1]


def test_lists_within_structures(tmp_path):
    nested = [{"weight": [0.5, 0.5], "mean": [1.0, 2.0]}, None, {"weight": [1.0], "mean": [3.0]}]
    kind = pa.struct([("weight", pa.list_(pa.float64())), ("mean", pa.list_(pa.float64()))])
    pq.write_table(pa.table({"id": [1, 2, 3], "z_pdf": pa.array(nested, kind)}), tmp_path / "t.parquet")
    info = catalog_info(tmp_path / "t.parquet")
    assert info.names == ("id", "z_pdf.weight", "z_pdf.mean")
    assert info.lists == {"z_pdf.weight", "z_pdf.mean"}
    table = read_catalog(tmp_path / "t.parquet", columns=["z_pdf.mean", "id"])
    assert table["z_pdf.mean"].lengths.tolist() == [2, 0, 1]
    assert table["z_pdf.mean"].values.tolist() == [1.0, 2.0, 3.0]
    assert read_catalog(tmp_path / "t.parquet").slice(2)["z_pdf.weight"].values.tolist() == [1.0]


@pytest.mark.parametrize("suffix", [".fits", ".csv", ".ecsv", ".vot"])
def test_formats_without_lists_refuse_them(tmp_path, suffix):
    with pytest.raises(CatalogError, match=r"column 'l' holds lists of different lengths, which .* does not support"):
        write_catalog(Catalog({"l": lists()}), tmp_path / f"t{suffix}")


def described():
    columns = {
        "id": np.arange(3),
        "z_phot": np.array([0.1, 0.2, 0.3], dtype=np.float32),
        "z_pdf_mean": np.arange(24, dtype=np.float32).reshape(3, 8),
        "flag": np.array([True, False, True]),
        "name": np.array(["a", "bb", "c"]),
    }
    about = {"z_phot": PHOT, "id": Note("identifier, l'objet", "meta.id;meta.main")}
    return Catalog(columns, units={"z_pdf_mean": "mag"}, notes=about, metadata={"a": {"x": [1, 2]}, "t": "é"})


@pytest.mark.parametrize("suffix", [".fits", ".parquet", ".hdf5", ".csv", ".ecsv", ".vot"])
def test_notes_come_back(tmp_path, suffix):
    table = described()
    if suffix == ".csv":
        table = table.select([name for name in table.names if name != "z_pdf_mean"])
    write_catalog(table, tmp_path / f"t{suffix}")
    back = read_catalog(tmp_path / f"t{suffix}")
    assert back.notes == table.notes
    assert catalog_info(tmp_path / f"t{suffix}").notes["z_phot"] == PHOT
    assert back.select(["z_phot"]).take([0]).notes == {"z_phot": PHOT}
    assert back.equals(table)


def test_astropy_and_pyarrow_see_the_notes(tmp_path):
    from astropy.table import Table

    for suffix, format_name in ((".vot", "votable"), (".ecsv", "ascii.ecsv"), (".fits", "fits")):
        write_catalog(described(), tmp_path / f"t{suffix}")
        table = Table.read(tmp_path / f"t{suffix}", format=format_name)
        assert str(table["z_pdf_mean"].unit) == "mag"
        if suffix == ".fits":
            assert (table.meta["TCOMM2"], table.meta["TUCD2"]) == PHOT
        else:
            assert (table["z_phot"].description, table["z_phot"].meta["ucd"]) == PHOT
    write_catalog(described(), tmp_path / "t.parquet")
    said = pq.read_schema(tmp_path / "t.parquet").field("z_phot").metadata
    assert said == {b"description": PHOT.description.encode(), b"ucd": PHOT.ucd.encode()}


@pytest.mark.parametrize("suffix", [".ecsv", ".vot"])
def test_masks_and_other_types_through_astropy(tmp_path, suffix):
    table = Catalog(
        {
            "n": np.array([1, 2], np.uint32),
            "b": np.array([0, 2], np.uint8),
            "f": [0.5, 1.5],
            "t": np.array(["2026-11-16", "NaT"], "datetime64[D]"),
        },
        masks={"n": [False, True], "b": [False, True], "f": [True, False]},
    )
    write_catalog(table, tmp_path / f"t{suffix}")
    back = read_catalog(tmp_path / f"t{suffix}")
    assert back.mask("n").tolist() == back.mask("b").tolist() == [False, True]
    assert back["b"][0] == 0
    assert back.mask("f").tolist() == [True, False]
    assert back["n"][0] == 1
    assert back["t"][0] == "2026-11-16"


def test_what_votable_has_not(tmp_path):
    with pytest.raises(CatalogError, match="column 'n' is uint64, which VOTable has not"):
        write_catalog(Catalog({"n": np.array([1], np.uint64)}), tmp_path / "t.vot")
    with pytest.raises(CatalogError, match="is written plain"):
        write_catalog(Catalog({"n": [1]}), tmp_path / "t.ecsv", compression="gzip")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(shutil.which("stilts") is None, reason="stilts is not installed")
@pytest.mark.parametrize("suffix", [".fits", ".vot"])
def test_stilts_reads_them(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    write_catalog(described(), path)
    meta = subprocess.run(["stilts", "tpipe", f"in={path}", "omode=meta"], capture_output=True, text=True, check=True)
    assert "z_phot(Float) - photometric redshift" in " ".join(meta.stdout.split())
    command = ["stilts", "tpipe", f"in={path}", "cmd=keepcols 'z_pdf_mean flag'", "ofmt=csv"]
    rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert '"(0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)",true' in rows
