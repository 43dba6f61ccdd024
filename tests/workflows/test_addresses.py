"""Catalogues at addresses, in memory, on a web server and in object storage: fetched, predicted for, and sent back."""

from __future__ import annotations

import functools
import http.server
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpzed
from gpzed.catalog import catalog_info, read_catalog, write_catalog
from gpzed.cli import main
from gpzed.errors import CatalogError, ConfigError, MissingDependencyError
from workflows.galaxy_files import galaxies, quick_config, write

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def memory() -> Iterator[Any]:
    system = fsspec.filesystem("memory")
    system.store.clear()
    yield system
    system.store.clear()


@pytest.mark.parametrize("suffix", ["parquet", "csv", "fits"])
def test_train_predict_and_evaluate_at_addresses(memory: Any, suffix: str, tmp_path: Path) -> None:
    local = write(galaxies(400), tmp_path / f"spectra.{suffix}")
    memory.put(str(local), f"/survey/spectra.{suffix}")
    model = gpzed.train(f"memory://survey/spectra.{suffix}", None, quick_config())
    report = gpzed.predict(model, f"memory://survey/spectra.{suffix}", f"memory://results/new/z.{suffix}")
    assert report.output == f"memory://results/new/z.{suffix}"
    assert memory.exists(f"/results/new/z.{suffix}")
    here = gpzed.predict(model, local, tmp_path / f"here.{suffix}")
    assert here.n_rows == report.n_rows == 400
    there = read_catalog(f"memory://results/new/z.{suffix}")
    np.testing.assert_array_equal(there["z_phot"], read_catalog(tmp_path / f"here.{suffix}")["z_phot"])
    assert gpzed.evaluate(f"memory://results/new/z.{suffix}").n_used == 400


def test_a_folder_of_files_is_one_catalogue(memory: Any, tmp_path: Path) -> None:
    for part in (0, 1):
        memory.put(str(write(galaxies(50, seed=part), tmp_path / f"{part}.parquet")), f"/many/{part}.parquet")
    assert catalog_info("memory://many").n_rows == 100


def test_a_copy_is_renewed_when_the_original_changes(memory: Any, tmp_path: Path) -> None:
    write_catalog(galaxies(30), "memory://changing/a.parquet")
    assert catalog_info("memory://changing/a.parquet").n_rows == 30
    write_catalog(galaxies(40), "memory://changing/a.parquet")
    assert catalog_info("memory://changing/a.parquet").n_rows == 40


def test_messages(memory: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CatalogError, match=r"'memory://nowhere/a.parquet' does not exist; check the address"):
        catalog_info("memory://nowhere/a.parquet")
    with pytest.raises((MissingDependencyError, CatalogError), match=r"'strange://a.csv' cannot be"):
        catalog_info("strange://a.csv")
    model = gpzed.train(galaxies(400), None, quick_config())
    table = write(galaxies(50), tmp_path / "t.parquet")
    with pytest.raises(ConfigError, match="to which no run can be resumed"):
        gpzed.predict(model, table, "memory://o/z.parquet", resume=True)
    with pytest.raises(ConfigError, match="is an address, where the model cannot be written"):
        gpzed.train(table, "memory://models/m.gpzed", quick_config())
    assert main(["train", "s3://bucket/a.parquet", "-o", str(tmp_path / "m.gpzed")]) == 1
    assert "'s3://bucket/a.parquet' cannot be" in capsys.readouterr().err


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """Serve the folder of a test on this machine, as any web server would."""
    pytest.importorskip("aiohttp")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *details: object) -> None: ...

    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=os.fspath(tmp_path))
    ) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("suffix", ["parquet", "csv", "fits"])
def test_a_web_server_is_read_from(web: str, suffix: str, tmp_path: Path) -> None:
    local = write(galaxies(400), tmp_path / f"spectra.{suffix}")
    model = gpzed.train(f"{web}/spectra.{suffix}", None, quick_config())
    assert model.provenance["catalogue"] == f"{web}/spectra.{suffix}"
    there = gpzed.predict(model, f"{web}/spectra.{suffix}", tmp_path / "there.csv")
    assert there.n_rows == 400
    gpzed.predict(model, local, tmp_path / "here.csv")
    assert (tmp_path / "there.csv").read_text().splitlines()[-400:] == (tmp_path / "here.csv").read_text().splitlines()[
        -400:
    ]
    assert gpzed.evaluate(f"{web}/there.csv").path == f"{web}/there.csv"
    write(galaxies(30), local)
    assert catalog_info(f"{web}/spectra.{suffix}").n_rows == 30


