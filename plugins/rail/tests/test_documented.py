"""Docstrings as RAIL's own check (`wumpydoc`) and `rail.interactive` want them."""

from __future__ import annotations

import re
from pathlib import Path

import numpydoc.validate
import pytest

import rail.gpzed
from test_pipelines import run

CHECKED = {
    "GL03", "GL05", "GL06", "GL07", "GL08", "SS01", "PR01", "PR02", "PR03", "PR04", "PR06", "PR07", "PR10", "RT01",
    "RT02", "RT03",
}  # fmt: skip
"""What RAIL asks of the docstring of an entry point, by numpydoc's codes."""
STAGES = [getattr(rail.gpzed, name) for name in rail.gpzed.__all__ if not name.endswith("Handle")]


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_entry_points_pass_rails_check(stage: type) -> None:
    path = f"{stage.__module__}.{stage.__name__}.{stage.entrypoint_function}"
    found = [(code, text) for code, text in numpydoc.validate.validate(path)["errors"] if code in CHECKED]
    assert [error for error in found if error[0] != "PR01" or "**kwargs" not in error[1]] == []


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_interactive_functions_show_options_and_an_example(stage: type) -> None:
    import rail.interactive as ri

    module = getattr(ri.estimation.algos, stage.__module__.rpartition(".")[2])
    text = getattr(module, stage.interactive_function).__doc__
    assert "hdf5_groupname : str" in text
    assert f">>> {stage.entrypoint_function}" in text or "ri.estimation.algos" in text
    assert stage.name == stage.__name__


def test_patches_for_rail_hold_the_stubs_of_today(tmp_path: Path) -> None:
    script = Path(__file__).resolve().parent.parent / "for_rail" / "make_patches.py"
    run("python", str(script), "--output", str(tmp_path))
    made, kept = ((folder / "rail_base.patch").read_text() for folder in (tmp_path, script.parent))
    stubs = [re.findall(r"(?ms)^\+\+\+ b/\S*/gpzed\w*\.pyi\n.*?(?=^--- |\Z)", patch) for patch in (made, kept)]
    assert len(stubs[0]) == 2
    assert stubs[0] == stubs[1], "options have changed: run `python for_rail/make_patches.py`"
    assert kept.count("+    gpzed,\n+    gpzed_compat,\n") == 1
    for patch in (kept, (script.parent / "rail.patch").read_text()):
        assert "+rail_gpzed: pz-rail-gpzed" in patch
