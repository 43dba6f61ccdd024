"""The density of the inputs: a mixture of Gaussians, learned from rows with gaps and errors.

It says what to expect of an input that was not observed, given the others, and how much of a noisy one to believe. With
mean mu and covariance C of a component, and N the diagonal matrix of the error variances of the inputs observed,

    xhat = mu + K (x_obs - mu_obs),   K = C[:, obs] (C[obs, obs] + N)^-1,   Psi = C - K C[obs, :].

A missing input is one of infinite error, an exact one of none. The density is that of the true inputs: the fit takes
errors out (Bovy, Hogg & Roweis 2011).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gpzed._types import BoolArray, FloatArray, IntArray
from gpzed.errors import NumericalError
from gpzed.gp.basis import coefficients, quadratic_map
from gpzed.gp.initialize import clusters
from gpzed.gp.whitening import MIN_RELATIVE_VARIANCE, Moments

RIDGE = 1e-9
"""Added to unit variances where inputs may be exact, so that inputs which repeat each other do no harm."""
LOG_2PI = float(np.log(2.0 * np.pi))
MIN_GAIN = 0.02
"""Log-likelihood per held-out row that another component must bring."""
ROWS_PER_COMPONENT = 20
"""Rows per input that a component needs at least."""
TRIAL_ROWS = 4000
"""Rows by which the number of components is chosen, about."""
MAX_STEPS, MIN_CHANGE = 500, 1e-7
"""Of the fit of one Gaussian; see `Density.fit`."""
MIXTURE_STEPS, MIN_STEP_GAIN = 60, 1e-4
"""Of the fit of a mixture."""
MIN_VARIANCE = 1e-4
"""Part of the overall variances that every component of a mixture has at least: none may close in on a few rows."""


class Conditional(NamedTuple):
    """What is known of the inputs of n rows, given what was observed: a mixture of g Gaussians for each."""

    probabilities: FloatArray  # (n, g)
    means: FloatArray  # (n, g, d)
    covariances: FloatArray  # (n, g, d, d)


@dataclass(frozen=True)
class Density:
    """A mixture of g Gaussians."""

    weights: FloatArray  # (g,)
    means: FloatArray  # (g, d)
    covariances: FloatArray  # (g, d, d)

    @classmethod
    def gaussian(cls, mean: FloatArray, covariance: FloatArray) -> Density:
        """Make a density of one component."""
        return cls(np.ones(1), mean[None], covariance[None])

    @classmethod
    def fit(
        cls,
        rows: Observations,
        start: Density | None = None,
        *,
        max_steps: int = MAX_STEPS,
        min_change: float = MIN_CHANGE,
        min_gain: float = -np.inf,
        floor: FloatArray | float = 0.0,
        min_weight: float = 0.0,
        ridge: float = RIDGE,
    ) -> Density:
        """Fit a density to rows with gaps and errors, by expectation maximisation.

        Parameters
        ----------
        rows : Observations
        start : Density or None
            Where to start from, with as many components as are wanted; one Gaussian without correlations if None.
        max_steps, min_change, min_gain
            When to stop: after so many steps, when no element of the covariances changes by more (in units of the
            standard deviations), or when a step gains less log-likelihood per row.
        floor : ndarray of shape (d,), or float
            Added to the variances of every component in every step.
        min_weight : float
            Components whose rows together weigh no more than this are dropped.
        ridge : float
            Added to unit variances wherever the density is conditioned on rows.
        """
        density = rows.uncorrelated() if start is None else start
        before = -np.inf
        for _ in range(max_steps):
            updated, score = density._step(rows, floor, min_weight, ridge)
            has_settled = score - before < min_gain or density._change(updated) < min_change
            density, before = updated, score
            if has_settled:
                break
        return density

    def with_spare(self, other: Density) -> Density:
        """Add the components of another density with weight zero: no row is theirs unless it is given to them."""
        return Density(
            np.concatenate([self.weights, 0.0 * other.weights]),
            np.concatenate([self.means, other.means]),
            np.concatenate([self.covariances, other.covariances]),
        )

    @property
    def mean(self) -> FloatArray:
        """Mean of the mixture, (d,)."""
        return self.weights @ self.means

    @property
    def covariance(self) -> FloatArray:
        """Covariance of the mixture, (d, d)."""
        centred = self.means - self.mean
        return np.asarray(np.einsum("g,gab->ab", self.weights, self.covariances) + (centred.T * self.weights) @ centred)

    @property
    def scale(self) -> FloatArray:
        """Standard deviations of the mixture, 1 for constants, (d,)."""
        variance = np.diagonal(self.covariance)
        return np.sqrt(np.where(variance > 0.0, variance, 1.0))

    def condition(self, X: FloatArray, std: FloatArray | None = None) -> Conditional:
        """Condition on rows with errors `std` (n, d) of their own; NaN in X is an input that was not observed.

        A row does not depend on the rows that come with it, not by a bit.
        """
        seen = ~np.isnan(X).T[:, None]  # (d, 1, n)
        values = np.where(seen, X.T[:, None] - self.means.T[:, :, None], 0.0)  # (d, g, n)
        covariances = self.covariances.T[..., None]
        noise = np.zeros(seen.shape) if std is None else np.where(seen, std.T[:, None] ** 2, 0.0)
        offsets, Psi, residuals, log_det = _condition(covariances, seen, noise, values[:, None])
        logs = np.log(self.weights)[:, None] - 0.5 * (np.sum(residuals[:, 0] ** 2, axis=0) + log_det)
        return Conditional(normalise(logs)[0].T, self.means + offsets[:, 0].T, Psi.T)

    def regress(self, seen: BoolArray, noise: FloatArray | float = 0.0, ridge: float = RIDGE) -> Regressions:
        """Condition on the inputs `seen` (p, d) in each of p patterns, whatever their values, given error variances."""
        variance = np.diagonal(self.covariances, axis1=1, axis2=2)
        varies = variance > (MIN_RELATIVE_VARIANCE * self.means) ** 2  # more than rounding
        ridged = self.covariances + ridge * np.where(varies, variance, 1.0)[:, :, None] * np.eye(seen.shape[1])
        noise = np.broadcast_to(noise, seen.shape).T[:, None]
        values = np.eye(seen.shape[1])[:, :, None, None]
        slopes, Psi, residuals, log_det = _condition(ridged.T[..., None], seen.T[:, None], noise, values)
        maps = np.concatenate([slopes.T, residuals.T], axis=-1)
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.weights)
        constants = log_weights - 0.5 * (log_det.T + LOG_2PI * seen.sum(axis=1)[:, None])
        return Regressions(self.means, seen, maps, np.ascontiguousarray(Psi.T), constants)

    def fill(self, X: FloatArray) -> FloatArray:
        """Replace NaN by what one Gaussian expects there, given the other inputs of the row.

        Returns the same array where nothing is missing, else a copy. Sums run over inputs in a fixed order: a row does
        not depend on the rows that come with it, not by a bit.
        """
        missing = np.isnan(X)
        if not missing.any():
            return X
        touched = np.flatnonzero(missing.any(axis=1))
        filled, mean = X.copy(), self.mean
        patterns, which = np.unique(missing[touched], axis=0, return_inverse=True)
        slopes = self.regress(~patterns, ridge=0.0).slopes[:, 0]
        for index, lost in enumerate(patterns):
            rows = touched[which.ravel() == index]
            expected = np.tile(mean[lost], (len(rows), 1))
            for j in np.flatnonzero(~lost):
                expected += (X[rows, j] - mean[j])[:, None] * slopes[index, j, lost]
            filled[np.ix_(rows, lost)] = expected
        return filled

    def log_components(self, Xt: FloatArray, work: FloatArray | None = None) -> FloatArray:
        """Log density (g, n) of complete, exact rows, (d, n), under each component, weights included.

        The fast way, one product with the quadratic map, for which there may be `work` (q, n).
        """
        q = self.coefficients.shape[1]
        return self.coefficients @ quadratic_map(Xt, True, np.empty((q, Xt.shape[1])) if work is None else work)

    @cached_property
    def coefficients(self) -> FloatArray:
        """Of the log density of each component on the quadratic map, (g, q)."""
        Ct = coefficients(self.means, np.asarray(np.linalg.inv(self.covariances), dtype=np.float64)).T.copy()
        Ct[:, 0] += np.log(self.weights) - 0.5 * np.linalg.slogdet(2.0 * np.pi * self.covariances)[1]
        return Ct

    def _step(
        self, rows: Observations, floor: FloatArray | float, min_weight: float, ridge: float
    ) -> tuple[Density, float]:
        """One step of expectation maximisation; log-likelihood per row before it."""
        given = self.regress(rows.seen, rows.noise, ridge)
        logs, offsets = given.expect(rows.X, enumerate(rows.slices))
        share, total = normalise(logs)
        share *= rows.weight
        score = float(rows.weight @ total / rows.weight.sum())
        kept = share.sum(axis=1) > min_weight
        if not kept.any():
            raise NumericalError("inputs too large to fit their density to: squares overflow; rescale the inputs")
        share, offsets = share[kept], offsets[kept]
        weights = share.sum(axis=1)
        by_pattern = np.array([share[:, part].sum(axis=1) for part in rows.slices])
        shift = (share[:, None] @ offsets)[:, 0] / weights[:, None]
        second = np.swapaxes(offsets * share[:, :, None], 1, 2) @ offsets
        second += np.einsum("pg,pgab->gab", by_pattern, given.Psi[:, kept])
        covariances = second / weights[:, None, None] - shift[:, :, None] * shift[:, None, :]
        covariances += floor * np.eye(rows.X.shape[1])
        varies = np.diagonal(covariances, axis1=1, axis2=2) > 0.0  # else errors explain all, up to rounding
        covariances *= varies[:, :, None] & varies[:, None]
        return Density(weights / weights.sum(), self.means[kept] + shift, covariances), score

    def _change(self, updated: Density) -> float:
        """Largest change of an element of the covariances, in units of the standard deviations."""
        if len(self.weights) != len(updated.weights):
            return np.inf
        scale = np.sqrt(np.maximum(np.diagonal(updated.covariances, axis1=1, axis2=2), 1e-300))
        change = (updated.covariances - self.covariances) / (scale[:, :, None] * scale[:, None, :])
        return float(np.abs(change).max())


def _condition(
    covariance: FloatArray, seen: BoolArray, noise: FloatArray, values: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Condition Gaussians of zero mean on inputs observed with errors: one input after the other.

    Gaussians, and cases that differ in what was observed, come last in all arrays, such that NumPy runs along them:
    covariances (d, d, ...), inputs that were seen and variances of their errors (d, ...), and values (d, k, ...), all
    finite, which are numbers or linear functions of k others.

    Returned are the expected inputs (d, k, ...), their covariance, the residuals (d, k, ...) of every input from what
    those before it let expect (in units of its standard deviation; 0 if not observed), and the log determinant of the
    covariance of the inputs observed, errors included.
    """
    d, k = values.shape[:2]
    cases = np.broadcast_shapes(covariance.shape[2:], seen.shape[1:], noise.shape[1:])
    C = np.array(np.broadcast_to(covariance, (d, d, *cases)))
    expected, residuals = np.zeros((d, k, *cases)), np.empty((d, k, *cases))
    log_det = np.zeros(cases)
    for i in range(d):
        variance = C[i, i] + noise[i]
        is_used = seen[i] & (variance > 0.0)
        scale = np.sqrt(np.where(is_used, variance, np.inf))
        half = C[i] / scale
        residuals[i] = (values[i] - expected[i]) / scale
        expected += half[:, None] * residuals[i]
        C -= half[:, None] * half
        log_det += np.log(np.where(is_used, variance, 1.0))
    is_free = ~(seen & (noise == 0.0))  # what was seen without error stays as it was
    C *= is_free[:, None] & is_free
    return np.where(is_free[:, None], expected, values), C, residuals, log_det


