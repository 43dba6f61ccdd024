"""Fill the tables of the pages from the records.

A table stands between ``<!-- results: NAME -->`` and ``<!-- results: end -->``. NAME is one of `TABLES`, or
FOLDER/EXPERIMENT for a table or figure of the paper, from docs/results/paper.
"""

from __future__ import annotations

import re
from pathlib import Path

from experiments.paper import page as paper
from experiments.results.epochs import ROOT
from experiments.results.tables import TABLES
from experiments.results.views import render

BLOCK = re.compile(r"(?s)<!-- results: ([\w/-]+) -->\n.*?<!-- results: end -->")


def pages() -> list[Path]:
    """Return the pages that may have tables."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    return sorted(path for path in found if "_build" not in path.parts)


def fill(text: str) -> str:
    """Return a page with its tables made anew."""

    def filled(found: re.Match[str]) -> str:
        name = found[1]
        table = paper.table(*name.split("/")) if "/" in name else render(TABLES[name])
        return f"<!-- results: {name} -->\n{table}\n<!-- results: end -->"

    return BLOCK.sub(filled, text)


def write_pages() -> None:
    """Write all pages whose tables have changed."""
    for path in pages():
        text = path.read_text(encoding="utf-8")
        made = fill(text)
        if made != text:
            path.write_text(made, encoding="utf-8")
