"""Density of the inputs, a mixture of few Gaussians, learned from rows with missing and noisy inputs.

It says what to expect of an input that was not observed, given the others, and how much of a noisy one to believe. Row
by row, inputs are *seen* or not, and those seen may have a Gaussian error: with covariance C, and N the diagonal matrix
of the error variances of the inputs seen,

    xhat = mu + K (x_seen - mu_seen),   K = C[:, seen] (C[seen, seen] + N)^-1,   Psi = C - K C[seen, :].

A missing input is one of infinite error, an exact one of none. The density is that of the true inputs: errors are taken
out in the fit (Bovy, Hogg & Roweis 2011).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.cluster.vq import kmeans2
from scipy.linalg import solve_triangular

from gpzed._types import BoolArray, FloatArray

RIDGE = 1e-9
"""Added to unit variances, so that inputs which repeat each other do no harm."""
MAX_STEPS, TOLERANCE = 500, 1e-7
"""Of the iterations for one Gaussian: they stop when no element of the correlation changes by more."""
MIXTURE_STEPS, MIN_STEP = 60, 1e-4
"""Of the iterations for a mixture: they stop when the log-likelihood per row grows by less."""
MIN_GAIN = 0.02
"""Log-likelihood per held-out row that another component must bring."""
ROWS_PER_COMPONENT = 20
"""Rows per input that a component needs at least."""


class Group(NamedTuple):
    """Rows in which the same inputs are seen, with the same error variances.

    Attributes
    ----------
    seen : ndarray of bool of shape (d,)
    noise : ndarray of shape (d,)
        Error variances; those of inputs that are not seen have no meaning.
    rows : ndarray of shape (n, e)
        The inputs seen.
    weight : ndarray of shape (n,)
    """

    seen: BoolArray
    noise: FloatArray
    rows: FloatArray
    weight: FloatArray


class GroupMoments(NamedTuple):
    """A group by its moments alone, which suffice for one Gaussian; `scatter` is about `mean`, of the inputs seen."""

    seen: BoolArray
    noise: FloatArray
    weight: float
    mean: FloatArray
    scatter: FloatArray


@dataclass(frozen=True)
class Density:
    """A mixture of Gaussians.

    Attributes
    ----------
    weights : ndarray of shape (g,)
    means : ndarray of shape (g, d)
    covariances : ndarray of shape (g, d, d)
    """

    weights: FloatArray
    means: FloatArray
    covariances: FloatArray

    @property
    def mean(self) -> FloatArray:
        """Mean of the mixture, (d,)."""
        return self.weights @ self.means

    @property
    def covariance(self) -> FloatArray:
        """Covariance of the mixture, (d, d)."""
        centred = self.means - self.mean
        return np.asarray(np.einsum("g,gab->ab", self.weights, self.covariances) + (centred.T * self.weights) @ centred)

    def conditional(self, component: int, seen: BoolArray, noise: FloatArray) -> Conditional:
        """Condition one component on the inputs seen."""
        return condition(self.means[component], self.covariances[component], seen, noise)

    def responsibilities(self, rows: FloatArray, seen: BoolArray, noise: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Probability of each component given the inputs seen, (n, g), and the log density of these, (n,)."""
        parts = [
            np.log(weight) + log_density(rows, mean, covariance, seen, noise)
            for weight, mean, covariance in zip(self.weights, self.means, self.covariances, strict=True)
        ]
        logs = np.stack(parts, axis=1)
        top = logs.max(axis=1, keepdims=True)
        total = top[:, 0] + np.log(np.exp(logs - top).sum(axis=1))
        return np.exp(logs - total[:, None]), total


class Conditional(NamedTuple):
    """``xhat = mean + gain (x_seen - mean_seen)`` with covariance `Psi`."""

    mean: FloatArray
    gain: FloatArray  # (d, e)
    Psi: FloatArray  # (d, d)
    seen: BoolArray

    def expect(self, rows: FloatArray) -> FloatArray:
        """Give the expected inputs (n, d) of rows (n, e) of inputs seen."""
        return self.mean + (rows - self.mean[self.seen]) @ self.gain.T


def condition(mean: FloatArray, covariance: FloatArray, seen: BoolArray, noise: FloatArray) -> Conditional:
    """Condition a Gaussian on some inputs, seen with errors of variance `noise`."""
    index = np.flatnonzero(seen)
    d = len(mean)
    if not len(index):
        return Conditional(mean, np.zeros((d, 0)), covariance, seen)
    scale, C = _scaled(covariance)
    S = C[np.ix_(index, index)] + np.diag(noise[index] / scale[index] ** 2)
    gain = np.linalg.solve(S, C[index]).T
    Psi = C - gain @ C[index]
    exact = index[noise[index] == 0.0]
    gain[exact] = np.eye(d)[exact][:, index]  # what was seen without error stays as it was
    Psi[exact], Psi[:, exact] = 0.0, 0.0
    Psi = 0.5 * (Psi + Psi.T)
    return Conditional(mean, gain * scale[:, None] / scale[index], Psi * np.outer(scale, scale), seen)


