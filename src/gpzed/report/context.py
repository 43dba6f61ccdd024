"""What surrounds the predictions: photometry and ids, flags and coverage, and the training set beside them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpzed._types import AnyArray, FloatArray
from gpzed.report.pack import finite, shorts
from gpzed.report.sample import Sample

COVERAGE_BINS = 20
LOW_COVERAGE = 0.05
"""Objects below are said to lack training rows: one in twenty of a representative sample is."""
MAX_COLOURS = 1500
"""Objects, and training rows, drawn in the space of colours."""


@dataclass(frozen=True)
class PointTable:
    """What is known about the objects beside their predictions."""

    ids: AnyArray  # (n,)
    columns: Mapping[str, FloatArray] = field(default_factory=dict)  # values to show, such as magnitudes, by heading
    errors: Mapping[str, FloatArray] = field(default_factory=dict)  # under the same headings, where there are any
    magnitudes: Mapping[str, FloatArray] = field(default_factory=dict)  # by band, NaN where nothing was measured
    training: Mapping[str, FloatArray] = field(default_factory=dict)  # the same of the training rows, if known
    coverage: FloatArray | None = None  # (n,)
    flags: AnyArray | None = None  # (n,) bits
    meanings: tuple[tuple[int, str, str], ...] = ()  # bit, name and meaning of the flags
    wanted: Collection[str] = ()  # identifiers of objects that are always told about


def cautions(sample: Sample, table: PointTable) -> dict[str, Any]:
    """Return how many objects carry which flag, and how they are spread in coverage."""
    found: dict[str, Any] = {}
    if table.flags is not None:
        bits = table.flags.astype(np.int64)
        rows = [[bit, name, text, int(np.count_nonzero(bits & bit))] for bit, name, text in table.meanings]
        found["flags"] = {"none": int(np.count_nonzero(bits == 0)), "rows": [row for row in rows if row[3]]}
    if table.coverage is not None and np.isfinite(table.coverage).any():
        values = table.coverage[np.isfinite(table.coverage)]
        counts = np.histogram(values, bins=COVERAGE_BINS, range=(0.0, 1.0))[0]
        found["coverage"] = {"counts": counts.tolist(), "n": len(values), **_low_coverage(sample, table.coverage)}
    return found


def _low_coverage(sample: Sample, coverage: FloatArray) -> dict[str, Any]:
    """Return how many objects lack training rows, and the RMSE of these and of the others."""
    low = coverage < LOW_COVERAGE
    found: dict[str, Any] = {"limit": LOW_COVERAGE, "low": int(low.sum())}
    if sample.z is not None:
        groups = ((name, sample.error[rows]) for name, rows in (("rmse_low", low), ("rmse_other", ~low)))
        found |= {name: float(f"{np.sqrt(np.mean(e**2)):.4g}") if len(e) else None for name, e in groups}
    return found


def colours(table: PointTable) -> dict[str, Any] | None:
    """Return magnitudes of some objects and training rows, from which the page makes colours; None without any."""
    bands = [band for band, values in table.magnitudes.items() if np.isfinite(values).any()]
    if len(bands) < 2:
        return None
    target = np.column_stack([table.magnitudes[band] for band in bands])
    rows = _drawn(len(target))
    coverage = None if table.coverage is None else finite(table.coverage[rows], 3)
    stored: dict[str, Any] = {"bands": bands, "target": _packed(target[rows]), "coverage": coverage}
    if table.training and set(bands) <= set(table.training):
        training = np.column_stack([table.training[band] for band in bands])
        stored["training"] = _packed(training[_drawn(len(training))])
    return stored


def _drawn(n: int) -> AnyArray:
    return np.sort(np.random.default_rng(0).permutation(n)[:MAX_COLOURS])


def _packed(values: FloatArray) -> dict[str, Any]:
    """Return magnitudes (n, b) in two bytes each; the largest number of two bytes means none."""
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    high = high if high > low else low + 1.0
    stretched = np.where(np.isfinite(values), values, high + (high - low) / 65_534)
    return {"n": len(values), "range": [low, high], "values": shorts(stretched, low, high, 65_534)}
