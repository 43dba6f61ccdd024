"""One self-contained, interactive page about predictions: numbers packed small, drawn by the reader's browser."""

from __future__ import annotations

from gpzed.report.context import PointTable
from gpzed.report.data import ReportData, prepare
from gpzed.report.page import render

__all__ = ["PointTable", "ReportData", "prepare", "render"]
