"""Files that once reached elsewhere, hung, crashed or took all memory: each is refused now, and says why."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpzed.catalog import Catalog, catalog_info, parquet_files, read_catalog, write_catalog
from gpzed.errors import CatalogError

h5py = pytest.importorskip("h5py")
hostile = pytest.importorskip("faults.hostile_catalogues")

REFUSED = {
    "vot external entity": "declares entities, or data in another place",
    "vot entity bomb": "declares entities, or data in another place",
    "vot stream of a file": "declares entities, or data in another place",
    "vot stream of a URL": "declares entities, or data in another place",
    "vot stream of FITS": "declares entities, or data in another place",
    "vot huge nrows": "does not fit into memory as VOTable",
    "vot gzip bomb": "is compressed, which is not supported for VOTable; unpack it first",
    "ecsv gzip bomb": "is compressed, which is not supported for ECSV; unpack it first",
    "ecsv python object": "cannot be read as ECSV",
    "hdf5 external link": "holds no datasets",
    "hdf5 linked group": "holds no datasets",
    "hdf5 detour": "holds no datasets",
    "hdf5 external storage": "the values of 'z' are in another file",
    "hdf5 external text": "the values of 'text' are in another file",
    "hdf5 virtual": "the values of 'z' are in another file",
    "hdf5 huge": r"has shape \(1125899906842624,\) but holds only 0 bytes",
    "hdf5 huge width": r"has shape \(1, 1099511627776\) but holds only 0 bytes",
    "hdf5 huge text": r"has shape \(10,\) but holds only 0 bytes",
    "hdf5 deep groups": "holds no datasets",
    "hdf5 endless text": "among its texts or lists of variable length is one without an end",
    "fits huge TFIELDS": "TFIELDS is 999999999999; a table has at most 999 columns",
    "fits huge NAXIS2": "is truncated: its header announces 999999999999999 rows of 8 bytes, the file holds 360",
    "fits huge NAXIS1": "NAXIS1 and NAXIS2 are 999999999999999 and 10, the columns take 8 bytes",
    "fits negative NAXIS2": "NAXIS1 and NAXIS2 are 8 and -5",
    "fits gzip bomb of a header": "a header goes on for more than",
    "parquet same names": "column 'a' appears twice; rename one",
    "csv many columns": "has 200000 columns; expected at most 10000",
    "csv gzip bomb of a header": "comments and header go on for more than",
    "csv gzip bomb of comments": "comments and header go on for more than",
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("hostile")
    return folder, {file.fault: file for file in hostile.crafted(folder)}


def written(corpus: tuple[Path, dict[str, Any]], fault: str) -> Path:
    folder, files = corpus
    path = folder / f"case{files[fault].name}"
    path.write_bytes(files[fault].data)
    return path


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fault", REFUSED)
def test_refused(corpus, fault):
    path = written(corpus, fault)
    with pytest.raises(CatalogError, match=REFUSED[fault]):
        read_catalog(path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fault", ["ecsv alias bomb", "ecsv alias cycle"])
def test_metadata_that_would_grow_without_end_are_left_out(corpus, fault):
    info = catalog_info(written(corpus, fault))
    assert (info.names, info.n_rows) == (("a",), 1)
    assert len(str(info.metadata)) < 1_000_000


@pytest.mark.parametrize("fault", ["fits deep metadata", "parquet deep metadata", "csv deep metadata"])
def test_damaged_metadata_do_not_keep_a_table_from_being_read(corpus, fault):
    table = read_catalog(written(corpus, fault))
    assert len(table) > 0


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le"])
@pytest.mark.parametrize(
    "tag", ["<STREAM actuate='>' href='{}'/>", '<STREAM\n\thref = "{}"/>', "<v:STREAM href='{}'/>"]
)
def test_a_stream_from_elsewhere_is_found_however_it_is_written(tmp_path, tag, encoding):
    path = tmp_path / "t.vot"
    text = tag.format("file:///etc/hostname")
    path.write_bytes(f"<VOTABLE xmlns:v='x'><RESOURCE><BINARY>{text}</BINARY></RESOURCE></VOTABLE>".encode(encoding))
    with pytest.raises(CatalogError, match="data in another place"):
        read_catalog(path)


def test_a_collection_stays_in_its_folder(tmp_path):
    (tmp_path / "elsewhere" / "dataset").mkdir(parents=True)
    (tmp_path / "elsewhere" / "hats.properties").touch()
    (tmp_path / "mine").mkdir()
    for target in ("../elsewhere", str(tmp_path / "elsewhere")):
        (tmp_path / "mine" / "collection.properties").write_text(f"hats_primary_table_url={target}\n")
        with pytest.raises(CatalogError, match="names a table outside of its folder"):
            parquet_files(tmp_path / "mine")


def test_texts_of_any_length_are_read_and_their_damage_found_in_large_files(tmp_path, monkeypatch):
    path = tmp_path / "t.hdf5"
    path.write_bytes(whole := hostile.texts_of_any_length(tmp_path))
    assert read_catalog(path)["name"].tolist() == ["one", "two", "", "and", "many", "more"]
    monkeypatch.setattr("gpzed.catalog._hdf5._SMALL", 0)
    assert read_catalog(path)["name"].tolist() == ["one", "two", "", "and", "many", "more"]
    path.write_bytes(hostile.endless(whole))
    assert len(read_catalog(path, columns=["z"])) == 6
    with pytest.raises(CatalogError, match="without an end"):
        read_catalog(path, columns=["name"])


def test_a_named_group_is_not_taken_from_another_file(tmp_path):
    with h5py.File(tmp_path / "other.hdf5", "w") as file:
        file["t/z"] = np.ones(3)
    with h5py.File(tmp_path / "t.hdf5", "w") as file:
        file["link"] = h5py.ExternalLink(str(tmp_path / "other.hdf5"), "/t")
        file["own/z"] = np.zeros(3)
        file["soft"] = h5py.SoftLink("/own")
    assert read_catalog(tmp_path / "t.hdf5", hdf5_group="soft")["z"].tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(CatalogError, match="has no group 'link'"):
        read_catalog(tmp_path / "t.hdf5", hdf5_group="link")


def test_gzipped_fits_is_read_in_constant_memory(tmp_path):
    write_catalog(Catalog({"a": np.zeros(2_000_000)}), tmp_path / "t.fits")
    (tmp_path / "t.fits.gz").write_bytes(gzip.compress((tmp_path / "t.fits").read_bytes(), 1))
    tracemalloc.start()
    assert catalog_info(tmp_path / "t.fits.gz").n_rows == 2_000_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4_000_000