def log_density(
    rows: FloatArray, mean: FloatArray, covariance: FloatArray, seen: BoolArray, noise: FloatArray
) -> FloatArray:
    """Log density of the inputs seen under a Gaussian, errors included, (n,)."""
    index = np.flatnonzero(seen)
    if not len(index):
        return np.zeros(len(rows))
    scale, C = _scaled(covariance)
    L = np.linalg.cholesky(C[np.ix_(index, index)] + np.diag(noise[index] / scale[index] ** 2))
    half = solve_triangular(L, ((rows - mean[index]) / scale[index]).T, lower=True)
    log_det = 2.0 * (np.log(np.diagonal(L)).sum() + np.log(scale[index]).sum())
    return np.asarray(-0.5 * (np.einsum("ij,ij->j", half, half) + log_det + len(index) * np.log(2.0 * np.pi)))


def _scaled(covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Split into standard deviations (1 for constants) and the correlation, with a ridge."""
    variance = np.diagonal(covariance)
    scale = np.sqrt(np.where(variance > 0.0, variance, 1.0))
    return scale, covariance / np.outer(scale, scale) + RIDGE * np.eye(len(scale))


def factor(Psi: FloatArray, scale: FloatArray) -> FloatArray:
    """``V`` (d, r) with ``Psi = V V'``, directions without variance left out (one is kept at least)."""
    variance, directions = np.linalg.eigh(Psi / np.outer(scale, scale))
    kept = variance > 1e-12
    kept[-1] = True
    return np.asarray(scale[:, None] * directions[:, kept] * np.sqrt(np.maximum(variance[kept], 0.0)))


def fit_gaussian(groups: list[GroupMoments], d: int) -> Density:
    """Fit one Gaussian, by expectation and maximisation on the moments of groups of rows.

    Rows without errors or gaps alone give their mean and covariance at once. An input that no row has seen is left at
    zero mean and unit variance.
    """
    mean, variance = np.zeros(d), np.ones(d)
    for i in range(d):
        parts = [(g.weight, g.mean[g.seen[:i].sum()], g.scatter, g.seen[:i].sum()) for g in groups if g.seen[i]]
        weight = sum(part[0] for part in parts)
        if weight > 0.0:
            mean[i] = sum(w * m for w, m, _, _ in parts) / weight
            square = sum(scatter[k, k] + w * (m - mean[i]) ** 2 for w, m, scatter, k in parts) / weight
            variance[i] = square if square > 0.0 else 1.0
    if len(groups) == 1 and groups[0].seen.all() and not groups[0].noise.any():
        return Density(np.ones(1), groups[0].mean[None], (groups[0].scatter / groups[0].weight)[None])
    covariance, total = np.diag(variance), sum(group.weight for group in groups)
    for _ in range(MAX_STEPS):
        first, second = np.zeros(d), np.zeros((d, d))
        for group in groups:
            given = condition(mean, covariance, group.seen, group.noise)
            centre = given.expect(group.mean[None])[0] - mean
            first += group.weight * centre
            second += given.gain @ group.scatter @ given.gain.T
            second += group.weight * (np.outer(centre, centre) + given.Psi)
        shift = first / total
        updated = second / total - np.outer(shift, shift)
        scale = np.sqrt(np.maximum(np.diagonal(updated), 1e-300))
        change = float(np.abs((updated - covariance) / np.outer(scale, scale)).max())
        mean, covariance = mean + shift, updated
        if change < TOLERANCE:
            break
    return Density(np.ones(1), mean[None], covariance[None])


def fit_mixture(start: Density, groups: list[Group], n_components: int, rng: np.random.Generator) -> Density:
    """Fit a mixture of `n_components` by expectation and maximisation on rows, starting from one Gaussian."""
    if n_components == 1:
        return start
    overall, d = start.covariance, len(start.mean)
    scale = np.sqrt(np.maximum(np.diagonal(overall), 1e-300))
    filled = [start.conditional(0, group.seen, group.noise).expect(group.rows) for group in groups]
    weight = np.concatenate([group.weight for group in groups])
    X = np.concatenate(filled) / scale
    centres, label = kmeans2(X, X[rng.choice(len(X), n_components, replace=False)], iter=20, minit="matrix")
    share = np.array([weight[label == g].sum() for g in range(n_components)]) / weight.sum()
    share = np.maximum(share, 1e-3)
    within = np.stack(
        [
            np.cov(X[label == g].T, bias=True).reshape(d, d) if (label == g).sum() > d else np.eye(d)
            for g in range(n_components)
        ]
    )
    density = Density(share / share.sum(), centres * scale, (within + 0.05 * np.eye(d)) * np.outer(scale, scale))
    stack, before = Stack(groups), -np.inf
    for _ in range(MIXTURE_STEPS):
        density, score = stack.step(density, overall)
        if score - before < MIN_STEP:
            break
        before = score
    return density


class Stack:
    """Groups of rows in one, so that a step costs little for each group: zeros stand where inputs are not seen."""

    def __init__(self, groups: list[Group]) -> None:
        groups = [group for group in groups if len(group.rows)]
        self.seen = np.array([group.seen for group in groups])
        self.noise = np.where(self.seen, np.array([group.noise for group in groups]), 0.0)
        ends = np.cumsum([len(group.rows) for group in groups])
        self.slices = [slice(end - len(group.rows), end) for end, group in zip(ends, groups, strict=True)]
        self.weight = np.concatenate([group.weight for group in groups])
        self.X = np.zeros((len(self.weight), self.seen.shape[1]))
        for rows, group in zip(self.slices, groups, strict=True):
            self.X[rows, group.seen] = group.rows

    def condition(self, mean: FloatArray, covariance: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Log density (n,) under a Gaussian, expected inputs less the mean (n, d), and Psi (groups, d, d)."""
        scale, C = _scaled(covariance)
        masks, d = self.seen.astype(np.float64), len(mean)
        S = C * masks[:, :, None] * masks[:, None, :]  # with 1 on the diagonal where nothing is seen
        diagonal = np.arange(d)
        S[:, diagonal, diagonal] += np.where(self.seen, self.noise / scale**2, 1.0)
        L_inverse = np.linalg.inv(np.linalg.cholesky(S)) * masks[:, :, None]
        gain_half = C @ np.swapaxes(L_inverse, 1, 2)  # gain = gain_half L_inverse
        Psi = (C - gain_half @ np.swapaxes(gain_half, 1, 2)) * np.outer(scale, scale)
        log_det = -2.0 * np.log(np.where(self.seen, np.diagonal(L_inverse, axis1=1, axis2=2), 1.0)).sum(axis=1)
        log_det += 2.0 * (masks @ np.log(scale)) + masks.sum(axis=1) * np.log(2.0 * np.pi)
        half = (self.X - mean) / scale
        log, expected = np.empty(len(half)), np.empty_like(half)
        for index, rows in enumerate(self.slices):
            part = (half[rows] * masks[index]) @ L_inverse[index].T
            log[rows] = -0.5 * (np.einsum("ij,ij->i", part, part) + log_det[index])
            expected[rows] = part @ gain_half[index].T
        return log, expected * scale, Psi

    def step(self, density: Density, overall: FloatArray) -> tuple[Density, float]:
        """One step of expectation and maximisation; log-likelihood per row before it."""
        parts = [self.condition(mean, C) for mean, C in zip(density.means, density.covariances, strict=True)]
        logs = np.log(density.weights) + np.stack([part[0] for part in parts], axis=1)
        top = logs.max(axis=1, keepdims=True)
        sums = np.exp(logs - top).sum(axis=1)
        share = np.exp(logs - top) / sums[:, None] * self.weight[:, None]
        total = np.maximum(share.sum(axis=0), 1e-300)
        by_group = np.array([share[rows].sum(axis=0) for rows in self.slices])
        means, covariances = np.empty_like(density.means), np.empty_like(density.covariances)
        for g, (_, centred, Psi) in enumerate(parts):
            shift = share[:, g] @ centred / total[g]
            second = (centred * share[:, g, None]).T @ centred + np.einsum("p,pab->ab", by_group[:, g], Psi)
            means[g] = density.means[g] + shift
            covariances[g] = second / total[g] - np.outer(shift, shift)
        covariances += 1e-4 * np.diag(np.diagonal(overall))  # no component may close in on a few rows
        score = float(self.weight @ (top[:, 0] + np.log(sums)) / self.weight.sum())
        return Density(total / total.sum(), means, covariances), score


def choose_mixture(
    start: Density, groups: list[Group], candidates: tuple[int, ...], rng: np.random.Generator
) -> Density:
    """Fit the mixture that rows held out find most likely; a larger one only if that gains something."""
    train, held = [], []
    for group in groups:
        is_held = rng.random(len(group.rows)) < 0.2
        train.append(group._replace(rows=group.rows[~is_held], weight=group.weight[~is_held]))
        held.append(group._replace(rows=group.rows[is_held], weight=group.weight[is_held]))
    weight = sum(float(group.weight.sum()) for group in held)
    n, d = sum(len(group.rows) for group in train), len(start.mean)
    best, best_score = 1, -np.inf
    for size in candidates:
        if size > 1 and n < size * ROWS_PER_COMPONENT * d:
            continue
        density = fit_mixture(start, train, size, rng)
        logs = [density.responsibilities(group.rows, group.seen, group.noise)[1] for group in held]
        score = sum(float(group.weight @ log) for group, log in zip(held, logs, strict=True))
        if score / max(weight, 1e-300) > best_score + MIN_GAIN:
            best, best_score = size, score / max(weight, 1e-300)
    return fit_mixture(start, groups, best, rng)
