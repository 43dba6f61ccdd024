"""Calibration in cells: how often truth is in the 68 % interval, by magnitude, colour, redshift and gaps."""

from __future__ import annotations

from itertools import product

import numpy as np

MIN_ROWS = 500
INSIDE = 0.682689
TOLERANCE, BEYOND = 0.03, 2.0
"""A cell is off by more than so much, and by so many standard errors on top of it."""
SLICES = 6


def split(values: np.ndarray, n_bins: int) -> list[np.ndarray]:
    """Divide rows into bins of equal number."""
    rank = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    return [rank * n_bins // len(values) == k for k in range(n_bins)]


def make_cells(columns: list[np.ndarray], gaps: np.ndarray) -> list[np.ndarray]:
    """Return the rows of each cell that has enough: slices along each column, boxes of all, and rows with gaps."""
    n = len(gaps)
    found = [part for values in columns for part in split(values, max(1, min(SLICES, n // MIN_ROWS)))]
    per_side = max(1, int((n / MIN_ROWS) ** (1.0 / len(columns))))
    sides = [split(values, per_side) for values in columns]
    found += [np.logical_and.reduce(parts) for parts in product(*sides)]
    found += [gaps, ~gaps] if gaps.any() else []
    return [cell for cell in found if cell.sum() >= MIN_ROWS]


def judge_cells(inside: np.ndarray, cells: list[np.ndarray]) -> dict[str, float]:
    """Count cells, and those that are off; say which coverage is the worst, and how far cells are off in the mean."""
    found = np.array([inside[cell].mean() for cell in cells])
    error = np.abs(found - INSIDE)
    chance = np.sqrt(INSIDE * (1 - INSIDE) / np.array([cell.sum() for cell in cells]))
    return {
        "cells": len(cells),
        "cells_off": int(np.sum(error > TOLERANCE + BEYOND * chance)),
        "worst_cell": round(float(found[np.argmax(error - BEYOND * chance)]), 4),
        "cell_error": round(float(error.mean()), 4),
    }
