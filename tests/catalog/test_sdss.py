from __future__ import annotations

import re

import pytest

from gpzed.catalog import casjobs_query, guess_schema
from gpzed.catalog.sdss import PHOTO_FLAGS
from gpzed.errors import ConfigError


def statements(query: str) -> str:
    """Return the query without its comments."""
    return "\n".join(line.split("--")[0].rstrip() for line in query.splitlines() if line.split("--")[0].strip())


def test_flags_are_tested_on_the_object_and_must_be_absent():
    sql = statements(casjobs_query())
    for flag in PHOTO_FLAGS:
        assert f"AND (p.flags & dbo.fPhotoFlags('{flag}')) = 0" in sql
    assert "!=" not in sql
    assert sql.count("fPhotoFlags") == 6


def test_the_query_is_whole():
    sql = statements(casjobs_query())
    assert sql.startswith("SELECT\n    p.objID AS objid,\n    p.modelMag_u,")
    assert (
        "INTO mydb.modelmag_dataset\nFROM PhotoObjAll AS p\nJOIN SpecObj AS s ON s.bestObjID = p.objID\nWHERE\n" in sql
    )
    assert re.search(r"WHERE\n +s\.class = 'GALAXY'\nAND s\.zWarning = 0\nAND p\.mode = 1\nAND ", sql)
    assert "context DR12" in casjobs_query()
    assert "always" in casjobs_query() or "hold for every object" in casjobs_query()
    assert all(len(line) <= 120 for line in casjobs_query().splitlines())


def test_its_columns_are_recognised():
    selected = statements(casjobs_query(bands=("g", "r"))).split("INTO")[0].removeprefix("SELECT")
    columns = [item.split(" AS ")[-1].split(".")[-1].strip() for item in selected.split(",")]
    schema = guess_schema(columns)
    assert (schema.convention, schema.bands, schema.redshift, schema.redshift_err, schema.id) == (
        "sdss_model",
        ("g", "r"),
        "zspec",
        "zspecErr",
        "objid",
    )


def test_options():
    assert "fPhotoFlags" not in statements(casjobs_query(flags=()))
    assert "this is what the printed query selects" in casjobs_query(flags=())
    sql = statements(casjobs_query("dr17", table="mydb.mine", limit=10, flags=["saturated"]))
    assert sql.startswith("SELECT TOP 10\n")
    assert "INTO mydb.mine" in sql
    assert sql.endswith("AND (p.flags & dbo.fPhotoFlags('SATURATED')) = 0")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"release": "DR7"}, "`release` is 'DR7'; expected a data release with BOSS tables"),
        ({"table": "x; DROP TABLE y"}, "`table` is .*expected a table of your own database"),
        ({"bands": ("y",)}, "`bands` has 'y'; SDSS has u, g, r, i, z"),
        ({"bands": ()}, "`bands` is empty"),
        ({"limit": 0}, "`limit` is 0"),
        ({"flags": ["PEAKCENTRE"]}, "`flags` has 'PEAKCENTRE'; did you mean 'PEAKCENTER'"),
        ({"flags": ["a'b"]}, "expected a flag name like 'PEAKCENTER'"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ConfigError, match=message):
        casjobs_query(**options)
