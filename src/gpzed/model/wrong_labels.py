"""How many targets are wrong: learned from the rows whose neighbours agree best.

A wrong target looks like a rare but true one. What tells them apart is where they are: targets are wrong anywhere,
while true ones that surprise are where inputs tell little. So the rate is read off where inputs tell most: among the
rows with the least scatter of their neighbours' targets, those that lie far from all of that are wrong, up to the few
that a wrong target would hit by chance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from gpzed._types import AnyArray, FloatArray
from gpzed.incomplete.patterns import RawRows

MAX_ROWS = 20_000
MIN_ROWS = 500
"""Rows from which a rate can be learned at least; no target is called wrong where there are fewer."""
NEIGHBOURS = 20
SECURE, MIN_SECURE = 0.2, 40
"""Part of the rows, those with the least scatter among neighbours, that the rate is read off; their least number."""
FAR, LEAST_FAR = 8.0, 0.25
"""Distance from the neighbours' median, in units of their scatter and of that of all targets, from which on a target
cannot be explained by noise."""
EDGE = 4.0
MIN_RATE, MAX_RATE = 0.01, 0.3
"""Lower rates are none: what is left of true surprises among secure rows is of this order (benchmarks/labels.py has
catalogues on which to see it)."""


def with_wrong_rate(rows: RawRows, rate: float) -> RawRows:
    """Give a rate to rows of which it is not known (NaN) whether their targets are wrong."""
    if rows.wrong is None:
        return rows._replace(wrong=np.full(len(rows.y), rate)) if rate > 0.0 else rows
    return rows._replace(wrong=np.where(np.isnan(rows.wrong), rate, rows.wrong))


def learn_rate(rows: RawRows, rng: np.random.Generator) -> float:
    """Return the rate of wrong targets among rows of which it is not known; 0 if it is too small to be told."""
    unknown = np.ones(len(rows.y), dtype=bool) if rows.wrong is None else np.isnan(rows.wrong)
    if not unknown.any():
        return 0.0
    (rate,) = class_rates(rows.X[unknown], rows.y[unknown], np.zeros(int(unknown.sum())), rng).values()
    return rate


def class_rates(X: FloatArray, y: FloatArray, classes: AnyArray, rng: np.random.Generator) -> dict[Any, float]:
    """Return the rate of wrong targets of every class of rows; 0 where it is too small, or rows too few, to tell."""
    rates = dict.fromkeys(np.unique(classes).tolist(), 0.0)
    chosen = rng.permutation(len(y))[:MAX_ROWS]
    if len(chosen) < MIN_ROWS:
        return rates
    X, y, classes = _comparable(X[chosen]), y[chosen], classes[chosen]
    _, nearest = cKDTree(X).query(X, NEIGHBOURS + 1)
    low, median, high = np.percentile(y[nearest[:, 1:]], [25, 50, 75], axis=1)
    scatter = (high - low) / 1.349
    limit = np.maximum(FAR * scatter, LEAST_FAR * np.subtract(*np.percentile(y, [84, 16])) / 2.0)
    is_far, by_chance = np.abs(y - median) > limit, np.abs(rng.choice(y, len(y)) - median) > limit
    for value in rates:
        own = np.flatnonzero(classes == value)
        secure = own[np.argsort(scatter[own], kind="stable")][: round(SECURE * len(own))]
        if len(secure) >= MIN_SECURE:
            rate = float(is_far[secure].mean()) / max(float(by_chance[secure].mean()), 0.1)
            rates[value] = 0.0 if rate < MIN_RATE else min(rate, MAX_RATE)
    return rates


def _comparable(X: FloatArray) -> FloatArray:
    """Return inputs in which distances mean something: scaled, gaps at the median, differences beside the values.

    Differences of neighbouring inputs are colours where inputs are magnitudes, which tell more than these.
    """
    X = np.column_stack([np.diff(X, axis=1), X.mean(axis=1)]) if X.shape[1] > 1 else X
    low, median, high = np.nanpercentile(X, [16, 50, 84], axis=0)
    spread = np.where(high > low, high - low, 1.0)
    return np.asarray(np.nan_to_num(np.clip((X - median) / spread, -EDGE, EDGE)))
