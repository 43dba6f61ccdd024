"""Mixture densities on the basis functions of GPz: K heads, each with its own mean, noise and gate.

    p(y|x) = sum_k pi_k(x) N(y; phi w_k, 1 / beta_k),    ln beta_k = phi u_k,    pi = softmax(phi v_k),

where phi holds the basis functions and, after them, the columns ``[1, x]`` of a linear function. One Gaussian for each
object cannot be both sharp and right where a redshift has two possible values; K of them can. All 3 K outputs of a row
are linear in phi, so that the gradient has the form of the model with one head: ``dL/dTheta = Phi' H`` and, through
``G = (H Theta') o Phi``, ``dL/dC = Z' G``.

The heads are found by maximising the posterior density, not the evidence: given the share ``r_ik`` that head k has in
row i, the weights of its mean have the Gaussian posterior of Eq. 5.3 with ``B_ik = r_ik beta_ik``, from which the model
variance of each component follows as for the model with one head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpzed._types import FloatArray, IntArray
from gpzed.compiled.fastmath import heads_block, mixture_block
from gpzed.engine.threads import Block, Engine, Scratch, Sums, Team, block_rows, by_kind
from gpzed.gp.basis import pull_back
from gpzed.gp.evidence import LOG_2PI, State, make_state, pulled_back, responses
from gpzed.gp.linalg import Factor, cholesky
from gpzed.gp.parameters import Layout, Parameters
from gpzed.gp.predictive import slices
from gpzed.gp.prior import shape_prior
from gpzed.incomplete.blur import Kind, Spread
from gpzed.incomplete.noisy import NoisyRows

LOG_BETA_RANGE = -8.0, 25.0
"""Of the target in units of its own scatter: from noise of 55 times that scatter to noise of a 270,000th of it."""
MEAN_FUNCTION_PRECISION = 1e-2
"""Prior precision of the columns of the mean function, which are not penalised otherwise."""


@dataclass(frozen=True)
class Heads:
    """Basis functions and the heads on them, or a gradient for both.

    Attributes
    ----------
    P : ndarray of shape (m, d)
    Gamma : ndarray, shape by structure
    Theta : ndarray of shape (m + k, 3 K)
        Weights of the K means, then of the K log noise precisions, then of the K gates.
    """

    P: FloatArray
    Gamma: FloatArray
    Theta: FloatArray

    @property
    def K(self) -> int:
        """Number of heads."""
        return int(self.Theta.shape[1]) // 3

    def pack(self) -> FloatArray:
        """All numbers in one vector."""
        return np.concatenate([np.ravel(self.P), np.ravel(self.Gamma), np.ravel(self.Theta)])

    def unpack(self, theta: FloatArray) -> Heads:
        """Inverse of `pack`, in the shapes of these heads."""
        parts = np.split(theta, np.cumsum([self.P.size, self.Gamma.size]))
        shapes = self.P.shape, self.Gamma.shape, self.Theta.shape
        return Heads(*(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)))

    def state(self, layout: Layout, kinds: Sequence[Kind] = ()) -> State:
        """Prepare the basis functions for the kernels."""
        m = layout.m
        parameters = Parameters(self.P, self.Gamma, np.zeros(m), 0.0, np.zeros(layout.n_weights), np.zeros(m))
        return make_state(parameters, layout, kinds=kinds)

    def with_noise_shift(self, shift: float, m: int) -> Heads:
        """Return the same heads with a constant added to every ``ln beta``."""
        Theta = self.Theta.copy()
        Theta[m, self.K : 2 * self.K] += shift
        return Heads(self.P, self.Gamma, Theta)


class Outputs(NamedTuple):
    """What the heads say of n rows, each of shape (K, n)."""

    mean: FloatArray
    log_beta: FloatArray
    log_pi: FloatArray


def head_outputs(Theta: FloatArray, Phi: FloatArray) -> Outputs:
    """Means, log noise precisions and log weights of the components."""
    mean, log_beta, gate = np.split(Theta.T @ Phi, 3)
    return Outputs(mean, np.clip(log_beta, *LOG_BETA_RANGE), gate - _log_sum_exp(gate))


def _log_sum_exp(terms: FloatArray) -> FloatArray:
    top = terms.max(axis=0)
    return np.asarray(top + np.log(np.exp(terms - top).sum(axis=0)))


def log_density(
    outputs: Outputs, y: FloatArray, variance: FloatArray | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log density of every row, (n,), the shares ``r`` of the heads in it, and their precisions, (K, n).

    `variance` is added to that of the noise.
    """
    precision = np.exp(outputs.log_beta)
    if variance is not None:
        precision = precision / (1.0 + precision * variance)
    terms = outputs.log_pi + 0.5 * (np.log(precision) - precision * (y - outputs.mean) ** 2 - LOG_2PI)
    total = _log_sum_exp(terms)
    return total, np.exp(terms - total), precision


