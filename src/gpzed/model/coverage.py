"""How well the training rows cover an object, and what becomes of its prediction where they do not.

Far from all basis functions a model has nothing but its mean function and a constant noise: it is confident where it
knows nothing. The density of the training inputs tells where that is. It is a mixture of Gaussians over the whitened
inputs, and its values at rows kept aside turn the density of an object into a *coverage*: the share of training rows
that lie in emptier places than the object does.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.cluster import kmeans_plusplus

from gpzed._types import AnyArray, BoolArray, FloatArray
from gpzed.engine.threads import Scratch, Team, block_rows
from gpzed.gp.basis import coefficients, quadratic_map
from gpzed.model.data import TrainingData
from gpzed.model.whitening import Moments, Whitening, fit_whitening
from gpzed.prediction import Prediction

MAX_ROWS = 10_000
"""Training rows that the density is fitted to, with those kept aside to read it by."""
MIN_ROWS = 20
HELD_FRACTION = 0.25
MAX_COMPONENTS = 8
ROWS_PER_NUMBER = 4.0
"""Rows per free number of a component of the density."""
MAX_STEPS, MIN_GAIN = 60, 1e-3
TAIL = 0.02
"""Share of the rows kept aside whose densities give the slope of the tail below them."""
N_LEVELS = 200
THRESHOLD = 0.01
"""Coverage below which an object counts as outside."""
HALF_WAY = 0.002
"""Coverage at which the variance is half-way back to that of the training targets as a whole. At `THRESHOLD` this has
hardly begun: one in a hundred training rows lies below it, and would pay."""
MAX_DOUBT = 0.5
"""Probability that a mixture loses to a wide Gaussian where nothing is known."""
COMPONENT_FIELDS = ("weights", "means", "model_variances", "noise_variances", "input_variances")


@dataclass(frozen=True)
class Coverage:
    """Density of the training inputs, and how to read it.

    Attributes
    ----------
    whitening : Whitening
        From raw inputs to those of the density.
    Ct : ndarray of shape (K, q)
        Log density of each component as coefficients of the quadratic map, weights included.
    log_density : ndarray of shape (g,)
        Increasing values of the log density.
    level : ndarray of shape (g,)
        Share of the rows kept aside that have less.
    tail_scale : float
        Below the first value the share falls by a factor e for every such step of the log density.
    mean, variance : float
        Of the training targets: the prediction where nothing else is known.
    n_rows : int
        Training rows, of which a part served to learn the density.
    """

    whitening: Whitening
    Ct: FloatArray
    log_density: FloatArray
    level: FloatArray
    tail_scale: float
    mean: float
    variance: float
    n_rows: int = 0

    def __call__(self, X: FloatArray, team: Team | None = None) -> FloatArray:
        """Coverage of raw inputs (n, d), shape (n,), from 0 to 1.

        NaN is an input that was not observed: the one to be expected, given the others, takes its place. Rows without
        any input have coverage 0.
        """
        missing = np.isnan(X)
        if not missing.any():
            return self._read(self.densities(X, team or Team(1)))
        filled = self._read(self.densities(_fill(X, missing, self.whitening), team or Team(1)))
        return np.where(missing.all(axis=1), 0.0, filled)

    def _read(self, log_density: FloatArray) -> FloatArray:
        below = np.minimum(log_density - self.log_density[0], 0.0) / self.tail_scale
        return np.asarray(np.interp(log_density, self.log_density, self.level) * np.exp(below))

    def apply(self, prediction: Prediction, X: FloatArray, n_own: int, team: Team | None = None) -> Prediction:
        """Give a prediction for raw inputs X its coverage, and its variance back where that is low."""
        return return_to_prior(prediction, self(X, team), self.mean, self.variance, n_own)

    def whitened(self, X: FloatArray) -> FloatArray:
        """Make the inputs of the density from raw ones, (n, d); missing ones are filled."""
        missing = np.isnan(X)
        return self.whitening(_fill(X, missing, self.whitening) if missing.any() else X)

    def shares(self, X: FloatArray) -> FloatArray:
        """Say how much raw inputs belong to each component of the density: regions of the inputs, (n, K)."""
        U = self.whitened(X)
        Zt = quadratic_map(np.ascontiguousarray(U.T), True, np.empty((self.Ct.shape[1], len(X))))
        terms = self.Ct @ Zt
        return np.asarray(np.exp(terms - logsumexp(terms, axis=0)).T)

    def log_density_of(self, X: FloatArray, team: Team | None = None) -> FloatArray:
        """Log density of raw inputs in their own units, shape (n,); missing ones are filled."""
        missing = np.isnan(X)
        X = _fill(X, missing, self.whitening) if missing.any() else X
        return self.densities(X, team or Team(1)) + float(np.linalg.slogdet(self.whitening.matrix)[1])

    def densities(self, X: FloatArray, team: Team) -> FloatArray:
        """Log density of raw inputs, shape (n,)."""
        n = len(X)
        q = self.Ct.shape[1]
        result = np.empty(n)
        size = block_rows(q)

        def work(start: int) -> None:
            rows = slice(start, min(start + size, n))
            scratch = Scratch(team.buffers())
            Xt = np.ascontiguousarray(self.whitening(X[rows]).T)
            Zt = quadratic_map(Xt, True, scratch.array("coverage Z", (q, Xt.shape[1])))
            terms = np.matmul(self.Ct, Zt, out=scratch.array("coverage", (len(self.Ct), Xt.shape[1])))
            top = terms.max(axis=0)
            terms -= top
            np.exp(terms, out=terms)
            result[rows] = top + np.log(terms.sum(axis=0))

        team.map(work, range(0, n, size))
        return result

    def to_parts(self) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """Header and arrays for the model file."""
        names = ("tail_scale", "mean", "variance", "n_rows")
        header = {name: getattr(self, name) for name in names}
        arrays = {
            "whitening_mean": self.whitening.mean,
            "whitening_matrix": self.whitening.matrix,
            "Ct": self.Ct,
            "log_density": self.log_density,
            "level": self.level,
        }
        return header, arrays

    @classmethod
    def from_parts(cls, header: dict[str, Any], arrays: dict[str, AnyArray]) -> Coverage:
        """Inverse of `to_parts`."""
        d = len(arrays["whitening_mean"])
        if arrays["whitening_matrix"].shape != (d, d) or arrays["Ct"].shape[1:] != (1 + d + d * (d + 1) // 2,):
            raise ValueError("arrays of the coverage do not fit together")
        whitening = Whitening(arrays["whitening_mean"], arrays["whitening_matrix"])
        return cls(
            whitening,
            arrays["Ct"],
            arrays["log_density"],
            arrays["level"],
            header["tail_scale"],
            header["mean"],
            header["variance"],
            header["n_rows"],
        )


def learn_coverage(data: TrainingData, rng: np.random.Generator) -> Coverage | None:
    """Learn the density from a sample of training rows, wherever these are."""
    _, y_mean, y_scale = data.summary(None)
    found = fit_coverage(data.sample(MAX_ROWS, rng).X, y_mean, y_scale**2, rng)
    return None if found is None else replace(found, n_rows=data.n)


def fit_coverage(X: FloatArray, y_mean: float, y_variance: float, rng: np.random.Generator) -> Coverage | None:
    """Learn the density of training inputs.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Training inputs, or a random part of them; rows are taken in random order.
    y_mean, y_variance : float
        Moments of the training targets.
    rng : numpy.random.Generator

    Returns
    -------
    Coverage or None
        None with fewer than `MIN_ROWS` rows, which tell nothing about a density.
    """
    X = X[rng.permutation(len(X))[:MAX_ROWS]]
    n = len(X)
    if n < MIN_ROWS:
        return None
    missing = np.isnan(X)
    start = np.where(missing, np.nanmean(X, axis=0), X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant columns were told of before
        whitening = fit_whitening(Moments.of(start, np.ones(n)), "pca")
        if missing.any():
            complete = X[~missing.any(axis=1)]
            if len(complete) > 5 * X.shape[1]:
                whitening = fit_whitening(Moments.of(complete, np.ones(len(complete))), "pca")
            X = _fill(X, missing, whitening)
    U = whitening(X)
    n_held = max(int(HELD_FRACTION * n), 5)
    Ct = fit_mixture(U[n_held:], rng)
    draft = Coverage(whitening, Ct, np.zeros(1), np.ones(1), 1.0, y_mean, y_variance)
    held = np.sort(draft.densities(X[:n_held], Team(1)))
    n_tail = max(int(TAIL * n_held), 2)
    edge = held[n_tail - 1]
    scale = max(float(np.mean(edge - held[: n_tail - 1])), 0.02)
    chosen = np.unique(np.linspace(n_tail - 1, n_held - 1, N_LEVELS).astype(int))
    levels = (chosen + 1.0) / (n_held + 1.0)
    return replace(draft, log_density=held[chosen], level=levels, tail_scale=scale)


def fit_mixture(U: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Mixture of Gaussians by expectation maximisation, with as many components as the rows allow.

    Both steps are products with the quadratic map, which holds all moments that the components need.

    Parameters
    ----------
    U : ndarray of shape (n, d)
        Whitened inputs.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (K, q)
        Log density of every component, weight included, as coefficients of the quadratic map.
    """
    n, d = U.shape
    numbers = 1 + d + d * (d + 1) // 2
    ridge = n ** (-2.0 / (d + 4.0))  # Scott's rule: nothing finer than this is seen by so many rows
    K = int(np.clip(n / (ROWS_PER_NUMBER * numbers), 1, MAX_COMPONENTS))
    Zt = quadratic_map(np.ascontiguousarray(U.T), True, np.empty((numbers, n)))
    means = kmeans_plusplus(U, K, random_state=int(rng.integers(2**31)))[0]
    Ct = _log_components(np.full(K, 1.0 / K), means, np.broadcast_to(np.eye(d), (K, d, d)))
    before = -np.inf
    for _ in range(MAX_STEPS):
        terms = Ct @ Zt  # (K, n)
        total = logsumexp(terms, axis=0)
        Ct = _from_moments(np.exp(terms - total) @ Zt.T, d, ridge)
        score = float(total.mean())
        if score - before < MIN_GAIN:
            break
        before = score
    return Ct


