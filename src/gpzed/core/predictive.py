"""Predictive mean, model variance and noise variance (Eq. 5.8-5.10), and samples of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpzed._types import FloatArray
from gpzed.core.engine import Block, Scratch, Sums, Team, block_rows
from gpzed.core.evidence import LOG_2PI, MAX_LOG_BETA, State, responses
from gpzed.core.fastmath import is_compiled, predict_block
from gpzed.core.linalg import triangular_product
from gpzed.core.posterior import Posterior


class Predictive(NamedTuple):
    """Moments of the predictive distribution, each of shape (n,)."""

    mean: FloatArray
    model_variance: FloatArray
    noise_variance: FloatArray


def _predict_block(block: Block, scratch: Scratch, state: State, posterior: Posterior) -> Predictive:
    if is_compiled():
        return Predictive(*predict_block(block.Xt, state.basis, scratch, posterior.w_mean, posterior.factor.whitener))
    _, Phi, log_beta = responses(block, scratch, state)
    V = triangular_product(posterior.factor.whitener, Phi, scratch.array("V", Phi.shape))
    nu = np.einsum("ij,ij->j", V, V)  # Eq. 3.13
    noise = np.exp(-np.clip(log_beta, -MAX_LOG_BETA, MAX_LOG_BETA))  # Eq. 5.10
    return Predictive(posterior.w_mean @ Phi, nu, noise)  # Eq. 5.8


def score(block: Block, scratch: Scratch, state: State, posterior: Posterior, shifts: FloatArray) -> Sums:
    """Kernel: log-likelihood of rows that did not enter the fit, had ``ln beta`` been shifted by each of `shifts`."""
    mean, nu, noise = _predict_block(block, scratch, state, posterior)
    variance = nu + np.exp(-shifts)[:, None] * noise  # Eq. 5.9, (s, n)
    log_likelihood = -0.5 * ((block.y - mean) ** 2 / variance + np.log(variance) + LOG_2PI)
    return (log_likelihood @ block.omega,)


def predict(X: FloatArray, state: State, posterior: Posterior, team: Team) -> Predictive:
    """Predict for rows in memory, block by block over the threads of `team`.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    state : State
    posterior : Posterior
    team : Team
    """
    posterior.factor.whitener  # noqa: B018  computed once, before the threads ask for it
    return predict_blocks(X, len(posterior.w_mean), team, _predict_block, state, posterior)


def predict_blocks(
    X: FloatArray, width: int, team: Team, kernel: Callable[..., Predictive], *arguments: Any
) -> Predictive:
    """Apply a kernel that gives moments to blocks of X, over the threads of `team`, and put the results together."""
    n = len(X)
    result = Predictive(np.empty(n), np.empty(n), np.empty(n))
    size = block_rows(width)

    def predict_rows(start: int) -> None:
        rows = slice(start, min(start + size, n))
        block = Block(X[rows].T, np.empty(0), np.empty(0))
        moments = kernel(block, Scratch(team.buffers()), *arguments)
        for target, values in zip(result, moments, strict=True):
            target[rows] = values

    team.map(predict_rows, range(0, n, size))
    return result


def sample_functions(
    X: FloatArray, state: State, posterior: Posterior, n_samples: int, rng: np.random.Generator
) -> FloatArray:
    """Draw functions from the posterior: weights w ~ N(w_mean, S^-1), values ``Phi w`` of shape (n, n_samples)."""
    epsilon = rng.standard_normal((len(posterior.w_mean), n_samples))
    w = posterior.w_mean[:, None] + posterior.factor.whitener.T @ epsilon
    block = Block(np.ascontiguousarray(X.T), np.empty(0), np.empty(0))
    _, Phi, _ = responses(block, Scratch(), state)
    return Phi.T @ w