def likelihood(block: Block, scratch: Scratch, state: State, Theta: FloatArray) -> Sums:
    """Kernel: ``Z' G``, ``Phi' H`` and the log-likelihood of a block; see `pulled_back` for uncertain inputs."""
    if state.is_compiled:
        basis = state.of(block.kind).basis
        sums = heads_block(block.Xt, block.y, block.omega, basis, Theta, scratch, v=block.v)
        return pulled_back(sums, block, state)
    m = len(state.u)
    Zt, Phi, _ = responses(block, scratch, state)
    outputs = head_outputs(Theta, Phi)
    total, share, precision = log_density(outputs, block.y, block.v)
    residual = block.y - outputs.mean
    H = np.concatenate(
        [
            share * precision * residual,
            0.5 * share * (1.0 - precision * residual**2) * precision * np.exp(-outputs.log_beta),
            share - np.exp(outputs.log_pi),
        ]
    )
    H *= block.omega
    G = (Theta[:m] @ H) * Phi[:m]
    return pulled_back((Zt @ G.T, Phi @ H.T, np.asarray(total @ block.omega)), block, state)


def held_out_likelihood(block: Block, scratch: Scratch, state: State, Theta: FloatArray) -> Sums:
    """Kernel: the log-likelihood of a block alone."""
    if state.is_compiled:
        basis = state.of(block.kind).basis
        rows = (block.Xt, block.y, block.omega)
        return heads_block(*rows, basis, Theta, scratch, v=block.v, has_gradient=False)[2:]
    outputs = head_outputs(Theta, responses(block, scratch, state)[1])
    return (np.asarray(log_density(outputs, block.y, block.v)[0] @ block.omega),)


def log_posterior(
    sums: Sums, heads: Heads, layout: Layout, *, kappa: float, ridge: float, share: float = 1.0
) -> tuple[float, Heads]:
    """Log-likelihood of some rows with their `share` of the log prior, and its gradient.

    Parameters
    ----------
    sums : Sums
        Of the kernel `likelihood`.
    heads : Heads
    layout : Layout
    kappa : float
        Strength of the prior on shapes (see `gpzed.gp.prior`).
    ridge : float
        Prior precision of the weights of the basis functions in all heads.
    share : float
        Part of the training rows that the sums are over.
    """
    grad_C, grad_Theta, total, *pulled = sums
    structure = layout.structure
    grad_P, grad_Lambda = pull_back(grad_C, heads.P, structure.expand(heads.Gamma, layout.d))
    if pulled:
        grad_P, grad_Lambda = grad_P + pulled[0], grad_Lambda + pulled[1]
    value, grad_shape = shape_prior(heads.Gamma, layout, kappa * share)
    penalty = np.zeros_like(heads.Theta)
    penalty[: layout.m] = ridge * share * heads.Theta[: layout.m]
    gradient = Heads(grad_P, structure.fold(heads.Gamma, grad_Lambda) + grad_shape, grad_Theta - penalty)
    return float(total) + value - 0.5 * float(np.sum(penalty * heads.Theta)), gradient


def start_heads(
    parameters: Parameters, y: FloatArray, K: int, layout: Layout, rng: np.random.Generator, *, scatter: bool = False
) -> Heads:
    """Heads that divide the range of the target among them, on given basis functions.

    Each is in the middle of its part, or with `scatter` anywhere in it.
    """
    Theta = np.zeros((layout.n_weights, 3 * K))
    Theta[: layout.m] = 0.01 * rng.standard_normal((layout.m, 3 * K))
    Theta[layout.m, :K] = np.quantile(y, (np.arange(K) + (rng.random(K) if scatter else 0.5)) / K)
    Theta[layout.m, K : 2 * K] = 2.0 * np.log(K)
    return Heads(parameters.P.copy(), parameters.Gamma.copy(), Theta)


def head_precisions(block: Block, scratch: Scratch, state: State, Theta: FloatArray) -> Sums:
    """Kernel: ``Phi' B_k Phi`` of every head, (K, M, M), with ``B_k = r_k beta_k``."""
    Phi = responses(block, scratch, state)[1]
    outputs = head_outputs(Theta, Phi)
    _, share, precision = log_density(outputs, block.y, block.v)
    B = share * precision * block.omega
    return (np.stack([(Phi * row) @ Phi.T for row in B]),)


def fit_head_posteriors(engine: Engine, heads: Heads, layout: Layout, kinds: Sequence[Kind] = ()) -> tuple[Factor, ...]:
    """Factors of the posterior precisions ``S_k`` of the weights of every head's mean.

    The prior precision of each head is that of greatest evidence (Eq. 3.9), the weights being what they are.
    """
    (PhiT_B_Phi,) = engine.sum(head_precisions, heads.state(layout, kinds), heads.Theta)
    m, factors = layout.m, []
    for matrix, w in zip(PhiT_B_Phi, heads.Theta.T[: heads.K], strict=True):
        alpha = 1.0
        for _ in range(20):
            prior = np.concatenate([np.full(m, alpha), np.full(layout.k, MEAN_FUNCTION_PRECISION)])
            factor = cholesky(matrix + np.diag(prior))
            effective = m - alpha * float(factor.inverse_diagonal[:m].sum())
            alpha = float(np.clip(effective / max(float(w[:m] @ w[:m]), 1e-12), 1e-6, 1e6))
        factors.append(factor)
    return tuple(factors)


