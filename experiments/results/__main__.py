"""Measure everything in docs/results and fill the tables of the pages: ``make results RESULTS_ARGS="..."``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from experiments.results import epochs
from experiments.results.listing import EXPERIMENTS
from experiments.results.pages import write_pages
from experiments.results.runner import Task, all_tasks, run, summary

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """Read a length of time such as 40m or 2h."""
    try:
        return float(text[:-1]) * UNITS[text[-1:]]
    except (KeyError, ValueError):
        raise argparse.ArgumentTypeError(f"'{text}' is no length of time; write 90s, 40m or 2h") from None


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m experiments.results", description=__doc__)
    parser.add_argument("--list", action="store_true", help="show what is current, stale and missing, and stop")
    parser.add_argument("--only", nargs="+", choices=list(EXPERIMENTS), default=[], metavar="NAME", help="these alone")
    parser.add_argument("--budget", type=seconds, default=float("inf"), metavar="TIME", help="stop by then: 40m, 2h")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="tasks side by side; one per core")
    parser.add_argument("--again", action="store_true", help="run what is current, too")
    parser.add_argument("--pages", action="store_true", help="measure nothing; fill the tables from the records")
    parser.add_argument("--new-epoch", action="store_true", help="mark as stale what has changed since; no runs")
    return parser.parse_args(arguments)


def show(tasks: list[Task]) -> None:
    """Print a line for each experiment."""
    rows = summary(tasks)
    width = max(len(row["experiment"]) for row in rows)
    print(f"{'':{width}}  current  stale  missing  minutes left, one core")
    for row in rows:
        note = "" if row["python"].exists() else f"  needs {row['python'].parents[1].name}"
        counts = f"{row['current']:7}  {row['stale']:5}  {row['missing']:7}  {row['minutes']:12.1f}"
        print(f"{row['experiment']:{width}}  {counts}{note}")
    print(f"{sum(row['minutes'] for row in rows):.0f} minutes on one core in all")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return 0, 1 if something failed, 2 for wrong usage."""
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that runs are stopped and pages written, as by Ctrl-C
    if options.new_epoch:
        print(f"new epoch: {', '.join(epochs.begin()) or 'nothing has changed'}")
    tasks = all_tasks(options.only)
    if options.list:
        show(tasks)
        return 0
    failed: list[str] = []
    if not options.pages and not options.new_epoch:
        folder = Path(os.environ.setdefault("GPZED_DATA", str(epochs.ROOT.parent / "shared" / "data")))
        if not folder.is_dir():
            print(f"no catalogues in '{folder}'; give their folder as GPZED_DATA", file=sys.stderr)
            return 2
        os.environ["GPZED_DATA"] = str(folder.resolve())
        for environment in sorted({task.experiment.environment for task in tasks if not task.python.exists()}):
            print(f"left out: what needs {environment}; `make {environment}/.stamp` builds it")
        wanted = [task for task in tasks if task.python.exists() and (options.again or task.state != "current")]
        try:
            failed = run(wanted, options.jobs, options.budget, lambda text: print(text, flush=True))
        finally:
            write_pages()
    else:
        write_pages()
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
