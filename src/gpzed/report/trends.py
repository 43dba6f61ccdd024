"""Errors against redshift and magnitude, and n(z) in tomographic bins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpzed._types import FloatArray
from gpzed.report.objects import outliers
from gpzed.report.pack import finite, floats, text_of_varints
from gpzed.report.sample import MAX_BINS, PERCENT, Sample, limits, redshift_bins

N_TOMOGRAPHIC = 5
"""Bins of equal numbers in z_phot."""
MAX_STACKED = 2000
"""Densities summed for n(z) of one bin."""
TOMOGRAPHIC_POINTS = 121
PREFERRED = ("i", "r", "z", "g")
"""Bands to look for first when a magnitude is needed."""


def trends(sample: Sample, magnitudes: Mapping[str, FloatArray]) -> dict[str, Any]:
    """Return sums of errors, of their squares and of outliers in bins, of the objects that each position adds."""
    assert sample.z is not None
    by = {"z_spec": (sample.z, redshift_bins(sample.z))}
    by["z_phot"] = (sample.prediction.z_phot, redshift_bins(sample.prediction.z_phot))
    band = reference_band(magnitudes)
    if band is not None:
        by[f"magnitude {band}"] = (magnitudes[band], _magnitude_bins(magnitudes[band]))
    return {name: _binned(sample, values, edges) for name, (values, edges) in by.items()}


def reference_band(magnitudes: Mapping[str, FloatArray]) -> str | None:
    """Return the band that errors are shown against: a common one if it is measured for most, or the most complete."""
    share = {band: float(np.isfinite(values).mean()) for band, values in magnitudes.items()}
    if not share or max(share.values()) == 0:
        return None
    usual = [band for band in PREFERRED if share.get(band, 0.0) > 0.9 * max(share.values())]
    return usual[0] if usual else max(share, key=lambda band: share[band])


def _magnitude_bins(values: FloatArray) -> FloatArray:
    """Return edges at half magnitudes, or wider ones, that hold nearly all values."""
    low, high = np.nanquantile(values, [0.002, 0.998])
    width = 0.5 * max(1.0, np.ceil((high - low) / 0.5 / MAX_BINS))
    edges: FloatArray = width * np.arange(np.floor(low / width), np.floor(high / width) + 2)
    return edges


def _binned(sample: Sample, values: FloatArray, edges: FloatArray) -> dict[str, Any]:
    n_bins = len(edges) - 1
    index = np.searchsorted(edges, values, side="right") - 1
    inside = np.isfinite(values) & (index >= 0) & (index < n_bins)
    slot = sample.position[inside] * n_bins + index[inside]
    size, error = len(PERCENT) * n_bins, sample.error[inside]

    def total(weight: FloatArray) -> FloatArray:
        return np.bincount(slot, weights=weight, minlength=size).astype(np.float64)

    return {
        "edges": finite(edges, 10),
        "count": text_of_varints(np.bincount(slot, minlength=size)),
        "outliers": text_of_varints(total(outliers(sample)[inside].astype(float)).astype(np.intp)),
        "error": floats(total(error)),
        "square": floats(total(error**2)),
    }


def tomography(sample: Sample) -> dict[str, Any]:
    """Return n(z) of all objects in bins of equal numbers in z_phot: stacked densities, and true redshifts."""
    z_phot, z = sample.prediction.z_phot, sample.z
    edges = np.unique(np.quantile(z_phot, np.linspace(0.0, 1.0, N_TOMOGRAPHIC + 1)))
    if len(edges) < 2:
        return {"bins": []}
    low, high = limits(z_phot if z is None else np.concatenate([z, z_phot]))
    grid = np.linspace(max(low, 0.0) if low > -0.05 else low, high, TOMOGRAPHIC_POINTS)
    index = np.clip(np.searchsorted(edges, z_phot, side="right") - 1, 0, len(edges) - 2)
    rng, bins = np.random.default_rng(0), []
    for b in range(len(edges) - 1):
        rows = np.flatnonzero(index == b)
        if not len(rows):
            continue
        some = np.sort(rng.permutation(rows)[:MAX_STACKED])
        one: dict[str, Any] = {
            "edges": finite(edges[b : b + 2], 4),
            "n": len(rows),
            "density": finite(sample.prediction[some].stacked_pdf(grid), 4),
            "mean": float(f"{sample.prediction.mean[rows].mean():.5g}"),
        }
        if z is not None:
            counts, z_edges = np.histogram(z[rows], bins=60, range=(grid[0], grid[-1]))
            one["truth"] = finite(counts / len(rows) / np.diff(z_edges), 4)
            one["true_mean"] = float(f"{z[rows].mean():.5g}")
            one["true_error"] = float(f"{z[rows].std() / np.sqrt(len(rows)):.2g}")
        bins.append(one)
    return {"grid": finite(grid, 6), "bins": bins}
