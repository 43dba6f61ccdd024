"""Tables of text: between blanks, with commented headers, of CDS and VizieR, of EAZY and SExtractor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpzed.catalog import catalog_info, guess_schema, read_catalog
from gpzed.errors import CatalogError

Table = pytest.importorskip("astropy.table").Table
ROWS = {"id": [1, 2, 3], "umag": [20.1, 21.2, 22.3], "e_umag": [0.1, 0.2, 0.3], "zsp": [0.1, 0.25, 0.5]}


@pytest.fixture
def table() -> Table:
    return Table({name: np.array(values) for name, values in ROWS.items()})


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("plain.dat", "ascii.basic"),
        ("commented.txt", "ascii.commented_header"),
        ("fixed.cat", "ascii.fixed_width_no_header"),
        ("tabs.tsv", "ascii.tab"),
        ("ipac.tbl", "ascii.ipac"),
        ("machine.mrt", "ascii.mrt"),
    ],
)
def test_tables_of_text(table: Table, name: str, format: str, tmp_path: Path) -> None:
    table["umag"].unit = "mag"
    if format == "ascii.fixed_width_no_header":
        lines = ["#  id  umag  e_umag  zsp", *("   ".join(map(str, row)) for row in table)]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    else:
        table.write(tmp_path / name, format=format)
    read = read_catalog(tmp_path / name)
    assert read.names == tuple(ROWS)
    for column, values in ROWS.items():
        np.testing.assert_allclose(read.floats(column), values)
    info = catalog_info(tmp_path / name)
    assert (info.format, info.n_rows) == ("ascii", 3)
    if format in ("ascii.ipac", "ascii.mrt"):
        assert info.units["umag"] == "mag"


def test_a_table_of_vizier_is_read_with_its_readme(tmp_path: Path) -> None:
    (tmp_path / "ReadMe").write_text(
        """J/A+A/000/1       A small table       (Somebody, 2020)
================================================================================
File Summary:
--------------------------------------------------------------------------------
 FileName   Lrecl  Records   Explanations
--------------------------------------------------------------------------------
ReadMe         80        .   This file
table1.dat     20        2   The table
--------------------------------------------------------------------------------

Byte-by-byte Description of file: table1.dat
--------------------------------------------------------------------------------
   Bytes Format Units   Label   Explanations
--------------------------------------------------------------------------------
   1-  5 F5.2   mag     umag    ?=99.99 Magnitude in u
   7- 10 F4.2   mag     e_umag  ?=9.99 Its error
  12- 16 F5.3   ---     zsp     Redshift
--------------------------------------------------------------------------------
"""
    )
    (tmp_path / "table1.dat").write_text("20.10 0.10 0.100\n99.99 9.99 0.500\n")
    read = read_catalog(tmp_path / "table1.dat")
    assert read.names == ("umag", "e_umag", "zsp")
    assert read.units["umag"] == "mag"
    assert read.mask("umag").tolist() == [False, True]


def test_a_catalogue_of_eazy(tmp_path: Path) -> None:
    lines = ["# id F1 E1 F2 E2 z_spec", "1 10.5 0.5 20.5 0.6 0.3", "2 -99 -99 3.5 0.6 -1"]
    (tmp_path / "field.cat").write_text("\n".join(lines) + "\n")
    read = read_catalog(tmp_path / "field.cat")
    schema = guess_schema(read.names, zero_point=25.0)
    assert (schema.flux, schema.redshift, schema.id) == ({"F1": "F1", "F2": "F2"}, "z_spec", "id")


def test_a_table_without_names_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "bare.dat").write_text("1 20.5 0.1\n2 21.5 0.2\n")
    with pytest.raises(CatalogError, match="no line with the names of its 3 columns; put one on top"):
        read_catalog(tmp_path / "bare.dat")


def test_compressed_tables_are_refused(tmp_path: Path) -> None:
    import gzip

    (tmp_path / "a.dat").write_bytes(gzip.compress(b"id z\n1 2\n"))
    with pytest.raises(CatalogError, match="compressed, which is not supported for ASCII"):
        read_catalog(tmp_path / "a.dat")
