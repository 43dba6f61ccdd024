r"""Where spectra would help: what new training rows would take off the variance of a catalogue.

docs/howto/where-to-look-next.md says what is assumed. Objects are put into regions of the inputs; one with the part f
of all objects has T training rows, and k new ones lower its summed variance V by

.. math:: V \left(\frac{n_0 f}{n_0 f + T} - \frac{n_0 f}{n_0 f + T + k}\right) , \quad n_0 = \mathrm{ENOUGH} .

A batch is drawn with the probabilities :math:`\min(\max(\lambda w_j - \rho_j, 0), 1)`: object j stands for
:math:`\rho_j` training rows and has the weight :math:`w_j`; λ makes the probabilities sum to the size of the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from sklearn.cluster import KMeans

from gpzed._types import FloatArray, IntArray
from gpzed.engine.threads import Team
from gpzed.model.coverage import Coverage, fit_coverage
from gpzed.model.estimator import GPzRegressor
from gpzed.prediction import Prediction

ENOUGH = 1500.0
"""Training rows at which more would remove half of the variance: the squared error on DC2 falls from 0.008 with
1,500 rows to 0.0047 with 10,225, about as 0.0041 (1 + 1400 / n) does."""
MAX_LOG_RATIO = 5.0
CAP = 0.9
"""Part of the objects whose variance counts in full."""
MAX_REGIONS, OBJECTS_PER_REGION = 100, 30


@dataclass(frozen=True)
class _Regions:
    """Regions of the inputs: the `label` of every object, and what is known of each region.

    `trained` is the expected number of training rows, `enough` the number at which more would remove half of the
    variance, `variance` the summed, weighted, capped one.
    """

    label: IntArray
    trained: FloatArray
    enough: FloatArray
    variance: FloatArray

    def lacking(self, k: FloatArray, region: IntArray | slice = slice(None)) -> FloatArray:
        """Return the variance due to too few training rows once regions, all by default, have k more."""
        enough = self.enough[region]
        return np.asarray(self.variance[region] * enough / (enough + self.trained[region] + k))


class Survey:
    """What new spectra of some objects would tell about all of them.

    Parameters
    ----------
    model : GPzRegressor
        Fitted, with `coverage`.
    X, X_std : ndarray of shape (n, d)
        Raw inputs of the objects that matter, which are candidates for spectra as well; standard errors if the model
        was trained with some.
    weight : ndarray of shape (n,), optional
        How much each object matters; equal by default.

    Attributes
    ----------
    prediction : Prediction
        As it is now.
    unknown, trained : ndarray of shape (n,)
        The part of each object's variance that low coverage adds; training rows that it stands for.
    """

    def __init__(
        self, model: GPzRegressor, X: FloatArray, weight: FloatArray | None = None, X_std: FloatArray | None = None
    ) -> None:
        n, density = len(X), model.coverage_
        if density is None:
            raise ValueError(
                "the model has no density of its training rows, which tells where these are lacking; train it with "
                "`coverage` true, on at least 20 rows."
            )
        if n == 0:
            raise ValueError("`X` has no rows; expected the objects whose redshifts matter.")
        self.weight = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
        self.prediction: Prediction = model.predict_distribution(X, X_std=X_std, exact=True)
        plain = model.committee_.recalibrated(X, Team(model.n_threads), X_std, exact=True)
        self.unknown = np.maximum(self.prediction.variance - plain.variance, 0.0)
        X = X if X_std is None else model.members_[0].denoised(X, X_std)
        self.trained = training_rows(density, X)
        self._regions = self._divide(density.whitened(X))

    def _divide(self, U: FloatArray) -> _Regions:
        count = max(1, min(MAX_REGIONS, len(U) // OBJECTS_PER_REGION))
        spread = U.std(axis=0)
        scaled = U / np.where(spread > 0.0, spread, 1.0)
        label = KMeans(count, n_init=1, max_iter=20, random_state=0).fit_predict(scaled).astype(np.intp)
        variance = self.prediction.variance
        counted = self.weight * np.minimum(variance, np.quantile(variance, CAP))
        parts = (self.trained, np.full(len(U), ENOUGH / len(U)), counted)
        return _Regions(label, *(np.asarray(np.bincount(label, part, count), dtype=np.float64) for part in parts))

    def group_gain(self, rows: IntArray) -> float:
        """Return by how much spectra of these objects lower the weighted sum of all variances."""
        regions = self._regions
        k = np.bincount(regions.label[rows], minlength=len(regions.trained)).astype(np.float64)
        return float(np.sum(regions.lacking(np.zeros_like(k)) - regions.lacking(k)))

    def batch(
        self, n_spectra: int, candidates: IntArray | None = None, rng: np.random.Generator | None = None
    ) -> tuple[IntArray, FloatArray]:
        """Choose up to `n_spectra` objects for spectra that represent, together, what the training rows do not.

        Parameters
        ----------
        n_spectra : int
        candidates : ndarray of int, optional
            Objects to choose from; all by default.
        rng : numpy.random.Generator, optional

        Returns
        -------
        rows, gain : ndarray of shape (k,)
            Objects, those that gain most first, and by how much each lowers the weighted sum of all variances, once
            those before it are observed.
        """
        rng = np.random.default_rng(0) if rng is None else rng
        rows = np.arange(len(self.weight)) if candidates is None else np.asarray(candidates, dtype=np.intp)
        if n_spectra >= len(rows):
            return self._ordered(rows)
        share = probabilities(self.trained[rows], self.weight[rows] / self.weight.mean(), n_spectra)
        order = np.lexsort((rng.random(len(rows)), self._regions.label[rows]))
        return self._ordered(rows[order[_draw_evenly(share[order], n_spectra, rng)]])

    def _ordered(self, rows: IntArray) -> tuple[IntArray, FloatArray]:
        """Put objects into the order in which they gain most, and say what each gains."""
        regions = self._regions
        label = regions.label[rows]
        number = np.zeros(len(rows))  # of earlier ones in the same region
        for region in np.unique(label):
            members = np.flatnonzero(label == region)
            number[members] = np.arange(len(members))
        gain = regions.lacking(number, label) - regions.lacking(number + 1.0, label)
        order = np.argsort(-gain, kind="stable")
        return rows[order], gain[order]


def training_rows(density: Coverage, X: FloatArray) -> FloatArray:
    """Return how many training rows each object stands for, by the ratio of their density and that of X.

    Objects that are too few for a density of their own share the training rows evenly.
    """
    own = fit_coverage(X, 0.0, 1.0, np.random.default_rng(0))
    if own is None:
        return np.full(len(X), density.n_rows / len(X))
    log_ratio = density.log_density_of(X) - own.log_density_of(X)
    return np.asarray(density.n_rows / len(X) * np.exp(np.minimum(log_ratio, MAX_LOG_RATIO)))


def probabilities(trained: FloatArray, weight: FloatArray, n_spectra: int) -> FloatArray:
    """Return the probability of each object to be chosen: what training rows lack to be spread as the weights.

    `trained` training rows stand for each object; the probabilities sum to `n_spectra`, which is less than n.
    """

    def filled(level: float) -> FloatArray:
        return np.clip(level * weight - trained, 0.0, 1.0)

    usable = weight > 0.0
    if np.count_nonzero(usable) <= n_spectra:
        return usable.astype(np.float64)
    top = float(np.max((1.0 + trained[usable]) / weight[usable]))
    return filled(float(brentq(lambda level: filled(level).sum() - n_spectra, 0.0, top, xtol=1e-12 * top)))


def _draw_evenly(share: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
    """Draw n different rows with given probabilities, evenly along their order."""
    edges = np.cumsum(share)
    n = min(n, round(float(edges[-1])))
    at = (np.arange(n) + rng.random()) * (edges[-1] / max(n, 1))
    return np.unique(np.minimum(np.searchsorted(edges, at), len(share) - 1))
