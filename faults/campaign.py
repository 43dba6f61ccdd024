"""What every kind of fault has in common: cases, their outcomes, and the tally."""

from __future__ import annotations

import collections
import importlib
import json
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

KINDS = (
    "signals",
    "disks",
    "memory",
    "models",
    "checkpoints",
    "catalogues",
    "settings",
    "fits",
    "concurrency",
)
"""Modules of this package, in the order in which the campaign runs them."""
OPTIONAL = ("guided",)
"""Those that run only if they are asked for: they need a package more."""


@dataclass(frozen=True)
class Case:
    """One fault and what came of it."""

    fault: str
    outcome: str
    held: bool
    detail: str = ""
    is_fresh: bool = False  # in a process with imports of its own, not in a fork of one that has them


class Kind(Protocol):
    """A module of faults: `CASES` in the bounded campaign, and a generator of their outcomes."""

    CASES: int

    def run(self, cases: int, rng: np.random.Generator, folder: Path) -> Iterator[Case]: ...


@dataclass
class Tally:
    """The cases of one kind, counted by fault and outcome."""

    kind: str
    seed: int
    seconds: float = 0.0
    outcomes: collections.Counter[tuple[str, str]] = field(default_factory=collections.Counter)
    broken: list[Case] = field(default_factory=list)
    fresh: int = 0
    commits: dict[str, None] = field(default_factory=dict)
    """Of the code that the cases were run on, where a campaign was run in parts."""

    def add(self, case: Case) -> None:
        self.outcomes[case.fault, case.outcome] += 1
        self.fresh += case.is_fresh
        if not case.held:
            self.broken.append(case)

    @property
    def cases(self) -> int:
        return sum(self.outcomes.values())

    def records(self, run: str) -> Iterator[dict[str, Any]]:
        """Yield what JSON lines say of it: the whole, and each fault by itself; `run` is the command."""
        outcomes: collections.Counter[str] = collections.Counter()
        by_fault: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        for (fault, outcome), count in sorted(self.outcomes.items()):
            outcomes[outcome] += count
            by_fault[fault][outcome] += count
        same: dict[str, Any] = {"run": run, "kind": self.kind, "seed": self.seed}
        if self.commits:
            same["made"] = {"commit": ", ".join(self.commits)}
        text = ", ".join(f"{outcome} {count:,}" for outcome, count in outcomes.most_common())
        counts = {"cases": self.cases, "fresh": self.fresh, "broken": len(self.broken)}
        details = [f"{case.fault}: {case.outcome}: {without_folders(case.detail)[:1000]}" for case in self.broken[:20]]
        yield {
            "what": "campaign", **same, "outcomes": text, **counts, "minutes": round(self.seconds / 60.0, 1),
            "details": details,
        }  # fmt: skip
        broken = collections.Counter(case.fault for case in self.broken)
        for name, found in by_fault.items():
            fault, _, command = name.partition(" in ")
            counts = {"cases": found.total(), "broken": broken[name]}
            yield {"what": "fault", **same, "fault": fault, "command": command, **counts, "outcomes": dict(found)}


def run_kind(kind: str, scale: float, seed: int) -> Tally:
    """Run one kind of fault with `scale` times its usual number of cases."""
    module: Kind = importlib.import_module(f"faults.{kind}")
    tally = Tally(kind, seed)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix=f"gpzed-faults-{kind}-") as folder:
        for case in module.run(max(1, round(scale * module.CASES)), np.random.default_rng(seed), Path(folder)):
            tally.add(case)
    tally.seconds = time.perf_counter() - started
    return tally


def run_each(each: int, seed: int, log: Path, minutes: float) -> Tally:
    """Interrupt every command `each` times, less what is in a file of JSON lines already; every case is added there.

    Ends after so many minutes at the latest, to be resumed with the same file.
    """
    from faults import signals

    end = time.perf_counter() + 60.0 * minutes
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    done = collections.Counter(line["fault"] for line in lines)
    rng = np.random.default_rng([seed, len(lines)])
    with tempfile.TemporaryDirectory(prefix="gpzed-faults-signals-") as folder, log.open("a") as stream:
        before = time.perf_counter()
        for case in signals.run_each(each, done, rng, Path(folder)):
            now = time.perf_counter()
            stream.write(json.dumps({**asdict(case), "seconds": round(now - before, 2), "commit": _commit()}) + "\n")
            stream.flush()
            before = now
            if now > end:
                break
    return tally_of(log, seed)


def tally_of(log: Path, seed: int) -> Tally:
    """Return the tally of a file of cases."""
    tally = Tally("signals", seed)
    for line in map(json.loads, log.read_text().splitlines()):
        tally.add(Case(**{key: line[key] for key in Case.__dataclass_fields__}))
        tally.seconds += line["seconds"]
        tally.commits[line["commit"]] = None
    return tally


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def without_folders(text: str) -> str:
    """Leave the last names of absolute paths: records say nothing of the machine."""
    return re.sub(r"(?<![\w.])/(?:[\w.+-]+/)+", "", text)
