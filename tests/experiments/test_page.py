from __future__ import annotations

import re
import shlex

import pytest

from experiments.paper.__main__ import command
from experiments.results.epochs import ROOT

PAGE = ROOT / "docs" / "explanation" / "paper.md"

if not PAGE.exists():
    pytest.skip("the pages are not part of this distribution", allow_module_level=True)


def test_the_commands_of_the_page_parse() -> None:
    text = PAGE.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = re.findall(r'(?m)^make paper PAPER_ARGS="(.*?)"', text)
    assert len(lines) >= 3
    for line in lines:
        with command.make_context("paper", shlex.split(line)):
            pass


def test_the_package_does_not_import_the_experiments() -> None:
    modules = list((ROOT / "src").rglob("*.py"))
    assert modules
    assert [path for path in modules if re.search(r"\b(import|from) experiments\b", path.read_text("utf-8"))] == []
