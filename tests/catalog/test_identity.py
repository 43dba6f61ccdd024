"""A catalogue that changes while it is in use is noticed, whichever way it changes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from gpzed.catalog import Catalog, identify, write_catalog
from gpzed.errors import CatalogError


def table(n: int = 5000) -> Catalog:
    return Catalog({"id": np.arange(n), "z": np.random.default_rng(n).random(n)})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "in.fits"
    write_catalog(table(50_000), path)
    return path


def overwrite(path: Path, at: int, keep_time: bool) -> None:
    """Change one byte in place, with the time of change set back if asked."""
    before = path.stat()
    with path.open("r+b") as stream:
        stream.seek(at)
        byte = stream.read(1)
        stream.seek(at)
        stream.write(bytes([byte[0] ^ 1]))
    if keep_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_an_untouched_file_is_the_same(file):
    known = identify(file)
    known.check_unchanged()
    assert known == identify(str(file))
    assert json.loads(json.dumps(known.to_list())) == known.to_list()


@pytest.mark.parametrize("at", [0, 3000, -1])
def test_a_byte_changed_at_either_end_is_noticed_even_if_the_time_is_set_back(file, at):
    known = identify(file)
    overwrite(file, at % file.stat().st_size, keep_time=True)
    known.check_unchanged(sample=False)
    with pytest.raises(CatalogError, match=r"in.fits' changed while it was in use: the content of 'in.fits'"):
        known.check_unchanged()


def test_a_byte_changed_anywhere_is_noticed_by_its_time(file):
    known = identify(file)
    os.utime(file, ns=(0, 0))
    known = identify(file)
    overwrite(file, file.stat().st_size // 2 + 7, keep_time=False)
    with pytest.raises(CatalogError, match=r"time of change of 'in.fits' is no longer the same"):
        known.check_unchanged(sample=False)


def test_rows_appended_a_file_cut_short_or_replaced_or_removed_are_noticed(file):
    known = identify(file)
    with file.open("ab") as stream:
        stream.write(b"x")
    with pytest.raises(CatalogError, match=r"the size of 'in.fits'"):
        known.check_unchanged(sample=False)
    os.truncate(file, known.files[0].size - 1)
    with pytest.raises(CatalogError, match=r"the size of 'in.fits'"):
        known.check_unchanged()
    copy = file.with_name("copy")
    copy.write_bytes(b"0" * known.files[0].size)
    os.utime(copy, ns=(0, known.files[0].mtime_ns))
    os.replace(copy, file)
    with pytest.raises(CatalogError, match=r"the inode of 'in.fits'"):
        known.check_unchanged(sample=False)
    file.unlink()
    with pytest.raises(CatalogError, match=r"does not exist"):
        known.check_unchanged()


def test_a_folder_is_all_its_files(tmp_path):
    folder = tmp_path / "parts"
    (folder / "Dir=0").mkdir(parents=True)
    for name in ("a.parquet", "Dir=0/b.parquet"):
        write_catalog(table(100), folder / name)
    known = identify(folder)
    assert [item.name for item in known.files] == ["Dir=0/b.parquet", "a.parquet"]
    (folder / "_metadata").write_text("not read, so it may change")
    known.check_unchanged()
    overwrite(folder / "Dir=0/b.parquet", -1 % known.files[0].size, keep_time=True)
    with pytest.raises(CatalogError, match=r"content of 'Dir=0/b.parquet'"):
        known.check_unchanged()
    overwrite(folder / "Dir=0/b.parquet", -1 % known.files[0].size, keep_time=True)
    known.check_unchanged()
    write_catalog(table(10), folder / "c.parquet")
    with pytest.raises(CatalogError, match=r"'c.parquet' was added"):
        known.check_unchanged()
    (folder / "c.parquet").unlink()
    (folder / "a.parquet").unlink()
    with pytest.raises(CatalogError, match=r"'a.parquet' was removed"):
        known.check_unchanged()
