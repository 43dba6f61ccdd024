"""The redshift distribution n(z) of a sample, from the sum of its predictive distributions, with error bars."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from gpzed._types import FloatArray, IntArray
from gpzed.evaluation import _checks
from gpzed.evaluation._checks import Weights
from gpzed.evaluation.realisations import Realisations
from gpzed.prediction import OF_ALL, Prediction

OUTSIDE = 5e-4
"""Probability that bins chosen by the data may leave out on either side."""
WIDTHS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.025, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0)
CHUNK = 20_000
"""Objects added at once."""


@dataclass(frozen=True)
class RedshiftDistribution:
    """Normalised n(z) of s (tomographic) samples in g bins.

    Attributes
    ----------
    edges, sample_edges : ndarray of shape (g + 1,), (s + 1,)
        Bins in redshift in which the densities are averaged; those in `Prediction.z_phot` that separate the samples.
    density : ndarray of shape (s, g)
        Densities; each integrates to the share of its sample's probability inside `edges`.
    bootstrap_error, committee_error : ndarray of shape (s, g)
        Standard deviation from resampling the objects, and between the members of the committee (zero without one).
        The latter is the error of one member, not of their mean: members share training rows, so averaging does not
        reduce it.
    mean, mean_error : ndarray of shape (s,)
        Mean redshift of each sample, and both errors in quadrature.
    weight, n : ndarray of shape (s,)
        Sum of weights and number of objects.
    names : tuple of str
        What the samples are called.
    realisations : Realisations or None
        Distributions that the samples could have; `mean_error` is then their scatter.
    """

    edges: FloatArray
    sample_edges: FloatArray
    density: FloatArray
    bootstrap_error: FloatArray
    committee_error: FloatArray
    mean: FloatArray
    mean_error: FloatArray
    weight: FloatArray
    n: npt.NDArray[np.int64]
    names: tuple[str, ...] = ()
    realisations: Realisations | None = None

    def __post_init__(self) -> None:
        if not self.names:
            object.__setattr__(self, "names", sample_names(self.sample_edges))

    @property
    def outside(self) -> FloatArray:
        """Share of the probability of each sample that lies outside `edges`, shape (s,)."""
        return np.asarray(1.0 - self.density @ np.diff(self.edges))

    @property
    def centers(self) -> FloatArray:
        """Middle of every bin, shape (g,)."""
        return 0.5 * (self.edges[1:] + self.edges[:-1])

    @property
    def error(self) -> FloatArray:
        """Both errors in quadrature, shape (s, g)."""
        return np.sqrt(self.bootstrap_error**2 + self.committee_error**2)


class Stack:
    """Adds up predictions chunk by chunk, so that a sample of any size can be stacked.

    Parameters
    ----------
    edges : array-like of shape (g + 1,)
        Bins in redshift.
    sample_edges : array-like of shape (s + 1,), optional
        Tomographic bins in `Prediction.z_phot`; one sample of all by default.
    n_samples : int, optional
        Number of samples, if `add` is told which objects belong to each.
    n_members : int
        Members of the committee, whose disagreement is a part of the error; 1 to leave it out.
    n_resamples : int
        Resamples of the objects (weights drawn from Poisson distributions); 0 for no error from them.
    random_state : int, Generator or None
    """

    def __init__(
        self,
        edges: ArrayLike,
        sample_edges: ArrayLike | None = None,
        *,
        n_samples: int | None = None,
        n_members: int = 1,
        n_resamples: int = 100,
        random_state: int | np.random.Generator | None = 0,
    ) -> None:
        self.edges = _checks.edges("edges", edges)
        self.sample_edges = np.array([-np.inf, np.inf])
        if sample_edges is not None:
            self.sample_edges = _checks.edges("sample_edges", sample_edges)
        elif n_samples is not None:
            self.sample_edges = np.full(n_samples + 1, np.nan)
        if n_members < 1 or n_resamples < 0:
            raise ValueError(f"`n_members` is {n_members} and `n_resamples` {n_resamples}; expected at least 1 and 0.")
        self.n_members, self.n_resamples = n_members, n_resamples
        self._rng = np.random.default_rng(random_state)
        s, g = len(self.sample_edges) - 1, len(self.edges) - 1
        versions = 1 + n_resamples + (n_members if n_members > 1 else 0)  # the whole, resamples, members
        self._bins = np.zeros((versions, s, g))
        self._first = np.zeros((versions, s))
        self._weight = np.zeros((versions, s))
        self._n = np.zeros(s, dtype=np.int64)

    def add(self, prediction: Prediction, sample_weight: Weights = None, sample: IntArray | None = None) -> None:
        """Add objects, with weights if they have any; `sample` is the one of each, -1 for none, instead of by edges."""
        found = len(set(prediction.components.member.tolist()) - {OF_ALL})
        if self.n_members not in (1, found):
            raise ValueError(
                f"`n_members` is {self.n_members} but predictions are those of {found} models; expected the same."
            )
        weight = _checks.weights(sample_weight, len(prediction)) if len(prediction) else np.empty(0)
        for start in range(0, len(prediction), CHUNK):
            part = slice(start, start + CHUNK)
            self._add_chunk(prediction[part], weight[part], None if sample is None else sample[part])

    def _add_chunk(self, p: Prediction, weight: FloatArray, sample: IntArray | None) -> None:
        drawn = self._rng.poisson(1.0, (self.n_resamples, len(p)))
        if sample is None:
            sample = np.searchsorted(self.sample_edges, p.z_phot, side="right") - 1
        whole, stop = 1 + self.n_resamples, len(self._weight)
        parts = [(slice(0, whole), p, np.concatenate([weight[None], drawn * weight]))]
        if stop > whole:
            for i in range(self.n_members):
                member = Prediction.of(p.components.of_member(i), lower=p.lower)
                parts.append((slice(whole + i, whole + i + 1), member, weight[None]))
        for versions, prediction, weights in parts:
            probability = np.diff(prediction.cdf_grid(self.edges), axis=1)  # (n, g)
            for k in range(len(self._n)):
                rows = np.flatnonzero(sample == k)
                self._bins[versions, k] += weights[:, rows] @ probability[rows]
                self._first[versions, k] += weights[:, rows] @ prediction.mean[rows]
                self._weight[versions, k] += weights[:, rows].sum(axis=1)
        for k in range(len(self._n)):
            self._n[k] += np.count_nonzero((sample == k) & (weight > 0))

    def result(self) -> RedshiftDistribution:
        """Return the distribution of all objects added so far."""
        if not self._n.any():
            raise ValueError("no objects were added, or none in any of the samples; there is nothing to stack.")
        with np.errstate(invalid="ignore", divide="ignore"):
            density = self._bins / self._weight[:, :, None] / np.diff(self.edges)
            mean = self._first / self._weight
        resampled, members = slice(1, 1 + self.n_resamples), slice(1 + self.n_resamples, None)
        scatter = [_spread(values[resampled]) for values in (density, mean)]
        between = [_spread(values[members]) for values in (density, mean)]
        return RedshiftDistribution(
            self.edges,
            self.sample_edges,
            density[0],
            scatter[0],
            between[0],
            mean[0],
            np.sqrt(scatter[1] ** 2 + between[1] ** 2),
            self._weight[0],
            self._n.copy(),
        )


def sample_names(edges: FloatArray) -> tuple[str, ...]:
    """Return what samples between edges in z_phot are called."""
    if np.isinf(edges).all():
        return ("all",)
    return tuple(f"{low:.4g} - {high:.4g}" for low, high in itertools.pairwise(edges))


def redshift_bins(prediction: Prediction, n_most: int = 200) -> FloatArray:
    """Return edges of bins in redshift that fit predictions: nearly all probability, half a typical error wide."""
    rows = prediction[:: max(len(prediction) // 5000, 1)]
    low, high = float((rows.mean - 5.0 * rows.std).min()), float((rows.mean + 5.0 * rows.std).max())
    lower = getattr(rows, "lower", None)
    if lower is not None:
        low = max(low, float(lower))
    grid = np.linspace(low, high, 400)
    below = rows.cdf_grid(grid).mean(axis=0)
    first, last = np.searchsorted(below, [OUTSIDE, 1.0 - OUTSIDE]).tolist()
    low, high = float(grid[max(first - 1, 0)]), float(grid[min(last, len(grid) - 1)])
    some = rows[:: max(len(rows) // 500, 1)]
    half = 0.5 * np.median(some.quantile(0.84) - some.quantile(0.16))
    wanted = max(float(half) / 2.0, (high - low) / n_most)
    width = next((step for step in WIDTHS if step >= wanted), WIDTHS[-1])
    start, stop = np.floor(low / width + 1e-9), np.ceil(high / width - 1e-9)
    return np.asarray(width * np.arange(start, max(stop, start + 1.0) + 1.0))


def _spread(values: FloatArray) -> FloatArray:
    """Return the standard deviation over the first axis; zero for fewer than two."""
    if len(values) < 2:
        return np.zeros(values.shape[1:])
    with np.errstate(invalid="ignore"):
        return np.asarray(values.std(axis=0, ddof=1))


def stack(
    predictions: Prediction | Iterable[Prediction],
    edges: ArrayLike,
    *,
    sample_weight: Weights = None,
    sample_edges: ArrayLike | None = None,
    n_members: int = 1,
    n_resamples: int = 100,
    random_state: int | np.random.Generator | None = 0,
) -> RedshiftDistribution:
    """Return n(z) of a sample with error bars.

    Parameters
    ----------
    predictions : Prediction, or iterable of Prediction
        Several are parts of one sample.
    sample_weight : array-like of shape (n,), optional
        Weights, for one Prediction only; equal by default.
    edges, sample_edges, n_members, n_resamples, random_state
        As in `Stack`.

    Examples
    --------
    >>> p = Prediction.gaussian([0.4, 0.5, 1.2], [0.01] * 3, [0.01] * 3)
    >>> nz = stack(p, [0.0, 0.5, 1.0, 1.5], sample_edges=[0.0, 1.0, 2.0])
    >>> nz.n.tolist(), nz.mean.round(2).tolist()
    ([2, 1], [0.45, 1.2])
    """
    total = Stack(edges, sample_edges, n_members=n_members, n_resamples=n_resamples, random_state=random_state)
    if isinstance(predictions, Prediction):
        total.add(predictions, sample_weight)
    else:
        if sample_weight is not None:
            raise ValueError("`sample_weight` goes with one Prediction; add weighted parts to a `Stack`.")
        for part in predictions:
            total.add(part)
    return total.result()
