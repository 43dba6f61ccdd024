"""Predictive mean, model variance and noise variance (Eq. 5.8-5.10)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from gpzed._types import FloatArray, IntArray
from gpzed.compiled import substitute
from gpzed.engine.blocks import Block, Scratch, Sums, block_rows, by_blur
from gpzed.engine.threads import Team
from gpzed.gp.evidence import LOG_2PI, MAX_LOG_BETA
from gpzed.gp.labels import log_anywhere, log_likelihood, trust
from gpzed.gp.linalg import triangular_product
from gpzed.gp.parameters import Layout, Parameters
from gpzed.gp.posterior import Posterior
from gpzed.gp.state import State, responses
from gpzed.incomplete.spread import AddedVariance, BlurredRows, QuadraticForms

Record = TypeVar("Record", bound=tuple[FloatArray, ...])

MAX_SPREAD = 2.0
"""Variance of ln beta, over what an uncertain input may be, up to which its expectation follows a normal one."""


class Predictive(NamedTuple):
    """Moments of the predictive distribution, each of shape (n,)."""

    mean: FloatArray
    model_variance: FloatArray
    noise_variance: FloatArray
    input_variance: FloatArray


def predict(
    X: FloatArray,
    state: State,
    posterior: Posterior,
    team: Team,
    blur: IntArray | None = None,
    spreads: Sequence[AddedVariance] = (),
) -> Predictive:
    """Predict for rows X (n, d) in memory, block by block over the threads of `team`.

    `blur` (n,) says how the inputs of each row are uncertain, and `spreads` (forms of `variance_forms`) what those of
    blur 1, 2, ... add to the variance.
    """
    posterior.factor.whitener  # noqa: B018  computed once, before the threads ask for it

    def predict_rows(rows: slice | IntArray, blur: int) -> Predictive:
        return predict_block(Block.of_inputs(X[rows], blur), Scratch(team.buffers()), state, posterior, spreads)

    return by_rows(Predictive, (len(X),), len(posterior.w_mean), team, predict_rows, blur)


def predict_block(
    block: Block, scratch: Scratch, state: State, posterior: Posterior, spreads: Sequence[AddedVariance] = ()
) -> Predictive:
    """Predict for a block; with `spreads` uncertain inputs add what these say, else the variance the block carries."""
    mean, nu, noise = substitute(moments)(block, scratch, state, posterior)
    added = np.zeros_like(nu) if block.v is None else block.v
    if spreads and block.blur != 0:
        added, nu_added, spread = spreads[block.blur - 1](block.Xt, scratch)
        nu, noise = nu + nu_added, expected_noise(noise, spread)
    return Predictive(mean, nu, noise, added)


def moments(
    block: Block, scratch: Scratch, state: State, posterior: Posterior
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return mean, model variance and noise variance of a block."""
    _, Phi, log_beta = responses(block, scratch, state)
    return moments_of(Phi, log_beta, posterior, scratch.array("V", Phi.shape))


