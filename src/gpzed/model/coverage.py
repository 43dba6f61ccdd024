"""How well the training rows cover an object, and what becomes of its prediction where they do not.

Far from all basis functions a model has nothing but its mean function and a constant noise: it is confident where it
has no data. The density of the training inputs shows where that is. It is a mixture of Gaussians over the whitened
inputs, and its values at rows set aside turn the density of an object into a *coverage*: the share of training rows
in sparser regions than the object.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gpzed._types import FloatArray, IntArray
from gpzed.compiled import substitute
from gpzed.engine.blocks import block_rows
from gpzed.engine.threads import Team
from gpzed.gp.whitening import Moments, Whitening, fit_whitening
from gpzed.incomplete.density import Density, Observations, normalise
from gpzed.model.data import TrainingData
from gpzed.prediction import Prediction
from gpzed.prediction.components import ARRAYS

MAX_ROWS = 10_000
"""Training rows that the density is fitted to, with those kept aside to read it by."""
MIN_ROWS = 20
HELD_FRACTION = 0.25
MAX_COMPONENTS = 8
ROWS_PER_NUMBER = 4.0
"""Rows per free number of a component of the density."""
MAX_STEPS, MIN_GAIN = 60, 1e-3
"""Of the fit of the density: steps at most, and log-likelihood per row that each must gain."""
TAIL = 0.02
"""Share of the rows kept aside whose densities give the slope of the tail below them."""
N_LEVELS = 200
THRESHOLD = 0.01
"""Coverage below which an object counts as outside."""
HALF_WAY = 0.002
"""Coverage at which the variance is half-way back to that of the training targets as a whole. At `THRESHOLD` this has
hardly begun: one in a hundred training rows lies below it, and would pay."""
DOUBTFUL = 10.0 * HALF_WAY
"""Coverage from which on predictions are left as they are."""
MAX_DOUBT = 0.5
"""Probability that a mixture loses to a wide Gaussian about its own mean."""
LOST = 1e-7
"""Coverage at which the density is half-way back to that of the training targets, in mean, too. Trained on the bright
part of DC2, DES and BOSS, the model is ahead of that density for fainter objects down to here, and behind it for
objects with two bands swapped from 1e-5 on."""


TINY = 1e-300


@dataclass(frozen=True)
class Coverage:
    """Density of the training inputs, and how to read it.

    `density` is of whitened inputs. `level` (g,) is the share of the rows kept aside whose log density is below
    `log_density` (g,), increasing; below its first value the share falls by a factor e for every `tail_scale`.
    `mean` and `variance` are those of the training targets: the prediction where nothing else is known. A part of
    `n_rows` training rows served to learn all this.
    """

    whitening: Whitening
    density: Density
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
        return np.where(np.isnan(X).all(axis=1), 0.0, self._read(X, team)[1])

    def whitened(self, X: FloatArray) -> FloatArray:
        """Make the inputs of the density from raw ones, (n, d); missing ones are filled."""
        return self.whitening(self._gaussian.fill(X))

    def shares(self, X: FloatArray) -> FloatArray:
        """Say how much raw inputs belong to each component of the density: regions of the inputs, (n, K)."""
        return normalise(self.density.log_components(np.ascontiguousarray(self.whitened(X).T)))[0].T

    def log_density_of(self, X: FloatArray, team: Team | None = None) -> FloatArray:
        """Log density of raw inputs in their own units, shape (n,); missing ones are filled."""
        return np.asarray(self._read(X, team)[0] + np.linalg.slogdet(self.whitening.matrix)[1])

    @cached_property
    def _gaussian(self) -> Density:
        """The Gaussian that whitening makes a standard one, of raw inputs."""
        matrix = self.whitening.matrix
        return Density.gaussian(self.whitening.mean, np.asarray(np.linalg.inv(matrix @ matrix.T), dtype=np.float64))

    def _read(self, X: FloatArray, team: Team | None = None) -> FloatArray:
        """Log density of raw inputs once whitened, and its level, (2, n); missing ones are filled."""
        n, d = X.shape
        result, size, team = np.empty((2, n)), block_rows(1 + d + d * (d + 1) // 2), team or Team(1)
        table = self.log_density, self.level, self.tail_scale

        def work(start: int) -> None:
            rows = slice(start, min(start + size, n))
            filled = self._gaussian.fill(X[rows])
            result[:, rows] = substitute(read_density)(filled, self.whitening, self.density, *table)

        team.map(work, range(0, n, size))
        return result


def read_density(
    X: FloatArray,
    whitening: Whitening,
    density: Density,
    log_densities: FloatArray,
    levels: FloatArray,
    tail_scale: float,
) -> FloatArray:
    """Return the log density of complete raw inputs (n, d) once whitened, and its level by a table, (2, n)."""
    log_density = normalise(density.log_components(np.ascontiguousarray(whitening(X).T)))[1]
    below = np.minimum(log_density - log_densities[0], 0.0) / tail_scale
    return np.stack([log_density, np.interp(log_density, log_densities, levels) * np.exp(below)])


def learn_coverage(data: TrainingData, rng: np.random.Generator) -> Coverage | None:
    """Learn the density from a sample of training rows, wherever these are."""
    _, y_mean, y_scale = data.summary(None)
    found = fit_coverage(data.sample(MAX_ROWS, rng).X, y_mean, y_scale**2, rng)
    return None if found is None else replace(found, n_rows=data.n)


def fit_coverage(X: FloatArray, y_mean: float, y_variance: float, rng: np.random.Generator) -> Coverage | None:
    """Learn the density of training inputs X (n, d), taken in random order; None with fewer than `MIN_ROWS` of them."""
    X = X[rng.permutation(len(X))[:MAX_ROWS]]
    n = len(X)
    if n < MIN_ROWS:
        return None
    standard = Density.gaussian(np.zeros(X.shape[1]), np.eye(X.shape[1]))
    draft = Coverage(_fit_whitening(X), standard, np.zeros(1), np.ones(1), 1.0, y_mean, y_variance)
    n_held = max(int(HELD_FRACTION * n), 5)
    draft = replace(draft, density=fit_density(draft.whitened(X)[n_held:], rng))
    held = np.sort(draft._read(X[:n_held])[0])
    n_tail = max(int(TAIL * n_held), 2)
    scale = max(float(np.mean(held[n_tail - 1] - held[: n_tail - 1])), 0.02)
    chosen = np.unique(np.linspace(n_tail - 1, n_held - 1, N_LEVELS).astype(int))
    levels = (chosen + 1.0) / (n_held + 1.0)
    return replace(draft, log_density=held[chosen], level=levels, tail_scale=scale)


def _fit_whitening(X: FloatArray) -> Whitening:
    """Whitening of complete rows, if there are enough; else of all, with means in place of what is missing."""
    complete = X[~np.isnan(X).any(axis=1)]
    if len(complete) < len(X) and len(complete) <= 5 * X.shape[1]:
        n_seen = np.maximum((~np.isnan(X)).sum(axis=0), 1)  # an input may be missing in all rows of a sample
        complete = np.where(np.isnan(X), np.nansum(X, axis=0) / n_seen, X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the user was told of constant columns before
        return fit_whitening(Moments.of(complete, np.ones(len(complete))), "pca")


def fit_density(U: FloatArray, rng: np.random.Generator) -> Density:
    """Fit a mixture to whitened inputs (n, d), with as many components as the rows allow."""
    from sklearn.cluster import (
        kmeans_plusplus,  # training alone needs it
    )

    n, d = U.shape
    numbers = 1 + d + d * (d + 1) // 2
    K = int(np.clip(n / (ROWS_PER_NUMBER * numbers), 1, MAX_COMPONENTS))
    means = kmeans_plusplus(U, K, random_state=int(rng.integers(2**31)))[0]
    start = Density(np.full(K, 1.0 / K), means, np.broadcast_to(np.eye(d), (K, d, d)))
    rows, floor = Observations.complete(U), n ** (-2.0 / (d + 4.0))  # Scott's rule: so many rows show nothing finer
    return Density.fit(
        rows, start, max_steps=MAX_STEPS, min_change=0.0, min_gain=MIN_GAIN, floor=floor, min_weight=1.0, ridge=0.0
    )


def return_to_prior(
    prediction: Prediction, coverage: FloatArray, prior_mean: float, prior_variance: float, n_own: int
) -> Prediction:
    """Let densities go back to that of the training targets where these do not cover an object: wider first.

    Components beyond the `n_own` of the models are wings. A single Gaussian is widened. A mixture gets one wide
    Gaussian about its mean (in one with that of the wings, if there are any), with at most the part `MAX_DOUBT` of the
    probability: the rest stays as it was, since models often reach farther than their training rows. What is added to
    the variance counts as model variance. On that way the total variance v reaches that of the training targets about
    the predicted mean, ``prior_variance + (mean - prior_mean)^2`` (or v, if that is more); it is half done at
    `HALF_WAY`, and left out at ten times as much, where it is a ten-thousandth.

    Much farther out, half-way at `LOST`, all of this gives way to the Gaussian of the training targets: at coverage 0
    mean and variance are theirs.
    """
    rows = np.flatnonzero(coverage < DOUBTFUL)
    part = prediction if len(rows) == len(prediction) else prediction[rows]
    doubt = 1.0 / (1.0 + (coverage[rows] / HALF_WAY) ** 4)
    gone = 1.0 / (1.0 + coverage[rows] / LOST)
    added = np.maximum(prior_variance + (part.mean - prior_mean) ** 2 - part.variance, 0.0)
    coverage = np.clip(coverage, 0.0, 1.0)
    prior = {"means": prior_mean, "model_variances": prior_variance, "noise_variances": 0.0, "input_variances": 0.0}
    components = prediction.components
    if prediction.n_components > 1 and prediction.n_components == n_own:
        first = {name: getattr(components, name)[:, 0] for name in ARRAYS[1:]}
        components = components.with_one_more(0.0, **first)
    fields: dict[str, Any] = {name: np.array(getattr(components, name)) for name in ARRAYS}
    if prediction.n_components == 1:
        fields["model_variances"][rows, 0] += doubt * added
        stays = np.zeros(len(rows))
    else:
        share = MAX_DOUBT * doubt
        own = {name: getattr(part, name.removesuffix("s")) for name in prior}
        own["model_variances"] = own["model_variances"] + added / MAX_DOUBT
        fields["weights"][rows] *= (1.0 - share)[:, None]
        _join(fields, rows, fields["weights"][rows, -1], share, own)
        fields["weights"][rows, -1] += share
        stays = (1.0 - gone) * (1.0 - fields["weights"][rows, -1])
        fields["weights"][rows, :-1] *= (1.0 - gone)[:, None]
        fields["weights"][rows, -1] = 1.0 - stays
    _join(fields, rows, 1.0 - stays - gone, gone, prior)
    return prediction.changed(components=replace(components, **fields), coverage=coverage)


def _join(fields: dict[str, Any], rows: IntArray, before: FloatArray, share: FloatArray, other: dict[str, Any]) -> None:
    """Let the last Gaussian of some rows take in another one, by their weights; in place."""
    total = np.maximum(before + share, TINY)
    for name, values in other.items():
        fields[name][rows, -1] = (before * fields[name][rows, -1] + share * values) / total
