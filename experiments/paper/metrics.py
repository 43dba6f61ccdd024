"""Table 1: metrics of all methods at 100 basis functions, trees or learners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.paper import published
from experiments.paper.bench import Experiment, Table
from experiments.paper.runs import table_parts

FORMATS = {"rmse": ".4f", "mll": ".3f", "fr_0.15": ".2f", "fr_0.05": ".2f"}
MORE = {"bias": "+.4f", "coverage_68": ".3f"}
NOT_HERE = "-"


def _assemble(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    kept = ("method", "size", "counted", "rows", "seconds", "training", "metrics", "unavailable")
    return {"methods": [{key: part["result"][key] for key in kept if key in part["result"]} for part in parts]}


def _table(content: dict[str, Any]) -> Table:
    """Return ours with the paper's in brackets."""
    rows = []
    for run in content["methods"]:
        name = run["method"]
        theirs = published.METRICS.get(published.STANDS_FOR.get(name, name), {})
        if "unavailable" in run:
            rows.append((name, *(f"{NOT_HERE} ({theirs[key]:g})" for key in FORMATS), *[NOT_HERE] * len(MORE), ""))
            continue
        texts = [format(run["metrics"][key], form) for key, form in FORMATS.items()]
        texts = [f"{text} ({theirs[key]:g})" if theirs else text for text, key in zip(texts, FORMATS, strict=True)]
        others = [format(run["metrics"][key], form) for key, form in MORE.items()]
        seconds = f"{run['seconds']['train']:.0f}" if "seconds" in run else NOT_HERE
        rows.append((name, *texts, *others, seconds))
    headings = ("method", "RMSE", "MLL", "FR0.15 %", "FR0.05 %", "bias", "in 68 %", "train s")
    return Table(headings, tuple(rows))


METRICS = Experiment("metrics", "Table 1, section 7.2", "metrics of all methods", table_parts, _assemble, None, _table)