def _from_moments(sums: FloatArray, d: int, ridge: float) -> FloatArray:
    """Components from their sums over rows of the quadratic map, (K, q); empty ones are dropped."""
    sums = sums[sums[:, 0] > 1.0]
    mass, first = sums[:, 0], sums[:, 1 : d + 1]
    means = first / mass[:, None]
    row, column = np.triu_indices(d)
    second = np.empty((len(sums), d, d))
    second[:, row, column] = second[:, column, row] = sums[:, d + 1 :] / mass[:, None]
    covariances = second - means[:, :, None] * means[:, None, :] + ridge * np.eye(d)
    return _log_components(mass / mass.sum(), means, covariances)


def _log_components(weights: FloatArray, means: FloatArray, covariances: FloatArray) -> FloatArray:
    precisions = np.asarray(np.linalg.inv(covariances), dtype=np.float64)
    Ct = coefficients(means, precisions).T.copy()
    Ct[:, 0] += np.log(weights) - 0.5 * np.linalg.slogdet(2.0 * np.pi * covariances)[1]
    return Ct


def _fill(X: FloatArray, missing: BoolArray, whitening: Whitening) -> FloatArray:
    """Put expected inputs, given the others, in place of missing ones: those nearest to the origin once whitened."""
    X = np.array(X)
    patterns, which = np.unique(missing, axis=0, return_inverse=True)
    for index, lost in enumerate(patterns):
        rows = np.flatnonzero(which.ravel() == index)
        if not lost.any():
            continue
        X[np.ix_(rows, lost)] = whitening.mean[lost]
        if not lost.all():
            gap, rest = whitening.matrix[lost], (X[rows] - whitening.mean) @ whitening.matrix
            X[np.ix_(rows, lost)] -= np.linalg.lstsq(gap.T, rest.T, rcond=None)[0].T
    return X


