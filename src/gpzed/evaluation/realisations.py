r"""Realisations of n(z): distributions that the sample could have, given all that is not known of it.

What is predicted for single objects differs from their redshifts, and what was learned from n labels would differ had
there been others: both leave the mean of a bin uncertain, by the scatter of redshifts about their predictions divided
by the root of the number of objects, and of labels. A realisation therefore draws

.. math:: N = (1 / N_{objects} + 1 / (E N_{labels}))^{-1}

objects, evenly over the sample in order of their point estimates, and a redshift for each from its density, in which
members of a committee have random weights (Dirichlet), since another committee would have other members. E is
`EFFICIENCY`: labels tell a model less than they would tell a mean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpzed._types import FloatArray, IntArray
from gpzed.prediction import OF_ALL, Prediction

EFFICIENCY = 0.5
"""Part of the labels that would leave a mean as uncertain as a model learned from all of them (measured: the 68 %
interval of the mean of a bin holds the truth as often as it should, docs/howto/redshift-distribution.md)."""
MAX_DRAWS = 100_000
"""Objects of a bin that a realisation draws at most."""


@dataclass(frozen=True)
class Realisations:
    """R realisations of the n(z) of s samples in g bins of redshift, drawn together.

    Attributes
    ----------
    density : ndarray of shape (R, s, g)
    mean : ndarray of shape (R, s)
        Mean redshift of each sample, inside the bins or not.
    edges : ndarray of shape (g + 1,)
    """

    density: FloatArray
    mean: FloatArray
    edges: FloatArray

    @property
    def covariance(self) -> FloatArray:
        """Covariance of all densities, samples one after the other, shape (s g, s g)."""
        flat = self.density.reshape(len(self.density), -1)
        return np.atleast_2d(np.cov(flat.T))

    @property
    def mean_covariance(self) -> FloatArray:
        """Covariance of the mean redshifts between samples, shape (s, s)."""
        return np.atleast_2d(np.cov(self.mean.T))

    @property
    def mean_error(self) -> FloatArray:
        """Standard deviations of the mean redshifts, shape (s,)."""
        return np.asarray(self.mean.std(axis=0, ddof=1))

    def interval(self, level: float = 0.68) -> FloatArray:
        """Return the central interval of each mean redshift, shape (2, s)."""
        return np.asarray(np.quantile(self.mean, [0.5 - level / 2.0, 0.5 + level / 2.0], axis=0))

    def modes(self, n_modes: int = 5) -> tuple[FloatArray, FloatArray]:
        """Return the leading modes, each times its standard deviation, (n, s, g), and the share of variance of each.

        ``density.mean(axis=0) + sum_i a_i mode_i`` with standard normal a varies as the realisations do, but for what
        later modes hold.
        """
        flat = self.density.reshape(len(self.density), -1)
        _, s, Vt = np.linalg.svd(flat - flat.mean(axis=0), full_matrices=False)
        variance = s**2 / max(len(flat) - 1, 1)
        n = min(n_modes, int(np.count_nonzero(variance > 0.0)))
        modes = np.sqrt(variance[:n, None]) * Vt[:n]
        return modes.reshape(n, *self.density.shape[1:]), variance[:n] / max(variance.sum(), 1e-300)


def realise(
    prediction: Prediction,
    edges: FloatArray,
    sample: IntArray,
    n_samples: int,
    *,
    sample_weight: FloatArray | None = None,
    n_labels: float | None = None,
    n_members: int = 1,
    n_realisations: int = 200,
    random_state: int | np.random.Generator | None = 0,
) -> Realisations:
    """Draw realisations of n(z).

    Parameters
    ----------
    prediction : Prediction
    edges : ndarray of shape (g + 1,)
        Bins in redshift.
    sample : ndarray of shape (n,)
        The sample that each object belongs to, from 0; -1 for none.
    n_samples : int
    sample_weight : ndarray of shape (n,), optional
    n_labels : float, optional
        Redshifts that the densities were learned from; each sample has its share of them. None if errors due to them
        are to be left out.
    n_members : int
        Members of the committee that the components of predictions tell apart; 1 if they do not.
    n_realisations : int
    random_state : int, Generator or None
    """
    rng = np.random.default_rng(random_state)
    weight = np.ones(len(prediction)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    total = weight[sample >= 0].sum()
    density = np.zeros((n_realisations, n_samples, len(edges) - 1))
    mean = np.full((n_realisations, n_samples), np.nan)
    members = n_members * rng.dirichlet(np.ones(n_members), n_realisations)  # weights with mean 1
    for k in range(n_samples):
        rows = np.flatnonzero((sample == k) & (weight > 0.0))
        if not len(rows):
            continue
        rows = rows[np.argsort(prediction.z_phot[rows], kind="stable")]
        share = np.cumsum(weight[rows])
        n = share[-1] ** 2 / np.sum(weight[rows] ** 2)
        if n_labels is not None:
            n = 1.0 / (1.0 / n + total / (EFFICIENCY * n_labels * share[-1]))
        n_draws = int(np.clip(round(n), 2, MAX_DRAWS))
        for r in range(n_realisations):
            at = (np.arange(n_draws) + rng.random(n_draws)) / n_draws * share[-1]
            picked = prediction[rows[np.minimum(np.searchsorted(share, at), len(rows) - 1)]]
            z = _with_members(picked, members[r]).sample(1, rng)[:, 0]
            counts, _ = np.histogram(z, edges)
            density[r, k] = counts / n_draws / np.diff(edges)
            mean[r, k] = z.mean()
    return Realisations(density, mean, np.asarray(edges))


def _with_members(prediction: Prediction, weights: FloatArray) -> Prediction:
    """Return predictions in which members of the committee have other weights."""
    if len(weights) == 1:
        return prediction
    parts = prediction.components
    factor = np.where(parts.member == OF_ALL, 1.0, weights[np.maximum(parts.member, 0)])
    changed = parts.weights * factor
    changed = np.where(changed.sum(axis=1, keepdims=True) > 0.0, changed, parts.weights)
    return prediction.changed(components=replace(parts, weights=changed / changed.sum(axis=1, keepdims=True)))
