"""A folder with catalogues and a model for the command line, and a way to call it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpzed.cli import main
from gpzed.workflows import train
from workflows.galaxy_files import galaxies, quick_config, with_sentinels, write

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli")
    write(galaxies(400), path / "train.parquet")
    write(with_sentinels(galaxies(300, seed=5)), path / "survey.parquet")
    train(path / "train.parquet", path / "model.gpzed", quick_config())
    return path


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that runs the command line in this process: exit code, output, errors."""

    def run(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
