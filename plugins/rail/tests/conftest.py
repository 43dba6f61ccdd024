"""A model trained on RAIL's own small data, and a folder and a data store for every test."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rail.core.data import DataStore

from rail_data import TRAINING, VALIDATION, inform, read

DataStore.allow_overwrite = True


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def training() -> dict[str, np.ndarray]:
    return read(TRAINING)


@pytest.fixture
def validation() -> dict[str, np.ndarray]:
    return read(VALIDATION)


@pytest.fixture(scope="session")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file of a model trained on the 100 galaxies."""
    folder = tmp_path_factory.mktemp("model")
    path = folder / "model.gpzed"
    inform(read(TRAINING)).save(path)
    return str(path)