class Components(NamedTuple):
    """Predicted mixtures, each of shape (n, K)."""

    weights: FloatArray
    means: FloatArray
    model_variances: FloatArray
    noise_variances: FloatArray
    input_variances: FloatArray


def _predict_block(
    block: Block,
    scratch: Scratch,
    state: State,
    Theta: FloatArray,
    factors: tuple[Factor, ...],
    spreads: Sequence[Spread] = (),
) -> Components:
    """Moments of a block; with `spreads` those that uncertain inputs add, else what a refresh left in the block."""
    if state.is_compiled:
        whiteners = np.stack([factor.whitener for factor in factors])
        pi, mean, nu, noise = mixture_block(block.Xt, state.of(block.kind).basis, Theta, whiteners, scratch)
    else:
        pi, mean, nu, noise = _moments(responses(block, scratch, state)[1], Theta, factors)
    added = np.zeros_like(nu) if block.v is None else block.v
    if spreads and block.kind != 0:
        added, nu_added = np.split(spreads[block.kind - 1](block.Xt, scratch), 2)
        nu = nu + nu_added
    return Components(pi, mean, nu, noise, added)


def _moments(
    Phi: FloatArray, Theta: FloatArray, factors: tuple[Factor, ...]
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Weights, means, model variances and noise variances of the heads from basis functions, (K, n) each."""
    mean, log_beta, log_pi = head_outputs(Theta, Phi)
    nu = np.stack([np.square(factor.whitener @ Phi).sum(axis=0) for factor in factors])  # Eq. 3.13
    return np.exp(log_pi), mean, nu, np.exp(-log_beta)


def score(
    block: Block,
    scratch: Scratch,
    state: State,
    Theta: FloatArray,
    factors: tuple[Factor, ...],
    offsets: FloatArray,
    shifts: FloatArray,
) -> Sums:
    """Kernel: log-likelihood of rows held out, had every ``ln beta`` been shifted by each of `shifts`.

    `offsets` (kinds, K) are added to it in rows of each kind (`gpzed.incomplete.offsets`).
    """
    weights, means, nu, noise, added = _predict_block(block, scratch, state, Theta, factors)
    with np.errstate(divide="ignore"):
        outputs = Outputs(means, offsets[block.kind, :, None] - np.log(noise), np.log(weights))
    shifted = (outputs._replace(log_beta=outputs.log_beta + shift) for shift in shifts)
    totals = [log_density(at, block.y, nu + added)[0] for at in shifted]
    return (np.stack(totals) @ block.omega,)


def predict_mixture(
    X: FloatArray,
    heads: Heads,
    factors: tuple[Factor, ...],
    layout: Layout,
    team: Team,
    kind: IntArray | None = None,
    kinds: Sequence[Kind] = (),
    spreads: Sequence[Spread] = (),
) -> Components:
    """Predict for rows in memory, block by block over the threads of `team`.

    Rows of `kinds` 1, 2, ... have uncertain inputs; `spreads` say what these add to the variance of the K heads, and
    then to each model variance.
    """
    n, K = len(X), heads.K
    result = Components(*(np.empty((n, K)) for _ in Components._fields))
    state, size = heads.state(layout, kinds), block_rows(layout.n_weights)
    for factor in factors:
        factor.whitener  # noqa: B018  computed once, before the threads ask for it
    groups: list[Any] = slices(n, size)
    if kind is not None and kind.any():
        groups = list(by_kind(kind, size))

    def predict_rows(rows: slice | IntArray) -> None:
        block = Block(np.ascontiguousarray(X[rows].T), np.empty(0), np.empty(0))
        if isinstance(rows, np.ndarray) and kind is not None:
            block.kind = int(kind[rows[0]])
        parts = _predict_block(block, Scratch(team.buffers()), state, heads.Theta, factors, spreads)
        for target, values in zip(result, parts, strict=True):
            target[rows] = values.T

    team.map(predict_rows, groups)
    return result


def predict_noisy(
    X: FloatArray,
    V: FloatArray,
    heads: Heads,
    factors: tuple[Factor, ...],
    team: Team,
    noisy: NoisyRows,
) -> Components:
    """Predict for rows with uncertainties ``V V'`` of their own.

    The forms of `noisy` are those of the K heads, and then of each model variance.
    """
    result = Components(*(np.empty((len(X), heads.K)) for _ in Components._fields))

    def predict_rows(rows: slice) -> None:
        Phi, total = noisy(X[rows].T, V[rows], Scratch(team.buffers()))
        pi, mean, nu, noise = _moments(Phi, heads.Theta, factors)
        added, nu_added = np.split(total, 2)
        for target, values in zip(result, (pi, mean, nu + nu_added, noise, added), strict=True):
            target[rows] = values.T

    for factor in factors:
        factor.whitener  # noqa: B018  computed once, before the threads ask for it
    team.map(predict_rows, slices(len(X), block_rows(len(heads.Theta))))
    return result
