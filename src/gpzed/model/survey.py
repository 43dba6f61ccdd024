r"""Where spectra would help: the fall of model variance that new rows bring, before they are observed.

A spectrum of an object with responses φ and noise precision β adds :math:`\beta \phi \phi'` to the posterior precision
S of the weights (Eq. 5.4), whatever redshift it finds. The model variance (Eq. 3.13) of all objects j together, with
weights w, is :math:`\mathrm{tr}(Q S^{-1})` with :math:`Q = \sum_j w_j \phi_j \phi_j'`, and falls by

.. math:: \frac{\beta\, a' Q a}{1 + \beta \phi' a}, \quad a = S^{-1} \phi .

Objects that are chosen one after the other, each with S as the earlier ones leave it, make a batch with diminishing
returns: a second object like the first gains little.

The posterior knows only the weights of the basis functions that are there; where training rows are few, these are not
in the right places. So objects are put into regions, and each region has a number T of training rows, from the density
of these (`gpzed.model.coverage`) over that of the objects. Of the variance in a region, the part τ / (τ + T) is taken
to be for want of training rows, and to fall as these become more; τ is `ENOUGH`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpzed._types import FloatArray, IntArray
from gpzed.core.engine import Block, Scratch, Team
from gpzed.core.evidence import responses
from gpzed.model.coverage import fit_coverage
from gpzed.model.regressor import GPzRegressor
from gpzed.model.training import Member
from gpzed.prediction import Prediction

ENOUGH = 5.0
"""Training rows in a region at which half of its variance counts as due to something else."""
MAX_LOG_RATIO = 5.0


@dataclass(frozen=True)
class _View:
    """One member, as candidates and the posterior of its weights see it, target in its own units."""

    Phi: FloatArray  # (M, n)
    beta: FloatArray  # (n,)
    S_inverse: FloatArray  # (M, M)

    @classmethod
    def of(cls, member: Member, X: FloatArray, X_std: FloatArray | None) -> _View:
        map_ = member.standardisation
        block = Block(np.ascontiguousarray(member.expected(X, X_std).T), np.empty(0), np.empty(0))
        _, Phi, log_beta = responses(block, Scratch(), member.state)
        return cls(Phi.copy(), np.exp(log_beta) / map_.y_scale**2, map_.y_scale**2 * member.posterior.factor.inverse)


class Survey:
    """What new spectra of some objects would tell about all of them.

    Parameters
    ----------
    model : GPzRegressor
        Fitted.
    X : ndarray of shape (n, d)
        Raw inputs of the objects that matter, which are candidates for spectra as well.
    weight : ndarray of shape (n,), optional
        How much each object matters; equal by default.
    region : ndarray of int of shape (n,), optional
        Regions from 0, for the part of the variance that is for want of training rows; one region by default.
    X_std : ndarray of shape (n, d), optional
        Standard errors of the inputs, if the model was trained with some.

    Attributes
    ----------
    prediction : Prediction
        As it is now.
    unknown : ndarray of shape (n,)
        The part of each object's variance that low coverage adds.
    trained : ndarray of shape (g,)
        Expected number of training rows in each region.
    """

    def __init__(
        self,
        model: GPzRegressor,
        X: FloatArray,
        weight: FloatArray | None = None,
        region: IntArray | None = None,
        X_std: FloatArray | None = None,
    ) -> None:
        n = len(X)
        self.weight = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
        self.region = np.zeros(n, dtype=np.intp) if region is None else np.asarray(region, dtype=np.intp)
        self.prediction: Prediction = model.predict_distribution(X, X_std=X_std)
        self.unknown = np.zeros(n)
        if model.coverage_ is not None:
            plain = model._recalibrated(X, Team(model.n_threads), X_std)
            self.unknown = np.maximum(self.prediction.variance - plain.variance, 0.0)
        self._views = [_View.of(member, X, X_std) for member in model.members_]
        self._Q = [(view.Phi * self.weight) @ view.Phi.T for view in self._views]
        count = int(self.region.max()) + 1 if n else 0
        self._variance = np.bincount(self.region, self.weight * self.prediction.variance, count)
        self.trained = _training_rows(model, X, self.region, count)

    def _lacking(self, k: FloatArray) -> FloatArray:
        """Variance of each region for want of training rows, once it has k more."""
        return np.asarray(self._variance * ENOUGH / (ENOUGH + self.trained + k))

    def group_gain(self, rows: IntArray) -> float:
        """Return by how much spectra of these objects lower the weighted sum of all variances.

        Parameters
        ----------
        rows : ndarray of int
            Objects to be observed.
        """
        falls = []
        for view, Q in zip(self._views, self._Q, strict=True):
            half = view.Phi[:, rows] * np.sqrt(view.beta[rows])  # (M, k)
            gain = view.S_inverse @ half
            small = np.eye(half.shape[1]) + half.T @ gain
            falls.append(float(np.trace(np.linalg.solve(small, gain.T @ Q @ gain))))
        k = np.bincount(self.region[rows], minlength=len(self.trained)).astype(np.float64)
        return float(np.mean(falls) + np.sum(self._lacking(np.zeros_like(k)) - self._lacking(k)))

    def batch(self, n_spectra: int, candidates: IntArray | None = None) -> tuple[IntArray, FloatArray]:
        """Choose objects for spectra one after the other, each with the earlier ones taken into account.

        Parameters
        ----------
        n_spectra : int
        candidates : ndarray of int, optional
            Objects to choose from; all by default.

        Returns
        -------
        rows : ndarray of int of shape (k,)
            Objects in the order of choice, at most `n_spectra`.
        gain : ndarray of shape (k,)
            By how much each lowers the weighted sum of all variances, once those before it are observed.
        """
        rows = np.arange(len(self.weight)) if candidates is None else np.asarray(candidates, dtype=np.intp)
        fields = [_Field.of(view, Q, rows) for view, Q in zip(self._views, self._Q, strict=True)]
        seen = np.zeros(len(self.trained))
        free = np.ones(len(rows), dtype=bool)
        chosen, gains = [], []
        for _ in range(min(n_spectra, len(rows))):
            gain = np.mean([field.gains() for field in fields], axis=0)
            gain += (self._lacking(seen) - self._lacking(seen + 1.0))[self.region[rows]]
            best = int(np.argmax(np.where(free, gain, -np.inf)))
            chosen.append(int(rows[best]))
            gains.append(float(gain[best]))
            free[best] = False
            seen[self.region[rows[best]]] += 1.0
            for field in fields:
                field.observe(best)
        return np.array(chosen, dtype=np.intp), np.array(gains)


def _training_rows(model: GPzRegressor, X: FloatArray, region: IntArray, count: int) -> FloatArray:
    """Return how many training rows to expect in each region, by the ratio of their density and that of X.

    Without a density of the training inputs, or with too few objects for one of their own, there are as many as not to
    matter.
    """
    density = model.coverage_
    own = None if density is None else fit_coverage(X, 0.0, 1.0, np.random.default_rng(0))
    if density is None or own is None:
        return np.full(count, np.inf)
    log_ratio = density.log_density_of(X) - own.log_density_of(X)
    ratio = np.exp(np.minimum(log_ratio, MAX_LOG_RATIO))
    return np.asarray(density.n_rows / len(X) * np.bincount(region, ratio, count), dtype=np.float64)


@dataclass
class _Field:
    """``A = S^-1 Phi`` and ``Q A`` over the candidates, kept up to date by rank-one changes."""

    Phi: FloatArray
    beta: FloatArray
    A: FloatArray
    QA: FloatArray
    nu: FloatArray

    @classmethod
    def of(cls, view: _View, Q: FloatArray, rows: IntArray) -> _Field:
        Phi = view.Phi[:, rows]
        A = view.S_inverse @ Phi
        return cls(Phi, view.beta[rows], A, Q @ A, np.einsum("ij,ij->j", Phi, A))

    def gains(self) -> FloatArray:
        """Fall of the summed variance for each candidate, observed next."""
        return np.asarray(self.beta * np.einsum("ij,ij->j", self.A, self.QA) / (1.0 + self.beta * self.nu))

    def observe(self, index: int) -> None:
        """Take a candidate as observed."""
        a, Qa = self.A[:, index].copy(), self.QA[:, index].copy()
        share = (a @ self.Phi) * (self.beta[index] / (1.0 + self.beta[index] * self.nu[index]))
        self.A -= np.outer(a, share)
        self.QA -= np.outer(Qa, share)
        self.nu -= share * (a @ self.Phi)
