"""What is counted, and what JSON lines say of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faults.__main__ import main
from faults.campaign import Case, Tally, tally_of, without_folders


def test_records_say_what_was_counted() -> None:
    tally = Tally("signals", 3)
    for number in range(5):
        tally.add(Case("SIGKILL in predict many", "identical after resume", True, is_fresh=number == 0))
    tally.add(Case("SIGHUP in train", "half a file", False, "3 bytes"))
    whole, *faults = tally.records("--each 4")
    assert (whole["run"], whole["cases"], whole["fresh"], whole["broken"]) == ("--each 4", 6, 1, 1)
    assert whole["outcomes"] == "identical after resume 5, half a file 1"
    assert whole["details"] == ["SIGHUP in train: half a file: 3 bytes"]
    assert [(one["fault"], one["command"], one["cases"], one["broken"]) for one in faults] == [
        ("SIGHUP", "train", 1, 1),
        ("SIGKILL", "predict many", 5, 0),
    ]


def test_a_campaign_in_parts_is_counted_from_its_file(tmp_path: Path) -> None:
    line = {"fault": "SIGINT in nz", "outcome": "finished first", "held": True, "detail": "", "is_fresh": True}
    commits = ("1a2b3c4", "1a2b3c4", "5d6e7f8")
    lines = [json.dumps({**line, "seconds": 1.5, "commit": commit}) for commit in commits]
    (tmp_path / "log").write_text("\n".join(lines) + "\n")
    tally = tally_of(tmp_path / "log", 0)
    assert (tally.cases, tally.fresh, tally.seconds, tally.broken) == (3, 3, 4.5, [])
    assert {record["made"]["commit"] for record in tally.records("--each 4")} == {"1a2b3c4, 5d6e7f8"}


def test_records_are_printed_as_the_command_that_makes_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["faults", "settings", "--scale", "0.01", "--json"])
    assert main() == 0
    whole, *faults = map(json.loads, capsys.readouterr().out.splitlines())
    assert (whole["run"], whole["cases"]) == ("settings --scale 0.01", 30)
    assert sum(fault["cases"] for fault in faults) == 30


def test_records_hold_no_folders() -> None:
    text = 'File "/home/me/env/lib/ffi.py", line 3; gpzed predict /tmp/x-1/model.gpzed a/b.fits --dask local:2'
    assert without_folders(text) == 'File "ffi.py", line 3; gpzed predict model.gpzed a/b.fits --dask local:2'
