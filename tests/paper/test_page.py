from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "paper_page.py"
if not SCRIPT.exists():
    pytest.skip("the pages are not part of this distribution", allow_module_level=True)


def test_the_tables_of_the_page_are_those_of_the_results() -> None:
    spec = importlib.util.spec_from_file_location("paper_page", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    text = script.PAGE.read_text(encoding="utf-8")
    assert len(script.BLOCK.findall(text)) >= 10
    assert script.render(text) == text, "run `python benchmarks/paper_page.py`"
