"""Fill the tables of docs/explanation/paper.md from the result files: ``python -m experiments.paper.page``.

A table stands between ``<!-- results: FOLDER/NAME -->`` and ``<!-- results: end -->`` and is generated from
docs/results/paper/FOLDER/NAME.json, which ``make paper`` wrote. With --figures the figures are redrawn as well.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from experiments.paper.run import EXPERIMENTS, draw_paper
from experiments.paper.store import read_json

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "paper.md"
RESULTS = ROOT / "docs" / "results" / "paper"
FIGURES = dict.fromkeys(
    ("complexity", "network", "fr", "rejection", "improvement", "bias", "uncertainty", "time"), "svg"
)
"""Figures shown on the page, and how they are stored: those of lines as lines, the others as pixels."""
FIGURES |= dict.fromkeys(("scatter", "sinc", "surface"), "png")
BLOCK = re.compile(r"(?s)<!-- results: ([\w-]+)/([\w-]+) -->\n.*?<!-- results: end -->")


def describe(content: dict[str, Any]) -> str:
    """Say in a line what a file of results was made from."""
    data, versions = content["data"] or {}, content["provenance"]
    if "simulator" in data:
        rows = f"{data['size']:,} simulated galaxies in each set"
    elif data:
        rows = " + ".join(f"`{name}`" for name in data["catalogues"])
        rows += "".join(f", judged by `{name}`" for name in data["tests"])
    else:
        rows = "its own data"
    parts = [rows, f"seed {content['seed']}", f"gpzed {versions['gpzed']}", versions["date"]]
    if content["data_sha256"]:
        parts.append(f"rows {content['data_sha256'][0][:12]}")
    return "; ".join(parts) + f"; {sum(content['seconds'].values()):,.0f} s in all, on a busy machine."


def table(folder: str, name: str) -> str:
    """Return a table of the page, and where it comes from."""
    content = read_json(RESULTS / folder / f"{name}.json")
    make = EXPERIMENTS[name].table
    lines = []
    if make is not None:
        made = make(content["results"])
        lines = ["| " + " | ".join(made.headings) + " |", "|" + "---|" * len(made.headings)]
        lines += ["| " + " | ".join(row) + " |" for row in made.rows]
    figure = RESULTS / folder / f"{name}.{FIGURES.get(name)}"
    if figure.exists():
        lines += ["", f"![{EXPERIMENTS[name].title}](../results/paper/{folder}/{figure.name})"]
    return "\n".join([*lines, "", f"*{describe(content)}*"])


def render(text: str) -> str:
    """Return the page with its tables regenerated."""

    def replaced(found: re.Match[str]) -> str:
        folder, name = found.groups()
        return f"<!-- results: {folder}/{name} -->\n{table(folder, name)}\n<!-- results: end -->"

    return BLOCK.sub(replaced, text)


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", action="store_true", help="redraw the figures of the page")
    text = PAGE.read_text(encoding="utf-8")
    if parser.parse_args().figures:
        for folder, name in BLOCK.findall(text):
            if name in FIGURES:
                draw_paper([EXPERIMENTS[name]], RESULTS / folder, formats=[FIGURES[name]])
    PAGE.write_text(render(text), encoding="utf-8")


if __name__ == "__main__":
    main()