def return_to_prior(
    prediction: Prediction, coverage: FloatArray, prior_mean: float, prior_variance: float, n_own: int
) -> Prediction:
    """Let the variance grow back to that of the training targets where these do not cover an object.

    Parameters
    ----------
    prediction : Prediction
        Any mixture.
    coverage : ndarray of shape (n,)
    prior_mean, prior_variance : float
        Moments of the training targets.
    n_own : int
        Components that are the models' own; one more is that of the wings.

    Returns
    -------
    Prediction
        With `coverage`. A single Gaussian is widened. A mixture gets one wide Gaussian about its mean (in one with that
        of the wings, if there are any), with at most the part `MAX_DOUBT` of the probability: the rest stays as it was,
        since models often reach farther than their training rows. Means stay. What is added to the variance counts as
        model variance.

    Notes
    -----
    At coverage 0 the total variance v is that of the training targets about the predicted mean, ``prior_variance +
    (mean - prior_mean)^2`` (or v, if that is more); the way back is half done at `HALF_WAY`, and left out at ten times
    as much, where it is a ten-thousandth.
    """
    rows = np.flatnonzero(coverage < 10.0 * HALF_WAY)
    part = prediction[rows]
    doubt = 1.0 / (1.0 + (coverage[rows] / HALF_WAY) ** 4)
    lost = np.maximum(prior_variance + (part.mean - prior_mean) ** 2 - part.variance, 0.0)
    coverage = np.clip(coverage, 0.0, 1.0)
    if prediction.n_components == 1:
        variances = np.array(prediction.model_variances)
        variances[rows, 0] += doubt * lost
        return replace(prediction, model_variances=variances, coverage=coverage)
    n_components = max(prediction.n_components, n_own + 1)
    fields: dict[str, Any] = {name: np.empty((len(prediction), n_components)) for name in COMPONENT_FIELDS}
    for name, values in fields.items():
        given = getattr(prediction, name)
        values[:, : given.shape[1]] = given
        if n_components > given.shape[1]:
            values[:, -1] = 0.0 if name == "weights" else given[:, 0]
    share = MAX_DOUBT * doubt
    fields["weights"][rows] *= (1.0 - share)[:, None]
    before = fields["weights"][rows, -1]
    wide = {
        "means": part.mean,
        "model_variances": part.model_variance + lost / MAX_DOUBT,
        "noise_variances": part.noise_variance,
        "input_variances": part.input_variance,
    }
    for name, values in wide.items():
        fields[name][rows, -1] = (before * fields[name][rows, -1] + share * values) / (before + share)
    fields["weights"][rows, -1] += share
    return replace(prediction, **fields, coverage=coverage)
