"""Predictive mean, model variance and noise variance (Eq. 5.8-5.10), and samples of functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpzed._types import FloatArray, IntArray
from gpzed.compiled.fastmath import predict_block
from gpzed.engine.threads import Block, Scratch, Sums, Team, block_rows, by_kind
from gpzed.gp.evidence import LOG_2PI, MAX_LOG_BETA, State, responses
from gpzed.gp.linalg import triangular_product
from gpzed.gp.parameters import Layout, Parameters
from gpzed.gp.posterior import Posterior
from gpzed.incomplete.blur import Forms, Spread
from gpzed.incomplete.noisy import NoisyRows


class Predictive(NamedTuple):
    """Moments of the predictive distribution, each of shape (n,)."""

    mean: FloatArray
    model_variance: FloatArray
    noise_variance: FloatArray
    input_variance: FloatArray


def _predict_block(
    block: Block, scratch: Scratch, state: State, posterior: Posterior, spreads: Sequence[Spread] = ()
) -> Predictive:
    """Moments of a block; with `spreads` those that uncertain inputs add, else what a refresh left in the block."""
    if state.is_compiled:
        basis = state.of(block.kind).basis
        mean, nu, noise = predict_block(block.Xt, basis, scratch, posterior.w_mean, posterior.factor.whitener)
    else:
        _, Phi, log_beta = responses(block, scratch, state)
        mean, nu, noise = _moments(Phi, log_beta, posterior, scratch)
    added = np.zeros_like(nu) if block.v is None else block.v
    if spreads and block.kind != 0:
        added, nu_added = spreads[block.kind - 1](block.Xt, scratch)
        nu = nu + nu_added
    return Predictive(mean, nu, noise, added)


def variance_forms(parameters: Parameters, layout: Layout, posterior: Posterior) -> Forms:
    """Forms for what uncertain inputs add to the variance: ``w' Cov[phi] w``, and ``trace(S^-1 Cov[phi])`` to nu."""
    w = posterior.w_mean
    Lambda = layout.structure.expand(parameters.Gamma, layout.d)
    return Forms(parameters.P, Lambda, np.stack([np.outer(w, w), posterior.factor.inverse]))


def score(block: Block, scratch: Scratch, state: State, posterior: Posterior, shifts: FloatArray) -> Sums:
    """Kernel: log-likelihood of rows that did not enter the fit, had ``ln beta`` been shifted by each of `shifts`."""
    mean, nu, noise, added = _predict_block(block, scratch, state, posterior)
    variance = nu + added + np.exp(-shifts)[:, None] * noise  # Eq. 5.9, (s, n)
    log_likelihood = -0.5 * ((block.y - mean) ** 2 / variance + np.log(variance) + LOG_2PI)
    return (log_likelihood @ block.omega,)


def predict(
    X: FloatArray,
    state: State,
    posterior: Posterior,
    team: Team,
    kind: IntArray | None = None,
    spreads: Sequence[Spread] = (),
) -> Predictive:
    """Predict for rows in memory, block by block over the threads of `team`.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    state : State
    posterior : Posterior
    team : Team
    kind : ndarray of int of shape (n,), or None
        How the inputs of each row are uncertain; 0 (not at all) if None.
    spreads : sequence of Spread
        What uncertain inputs of kind 1, 2, ... add to the variance: forms of `variance_forms`.
    """
    posterior.factor.whitener  # noqa: B018  computed once, before the threads ask for it
    return predict_blocks(X, len(posterior.w_mean), team, _predict_block, state, posterior, spreads, kind=kind)


def predict_noisy(
    X: FloatArray, V: FloatArray, state: State, posterior: Posterior, team: Team, noisy: NoisyRows
) -> Predictive:
    """Predict for rows with uncertainties ``V V'`` of their own; `noisy` has forms of `variance_forms`."""
    result = Predictive(*(np.empty(len(X)) for _ in Predictive._fields))

    def predict_rows(rows: slice) -> None:
        Phi, (added, nu_added) = noisy(X[rows].T, V[rows], Scratch(team.buffers()))
        moments = _moments(Phi, state.u @ Phi[: len(state.u)] + state.b, posterior, Scratch())
        for target, values in zip(result, (*moments[:1], moments[1] + nu_added, moments[2], added), strict=True):
            target[rows] = values

    posterior.factor.whitener  # noqa: B018  computed once, before the threads ask for it
    team.map(predict_rows, slices(len(X), block_rows(len(posterior.w_mean))))
    return result


def _moments(
    Phi: FloatArray, log_beta: FloatArray, posterior: Posterior, scratch: Scratch
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean, model variance and noise variance from basis functions."""
    V = triangular_product(posterior.factor.whitener, Phi, scratch.array("V", Phi.shape))
    nu = np.einsum("ij,ij->j", V, V)  # Eq. 3.13
    noise = np.exp(-np.clip(log_beta, -MAX_LOG_BETA, MAX_LOG_BETA))  # Eq. 5.10
    return posterior.w_mean @ Phi, nu, noise  # Eq. 5.8


def slices(n: int, size: int) -> list[slice]:
    """Cut n rows into blocks."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def predict_blocks(
    X: FloatArray,
    width: int,
    team: Team,
    kernel: Callable[..., Predictive],
    *arguments: Any,
    kind: IntArray | None = None,
) -> Predictive:
    """Apply a kernel that gives moments to blocks of X, over the threads of `team`, and put the results together."""
    n = len(X)
    result = Predictive(np.empty(n), np.empty(n), np.empty(n), np.empty(n))
    size = block_rows(width)

    def predict_rows(rows: slice | IntArray) -> None:
        block = Block(X[rows].T, np.empty(0), np.empty(0))
        if isinstance(rows, np.ndarray) and kind is not None:
            block.kind = int(kind[rows[0]])
        moments = kernel(block, Scratch(team.buffers()), *arguments)
        for target, values in zip(result, moments, strict=True):
            target[rows] = values

    if kind is None or not kind.any():
        team.map(predict_rows, slices(n, size))
    else:
        team.map(predict_rows, by_kind(kind, size))
    return result


def sample_functions(
    X: FloatArray,
    state: State,
    posterior: Posterior,
    n_samples: int,
    rng: np.random.Generator,
    kind: IntArray | None = None,
) -> FloatArray:
    """Draw functions from the posterior: weights w ~ N(w_mean, S^-1), values ``Phi w`` of shape (n, n_samples)."""
    epsilon = rng.standard_normal((len(posterior.w_mean), n_samples))
    w = posterior.w_mean[:, None] + posterior.factor.whitener.T @ epsilon
    values = np.empty((len(X), n_samples))
    groups = [np.arange(len(X))] if kind is None else by_kind(kind, len(X))
    for rows in groups:
        number = 0 if kind is None else int(kind[rows[0]])
        block = Block(np.ascontiguousarray(X[rows].T), np.empty(0), np.empty(0), kind=number)
        _, Phi, _ = responses(block, Scratch(), state)
        values[rows] = Phi.T @ w
    return values