def normalise(logs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Probabilities (g, n) from log densities of components, and the log density (n,) of their mixture."""
    top = logs.max(axis=0)
    is_lost = np.isneginf(top)
    if is_lost.any():  # infinitely far from all components: they count alike
        share, total = normalise(np.where(is_lost, 0.0, logs))
        return share, np.where(is_lost, -np.inf, total)
    share = np.exp(logs - top)
    total = share.sum(axis=0)
    return share / total, top + np.log(total)


@dataclass(frozen=True)
class Regressions:
    """What g Gaussians expect of rows in which the same inputs were observed, for p such patterns."""

    means: FloatArray  # (g, d)
    seen: BoolArray  # (p, d)
    # (p, g, d, 2 d) with x less the mean of a component on the left: the expected inputs less the mean, then the
    # residuals, scaled to unit variance. Rows of inputs that were not observed are zero
    maps: FloatArray
    Psi: FloatArray  # (p, g, d, d) covariance of the inputs
    constants: FloatArray  # (p, g) log density of rows without residuals, weights of the components included

    @property
    def slopes(self) -> FloatArray:
        """Slopes (p, g, d, d) of the expected inputs, those observed on the left."""
        return self.maps[..., : self.seen.shape[1]]

    def expect(self, X: FloatArray, parts: Iterable[tuple[int, slice]]) -> tuple[FloatArray, FloatArray]:
        """Log densities (g, n), weights included, and expected inputs less the means of the components, (g, n, d).

        `parts` say which rows have which pattern; any finite number in X stands for an input that was not observed.
        """
        (n, d), g = X.shape, len(self.means)
        logs, offsets = np.empty((g, n)), np.empty((g, n, d))
        for pattern, rows in parts:
            mapped = (X[rows] - self.means[:, None]) @ self.maps[pattern]
            offsets[:, rows], residuals = mapped[:, :, :d], mapped[:, :, d:]
            logs[:, rows] = self.constants[pattern][:, None] - 0.5 * np.einsum("gni,gni->gn", residuals, residuals)
        return logs, offsets


class Observations(NamedTuple):
    """Rows with gaps and errors, those with the same gaps and errors side by side."""

    X: FloatArray  # (n, d) zero where an input was not observed
    weight: FloatArray  # (n,)
    counts: IntArray  # (p,) rows of each pattern
    seen: BoolArray  # (p, d)
    noise: FloatArray  # (p, d) variances of the errors

    @classmethod
    def complete(cls, X: FloatArray) -> Observations:
        """Rows without gaps and errors."""
        n, d = X.shape
        return cls(X, np.ones(n), np.array([n]), np.ones((1, d), dtype=bool), np.zeros((1, d)))

    @classmethod
    def from_moments(cls, moments: Sequence[Moments], seen: BoolArray, noise: FloatArray) -> Observations:
        """Few rows with the same moments of the inputs seen as many, in each pattern: as good to fit a Gaussian to."""
        counts = 1 + 2 * seen.sum(axis=1)
        X, weight = np.zeros((counts.sum(), seen.shape[1])), np.empty(counts.sum())
        for part, rows, pattern in zip(moments, _slices(counts), seen, strict=True):
            values, weight[rows] = part.as_rows()
            X[rows, pattern] = values
        return cls(X, weight, counts, seen, noise)

    @property
    def slices(self) -> list[slice]:
        """Rows of each pattern."""
        return _slices(self.counts)

    def take(self, chosen: BoolArray) -> Observations:
        """Take some of the rows."""
        counts = np.array([np.count_nonzero(chosen[rows]) for rows in self.slices])
        return self._replace(X=self.X[chosen], weight=self.weight[chosen], counts=counts)

    def uncorrelated(self) -> Density:
        """Gaussian with the means and variances of every input by itself; an input never observed has 0 and 1."""
        weight = np.repeat(self.seen, self.counts, axis=0) * self.weight[:, None]
        total = np.maximum(weight.sum(axis=0), 1e-300)
        mean = np.sum(weight * self.X, axis=0) / total
        variance = np.sum(weight * (self.X - mean) ** 2, axis=0) / total
        return Density.gaussian(mean, np.diag(np.where(variance > 0.0, variance, 1.0)))


def _slices(counts: IntArray) -> list[slice]:
    return [slice(start, stop) for start, stop in pairwise([0, *np.cumsum(counts).tolist()])]


def choose_mixture(
    gaussian: Density, rows: Observations, candidates: tuple[int, ...], rng: np.random.Generator
) -> Density:
    """Fit the mixture that held-out rows find most likely; a larger one only if that gains something."""
    if len(candidates) == 1 and len(rows.X) >= candidates[0] * ROWS_PER_COMPONENT * rows.X.shape[1]:
        return fit_mixture(gaussian, rows, candidates[0], rng)
    tried = rng.random(len(rows.X)) < TRIAL_ROWS / len(rows.X)
    is_held = rng.random(len(rows.X)) < 0.2
    train, held = rows.take(tried & ~is_held), rows.take(tried & is_held)
    best, best_score = 1, -np.inf
    for size in candidates:
        if size > 1 and len(train.X) < size * ROWS_PER_COMPONENT * rows.X.shape[1]:
            continue
        density = fit_mixture(gaussian, train, size, rng)
        logs, _ = density.regress(held.seen, held.noise).expect(held.X, enumerate(held.slices))
        score = float(held.weight @ normalise(logs)[1]) / max(float(held.weight.sum()), 1e-300)
        if score > best_score + MIN_GAIN:
            best, best_score = size, score
    return fit_mixture(gaussian, rows, best, rng)


def fit_mixture(gaussian: Density, rows: Observations, n_components: int, rng: np.random.Generator) -> Density:
    """Fit a mixture that starts from clusters of the rows, filled in by one Gaussian."""
    if n_components == 1:
        return gaussian
    d, scale = rows.X.shape[1], np.sqrt(np.maximum(np.diagonal(gaussian.covariance), 1e-300))
    _, offsets = gaussian.regress(rows.seen, rows.noise).expect(rows.X, enumerate(rows.slices))
    X = (gaussian.mean + offsets[0]) / scale
    centres, label = clusters(X, X[rng.choice(len(X), n_components, replace=False)], 20)
    members = [label == g for g in range(n_components)]
    share = np.maximum(np.array([rows.weight[own].sum() for own in members]) / rows.weight.sum(), 1e-3)
    within = [np.cov(X[own].T, bias=True).reshape(d, d) if own.sum() > d else np.eye(d) for own in members]
    covariances = (np.stack(within) + 0.05 * np.eye(d)) * np.outer(scale, scale)
    start = Density(share / share.sum(), centres * scale, covariances)
    floor = MIN_VARIANCE * np.diagonal(gaussian.covariance)
    return Density.fit(rows, start, max_steps=MIXTURE_STEPS, min_change=0.0, min_gain=MIN_STEP_GAIN, floor=floor)
