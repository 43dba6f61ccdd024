"""Tables and figures of the paper as the pages show them, from the files in docs/results/paper."""

from __future__ import annotations

from typing import Any

from experiments.paper.run import EXPERIMENTS, PIXELS
from experiments.paper.store import read_json
from experiments.results import epochs
from experiments.results.records import RESULTS, Record, epoch_of, read_records
from experiments.results.views import WHAT, describe, markdown

FOLDER = RESULTS / "paper"
MORE_SEEDS = ("-1", "-2")
"""What is added to the name of a folder for the results of other seeds."""


def what(content: dict[str, Any]) -> str:
    """Say which rows a file of results was made from."""
    data = content["data"] or {}
    if "simulator" in data:
        return f"{data['size']:,} simulated galaxies in each set"
    rows = " + ".join(f"`{name}`" for name in data.get("catalogues", ()))
    return rows + "".join(f", judged by `{name}`" for name in data.get("tests", ())) or "its own data"


def records_of(folder: str, name: str) -> list[Record]:
    """Return the records of a file of results: one for each seed."""
    experiment = "paper-times" if name == "time" else "paper"
    folders = [folder, *(folder + more for more in MORE_SEEDS)]
    found = [one for one in read_records(experiment) if one["experiment"] == name and one["folder"] in folders]
    return [one for one in found if epoch_of(one) == max(map(epoch_of, found))]


def table(folder: str, name: str) -> str:
    """Return a table or figure of a page, where it comes from, and a warning if it is stale."""
    made, experiment = records_of(folder, name), EXPERIMENTS[name]
    if not made:
        return f'*Not measured yet: `make results RESULTS_ARGS="--only paper"`, {folder}/{name}.*'
    contents = [read_json(FOLDER / one["folder"] / f"{name}.json") for one in made]
    subject, lines = "kernels" if name == "time" else "paper", []
    if any(epoch_of(one) != epochs.current(subject) for one in made):
        lines += [f"> **Stale.** This was measured in an earlier epoch; {WHAT[subject]}.", ""]
    if experiment.table is not None:
        found = experiment.table(*(content["results"] for content in contents))
        lines += [*markdown(iter([list(found.headings), *map(list, found.rows)])), ""]
    figure = FOLDER / folder / f"{name}.{'png' if name in PIXELS else 'svg'}"
    if figure.exists():
        lines += [f"![{experiment.title}](../results/paper/{folder}/{figure.name})", ""]
    seeds = f"{len(contents)} seeds" if len(contents) > 1 else f"seed {contents[0]['seed']}"
    command = 'make results RESULTS_ARGS="--only paper"'
    return "\n".join([*lines, f"{what(contents[0])}; {seeds}. {describe(made, command)}"])
