"""What an experiment is, and what it is given to work with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from experiments.data import Sets, Source, load_sets
from experiments.paper.store import Part
from experiments.rivals.base import Effort

PAPER_SIZE = 100
"""Basis functions, trees or learners of the tables (section 7.2)."""
COMPLEXITIES = (5, 10, 25, 50, 100, 250, 500)
"""Those of the figure of model complexity (section 7.1)."""


@dataclass(frozen=True)
class Bench:
    """Data, effort and options of a run."""

    source: Source = field(default_factory=Source)
    effort: Effort = field(default_factory=Effort)
    folder: Path = Path("gpzed-paper")  # where results go
    size: int = PAPER_SIZE  # basis functions, trees or learners of the tables
    complexities: tuple[int, ...] = COMPLEXITIES  # those of the figure of model complexity
    annz2: tuple[str, ...] = ()  # output files of ANNz2 to add a row for
    quick: bool = False  # whether experiments that bring their own data are small, too

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Identity of the data; files are read once for it."""
        return self.source.identity()

    @cached_property
    def sets(self) -> Sets:
        """The rows, read or simulated when first asked for."""
        cache = Part("rows", self.identity, dict)
        return load_sets(self.source, self.folder / "parts" / Path(cache.file_name).with_suffix(".npz"))

    @property
    def effort_inputs(self) -> dict[str, Any]:
        """The part of the effort that changes results."""
        return {"seed": self.effort.seed, "max_iter": self.effort.max_iter}


@dataclass(frozen=True)
class Table:
    """A table to print: a heading per column, and rows of text."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper."""

    name: str
    where: str  # its place in the paper
    title: str
    parts: Callable[[Bench], Sequence[Part]]  # the work to do; experiments may share parts
    assemble: Callable[[Sequence[dict[str, Any]]], dict[str, Any]]  # stored parts to the content of its file of results
    draw: Callable[[dict[str, Any]], Any] | None = None  # figure, from that content alone
    table: Callable[..., Table] | None = None  # of that content, or of several that differ by seed