def test_what_a_web_server_cannot_do(web: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write(galaxies(300), tmp_path / "t.parquet")
    gpzed.train(table, tmp_path / "m.gpzed", quick_config())
    (tmp_path / "sky").mkdir()
    for given, output, text in (
        (f"{web}/t.parquet", f"{web}/z.parquet", "can be read only; write the predictions to a file here"),
        (f"{web}/none.parquet", tmp_path / "z.parquet", "none.parquet' does not exist; check the address"),
        (f"{web}/sky", tmp_path / "z.parquet", "is a web page, not a catalogue"),
        ("http://127.0.0.1:9/t.csv", tmp_path / "z.parquet", "cannot be reached"),
    ):
        assert main(["predict", f"{web}/m.gpzed", str(given), "-o", str(output)]) in (1, 2)
        assert text in capsys.readouterr().err
    assert main(["info", f"{web}/m.gpzed"]) == 0
    assert main(["report", str(table), "-o", "s3://bucket/page.html"]) == 2
    assert "'s3://bucket/page.html' is an address, where the page cannot be written" in capsys.readouterr().err


@pytest.fixture(scope="module")
def store() -> Iterator[Any]:
    """Run a server of object storage on this machine, with one bucket, and give a way to it."""
    server = pytest.importorskip("moto.server")
    system = pytest.importorskip("s3fs")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{running.get_host_and_port()[1]}")
        system.S3FileSystem.clear_instance_cache()
        there = fsspec.filesystem("s3")
        there.mkdir("survey")
        yield there
    running.stop()
    system.S3FileSystem.clear_instance_cache()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the server
@pytest.mark.parametrize("suffix", ["parquet", "csv", "fits", "hdf5"])
def test_object_storage_is_read_from_and_written_to(store: Any, suffix: str, tmp_path: Path) -> None:
    local = write(galaxies(400), tmp_path / f"spectra.{suffix}")
    store.put(str(local), f"survey/spectra.{suffix}")
    model = gpzed.train(f"s3://survey/spectra.{suffix}", tmp_path / "m.gpzed", quick_config())
    report = gpzed.predict(model, f"s3://survey/spectra.{suffix}", f"s3://survey/new/z.{suffix}")
    assert report.output == f"s3://survey/new/z.{suffix}"
    gpzed.predict(model, local, tmp_path / f"here.{suffix}")
    there, here = (read_catalog(path) for path in (f"s3://survey/new/z.{suffix}", tmp_path / f"here.{suffix}"))
    np.testing.assert_array_equal(there["z_phot"], here["z_phot"])
    assert gpzed.evaluate(f"s3://survey/new/z.{suffix}").n_used == 400
    store.put(str(tmp_path / "m.gpzed"), "survey/m.gpzed")
    assert main(["predict", "s3://survey/m.gpzed", str(local), "-o", "s3://survey/more.csv"]) == 0
    assert store.exists("survey/more.csv")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the server
def test_what_can_go_wrong_in_object_storage(store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = write(galaxies(300), tmp_path / "t.parquet")
    model = gpzed.train(table, None, quick_config())
    with pytest.raises(CatalogError, match=r"'s3://survey/none.csv' does not exist; check the address"):
        catalog_info("s3://survey/none.csv")
    with pytest.raises(ConfigError, match="there is no bucket 'nowhere'; check the name, or make it first"):
        gpzed.predict(model, table, "s3://nowhere/z.csv")
    assert store.ls("") == ["survey"]

    def fail(*details: object, **options: object) -> None:
        raise OSError("the line is cut")

    monkeypatch.setattr(store, "put", fail)
    with pytest.raises(CatalogError, match=r"the line is cut.*the finished file is kept here, as '") as caught:
        gpzed.predict(model, table, "s3://survey/z.csv")
    kept = Path(str(caught.value).rpartition("as '")[2].rstrip("'"))
    assert len(read_catalog(kept)) == 300
    kept.unlink()
    kept.parent.rmdir()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the server, lsdb and hats
def test_hats_in_object_storage(store: Any, tmp_path: Path) -> None:
    lsdb = pytest.importorskip("lsdb")
    pd = pytest.importorskip("pandas")
    table, rng = galaxies(300), np.random.default_rng(0)
    frame = pd.DataFrame({name: table[name] for name in table.names})
    frame["ra"], frame["dec"] = rng.uniform(10.0, 60.0, 300), rng.uniform(-30.0, 30.0, 300)
    sky = lsdb.from_dataframe(frame, ra_column="ra", dec_column="dec", partition_rows=100, catalog_name="sky")
    sky.write_catalog(tmp_path / "sky", catalog_name="sky", progress_bar=False)
    store.put(str(tmp_path / "sky"), "survey/sky", recursive=True)
    gpzed.train(table, tmp_path / "m.gpzed", quick_config())
    assert gpzed.predict(tmp_path / "m.gpzed", "s3://survey/sky", "s3://survey/out").n_rows == 300
    assert gpzed.evaluate("s3://survey/out").n_used == 300
