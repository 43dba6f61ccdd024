"""A few hostile catalogues of each kind; the campaign itself is `python -m faults catalogues`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from faults import trials

catalogues = pytest.importorskip("faults.catalogues")


def test_damaged_catalogues_are_read_or_refused(tmp_path: Path) -> None:
    seeds, rng = catalogues.make_seeds(tmp_path), np.random.default_rng(0)
    cases = list(catalogues.try_files([catalogues.mutant(seeds, rng) for _ in range(120)], tmp_path))
    assert len(cases) == 120
    assert [case for case in cases if not case.held] == []
    assert {case.outcome for case in cases} == {"read", "refused"}


@pytest.mark.slow
def test_crafted_catalogues_are_read_or_refused(tmp_path: Path) -> None:
    cases = list(catalogues.run(len(catalogues.crafted(tmp_path)), np.random.default_rng(0), tmp_path))
    assert [case for case in cases if not case.held] == []


def test_the_same_seed_gives_the_same_files(tmp_path: Path) -> None:
    seeds = catalogues.make_seeds(tmp_path)
    first, again = np.random.default_rng(3), np.random.default_rng(3)
    for _ in range(20):
        assert catalogues.mutant(seeds, first) == catalogues.mutant(seeds, again)


def test_crashes_hangs_and_foreign_errors_are_noticed() -> None:
    def attempt(item: str) -> str:
        if item == "crash":
            import os

            os.abort()
        while item == "hang":
            pass
        return str(len(bytearray(2**40))) if item == "memory" else f"fine: {item}"

    items = ["a", "crash", "b", "hang", "c"]
    answers = list(trials.in_children(attempt, items, seconds=1.0, megabytes=200))
    assert answers == ["fine: a", "crash: the process ended with -6", "fine: b", "hang", "fine: c"]
    (answer,) = trials.in_children(attempt, ["memory"], seconds=5.0, megabytes=200)
    assert answer == "crash: the process ended with 0"


def test_a_canary_is_noticed(tmp_path: Path) -> None:
    row = f"name\n{catalogues.CANARY}\n".encode()
    attempt, file = catalogues.Attempt(tmp_path), catalogues.Hostile("x", ".csv", row)
    (answer,) = trials.in_children(attempt, [file], seconds=10, megabytes=500)
    assert answer.startswith("read from elsewhere")
