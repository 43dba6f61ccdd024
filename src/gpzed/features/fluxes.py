"""The fluxes of a survey: their errors, the band it was selected by, what it detects."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpzed._types import BoolArray, FloatArray, IntArray
from gpzed.catalog.photometry import Photometry, Status
from gpzed.features.bands import POGSON, fluxes_of

FAINT_ERROR, MIN_FAINT = 0.4, 20
"""Magnitude errors beyond which their two kinds differ, and rows of a band that it takes to tell them apart."""
LARGEST_ERROR = 20.0
MUCH_SIGNAL = 0.5
"""Signal-to-noise ratio, on the median and as part of that of the best band, from which a band may be the reference."""
SEEN = 3.0
"""Signal-to-noise ratio from which on an object is seen: a gap there is no non-detection, the band was not observed."""


class Survey(NamedTuple):
    """Fluxes and errors of a target, dereddened; NaN where there is none."""

    flux: FloatArray  # (n, b)
    error: FloatArray
    status: npt.NDArray[np.int8]
    is_logarithmic: bool = False  # errors of its magnitudes are 2.5 lg(1 + error / flux), not 1.0857 error / flux

    @classmethod
    def of(cls, photometry: Photometry, extinction: FloatArray | None = None) -> Survey:
        """Take the fluxes of photometry.

        There are two kinds of errors of faint magnitudes: taken at face value, those of one, as LSST simulations have
        them, are fluxes that shrink with the signal. The kind that makes errors in flux most alike is taken.
        """
        flux, error = fluxes_of(photometry, extinction)
        if photometry.kind == "magnitude":
            with np.errstate(invalid="ignore", over="ignore"):
                other = flux * np.expm1(np.minimum(photometry.errors, LARGEST_ERROR) / POGSON)
                if _spread(other, photometry.errors) < _spread(error, photometry.errors):
                    return cls(flux, other, photometry.status, is_logarithmic=True)
        return cls(flux, error, photometry.status)

    def take(self, rows: IntArray | BoolArray) -> Survey:
        """Return some of the rows."""
        return self._replace(flux=self.flux[rows], error=self.error[rows], status=self.status[rows])

    @property
    def typical_error(self) -> FloatArray:
        """Median error of each band, (b,)."""
        return np.array([np.median(column[np.isfinite(column)]) for column in self.error.T])

    @property
    def reference(self) -> int:
        """The band that rows were selected by: of those with much signal, the one with the sharpest faint limit."""
        ratio = np.median(np.where(np.isfinite(self.error), self.flux / self.error, 0.0), axis=0)
        limits = [
            np.quantile(column[column > 0.0], (0.001, 0.05)) if best > 0.0 else (0.0, 1.0)
            for column, best in zip(self.flux.T, ratio, strict=True)
        ]
        sharpness = np.array([edge / faint for edge, faint in limits])
        return int(np.argmax(np.where(ratio >= MUCH_SIGNAL * ratio.max(), sharpness, 0.0)))


def _spread(error: FloatArray, magnitude_error: FloatArray) -> float:
    """Return the scatter of the logarithm of errors in flux where magnitudes are faint, on the mean of all bands."""
    found = []
    for column, given in zip(error.T, magnitude_error.T, strict=True):
        faint = np.log(column[(given > FAINT_ERROR) & (column > 0.0)])
        if len(faint) >= MIN_FAINT:
            found.append(float(np.mean(np.abs(faint - np.median(faint)))))
    return float(np.mean(found)) if found else 0.0


def usable_galaxies(survey: Survey, reference: int) -> BoolArray:
    """Return which rows may serve as a galaxy: seen in the reference band, and no band that was not looked at."""
    known = np.isfinite(survey.flux) | (survey.status == Status.NOT_DETECTED)
    with np.errstate(invalid="ignore"):
        bright = survey.flux[:, reference] > SEEN * survey.error[:, reference]
    return np.asarray(known.all(axis=1) & bright)


def detection_limit(survey: Survey, band: int) -> float:
    """Return the signal-to-noise ratio below which a band of a survey has gaps: that of its faintest measurements."""
    seen = survey.status[:, band] == Status.MEASURED
    ratio = survey.flux[seen, band] / survey.error[seen, band]
    return float(np.quantile(ratio, 0.002)) if len(ratio) else 0.0