def moments_of(
    Phi: FloatArray, log_beta: FloatArray, posterior: Posterior, work: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return mean, model variance and noise variance from basis functions (M, n)."""
    V = triangular_product(posterior.factor.whitener, Phi, work)
    nu = np.einsum("ij,ij->j", V, V)  # Eq. 3.13
    noise = np.exp(-np.clip(log_beta, -MAX_LOG_BETA, MAX_LOG_BETA))  # Eq. 5.10
    return posterior.w_mean @ Phi, nu, noise  # Eq. 5.8


def predict_noisy(
    X: FloatArray, V: FloatArray, state: State, posterior: Posterior, team: Team, noisy: BlurredRows
) -> Predictive:
    """Predict for rows with uncertainties ``V V'`` of their own; `noisy` has forms of `variance_forms`."""
    posterior.factor.whitener  # noqa: B018  computed once, before the threads ask for it

    def predict_rows(rows: slice | IntArray, _: int) -> Predictive:
        Phi, (added, nu_added, spread) = noisy(X[rows].T, V[rows], Scratch(team.buffers()))
        log_beta = state.u @ Phi[: len(state.u)] + state.b
        mean, nu, noise = moments_of(Phi, log_beta, posterior, np.empty_like(Phi))
        return Predictive(mean, nu + nu_added, expected_noise(noise, spread), added)

    return by_rows(Predictive, (len(X),), len(posterior.w_mean), team, predict_rows)


def by_rows(
    record: type[Record],
    shape: tuple[int, ...],
    width: int,
    team: Team,
    values_of: Callable[[slice | IntArray, int], Sequence[FloatArray]],
    blur: IntArray | None = None,
) -> Record:
    """Fill a record of arrays over rows (first axis) with what is computed for rows of one blur (last axis)."""
    result = record(*np.empty((len(record.__annotations__), *shape)))

    def fill(rows: slice | IntArray, blur: int) -> None:
        for target, values in zip(result, values_of(rows, blur), strict=True):
            target[rows] = values.T

    team.map_rows(fill, shape[0], blur, block_rows(width))
    return result


def score(block: Block, scratch: Scratch, state: State, posterior: Posterior, shifts: FloatArray) -> Sums:
    """Kernel: log-likelihood of rows that did not enter the fit, had ``ln beta`` been shifted by each of `shifts`."""
    mean, nu, noise, added = predict_block(block, scratch, state, posterior)
    variance = nu + added + np.exp(-shifts)[:, None] * noise  # Eq. 5.9, (s, n)
    density = -0.5 * ((block.y - mean) ** 2 / variance + np.log(variance) + LOG_2PI)
    wrong = None if block.labels is None else block.labels.wrong
    return (log_likelihood(density, log_anywhere(block.y), wrong) @ block.omega,)


def trust_in_labels(block: Block, scratch: Scratch, state: State, posterior: Posterior) -> FloatArray | None:
    """Return the probability that each target of a block is right; None where none may be wrong."""
    if block.labels is None or block.labels.wrong is None:
        return None
    mean, nu, noise, added = predict_block(block, scratch, state, posterior)
    variance = nu + added + noise
    density = -0.5 * ((block.y - mean) ** 2 / variance + np.log(variance) + LOG_2PI)
    return trust(density, log_anywhere(block.y), block.labels.wrong)


def expected_noise(noise: FloatArray, spread: FloatArray) -> FloatArray:
    """Return ``E[1 / beta]`` where uncertain inputs give ``ln beta`` a variance, with which it is taken as normal."""
    return np.asarray(noise * np.exp(0.5 * np.minimum(spread, MAX_SPREAD)))


def variance_forms(parameters: Parameters, layout: Layout, posterior: Posterior) -> QuadraticForms:
    """Return forms of what uncertain inputs add.

    ``w' Cov[phi] w`` to the variance, ``trace(S^-1 Cov[phi])`` to nu, and ``u' Cov[phi] u``, the variance of ln beta.
    """
    w, u = posterior.w_mean, np.zeros(layout.n_weights)
    u[: layout.m] = parameters.u
    Lambda = layout.structure.expand(parameters.Gamma, layout.d)
    return QuadraticForms(parameters.P, Lambda, np.stack([np.outer(w, w), posterior.factor.inverse, np.outer(u, u)]))


def responses_of(X: FloatArray, state: State, blur: IntArray | None = None) -> FloatArray:
    """Return the basis functions at whitened inputs, (n, n_weights)."""
    groups = [np.arange(len(X))] if blur is None else by_blur(blur, len(X))
    Phi = np.empty((len(X), state.n_weights))
    for rows in groups:
        block = Block.of_inputs(X[rows], 0 if blur is None else int(blur[rows[0]]))
        Phi[rows] = responses(block, Scratch(), state)[1].T
    return Phi
