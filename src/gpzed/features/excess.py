"""By how much the errors of an object exceed those that are usual at its magnitudes: one number for all bands.

Errors follow magnitudes, and as inputs beside them say most things twice. What they add is their deviation: exposure,
sky and, in apertures or fitted profiles, the size of the galaxy. Bands share most of it, so that its mean over the
bands measured has less noise than each, and is known where some bands are not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpzed._types import FloatArray

MAX_BINS, ROWS_PER_BIN = 20, 30
"""Bins in magnitude at most, and training rows in each at least."""
MAX_EXCESS = 4.0
"""Of one band, in units of its scatter: outlying errors do not decide alone."""
MIN_SCATTER = 0.02
"""Of the logarithms of errors: medians in bins do not follow a smooth law any closer."""
MIN_SPREAD = 0.3
"""Half of the range of the excess that holds 68 % of the training rows: with less, errors follow from the magnitudes,
and those of another catalogue, a little different, would look strange all of them."""
MIN_RUN = 1e-3
"""Magnitudes between medians from which a slope is taken, at least."""

Floats = tuple[float, ...]


@dataclass(frozen=True)
class UsualErrors:
    """The logarithms of the errors that training rows have at their magnitudes: medians in bins, and the scatter."""

    magnitudes: tuple[Floats, ...]  # (b, bins of the band) medians, growing
    ln_errors: tuple[Floats, ...]  # the same shape
    scatter: Floats  # (b,) robust standard deviation about them

    def __post_init__(self) -> None:
        sizes = ([len(band) for band in values] for values in (self.magnitudes, self.ln_errors))
        is_growing = all(np.all(np.diff(band) >= 0.0) for band in self.magnitudes)
        if len({tuple(size) for size in sizes}) > 1 or len(self.scatter) != len(self.magnitudes) or not is_growing:
            raise ValueError("usual errors are not known band by band, for magnitudes that grow")
        if not all(self.magnitudes) or min(self.scatter, default=1.0) < MIN_SCATTER:
            raise ValueError(f"usual errors have no magnitudes in a band, or a scatter below {MIN_SCATTER}")

    @classmethod
    def fit(cls, magnitudes: FloatArray, ln_errors: FloatArray) -> UsualErrors:
        """Learn them from training rows, (n, b) each, NaN where there is no measurement."""
        found = [_fit_band(*band) for band in zip(magnitudes.T, ln_errors.T, strict=True)]
        return cls(*zip(*found, strict=True))

    def excess(self, magnitudes: FloatArray, ln_errors: FloatArray) -> FloatArray:
        """Return the mean excess over the bands measured, (n,), in units of its scatter; NaN where there is none."""
        total, count = np.zeros(len(magnitudes)), np.zeros(len(magnitudes))
        for j, scatter in enumerate(self.scatter):
            deviation = ln_errors[:, j] - _usual(magnitudes[:, j], self.magnitudes[j], self.ln_errors[j])
            seen = ~np.isnan(deviation)
            total[seen] += np.clip(deviation[seen] / scatter, -MAX_EXCESS, MAX_EXCESS)
            count += seen
        return np.where(count > 0.0, total / np.maximum(count, 1.0), np.nan)


def says_something(excess: FloatArray) -> bool:
    """Whether the excess of the training rows is more than what a law of the magnitude leaves."""
    known = excess[np.isfinite(excess)]
    low, high = np.quantile(known, (0.16, 0.84)) if len(known) else (0.0, 0.0)
    return bool(high - low >= 2.0 * MIN_SPREAD)


def _usual(magnitudes: FloatArray, middle: Floats, usual: Floats) -> FloatArray:
    """Return what is usual at magnitudes: between medians in proportion, beyond on lines through the outer quarters."""
    x, y = np.array(middle), np.array(usual)
    found: FloatArray = np.interp(magnitudes, x, y)
    k = max(len(x) // 4, 1)
    if len(x) > k:
        rise, run = y[[k, -1]] - y[[0, -1 - k]], np.maximum(x[[k, -1]] - x[[0, -1 - k]], MIN_RUN)
        below, above = np.minimum(magnitudes - x[0], 0.0), np.maximum(magnitudes - x[-1], 0.0)
        found += below * rise[0] / run[0] + above * rise[1] / run[1]
    return found


def _fit_band(magnitudes: FloatArray, ln_errors: FloatArray) -> tuple[Floats, Floats, float]:
    """Return medians of magnitude and ln error in bins of equally many rows, and the scatter about them."""
    seen = np.isfinite(magnitudes) & np.isfinite(ln_errors)
    if not seen.any():
        return (0.0,), (0.0,), 1.0
    m, e = magnitudes[seen], ln_errors[seen]
    bins = np.array_split(np.argsort(m, kind="stable"), int(np.clip(len(m) // ROWS_PER_BIN, 1, MAX_BINS)))
    middle, usual = (tuple(float(np.median(values[rows])) for rows in bins) for values in (m, e))
    scatter = 1.4826 * float(np.median(np.abs(e - _usual(m, middle, usual))))
    return middle, usual, max(scatter, MIN_SCATTER)
