"""How bright the objects of a catalogue are in every band: histograms that add up, and how two catalogues differ."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpzed._types import FloatArray
from gpzed.catalog.photometry import Photometry, Status

LOW, HIGH, BIN = -60.0, 90.0, 0.05
"""Range of the histograms, wide enough for any mistake in the units, and width of their bins, in magnitudes."""
MAX_ROWS = 20_000
"""Rows of a table that are looked at; of larger ones every second, third, ..."""
MIN_COUNT = 50
"""Objects that a median needs to be compared."""
MIN_SIGNAL = 3.0
"""Ratio of signal to noise below which a flux says little of the scale."""
GAP = 4.0
"""Magnitudes between two heaps of rows that no single catalogue leaves empty."""
_POGSON = 2.5 / np.log(10.0)

Counts = npt.NDArray[np.int64]
Floats = tuple[float, ...]


@dataclass(frozen=True)
class Scale:
    """Histograms of magnitudes, of colours of neighbouring bands and of depths; those of chunks add up with ``+``."""

    bands: tuple[str, ...]
    n_rows: int
    magnitudes: Counts  # (b, bins)
    colours: Counts  # (b - 1, bins)
    brightness: Counts  # (bins,) mean magnitude of a row
    depths: Counts  # (bins,) mean magnitude of the flux error of a row
    status: Counts  # (b, 4) values by `Status`

    def __add__(self, other: Scale) -> Scale:
        return Scale(
            self.bands,
            self.n_rows + other.n_rows,
            self.magnitudes + other.magnitudes,
            self.colours + other.colours,
            self.brightness + other.brightness,
            self.depths + other.depths,
            self.status + other.status,
        )

    @classmethod
    def of(cls, photometry: Photometry) -> Scale:
        """Return the scale of some photometry."""
        rows = slice(None, None, max(1, -(-len(photometry) // MAX_ROWS)))
        status = photometry.status[rows]
        magnitude, depth = _magnitudes(photometry, rows)
        return cls(
            photometry.bands,
            len(status),
            np.stack([_histogram(column) for column in magnitude.T]),
            np.stack([_histogram(column) for column in (magnitude[:, :-1] - magnitude[:, 1:]).T])
            if magnitude.shape[1] > 1
            else np.zeros((0, _N_BINS), dtype=np.int64),
            _histogram(_row_means(magnitude)),
            _histogram(_row_means(depth)),
            np.stack([(status == s).sum(axis=0) for s in Status], axis=1).astype(np.int64),
        )

    def summary(self) -> ScaleSummary:
        """Return quantiles and shares."""
        n = max(self.n_rows, 1)
        return ScaleSummary(
            self.bands,
            tuple(_quantiles(counts) for counts in self.magnitudes),
            tuple(_quantiles(counts) for counts in self.colours),
            tuple((self.status[:, Status.NOT_DETECTED] / n).tolist()),
            tuple((self.status[:, Status.NOT_OBSERVED] / n).tolist()),
        )

    def heaps(self) -> tuple[float, float] | None:
        """Return share and magnitude shift of the smaller of two heaps of rows, None if there is but one."""
        for counts in (self.depths, self.brightness):
            found = _two_heaps(counts)
            if found is not None:
                return found
        return None


@dataclass(frozen=True)
class ScaleSummary:
    """Where the magnitudes of a catalogue lie, and how many of them there are; kept in the model file."""

    bands: tuple[str, ...]
    magnitudes: tuple[Floats, ...]  # (b, 5) quantiles at `LEVELS`, NaN where there are none
    colours: tuple[Floats, ...]  # (b - 1, 5) likewise, of neighbouring bands
    undetected: Floats  # (b,) share of the rows with nothing detected
    unobserved: Floats  # (b,) share of the rows without an observation

    def __post_init__(self) -> None:
        b = len(self.bands)
        expected = {"magnitudes": b, "colours": max(b - 1, 0), "undetected": b, "unobserved": b}
        for name, length in expected.items():
            rows = getattr(self, name)
            widths = {len(row) for row in rows} if name in ("magnitudes", "colours") else set()
            if len(rows) != length or not widths <= {len(LEVELS)}:
                raise ValueError(f"`scale/{name}` has {len(rows)} values; expected {length} for bands {self.bands}")


LEVELS = (0.005, 0.05, 0.5, 0.95, 0.995)
_N_BINS = round((HIGH - LOW) / BIN)


def shifts(training: ScaleSummary, found: ScaleSummary) -> FloatArray:
    """Return by how much the median of every band is fainter than in training, shape (b,); NaN where unknown."""
    medians = [np.array([quantiles[2] for quantiles in one.magnitudes]) for one in (training, found)]
    return np.asarray(medians[1] - medians[0])


def colour_shifts(training: ScaleSummary, found: ScaleSummary) -> FloatArray:
    """Return by how much the median of every colour is redder than in training, shape (b - 1,)."""
    if not training.colours:
        return np.zeros(0)
    return np.array([b[2] - a[2] for a, b in zip(training.colours, found.colours, strict=True)])


def outside_colours(training: ScaleSummary, found: Scale) -> FloatArray:
    """Return the share of the objects beyond 99 % of the training rows, for every colour."""
    shares = np.full(len(found.colours), np.nan)
    for j, (counts, limits) in enumerate(zip(found.colours, training.colours, strict=True)):
        if counts.sum() >= MIN_COUNT and np.isfinite(limits).all():
            edges = LOW + BIN * np.arange(_N_BINS)
            shares[j] = counts[(edges < limits[0] - BIN) | (edges > limits[-1])].sum() / counts.sum()
    return shares


def exchanged_bands(training: ScaleSummary, found: ScaleSummary) -> tuple[str, str] | None:
    """Return two bands whose columns fit training far better when exchanged, if there are such."""
    before = np.array([quantiles[2] for quantiles in training.magnitudes])
    now = np.array([quantiles[2] for quantiles in found.magnitudes])
    known = np.isfinite(before) & np.isfinite(now)  # a band may be too faint to have a median
    bands, before, now = tuple(itertools.compress(found.bands, known)), before[known], now[known]
    if len(bands) < 2:
        return None

    def misfit(medians: FloatArray) -> float:
        difference = medians - before
        return float(np.abs(difference - np.median(difference)).mean())

    pairs = list(itertools.combinations(range(len(now)), 2))
    misfits = []
    for i, j in pairs:
        swapped = now.copy()
        swapped[[i, j]] = swapped[[j, i]]
        misfits.append(misfit(swapped))
    best = int(np.argmin(misfits))
    if misfits[best] < 0.35 * misfit(now) and misfit(now) > 0.15:
        return bands[pairs[best][0]], bands[pairs[best][1]]
    return None


def _magnitudes(photometry: Photometry, rows: slice) -> tuple[FloatArray, FloatArray]:
    """Return magnitudes of what is well measured, and of the flux errors, NaN elsewhere, each (n, b)."""
    values, errors = photometry.values[rows], photometry.errors[rows]
    with np.errstate(all="ignore"):
        if photometry.kind == "flux":
            zero_point = photometry.zero_point or 0.0
            magnitude = zero_point - _POGSON * np.log(values)
            depth = zero_point - _POGSON * np.log(errors)
            faint = values < MIN_SIGNAL * errors
        else:
            magnitude = values.copy()
            depth = values - _POGSON * np.log(errors / _POGSON)
            faint = errors > _POGSON / MIN_SIGNAL
    magnitude[faint] = np.nan
    return magnitude, np.where(np.isfinite(depth), depth, np.nan)


def _row_means(values: FloatArray) -> FloatArray:
    known = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(known, values, 0.0).sum(axis=1) / known.sum(axis=1))


def _histogram(values: FloatArray) -> Counts:
    known = values[np.isfinite(values)]
    bins = np.clip((known - LOW) / BIN, 0, _N_BINS - 1).astype(np.int64)
    return np.bincount(bins, minlength=_N_BINS).astype(np.int64)


def _quantiles(counts: Counts) -> Floats:
    total = counts.sum()
    if total < MIN_COUNT:
        return (float("nan"),) * len(LEVELS)
    return tuple(float(q) for q in LOW + BIN * (0.5 + np.searchsorted(np.cumsum(counts), total * np.array(LEVELS))))


def _two_heaps(counts: Counts) -> tuple[float, float] | None:
    """Return share and shift of the smaller heap if a wide part of the histogram is all but empty."""
    total = counts.sum()
    if total < 2 * MIN_COUNT:
        return None
    width = round(GAP / BIN)
    below = np.concatenate([[0], np.cumsum(counts)])
    inside = below[width:] - below[:-width]
    left, right = below[:-width], total - below[width:]
    least = max(MIN_COUNT, 0.02 * total)
    candidates = np.flatnonzero((inside <= 0.001 * total) & (left >= least) & (right >= least))
    if not len(candidates):
        return None
    cut = int(candidates[0]) + width // 2
    places = LOW + BIN * (0.5 + np.arange(_N_BINS))
    medians = [float(places[np.searchsorted(np.cumsum(part), part.sum() / 2)] - LOW) if len(part) else 0.0
               for part in (counts[:cut], counts[cut:])]  # fmt: skip
    faint, bright = medians[1] + BIN * cut, medians[0]
    share_bright = float(below[cut] / total)
    return (share_bright, bright - faint) if share_bright <= 0.5 else (1.0 - share_bright, faint - bright)
