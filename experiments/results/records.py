"""Records: JSON lines in docs/results, each with how it was made."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from experiments.results.epochs import ROOT

RESULTS = ROOT / "docs" / "results"
PACKAGES = ("gpzed", "numpy", "scipy", "scikit-learn")
MEASURED = ("src", "benchmarks", "experiments")
"""Folders whose changes are marked in the commit of a record."""
Record = dict[str, Any]


def read_records(name: str) -> list[Record]:
    """Read the records of an experiment, none if it was never run; lines that do not say how they were made are old."""
    path = RESULTS / f"{name}.jsonl"
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [{"made": {"task": "", "epoch": 0}, **json.loads(line)} for line in lines if line.strip()]


def write_records(name: str, records: Iterable[Record]) -> None:
    """Write the records of an experiment, all or none."""
    path = RESULTS / f"{name}.jsonl"
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    partial.replace(path)


def epoch_of(record: Record) -> int:
    """Return the epoch of a record; 0 is before the first, when records did not say how they were made."""
    return int(record["made"]["epoch"])


@cache
def machine() -> str:
    """Name the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def commit() -> str:
    """Return the commit, with a plus if what is measured has changed since."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "--short=10", "HEAD") + "+" * bool(git("status", "--porcelain", *MEASURED))
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def origin() -> Record:
    """Return what a result depends on beside its command: code, machine, load, packages."""
    return {
        "commit": commit(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        **{package: metadata.version(package) for package in PACKAGES},
    }
