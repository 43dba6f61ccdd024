"""Files written by others: astropy, pyarrow, h5py, CasJobs."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from astropy.io import fits
from astropy.table import MaskedColumn, Table

from foreign import write_votable
from gpzed.catalog import Catalog, catalog_info, guess_schema, iter_catalog, read_catalog, write_catalog
from gpzed.errors import CatalogError, DataWarning, MissingDependencyError

OBJID = 1237648720693755918


def fits_table(path, **header):
    columns = [
        fits.Column("objid", "K", array=np.array([OBJID, OBJID + 1, -1]), null=-1),
        fits.Column("flux", "E", unit="nJy", array=np.array([1.5, np.nan, -2.0])),
        fits.Column("scaled", "I", array=np.array([-18, -16, -14])),
        fits.Column("unsigned", "J", array=np.array([0, 7, 2**32 - 1], np.uint32), bzero=2**31),
        fits.Column("name", "6A", array=np.array(["a", "bb", ""])),
        fits.Column("good", "L", array=np.array([True, False, True])),
        fits.Column("mags", "2D", array=np.arange(6.0).reshape(3, 2)),
    ]
    table = fits.BinTableHDU.from_columns(columns)
    table.header.update(header | {"XSCAL3": 0.5, "XZERO3": 10.0})
    stream = io.BytesIO()
    fits.HDUList([fits.PrimaryHDU(), fits.ImageHDU(np.zeros((2, 2))), table]).writeto(stream)
    data = stream.getvalue().replace(b"XSCAL3 ", b"TSCAL3 ").replace(b"XZERO3 ", b"TZERO3 ")
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.mark.parametrize("name", ["t.fits", "t.fit", "t.fits.gz"])
def test_astropy_fits_with_tnull_scaling_and_big_endian(tmp_path, name):
    fits_table(tmp_path / name, SURVEY="demo", DEPTH=26.5)
    table = read_catalog(tmp_path / name)
    assert table["objid"].dtype == np.int64
    assert table["objid"].tolist()[:2] == [OBJID, OBJID + 1]
    assert table.mask("objid").tolist() == [False, False, True]
    assert table["flux"].dtype == np.float32
    assert table["flux"].dtype.isnative
    assert table.units == {"flux": "nJy"}
    np.testing.assert_array_equal(table["scaled"], [1.0, 2.0, 3.0])
    assert table["unsigned"].tolist() == [0, 7, 2**32 - 1]
    assert table["name"].tolist() == ["a", "bb", ""]
    assert not table.has_mask("name")
    assert table["good"].tolist() == [True, False, True]
    assert table["mags"].shape == (3, 2)
    assert table.metadata == {"SURVEY": "demo", "DEPTH": 26.5}
    assert Catalog.concatenate(iter_catalog(tmp_path / name, chunk_rows=2)).equals(table)


def test_our_fits_is_read_by_astropy(tmp_path):
    table = Catalog(
        {
            "id": [OBJID, 2],
            "u": np.array([1, 2**63], np.uint64),
            "m": np.array([1.5, 2.5], np.float32),
            "t": ["a", "bc"],
        },
        masks={"id": [False, True]},
        units={"m": "mag"},
        metadata={"k": "v" * 200},
    )
    write_catalog(table, tmp_path / "t.fits")
    with fits.open(tmp_path / "t.fits") as hdus:
        hdus.verify("exception")
        assert '"k":"vvv' in hdus[1].header["GPZED_ME"]
    back = Table.read(tmp_path / "t.fits")
    assert back["id"].mask.tolist() == [False, True]
    assert back["id"][0] == OBJID
    assert back["u"].tolist() == [1, 2**63]
    assert str(back["m"].unit) == "mag"
    assert back["t"].tolist() == ["a", "bc"]


def test_fits_variable_length_columns_are_left_out_with_a_warning(tmp_path):
    columns = [
        fits.Column("a", "D", array=np.arange(2.0)),
        fits.Column("v", "PD()", array=np.array([np.arange(2.0), np.arange(3.0)], dtype=object)),
        fits.Column("bits", "3X", array=np.zeros((2, 3), bool)),
    ]
    fits.BinTableHDU.from_columns(columns).writeto(tmp_path / "t.fits")
    with pytest.warns(DataWarning, match=r"2 column\(s\) left out \('v': variable-length array; 'bits': bit array\)"):
        assert read_catalog(tmp_path / "t.fits").names == ("a",)
    with pytest.raises(CatalogError, match=r"column 'v' cannot be read .variable-length array.; leave it out"):
        read_catalog(tmp_path / "t.fits", columns=["v"])


def test_parquet_nulls_dictionaries_row_groups_and_folder(tmp_path):
    table = pa.table(
        {
            "id": pa.array([OBJID, None, 3, 4, 5], pa.int64()),
            "m": pa.array([1.5, None, float("nan"), 4.5, 5.5], pa.float32()),
            "s": pa.array(["a", None, "", "d", "a"]).dictionary_encode(),
            "b": pa.array([True, None, False, True, True]),
            "dec": pa.array([1, None, 3, 4, 5], pa.decimal128(5, 1)),
        },
        schema=None,
    ).replace_schema_metadata({"origin": "elsewhere", "pandas": "{}"})
    folder = tmp_path / "parts"
    (folder / "sub").mkdir(parents=True)
    pq.write_table(table.slice(0, 3), folder / "a.parquet", row_group_size=2)
    pq.write_table(table.slice(3), folder / "sub" / "b.parquet", row_group_size=1)
    (folder / "_SUCCESS").touch()
    (folder / "._x.parquet").write_bytes(b"junk")
    whole = read_catalog(folder)
    assert whole.mask("id").tolist() == [False, True, False, False, False]
    assert whole["id"][0] == OBJID
    assert whole["s"].tolist() == ["a", "", "", "d", "a"]
    assert whole.mask("s").tolist() == [False, True, False, False, False]
    assert whole.mask("m").tolist() == [False, True, False, False, False]
    assert np.isnan(whole["m"][2])
    assert whole.mask("b").tolist() == [False, True, False, False, False]
    np.testing.assert_array_equal(whole.floats("dec"), [1.0, np.nan, 3.0, 4.0, 5.0])
    assert whole.metadata == {"origin": "elsewhere"}
    for chunk_rows in (1, 2, 4, 9):
        chunks = list(iter_catalog(folder, chunk_rows=chunk_rows))
        assert Catalog.concatenate(chunks).equals(whole)
    for start in range(5):
        assert Catalog.concatenate(iter_catalog(folder, chunk_rows=2, start_row=start)).equals(whole.slice(start))


def test_parquet_folder_must_agree(tmp_path):
    pq.write_table(pa.table({"a": [1.0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "b.parquet")
    with pytest.raises(CatalogError, match=r"b\.parquet': column 'a' is double in 'a\.parquet' but int64 here"):
        read_catalog(tmp_path)


def test_parquet_nested_columns_are_left_out(tmp_path):
    pq.write_table(pa.table({"a": [1.0], "l": [[[1], [2]]], "s": [{"x": 1, "y": [2]}]}), tmp_path / "t.pq")
    with pytest.warns(DataWarning, match=r"'l': Parquet type list<.*int64>.*'s': Parquet type struct"):
        assert read_catalog(tmp_path / "t.pq").names == ("a",)


def test_hdf5_group_as_rail_writes_it(tmp_path):
    with h5py.File(tmp_path / "t.hdf5", "w") as file:
        group = file.create_group("photometry")
        group["redshift"] = np.arange(3.0)
        group["mag_u_lsst"] = np.array([20.0, 21.0, 99.0], dtype=">f4")
        group["id"] = np.array([OBJID, 2, 3])
        group["name"] = np.array([b"x", b"yy", b""])
        group["mag_u_lsst"].attrs["unit"] = "mag"
    table = read_catalog(tmp_path / "t.hdf5")
    assert set(table.names) == {"redshift", "mag_u_lsst", "id", "name"}
    assert table["mag_u_lsst"].dtype == np.float32
    assert table["mag_u_lsst"].dtype.isnative
    assert table["id"][0] == OBJID
    assert table["name"].tolist() == ["x", "yy", ""]
    assert table.units == {"mag_u_lsst": "mag"}


def test_hdf5_root_compound_and_ambiguous(tmp_path):
    with h5py.File(tmp_path / "root.h5", "w") as file:
        file["a"] = np.arange(3)
    assert read_catalog(tmp_path / "root.h5")["a"].tolist() == [0, 1, 2]
    with h5py.File(tmp_path / "compound.hdf", "w") as file:
        file["table"] = np.array([(1, 2.5, b"x")], dtype=[("i", "i8"), ("f", "f4"), ("s", "S3")])
    table = read_catalog(tmp_path / "compound.hdf")
    assert (table["i"][0], table["f"][0], table["s"][0]) == (1, 2.5, "x")
    with h5py.File(tmp_path / "two.h5", "w") as file:
        file["one/a"] = np.arange(3)
        file["two/a"] = np.arange(2)
    with pytest.raises(CatalogError, match=r"holds 2 tables: 'one', 'two'; choose one with `hdf5_group=`"):
        read_catalog(tmp_path / "two.h5")
    assert len(read_catalog(tmp_path / "two.h5", hdf5_group="two")) == 2
    with pytest.raises(CatalogError, match=r"has no group 'three'; tables are in one, two;"):
        read_catalog(tmp_path / "two.h5", hdf5_group="three")


def test_hdf5_of_astropy_has_one_table_with_units(tmp_path):
    written = Table({"f": [1.0, 2.0], "n": [3, 4]})
    written["f"].unit, written["f"].description = "nJy", "a flux"
    written.write(tmp_path / "t.hdf5", path="deep/data", serialize_meta=True)
    table = read_catalog(tmp_path / "t.hdf5")
    assert table.names == ("f", "n")
    assert table.units == {"f": "nJy"}
    assert table.notes["f"].description == "a flux"
    assert read_catalog(tmp_path / "t.hdf5", hdf5_group="deep/data").units == {"f": "nJy"}


def test_hdf5_unequal_lengths_and_nothing(tmp_path):
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["a"], file["b"] = np.arange(3), np.arange(2)
    with pytest.raises(CatalogError, match=r"datasets differ in length: a 3, b 2;"):
        read_catalog(tmp_path / "t.h5")
    with h5py.File(tmp_path / "e.h5", "w"):
        pass
    with pytest.raises(CatalogError, match="holds no datasets"):
        read_catalog(tmp_path / "e.h5")


CASJOBS = (
    "#Table1\n"
    "objid,modelMag_u,modelMag_g,modelMagerr_u,modelMagerr_g,zspec,zspecErr,class\n"
    f"{OBJID},19.5,18,0.05,0.01,0.1,1E-05,GALAXY\n"
    f"{OBJID + 1},-9999,18.25,-9999,0.02,0.2,2E-05,GALAXY\n"
    f"{OBJID + 2},null,17.5,null,0.02,0.3,3E-05,\n"
)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_casjobs_csv_as_it_comes(tmp_path, ending):
    (tmp_path / "t.csv").write_bytes(CASJOBS.replace("\n", ending).encode())
    table = read_catalog(tmp_path / "t.csv")
    assert table["objid"].tolist() == [OBJID, OBJID + 1, OBJID + 2]
    np.testing.assert_array_equal(table.floats("modelMag_u"), [19.5, -9999, np.nan])
    assert table["modelMag_g"].dtype == np.float64
    assert table["class"].tolist() == ["GALAXY", "GALAXY", ""]
    assert table.mask("class").tolist() == [False, False, True]
    schema = guess_schema(table.names)
    assert (schema.convention, schema.redshift, schema.redshift_err, schema.id) == (
        "sdss_model",
        "zspec",
        "zspecErr",
        "objid",
    )


def test_csv_types_hold_for_the_whole_file(tmp_path):
    n = 5000
    rows = [f"{i},{99 if i < n - 1 else 22.5},{2**63 + i},{i if i < n - 1 else 'x'}," for i in range(n)]
    (tmp_path / "t.csv").write_text("i,late,big,text,empty\n" + "\n".join(rows) + "\n")
    info = catalog_info(tmp_path / "t.csv")
    assert info.dtypes == {"i": "int64", "late": "float64", "big": "uint64", "text": "str", "empty": "int64"}
    assert info.n_rows == n
    whole = read_catalog(tmp_path / "t.csv")
    assert whole["big"][-1] == 2**63 + n - 1
    assert whole["late"][-1] == 22.5
    assert whole.mask("empty").all()
    assert Catalog.concatenate(iter_catalog(tmp_path / "t.csv", chunk_rows=999)).equals(whole)
    part = Catalog.concatenate(iter_catalog(tmp_path / "t.csv", chunk_rows=999, columns=["text", "late"]))
    assert part.equals(whole.select(["text", "late"]))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("# a b comment\n# x,y\n1,2\n", ("x", "y")),
        ("\ufeffx,y\n1,2\n", ("x", "y")),
        ("x;y\n1;2\n", ("x", "y")),
        ("x\ty\n1\t2\n", ("x", "y")),
        (' x , "y"\n1,2\n# a remark\n', ("x", "y")),
        ('"x","y"\n"1","2"\n', ("x", "y")),
    ],
)
def test_csv_dialects(tmp_path, text, names):
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    table = read_catalog(tmp_path / "t.csv")
    assert table.names == names
    assert (table["x"].tolist(), table["y"].tolist()) == ([1], [2])


def test_csv_gz_and_header_only(tmp_path):
    with gzip.open(tmp_path / "t.csv.gz", "wt") as stream:
        stream.write("a,b\n1,x\n")
    assert read_catalog(tmp_path / "t.csv.gz")["b"].tolist() == ["x"]
    (tmp_path / "h.csv").write_text("a,b\n")
    assert (len(read_catalog(tmp_path / "h.csv")), read_catalog(tmp_path / "h.csv").names) == (0, ("a", "b"))


def test_our_csv_keeps_what_csv_lacks(tmp_path):
    table = Catalog(
        {"id": [OBJID, 2], "f": np.array([0.1, np.inf], np.float32), "b": [True, False], "s": ['q"', "x,y"]},
        masks={"b": [False, True]},
        metadata={"k": 1},
    )
    write_catalog(table, tmp_path / "t.csv")
    assert read_catalog(tmp_path / "t.csv").equals(table)


def test_csv_with_blanks_around_values(tmp_path):
    (tmp_path / "t.csv").write_text("i, f, b, s\n 1, 2.5, true, x\n2 , 3, false, y\n")
    table = read_catalog(tmp_path / "t.csv")
    assert [table[name].dtype.kind for name in "ifbs"] == ["i", "f", "U", "U"]
    assert table["f"].tolist() == [2.5, 3.0]


def astropy_table() -> Table:
    table = Table({"id": [OBJID, 2], "mag": np.array([1.5, 2.5], np.float32), "name": ["a", "bc"]})
    table["n"] = MaskedColumn([1, 2], mask=[False, True])
    table["mag"].unit = "mag"
    return table


@pytest.mark.parametrize(
    ("name", "format"),
    [("t.ecsv", "ascii.ecsv"), ("t.vot", "votable"), ("t.xml", "votable"), ("t.votable", "votable")],
)
def test_ecsv_and_votable(tmp_path, name, format):
    if format == "votable":
        write_votable(astropy_table(), tmp_path / name)
    else:
        astropy_table().write(tmp_path / name, format=format)
    table = read_catalog(tmp_path / name)
    assert table["id"].tolist() == [OBJID, 2]
    assert table["mag"].dtype == np.float32
    assert table.units == {"mag": "mag"}
    assert table["name"].tolist() == ["a", "bc"]
    assert table.mask("n").tolist() == [False, True]
    assert Catalog.concatenate(iter_catalog(tmp_path / name, chunk_rows=1)).equals(table)
    for suffix in (".fits", ".parquet", ".hdf5", ".csv"):
        write_catalog(table, tmp_path / f"o{suffix}")
        assert read_catalog(tmp_path / f"o{suffix}").equals(table)


def test_format_wins_over_suffix(tmp_path):
    (tmp_path / "t.dat").write_text("a\n1\n")
    assert read_catalog(tmp_path / "t.dat", format="csv")["a"].tolist() == [1]


@pytest.mark.parametrize(
    ("name", "module", "message"),
    [
        (
            "t.fits",
            "astropy.io.fits",
            r"reading FITS needs astropy; install it with `pip install gpzed\[fits\]`",
        ),
        ("t.parquet", "pyarrow.parquet", r"reading Parquet needs pyarrow; .*`pip install gpzed\[parquet\]`"),
        ("t.csv", "pyarrow", r"reading CSV needs pyarrow; .*`pip install gpzed\[csv\]`"),
        ("t.h5", "h5py", r"reading HDF5 needs h5py; .*`pip install gpzed\[hdf5\]`"),
        ("t.vot", "astropy.io.votable", "reading VOTable needs astropy"),
        ("t.ecsv", "astropy.table", "reading ECSV needs astropy"),
    ],
)
def test_missing_packages_say_which_extra(tmp_path, monkeypatch, name, module, message):
    (tmp_path / name).write_bytes(b"x")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=message):
        read_catalog(tmp_path / name)


def test_import_loads_no_optional_package():
    code = (
        "import sys, gpzed.catalog; found = {'astropy', 'pyarrow', 'h5py', 'pandas'} & set(sys.modules); "
        "sys.exit(str(found) if found else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_gzip_is_known_by_its_bytes(tmp_path):
    (tmp_path / "t.csv").write_bytes(gzip.compress(b"a,b\n1,2\n"))
    assert read_catalog(tmp_path / "t.csv")["b"].tolist() == [2]


def test_one_column_and_blank_lines(tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n\n2\n\n")
    assert read_catalog(tmp_path / "t.csv")["a"].tolist() == [1, 2]
    table = Catalog({"a": [1, 2, 3]}, masks={"a": [False, True, True]})
    write_catalog(table, tmp_path / "o.csv")
    assert read_catalog(tmp_path / "o.csv").equals(table)


def test_columns_of_a_csv_file_without_rows_are_numbers(tmp_path):
    (tmp_path / "none.csv").write_text("mag_u,z_spec\n")
    table = read_catalog(tmp_path / "none.csv")
    assert len(table) == 0
    assert {table[name].dtype for name in ("mag_u", "z_spec")} == {np.dtype(float)}
