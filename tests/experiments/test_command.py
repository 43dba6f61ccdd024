from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.paper.__main__ import main

Call = Callable[..., tuple[int, str, str]]
pytest.importorskip("matplotlib")


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that runs the command in this process: exit code, output, errors."""

    def run(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_list_names_all(call: Call) -> None:
    code, text, _ = call("--list", "--json")
    assert code == 0
    listed = {entry["name"]: entry for entry in json.loads(text)}
    assert {"complexity", "metrics", "fr", "scatter", "rejection", "improvement", "bias", "uncertainty", "time"} < set(
        listed
    )
    assert listed["improvement"]["is a"] == "table and figure"


def test_a_figure_alone_then_from_its_results(call: Call, tmp_path: Path) -> None:
    code, text, err = call("--table", "surface", "--quick", "-o", tmp_path, "--threads", 1)
    assert code == 0, err
    assert "GPVC" in text
    assert (tmp_path / "surface.png").exists()
    again = tmp_path / "again"
    options = ("--from", tmp_path, "-o", again, "--format", "svg", "--json")
    code, text, err = call("--figure", "surface", *options)
    assert code == 0, err
    assert json.loads(text)[0]["files"][-1] == str(again / "surface.svg")
    assert (again / "surface.svg").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing to do"),
        (("--all", "--table", "metrics"), "--all is everything"),
        (("--table", "metric"), "did you mean 'metrics'"),
        (("--figure", "rejection", "--from", "nowhere"), "run the experiment first"),
        (("--table", "metrics", "--catalogue", "none.parquet"), "none.parquet"),
    ],
)
def test_mistakes_are_told(call: Call, arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    code, _, err = call(*arguments, "-o", tmp_path)
    assert code != 0
    assert message in " ".join(err.split())
