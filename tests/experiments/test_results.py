from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from experiments.results import epochs, records, runner, views
from experiments.results.__main__ import seconds
from experiments.results.epochs import ROOT
from experiments.results.listing import EXPERIMENTS, Experiment
from experiments.results.pages import BLOCK, fill, pages
from experiments.results.tables import TABLES
from experiments.results.views import View, render
from gpzed._files import file_hash

if not (ROOT / "docs").is_dir():
    pytest.skip("the pages are not part of this distribution", allow_module_level=True)
MEASURES_NOTHING = {"docs/explanation/model.md", "docs/explanation/errata.md", "docs/howto/missing-bands.md"}
"""Pages whose tables have decimals that are no results: numbers of equations, settings."""


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_pages_show_what_records_hold(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert fill(text) == text, "run `make results RESULTS_ARGS=--pages`"


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_no_table_of_results_is_kept_by_hand(page: Path) -> None:
    name = page.relative_to(ROOT).as_posix()
    text = re.sub(r"(?ms)^ *```.*?^ *```$", "", BLOCK.sub("", page.read_text(encoding="utf-8")))
    numbers = [line for line in text.splitlines() if re.match(r"\|.*\|\s*[-+*]*\d*\.\d+\s*[|±]", line)]
    assert not numbers or name in MEASURES_NOTHING, numbers[:3]


def test_every_table_is_shown_and_every_experiment_has_one() -> None:
    shown = {name for page in pages() for name in BLOCK.findall(page.read_text(encoding="utf-8"))}
    assert set(TABLES) <= shown
    used = {name for view in TABLES.values() for name in view.experiment.split()}
    assert set(EXPERIMENTS) == used | {"paper", "paper-times", "gallery"}  # these have figures


@pytest.mark.parametrize("subject", epochs.SUBJECTS)
def test_the_epoch_is_that_of_the_code(subject: str) -> None:
    found = epochs.changes(subject)
    assert not found, f"records are older than what they measure ({found}); run `make results RESULTS_ARGS=--new-epoch`"


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda experiment: experiment.name)
def test_commands_are_those_of_the_scripts(experiment: Experiment) -> None:
    script = experiment.script.split()
    path = ROOT / (script[0] if script[0] != "-m" else script[1].replace(".", "/"))
    path = next(one for one in (path / "__main__.py", path.with_suffix(".py")) if one.exists())
    text = path.read_text(encoding="utf-8")
    text += (ROOT / "benchmarks/common.py").read_text(encoding="utf-8") + "--no-errors" + '"--min-redshift"'
    for task in experiment.tasks:
        for option in re.findall(r"--[\w-]+", task):
            assert option in text, f"{experiment.command(task)}: no {option}"
    stored = {record["made"]["task"] for record in records.read_records(experiment.name)}
    assert stored <= {"", *map(experiment.command, experiment.tasks)}


def test_records_of_the_paper_name_the_files_that_are_there() -> None:
    found = [*records.read_records("paper"), *records.read_records("paper-times")]
    latest = {(one["folder"], one["experiment"]): one for one in sorted(found, key=records.epoch_of)}
    assert latest
    for record in latest.values():
        path = records.RESULTS / "paper" / record["folder"] / f"{record['experiment']}.json"
        assert file_hash(path) == record["sha256"], path


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """An experiment whose script prints the seed it is given, and fails for 9."""
    script = tmp_path / "toy.py"
    script.write_text(
        "import json, sys\n"
        "seed = int(sys.argv[2])\n"
        "if seed == 9: sys.exit('nine is out of order')\n"
        "for name, value in (('a', 1.0 + seed), ('b', 2.0 + 3 * seed)):\n"
        "    made = {'made': {'commit': 'older'}} if name == 'b' else {}\n"
        "    print(json.dumps({'name': name, 'seed': seed, 'mll': value, **made}))\n"
    )
    tasks = tuple(f"--seed {seed}" for seed in (0, 1, 9))
    experiment = Experiment("toy", "defaults", str(script), tasks, 1.0)
    monkeypatch.setitem(EXPERIMENTS, "toy", experiment)
    monkeypatch.setattr(records, "RESULTS", tmp_path)
    monkeypatch.setattr(runner.Task, "python", Path(sys.executable))
    monkeypatch.setattr(epochs, "stored", lambda: {"defaults": {"epoch": 7, "fingerprint": {}}})
    return experiment


