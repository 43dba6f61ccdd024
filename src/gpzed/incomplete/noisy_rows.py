"""What is behind rows with errors: for each row by itself, the components of the density of the inputs given it."""

from __future__ import annotations

import numpy as np

from gpzed._types import AnyArray, FloatArray
from gpzed.incomplete.density import Density
from gpzed.incomplete.kinds import MAX_SHARERS, MIN_SHARE, Expanded, InputModel
from gpzed.model.whitening import Whitening

ROWS = 2048
"""Rows that are conditioned at once."""
JITTER = 1e-10
"""Added to the covariance of whitened inputs, so that it has a factor."""


def expand_noisy(X: FloatArray, X_std: FloatArray, inputs: InputModel, whitening: Whitening) -> Expanded:
    """Give rows with errors (and gaps, where X is NaN) their expected inputs and covariances.

    The most likely components of the density stand for themselves, and all others of a row for one Gaussian with their
    mean and covariance: no variance is lost, whatever their number.
    """
    assert inputs.noise is not None
    std = np.maximum(np.where(np.isnan(X), 0.0, X_std), inputs.noise.floor)
    parts = [
        _expand_some(X[start : start + ROWS], std[start : start + ROWS], inputs.density, whitening, start)
        for start in range(0, len(X), ROWS)
    ]
    if not parts:
        return Expanded(whitening(X))
    X_hat, row, rank, share, V = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Expanded(X_hat, None, row, rank, share, V)


def _expand_some(
    X: FloatArray, std: FloatArray, density: Density, whitening: Whitening, first: int
) -> tuple[AnyArray, ...]:
    share, mean, Psi = merge(*condition_rows(X, std, density), MAX_SHARERS)
    share[share < MIN_SHARE] = 0.0
    share /= share.sum(axis=1, keepdims=True)
    rank, index = np.nonzero(share.T)
    W = whitening.matrix
    Psi = np.swapaxes(W, 0, 1) @ Psi[index, rank] @ W
    V = np.linalg.cholesky(0.5 * (Psi + np.swapaxes(Psi, 1, 2)) + JITTER * np.eye(len(W)))
    return whitening(mean[index, rank]), first + index, rank, share[index, rank], V


def condition_rows(X: FloatArray, std: FloatArray, density: Density) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Probabilities (n, g), means (n, g, d) and covariances (n, g, d, d) of the components given each row."""
    (n, d), g = X.shape, len(density.weights)
    seen = ~np.isnan(X)
    log, mean, Psi = np.empty((n, g)), np.empty((n, g, d)), np.empty((n, g, d, d))
    for c, (weight, centre, C) in enumerate(zip(density.weights, density.means, density.covariances, strict=True)):
        scale = np.sqrt(np.where(np.diagonal(C) > 0.0, np.diagonal(C), 1.0))
        cross = np.where(seen[:, :, None], C / np.outer(scale, scale), 0.0)  # (n, seen, d)
        S = np.where(seen[:, None, :], cross, 0.0)
        S += np.where(seen, (std / scale) ** 2, 1.0)[:, :, None] * np.eye(d)
        off = np.where(seen, (X - centre) / scale, 0.0)[:, :, None]
        solved = np.linalg.solve(S, np.concatenate([cross, off], axis=2))
        gain, weights = np.swapaxes(solved[:, :, :d], 1, 2), solved[:, :, d:]
        mean[:, c] = centre + scale * (np.swapaxes(cross, 1, 2) @ weights)[:, :, 0]
        Psi[:, c] = C - np.outer(scale, scale) * (gain @ cross)
        square = (np.swapaxes(off, 1, 2) @ weights)[:, 0, 0]
        log[:, c] = (
            np.log(weight) - 0.5 * (square + np.linalg.slogdet(S)[1]) - np.where(seen, np.log(scale), 0.0).sum(1)
        )
    share = np.exp(log - log.max(axis=1, keepdims=True))
    return share / share.sum(axis=1, keepdims=True), mean, Psi


def merge(share: FloatArray, mean: FloatArray, Psi: FloatArray, size: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Put all but the `size` - 1 most likely components of each row together; the most likely ones come first."""
    order = np.argsort(-share, axis=1, kind="stable")
    share = np.take_along_axis(share, order, axis=1)
    mean, Psi = np.take_along_axis(mean, order[:, :, None], axis=1), np.take_along_axis(Psi, order[:, :, None, None], 1)
    if share.shape[1] <= size:
        return share, mean, Psi
    rest = share[:, size - 1 :]
    total = rest.sum(axis=1)
    part = rest / np.maximum(total, 1e-300)[:, None]
    centre = np.einsum("ng,nga->na", part, mean[:, size - 1 :])
    off = mean[:, size - 1 :] - centre[:, None]
    within = np.einsum("ng,ngab->nab", part, Psi[:, size - 1 :]) + np.einsum("ng,nga,ngb->nab", part, off, off)
    kept = slice(size - 1)
    return (
        np.concatenate([share[:, kept], total[:, None]], axis=1),
        np.concatenate([mean[:, kept], centre[:, None]], axis=1),
        np.concatenate([Psi[:, kept], within[:, None]], axis=1),
    )
