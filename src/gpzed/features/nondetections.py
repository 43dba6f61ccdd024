"""What stands in for bands in which an object was not detected, learned from training rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpzed._types import FloatArray
from gpzed.catalog.photometry import Status
from gpzed.features.bands import POGSON, BandValues, asinh_magnitude
from gpzed.features.config import FeatureConfig
from gpzed.features.measurements import density_of_rows

FAINT_PART = 0.02
"""Faintest part of the measured values of a band whose median error stands in for that of a non-detection."""
MIN_UNSEEN = 20
"""Training rows without a detection in a band from which on they tell what stands in for one."""


def bands_with_few(status: npt.NDArray[np.int8]) -> tuple[bool, ...]:
    """Return the bands of which fewer than `MIN_UNSEEN` training rows lack a detection."""
    return tuple(bool(n < MIN_UNSEEN) for n in (status == Status.NOT_DETECTED).sum(axis=0))


def faint_fluxes(columns: FloatArray, status: npt.NDArray[np.int8], softening: FloatArray) -> FloatArray:
    """Return the asinh magnitude that stands in for a band without a detection.

    It is what the training rows without a detection are expected to have, given their other bands, on the median: their
    fluxes are small, but not zero on the average. With few such rows it is that of no flux; it is not brighter than the
    median of the measured, nor fainter than that of a flux of minus one error.
    """
    b = len(softening)
    values = np.array([_zero_flux(one) for one in softening])
    unseen = status == Status.NOT_DETECTED
    if unseen.sum(axis=0).max(initial=0) < MIN_UNSEEN:
        return values
    middle = np.nanmedian(columns[:, :b], axis=0)
    expected = density_of_rows(columns[:, :b], middle).fill(columns[:, :b])
    for j in np.flatnonzero(unseen.sum(axis=0) >= MIN_UNSEEN):
        faintest = float(asinh_magnitude(-softening[j], softening[j]))
        values[j] = np.clip(np.median(expected[unseen[:, j], j]), min(middle[j], faintest), faintest)
    return values


def faint_limits(columns: FloatArray, b: int) -> FloatArray:
    """Return the faint end of what is measured in each band, and its error; 0 for another column."""
    faint = np.zeros(columns.shape[1])
    for j in range(b):
        column = columns[:, j]
        measured = np.isfinite(column)
        edge = np.quantile(column[measured], 1.0 - FAINT_PART)
        tail = measured & (column >= edge)
        faint[j] = np.median(column[tail])
        if columns.shape[1] == 2 * b:
            faint[b + j] = np.median(columns[tail, b + j])
    return faint


def faint_errors(bands: BandValues, config: FeatureConfig) -> FloatArray:
    """Return the error that goes with what stands in for a non-detection, band by band.

    That of zero flux is the softening, a typical flux error: half of 2.5 / ln 10 in asinh magnitudes.
    """
    b = bands.values.shape[1]
    if config.non_detection == "flux":
        return np.full(b, 0.5 * POGSON)
    errors = np.empty(b)
    for j in range(b):
        measured = np.isfinite(bands.values[:, j]) & np.isfinite(bands.errors[:, j])
        values = bands.values[measured, j]
        tail = values >= np.quantile(values, 1.0 - FAINT_PART) if len(values) else measured[:0]
        errors[j] = np.median(bands.errors[measured, j][tail]) if len(values) else 0.0
    return errors


def _zero_flux(softening: float) -> float:
    """Return the asinh magnitude of zero flux."""
    return float(-2.5 * np.log10(softening))