def test_what_is_missing_is_run_once_and_failures_are_told(toy: Experiment, tmp_path: Path) -> None:
    said: list[str] = []
    tasks = runner.all_tasks(["toy"])
    assert [task.state for task in tasks] == ["missing"] * 3
    failed = runner.run(tasks, 2, 60.0, said.append)
    assert len(failed) == 1
    assert "nine is out of order" in failed[0]
    tasks = runner.all_tasks(["toy"])
    assert [task.state for task in tasks] == ["current", "current", "missing"]
    stored = [json.loads(line) for line in (tmp_path / "toy.jsonl").read_text().splitlines()]
    assert [(one["name"], one["seed"], one["mll"]) for one in stored[:2]] == [("a", 0, 1.0), ("b", 0, 2.0)]
    made = stored[0]["made"]
    assert {"task", "epoch", "commit", "date", "machine", "cores", "load", "python", "numpy", "seconds"} <= set(made)
    assert made["epoch"] == 7
    assert {**made, "commit": "older"} == stored[1]["made"] != made
    assert runner.summary(tasks)[0] | {"python": None, "minutes": 0} == {
        "experiment": "toy", "current": 2, "stale": 0, "missing": 1, "minutes": 0, "python": None}  # fmt: skip
    assert tasks[2].seconds == pytest.approx(sum(one["made"]["seconds"] for one in stored) / len(stored))
    assert runner.run(tasks[2:], 1, tasks[2].seconds - 1.0, said.append) == []  # it would take longer than the budget


def test_rows_of_an_earlier_epoch_are_marked_until_measured_again(
    toy: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = runner.all_tasks(["toy"])[:2]
    runner.run(tasks, 1, 60.0, lambda text: None)
    view = View("toy", ("name",), ("mll",), {}, ("name", "a"), ("mll",))
    assert render(view).splitlines()[:4] == [
        "| name | MLL | MLL, less a | seeds |",
        "| --- | --- | --- | --- |",
        "| a | 1.500 ± 0.500 |  | 2 |",
        "| b | 3.500 ± 1.500 | +2.000 ± 1.000 | 2 |",
    ]
    monkeypatch.setattr(epochs, "stored", lambda: {"defaults": {"epoch": 8, "fingerprint": {}}})
    stale = render(view)
    assert stale.startswith("> **Stale.** Rows with † were measured in an earlier epoch; the defaults of")
    assert "| a † |" in stale
    assert [task.state for task in runner.all_tasks(["toy"])] == ["stale", "stale", "missing"]
    runner.run(runner.all_tasks(["toy"])[:1], 1, 60.0, lambda text: None)
    assert "| a | 1.000 |  | 1 |" in render(view)  # seeds of an earlier epoch no longer count


def test_a_changed_default_is_noticed() -> None:
    old = {"options": {"model": {"n_heads": 8}}, "scores": {"mll": 1.0, "crps": 0.5}}
    new = {"options": {"model": {"n_heads": 5}}, "scores": {"mll": 1.001, "crps": 0.6}}
    assert epochs._differences(old, new, epochs.TOLERANCE) == [
        "options.model.n_heads: 8 is now 5",
        "scores.crps: 0.5 is now 0.6",
    ]


def test_pivot_and_lists(toy: Experiment, tmp_path: Path) -> None:
    lines = [{"m": m, "structure": s, "x": [m, 2 * m], "made": {"task": "", "epoch": 7, "date": "2026-01-01"}}
             for m in (5, 10) for s in ("GL", "VC")]  # fmt: skip
    (tmp_path / "toy.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert render(View("toy", ("m",), ("x.1",), pivot="structure")).splitlines()[:3] == [
        "| m | GL | VC |", "| --- | --- | --- |", "| 5 | 10 | 10 |"]  # fmt: skip
    assert "before records said how they were made" in render(View("toy", ("m",), ("x.0",)))
    assert render(View("toy", ("m",), ("x",), {"m": 77})).startswith("*Not measured yet")


def test_lengths_of_time() -> None:
    assert [seconds(text) for text in ("90s", "40m", "1.5h")] == [90.0, 2400.0, 5400.0]
    with pytest.raises(Exception, match="'soon' is no length of time"):
        seconds("soon")


def test_cells_without_values_are_empty() -> None:
    assert views.cell([], ".3f") == ""
    assert views.cell([1.25], "+.2f") == "+1.25"


def test_cells_that_are_off_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import cells

    rng = np.random.default_rng(0)
    columns, gaps = [rng.random(6000) for _ in range(3)], np.zeros(6000, dtype=bool)
    found = cells.make_cells(columns, gaps)
    assert all(cell.sum() >= cells.MIN_ROWS for cell in found)
    assert len(found) == 3 * 6 + 2**3
    right = rng.random(6000) < cells.INSIDE
    assert cells.judge_cells(right, found)["cells_off"] == 0
    wrong = right & (columns[0] > 1 / 6) | (columns[0] <= 1 / 6)  # the lowest sixth is always inside
    judged = cells.judge_cells(wrong, found)
    assert judged["cells_off"] >= 1
    assert judged["worst_cell"] > 0.99
