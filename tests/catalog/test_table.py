from __future__ import annotations

import numpy as np
import pytest

from gpzed.catalog import Catalog, Provenance
from gpzed.errors import CatalogError


def small() -> Catalog:
    return Catalog(
        {"id": np.arange(4) + 2**60, "mag_g": [20.0, 21.0, np.nan, 23.0], "name": ["a", "b", "", "d"]},
        masks={"id": [False, True, False, False]},
        units={"mag_g": "mag"},
        metadata={"survey": "x"},
        provenance=Provenance("f.csv", "csv", 10),
    )


def test_columns_masks_units_and_length():
    table = small()
    assert len(table) == 4
    assert table.names == ("id", "mag_g", "name")
    assert table.units == {"mag_g": "mag"}
    assert table.mask("id").tolist() == [False, True, False, False]
    assert not table.mask("mag_g").any()
    assert table["id"][1] == 0  # nothing hides under a mask
    assert table["id"][3] == 2**60 + 3


def test_arrays_are_read_only_and_the_callers_stay_writable():
    mine = np.array([1.0, 2.0])
    table = Catalog({"a": mine}, masks={"a": [True, False]})
    with pytest.raises(ValueError, match="read-only"):
        table["a"][0] = 3
    mine[0] = 5
    assert mine.tolist() == [5.0, 2.0]
    with pytest.raises(TypeError, match="does not support item assignment"):
        table.metadata["x"] = 1


def test_floats_turns_masked_integers_into_nan():
    np.testing.assert_array_equal(small().floats("id")[:2], [2.0**60, np.nan])


def test_floats_of_text_says_what_is_there():
    with pytest.raises(CatalogError, match=r"'f\.csv': column 'name' holds text: row 10 is 'a'; expected numbers"):
        small().floats("name")


def test_floats_of_text_names_the_first_value_that_is_no_number():
    texts = Catalog(
        {"mag": ["22.5", "", "n.d.", "x"], "z": ["0.5", "nan", "1", "2"], "empty": ["", "", "", ""]},
        masks={"mag": [False, True, False, False], "empty": [True] * 4},
    )
    whole = Catalog.concatenate([texts, texts])
    with pytest.raises(CatalogError, match=r"column 'mag' holds text: row 2 is 'n\.d\.'; expected numbers"):
        whole.floats("mag")
    with pytest.raises(CatalogError, match=r"column 'mag' holds text: row 6 is 'n\.d\.'; expected numbers"):
        whole.slice(4).floats("mag")
    with pytest.raises(CatalogError, match=r"column 'z' holds text, though rows 4 to 7 look like numbers \('0.5'\);"):
        whole.slice(4).floats("z")
    with pytest.raises(CatalogError, match="column 'empty' holds text; expected numbers"):
        texts.floats("empty")


def test_big_endian_bytes_objects_and_masked_arrays():
    table = Catalog(
        {
            "be": np.array([1.5, 2.5], dtype=">f4"),
            "bytes": np.array([b"x", "é".encode()]),
            "objects": np.array(["a", None], dtype=object),
            "numbers": np.array([1, None], dtype=object),
            "ma": np.ma.MaskedArray([1, 2], mask=[True, False]),
        }
    )
    assert table["be"].dtype == np.float32
    assert table["be"].dtype.isnative
    assert table["bytes"].tolist() == ["x", "é"]
    assert table.mask("objects").tolist() == [False, True]
    assert table["numbers"].dtype.kind == "i"
    assert table.mask("numbers").tolist() == [False, True]
    assert table.mask("ma").tolist() == [True, False]


def test_select_slice_take_with_columns():
    table = small()
    assert table.select(["name", "id"]).names == ("name", "id")
    part = table.slice(1, 3)
    assert len(part) == 2
    assert part.provenance.row_offset == 11
    assert part.mask("id").tolist() == [True, False]
    assert table.take([3, 0])["name"].tolist() == ["d", "a"]
    assert table.take(np.array([True, False, False, True]))["name"].tolist() == ["a", "d"]
    more = table.with_columns({"z": np.zeros(4), "id": np.arange(4)}, units={"z": "1"})
    assert more.names == ("id", "mag_g", "name", "z")
    assert not more.has_mask("id")
    assert more.units == {"mag_g": "mag", "z": "1"}


def test_concatenate_inverts_slicing():
    table = small()
    assert Catalog.concatenate([table.slice(0, 1), table.slice(1)]).equals(table)


def test_concatenate_refuses_other_columns():
    table = small()
    with pytest.raises(CatalogError, match=r"row 10 has no column 'mag_g'; no column has a similar name"):
        Catalog.concatenate([table, table.select(["id", "name"])])
    with pytest.raises(CatalogError, match="column 'more' appears that earlier rows do not have"):
        Catalog.concatenate([table, table.with_columns({"more": np.zeros(4)})])
    with pytest.raises(CatalogError, match="column 'mag_g' is float32 but earlier rows were float64"):
        Catalog.concatenate([table, table.with_columns({"mag_g": np.zeros(4, np.float32)})])
    with pytest.raises(CatalogError, match="nothing to concatenate"):
        Catalog.concatenate([])


def test_missing_column_names_near_misses():
    with pytest.raises(CatalogError, match=r"'f\.csv' has no column 'mag_r'; did you mean 'mag_g'\?"):
        small()["mag_r"]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"a": [1], "b": [1, 2]}, {}, "columns differ in length: a 1, b 2;"),
        ({"a": 1.0}, {}, "column 'a' is a single value"),
        ({"a": [1j]}, {}, "column 'a' has dtype complex128"),
        ({"a": np.array([1, "x"], dtype=object)}, {}, r"column 'a' holds Python objects .*\(int, str\)"),
        ({"a": [1]}, {"masks": {"a": [True, False]}}, r"mask of column 'a' has shape \(2,\)"),
        ({"a": [1]}, {"units": {"b": "mag"}}, "a unit is given but the table has no column 'b'"),
    ],
)
def test_bad_tables(columns, options, message):
    with pytest.raises(CatalogError, match=message):
        Catalog(columns, **options)


def test_no_rows_and_no_columns():
    assert len(Catalog({"a": []}).slice(0, 5)) == 0
    assert len(Catalog({}, n_rows=3)) == 3
    assert repr(small()) == "<Catalog of 4 rows, columns id, mag_g, name>"
