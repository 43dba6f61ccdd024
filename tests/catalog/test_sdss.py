from __future__ import annotations

import importlib.resources
import re

import pytest

from gpzed.catalog import casjobs_query, download_sdss, guess_schema, read_catalog
from gpzed.catalog.sdss import PHOTO_FLAGS
from gpzed.cli import main
from gpzed.errors import CatalogError, ConfigError


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


ANSWER = """#Table1
objid,modelMag_u,modelMag_g,modelMag_r,modelMag_i,modelMag_z,modelMagErr_u,modelMagErr_g,modelMagErr_r,modelMagErr_i,modelMagErr_z,zspec,zspecErr
1237648720693755918,18.88537,17.48232,16.80384,16.43126,16.15617,0.02621,0.00523,0.00417,0.00422,0.00938,0.08551455,1.68e-05
1237648720693690487,21.06223,19.23384,17.87532,17.37842,17.04329,0.13311,0.01391,0.00659,0.00629,0.01528,0.2140372,3.63e-05
"""
"""An answer to our query in the form of the server's: a line with the name of the table, then CSV. Not a recording."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> list[dict]:
    """Answer the requests of astroquery, and keep what was asked."""
    sdss = pytest.importorskip("astroquery.sdss")
    asked: list[dict] = []

    class Answer:
        text = recorded() if getattr(request, "param", None) == "recorded" else ANSWER

        def raise_for_status(self) -> None: ...

    def answer(self, method, url, **options):
        asked.append({"url": url, **options["params"]})
        return Answer()

    monkeypatch.setattr(sdss.SDSSClass, "_request", answer)
    return asked


def recorded() -> str:
    """Return an answer of the server to another query, as astroquery recorded it for tests of its own."""
    return importlib.resources.files("astroquery.sdss.tests").joinpath("data/xid_sp.txt").read_text()


@pytest.mark.parametrize("server", ["recorded"], indirect=True)
def test_an_answer_that_was_recorded_is_read(server):
    found = download_sdss(1)
    assert found["objid"].dtype.kind in "iu"
    assert found["objid"].tolist() == [1237652943176138868]
    assert found.floats("z").tolist() == [0.04559058]
    assert found.metadata["query"] == server[0]["cmd"].strip()


def test_a_small_sample_is_fetched(server, tmp_path):
    found = download_sdss(2, "DR16")
    assert found["objid"].tolist() == [1237648720693755918, 1237648720693690487]
    schema = guess_schema(found.names)
    assert (schema.convention, schema.redshift) == ("sdss_model", "zspec")
    assert "dr16" in server[0]["url"].lower()
    assert server[0]["cmd"].strip().startswith("SELECT TOP 2 p.objID AS objid, p.modelMag_u,")
    assert "INTO" not in server[0]["cmd"]
    assert "--" not in server[0]["cmd"]
    assert main(["sdss", "--download", str(tmp_path / "sdss.fits"), "--limit", "2"]) == 0
    assert read_catalog(tmp_path / "sdss.fits").floats("zspec").tolist() == [0.08551455, 0.2140372]


def test_what_can_go_wrong_with_a_download(server, monkeypatch, tmp_path):
    with pytest.raises(ConfigError, match="`limit` is 1000000; expected 1 to 100000"):
        download_sdss(1_000_000)
    sdss = pytest.importorskip("astroquery.sdss")

    def refuse(*args, **options):
        raise ConnectionError("no route to host")

    monkeypatch.setattr(sdss.SDSSClass, "_request", refuse)
    with pytest.raises(CatalogError, match="SDSS could not be asked: no route to host; check the network"):
        download_sdss(10)
    assert main(["sdss"]) == 2
    assert main(["sdss", "--sql", "--download", str(tmp_path / "a.fits")]) == 2
