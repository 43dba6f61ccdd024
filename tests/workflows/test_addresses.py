"""Catalogues at addresses, in the memory file system of fsspec: fetched, predicted for, and sent back."""

from __future__ import annotations

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
