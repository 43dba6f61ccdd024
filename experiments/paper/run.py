"""All experiments by name; run them, or draw them again from their files of results."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from experiments.paper import scores
from experiments.paper.bench import Bench, Experiment, Table
from experiments.paper.sinc import SINC
from experiments.paper.store import ResultError, obtain, read_json, write_json
from experiments.paper.surface import SURFACE
from experiments.paper.times import TIME
from experiments.results.records import origin
from gpzed._files import file_hash
from gpzed.errors import ConfigError
from gpzed.plots import figure_style, save_figure
from gpzed.workflows import Progress

PIXELS = ("scatter", "sinc", "surface")
"""Figures of many points, which are stored as pixels by default."""
QUICK_SIZE, QUICK_ITERATIONS, QUICK_BASIS, QUICK_COMPLEXITIES = 500, 15, 10, (5, 10)
EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        scores.COMPLEXITY,
        scores.METRICS,
        scores.FRACTION,
        scores.SCATTER,
        scores.REJECTION,
        scores.IMPROVEMENT,
        scores.BIAS,
        scores.UNCERTAINTY,
        TIME,
        scores.NETWORK,
        SINC,
        SURFACE,
    )
}
"""All experiments, in the order of the paper."""


@dataclass(frozen=True)
class PaperReport:
    """The outcome of an experiment."""

    experiment: Experiment
    content: dict[str, Any]  # what its file of results holds
    files: tuple[Path, ...]

    @property
    def table(self) -> Table | None:
        """Its table, if it has one."""
        return None if self.experiment.table is None else self.experiment.table(self.content["results"])

    @property
    def record(self) -> dict[str, Any]:
        """What names its file of results, and says whether it is still the same."""
        path = self.files[0]
        names = {"folder": path.parent.name, "experiment": self.experiment.name, "seed": self.content["seed"]}
        return names | {"sha256": file_hash(path)}


def quick_bench(bench: Bench) -> Bench:
    """Return the bench with everything small: a minute's test of the machinery, not of the methods."""
    source = replace(bench.source, size=min(bench.source.size, QUICK_SIZE))
    effort = replace(bench.effort, max_iter=QUICK_ITERATIONS)
    return replace(bench, source=source, effort=effort, quick=True, size=QUICK_BASIS, complexities=QUICK_COMPLEXITIES)


def find_experiments(names: Sequence[str], kind: str | None = None) -> list[Experiment]:
    """Return the experiments of some names, which must have a table or a figure if `kind` says so."""
    found = []
    for name in names:
        if name not in EXPERIMENTS:
            near = difflib.get_close_matches(name, EXPERIMENTS, 1, 0.5)
            hint = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(EXPERIMENTS)}"
            raise ConfigError(f"there is no experiment '{name}'; {hint}")
        experiment = EXPERIMENTS[name]
        wanted = "draw" if kind == "figure" else "table"
        if kind is not None and getattr(experiment, wanted) is None:
            others = [e.name for e in EXPERIMENTS.values() if getattr(e, wanted)]
            raise ConfigError(f"'{name}' has no {kind}; those that have: {', '.join(others)}")
        found.append(experiment)
    return found


def run_paper(
    experiments: Sequence[Experiment],
    bench: Bench,
    *,
    formats: Sequence[str] | None = None,
    progress: Progress | None = None,
    done_only: bool = False,
) -> list[PaperReport]:
    """Run experiments and write their files of results, and figures in some formats.

    Parts with stored results of the same inputs are not run again; with `done_only` nothing is computed, and what is
    not done is left out.
    """
    progress = progress or Progress()
    reports = []
    for experiment in experiments:
        progress.say(f"{experiment.name} ({experiment.where}): {experiment.title}")
        wanted, folder = experiment.parts(bench), bench.folder / "parts"
        if done_only:
            wanted = [part for part in wanted if (folder / part.file_name).exists()]
            if not wanted:
                raise ResultError(f"no part of '{experiment.name}' is done in '{folder}'; run it first")
        parts = [obtain(part, folder, progress) for part in wanted]
        hashes = {part["result"]["data_sha256"] for part in parts if "data_sha256" in part["result"]}
        content = {
            "experiment": experiment.name,
            "paper": experiment.where,
            "title": experiment.title,
            "seed": bench.effort.seed,
            "quick": bench.quick,
            "data": bench.identity if hashes else None,
            "data_sha256": sorted(hashes),
            "provenance": origin(),
            "seconds": {part["part"]: part["seconds"] for part in parts},
            "results": experiment.assemble(parts),
        }
        path = bench.folder / f"{experiment.name}.json"
        write_json(path, content)
        reports.append(_finished(experiment, path, bench.folder, formats))
    return reports


def draw_paper(
    experiments: Sequence[Experiment],
    results: str | Path,
    folder: str | Path | None = None,
    *,
    formats: Sequence[str] | None = None,
) -> list[PaperReport]:
    """Draw figures and make tables from the files in the folder `results` alone; figures go there or to `folder`."""
    target = Path(results if folder is None else folder)
    return [_finished(each, Path(results) / f"{each.name}.json", target, formats) for each in experiments]


def _finished(experiment: Experiment, path: Path, folder: Path, formats: Sequence[str] | None) -> PaperReport:
    content = read_json(path)
    files = [path]
    if formats is None:
        formats = ("png",) if experiment.name in PIXELS else ("svg",)
    if experiment.draw is not None and formats:
        with figure_style():
            figure = experiment.draw(content["results"])
        folder.mkdir(parents=True, exist_ok=True)
        for suffix in formats:
            files.append(folder / f"{experiment.name}.{suffix}")
            save_figure(figure, files[-1], dpi=150)
    return PaperReport(experiment, content, tuple(files))
