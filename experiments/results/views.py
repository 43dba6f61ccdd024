"""From records to tables: rows by keys, means over seeds with standard errors, marks on stale rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from experiments.results import epochs
from experiments.results.listing import EXPERIMENTS
from experiments.results.records import Record, epoch_of, read_records

STALE = "†"
HEADINGS = {
    "rmse": ("RMSE of Δz/(1+z)", ".4f"),
    "rmse_mean": ("RMSE, mean", ".4f"),
    "rmse_best": ("RMSE, quoted", ".4f"),
    "mll": ("MLL", ".3f"),
    "mll_floored": ("MLL, p ≥ 0.001", ".3f"),
    "crps": ("CRPS", ".4f"),
    "cde_loss": ("CDE loss", ".2f"),
    "brier": ("Brier", ".4f"),
    "fr_0.15": ("FR0.15 %", ".2f"),
    "fr_0.05": ("FR0.05 %", ".2f"),
    "sigma_nmad": ("NMAD", ".4f"),
    "bias": ("bias", "+.4f"),
    "pit_ks": ("PIT KS", ".4f"),
    "coverage_68": ("in 68 %", ".3f"),
    "coverage_95": ("in 95 %", ".3f"),
    "outliers_0.2": ("outliers", ".4f"),
    "outliers_best": ("outliers, best", ".4f"),
    "outliers_safe": ("outliers, safe", ".4f"),
    "fr_0.05_best": ("FR0.05 %, best", ".2f"),
    "fr_0.05_safe": ("FR0.05 %, safe", ".2f"),
    "tomographic_means": ("tomographic means", ".4f"),
    "flagged": ("flagged", ".4f"),
    "median_std": ("median std", ".4f"),
    "slope": ("slope", ".3f"),
    "std": ("std", ".4f"),
    "factor": ("factor s", ".3f"),
    "wings": ("wings ω", ".3f"),
    "excess": ("held-out minus fresh MLL", ".3f"),
    "mll_before": ("fresh MLL", ".3f"),
    "mll_after": ("recalibrated", ".3f"),
    "coverage_68_before": ("in 68 %", ".3f"),
    "coverage_68_after": ("recalibrated", ".3f"),
    "inside": ("in the 68 % interval", ".3f"),
    "pull_std": ("pulls", ".2f"),
    "inside_endless_labels": ("inside, labels taken for endless", ".3f"),
    "pull_std_endless_labels": ("pulls, labels taken for endless", ".2f"),
    "cells": ("cells", ".0f"),
    "cells_off": ("cells off", ".1f"),
    "worst_cell": ("worst cell, in 68 %", ".3f"),
    "cell_error": ("mean error of cells", ".4f"),
    "zero_density_percent": ("density zero at the truth, %", ".2f"),
    "left_out": ("without a density", ".0f"),
    "ratio": ("ratio", ".2f"),
    "speedup_over_exact": ("quick over exact", ".2f"),
    "fraction_of_dgemm": ("fraction of dgemm", ".2f"),
    "inform_cpu_seconds": ("inform, CPU s", ".0f"),
    "estimate_cpu_seconds": ("estimate, CPU s", ".0f"),
    "peak_mb": ("peak MB", ".0f"),
    "cases": ("cases", ",.0f"),
    "fresh": ("fresh processes", ",.0f"),
    "broken": ("broken", ".0f"),
}
HEADINGS |= {f"mode_{key}": HEADINGS[key] for key in ("rmse", "fr_0.15", "fr_0.05", "bias", "sigma_nmad")}
HEADINGS |= {
    f"coverage_68_by_magnitude.{place}": (cell, ".3f")
    for place, cell in enumerate(("i < 22", "22-23", "23-24", "24-24.5", "24.5-25", "25-25.4"))
}
"""Heading and format of measured numbers; others are shown with four digits under their own name."""
WHAT: dict[str | None, str] = {
    None: "the setting has changed since",
    "defaults": "the defaults of `gpzed train` have changed since",
    "paper": "the model of the paper has changed since",
    "target": "`gpzed train --target` has changed since",
    "kernels": "the kernels have changed since",
}


@dataclass(frozen=True)
class View:
    """A table of the records of an experiment."""

    experiment: str  # or several, with blanks between them
    keys: tuple[str, ...]  # a row for each combination of their values
    scores: tuple[str, ...]
    where: Mapping[str, Any] = field(default_factory=dict)  # only records with these values
    against: tuple[str, str] | None = None  # a key and its value: scores less those of that row, seed by seed
    differences: tuple[str, ...] = ()  # which scores
    pivot: str = ""  # key whose values are columns, of the first score alone


def rows_of(view: View) -> dict[tuple[Any, ...], list[Record]]:
    """Return the records of each row; the latest epoch of each, in the order of the file."""
    rows: dict[tuple[Any, ...], list[Record]] = {}
    for record in (one for name in view.experiment.split() for one in _marked(name)):
        if all(record.get(key) == value for key, value in view.where.items()):
            rows.setdefault(tuple(_hashable(record.get(key)) for key in (*view.keys, *_pivot(view))), []).append(record)
    return {key: [one for one in found if epoch_of(one) == max(map(epoch_of, found))] for key, found in rows.items()}


def _marked(name: str) -> list[Record]:
    """Return the records of an experiment, with whether they are of its present epoch."""
    epoch = epochs.current(EXPERIMENTS[name].subject)
    return [{**record, "stale": epoch_of(record) != epoch} for record in read_records(name)]


def _pivot(view: View) -> tuple[str, ...]:
    return (view.pivot,) if view.pivot else ()


def _hashable(value: Any) -> Any:
    return str(value) if isinstance(value, dict | list) else value


def by_seed(records: Sequence[Record], score: str) -> dict[int, float]:
    """Return a score for each seed; the mean where a seed has several records."""
    values: dict[int, list[float]] = {}
    for record in records:
        value = _value(record, score)
        if value is not None:
            values.setdefault(record.get("seed", 0), []).append(value)
    return {seed: float(np.mean(own)) for seed, own in values.items()}


def _value(record: Record, score: str) -> float | None:
    """Return a number of a record; NAME.K is the one at place K of a list."""
    name, _, place = score.rpartition(".")
    value = record.get(score)
    if place.isdigit() and isinstance(record.get(name), list):
        value = record[name][int(place)] if int(place) < len(record[name]) else None
    return None if value is None else float(value)


def cell(values: Sequence[float], form: str) -> str:
    """Write a mean, and its standard error if there are several values."""
    if not values:
        return ""
    mean = format(float(np.mean(values)), form)
    if len(values) < 2:
        return mean
    return f"{mean} ± {format(np.std(values, ddof=1) / np.sqrt(len(values)), form.lstrip('+'))}"


def heading(name: str) -> tuple[str, str]:
    """Return the heading and format of a score."""
    return HEADINGS.get(name, (name.replace("_", " "), ".4g"))


def _lines(view: View, rows: dict[tuple[Any, ...], list[Record]]) -> Iterator[list[str]]:
    titles = [heading(score)[0] for score in view.scores]
    titles += [f"{heading(score)[0]}, less {view.against[1]}" for score in view.differences if view.against]
    counted = not EXPERIMENTS[view.experiment.split()[0]].alone
    yield [*(key.replace("_", " ") for key in view.keys), *titles, *(["seeds"] * counted)]
    for key, records in rows.items():
        cells = [cell([*by_seed(records, score).values()], heading(score)[1]) for score in view.scores]
        cells += _differences(view, rows, key)
        seeds = {record.get("seed", 0) for record in records}
        mark = f" {STALE}" if records[0]["stale"] else ""
        first, *others = (_text(value) for value in key)
        yield [f"{first}{mark}", *others, *cells, *([str(len(seeds))] * counted)]


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _differences(view: View, rows: dict[tuple[Any, ...], list[Record]], key: tuple[Any, ...]) -> list[str]:
    if view.against is None:
        return []
    place = view.keys.index(view.against[0])
    base = (*key[:place], view.against[1], *key[place + 1 :])
    if base == key or base not in rows or epoch_of(rows[base][0]) != epoch_of(rows[key][0]):
        return [""] * len(view.differences)
    cells = []
    for score in view.differences:
        own, other = by_seed(rows[key], score), by_seed(rows[base], score)
        form = "+" + heading(score)[1].lstrip("+")
        cells.append(cell([own[seed] - other[seed] for seed in own if seed in other], form))
    return cells


def _pivoted(view: View, rows: dict[tuple[Any, ...], list[Record]]) -> Iterator[list[str]]:
    (score,) = view.scores
    columns = list(dict.fromkeys(key[-1] for key in rows))
    yield [*(key.replace("_", " ") for key in view.keys), *map(str, columns)]
    for first in dict.fromkeys(key[:-1] for key in rows):
        found = [[*by_seed(rows.get((*first, column), []), score).values()] for column in columns]
        yield [*map(_text, first), *(cell(values, heading(score)[1]) for values in found)]


def markdown(lines: Iterator[list[str]]) -> list[str]:
    """Return the lines of a table; the first are its headings."""
    titles = next(lines)
    return [f"| {' | '.join(line)} |" for line in chain([titles, ["---"] * len(titles)], lines)]


def describe(records: Sequence[Record], command: str) -> str:
    """Say in a line how records were made."""
    made = [record["made"] for record in records]
    if not any("commit" in one for one in made):
        return f"*Measured {_range(made, 'date')}, before records said how they were made; `{command}` measures again.*"
    made = [one for one in made if "commit" in one]
    where = ", ".join(dict.fromkeys(f"{one['machine']}, {one['cores']} cores" for one in made))
    commits = ", ".join(dict.fromkeys(one["commit"] for one in made))
    return f"*Commit {commits}; {_range(made, 'date')}; {where}; load {_range(made, 'load')}; `{command}`.*"


def _range(made: Sequence[Record], key: str) -> str:
    values = sorted({one[key] for one in made if key in one})
    return " to ".join(dict.fromkeys(map(str, (values[0], values[-1])))) if values else "at an unknown date"


def render(view: View) -> str:
    """Return the table of a view: a warning if rows are stale, the rows, and how they were made."""
    names, rows = view.experiment.split(), rows_of(view)
    command = f'make results RESULTS_ARGS="--only {view.experiment}"'
    if not rows:
        return f"*Not measured yet: `{command}`.*"
    shown = [record for found in rows.values() for record in found]
    lines = []
    if any(record["stale"] for record in shown):
        which = "Some of it was" if view.pivot else f"Rows with {STALE} were"
        reason = WHAT[EXPERIMENTS[names[0]].subject]
        lines += [f"> **Stale.** {which} measured in an earlier epoch; {reason}.", ""]
    lines += markdown(_pivoted(view, rows) if view.pivot else _lines(view, rows))
    return "\n".join([*lines, "", describe(shown, command)])
