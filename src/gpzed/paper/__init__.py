"""Reproduction of the paper: every table and figure of its section 7 and of its appendices B and C."""

from __future__ import annotations

from gpzed.paper.bench import Bench, Experiment, Table
from gpzed.paper.data import Rows, Sets, Source
from gpzed.paper.methods import METHODS, Effort, Method
from gpzed.paper.registry import EXPERIMENTS
from gpzed.paper.run import PaperReport, draw_paper, quick_bench, run_paper
from gpzed.paper.store import ResultError

__all__ = [
    "EXPERIMENTS",
    "METHODS",
    "Bench",
    "Effort",
    "Experiment",
    "Method",
    "PaperReport",
    "ResultError",
    "Rows",
    "Sets",
    "Source",
    "Table",
    "draw_paper",
    "quick_bench",
    "run_paper",
]
