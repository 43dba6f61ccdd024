from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.paper.store import Part, ResultError, floats, obtain, plain, read_json
from gpzed.workflows import Progress


def test_results_are_computed_once(tmp_path: Path) -> None:
    calls = []

    def compute() -> dict[str, object]:
        calls.append(1)
        return {"values": np.array([1.0 / 3.0, np.nan])}

    part = Part("thing", {"size": 3}, compute)
    first = obtain(part, tmp_path, Progress())
    again = obtain(part, tmp_path, Progress())
    assert len(calls) == 1
    assert first == again
    assert first["result"]["values"] == [0.333333, None]
    assert first["provenance"]["numpy"] == np.__version__
    assert first["seconds"] >= 0.0
    np.testing.assert_array_equal(floats(first["result"]["values"]), [0.333333, np.nan])
    obtain(Part("thing", {"size": 4}, compute), tmp_path, Progress())
    assert len(calls) == 2
    assert len(list(tmp_path.iterdir())) == 2


def test_a_part_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> dict[str, object]:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        obtain(Part("thing", {}, fail), tmp_path, Progress())
    assert not list(tmp_path.iterdir())


def test_damaged_and_missing_files_are_told(tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    with pytest.raises(ResultError, match="run the experiment first"):
        read_json(path)
    path.write_text('{"results": ')
    with pytest.raises(ResultError, match="is no JSON"):
        read_json(path)
    path.write_text("[]")
    with pytest.raises(ResultError, match="holds no JSON object"):
        read_json(path)


def test_numbers_become_plain() -> None:
    value = {"a": np.float64(1.23456789), "b": (np.int64(2), True), 3: np.inf, "c": "text"}
    assert plain(value) == {"a": 1.23457, "b": [2, True], "3": None, "c": "text"}
