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
from typing import NamedTuple

import numpy as np

from gpzed._types import FloatArray
from gpzed.compiled import substitute
from gpzed.engine.blocks import Block, Engine, Scratch, Sums, add
from gpzed.gp import labels
from gpzed.gp.evidence import LOG_2PI
from gpzed.gp.linalg import Factor, cholesky
from gpzed.gp.parameters import Layout
from gpzed.gp.state import State, pulled_back, responses
from gpzed.incomplete.blur import Blur
from gpzed.mixture.heads import Heads

LOG_BETA_RANGE = -8.0, 25.0
"""Of the target in units of its own scatter: from noise of 55 times that scatter to noise of a 270,000th of it."""
MEAN_FUNCTION_PRECISION = 1e-2
"""Prior precision of the columns of the mean function, which are not penalised otherwise."""


def likelihood(block: Block, scratch: Scratch, state: State, Theta: FloatArray) -> Sums:
    """Kernel: ``Z' G``, ``Phi' H`` and the log-likelihood of a block; see `pulled_back` for uncertain inputs."""
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
    outputs = head_outputs(Theta, responses(block, scratch, state)[1])
    wrong = None if block.labels is None else block.labels.wrong
    total = labels.log_likelihood(log_density(outputs, block.y, block.v)[0], labels.log_anywhere(block.y), wrong)
    return (np.asarray(total @ block.omega),)


def trust_in_labels(block: Block, scratch: Scratch, state: State, Theta: FloatArray) -> FloatArray | None:
    """Return the probability that each target of a block is right; None where none may be wrong."""
    if block.labels is None or block.labels.wrong is None:
        return None
    outputs = head_outputs(Theta, responses(block, scratch, state)[1])
    density = log_density(outputs, block.y, block.v)[0]
    return labels.trust(density, labels.log_anywhere(block.y), block.labels.wrong)


def log_posterior(sums: Sums, heads: Heads, layout: Layout, *, kappa: float, ridge: float) -> tuple[float, Heads]:
    """Return the log-likelihood of some rows, of which `likelihood` gave the sums, with the log prior; its gradient.

    kappa is the strength of the prior on shapes (`gpzed.gp.prior`), and `ridge` the prior precision of the weights of
    the basis functions in all heads.
    """
    grad_C, grad_Theta, total, *pulled = sums
    grad_P, grad_Gamma = layout.structure.pull_back(grad_C, heads.P, heads.Gamma, pulled)
    value, prior_P, prior_Gamma = layout.structure.log_prior(heads.P, heads.Gamma, kappa)
    penalty = np.zeros_like(heads.Theta)
    penalty[: layout.m] = ridge * heads.Theta[: layout.m]
    gradient = Heads(grad_P + prior_P, grad_Gamma + prior_Gamma, grad_Theta - penalty)
    return float(total) + value - 0.5 * float(np.sum(penalty * heads.Theta)), gradient


def batch_posterior(
    blocks: Sequence[Block],
    scratch: Scratch,
    heads: Heads,
    layout: Layout,
    blurs: Sequence[Blur],
    kappa: float,
    ridge: float,
) -> tuple[float, FloatArray]:
    """Return the `log_posterior` of a batch of rows and its gradient, packed; the priors have the batch's share."""
    state = heads.state(layout, blurs)
    sums: Sums | None = None
    for block in blocks:
        sums = add(sums, substitute(likelihood)(block, scratch, state, heads.Theta))
    assert sums is not None
    value, gradient = log_posterior(sums, heads, layout, kappa=kappa, ridge=ridge)
    return value, gradient.pack()


class Outputs(NamedTuple):
    """What the heads say of n rows, each of shape (K, n)."""

    mean: FloatArray
    log_beta: FloatArray
    log_pi: FloatArray


def head_outputs(Theta: FloatArray, Phi: FloatArray) -> Outputs:
    """Return means, log noise precisions and log weights of the components."""
    mean, log_beta, gate = np.split(Theta.T @ Phi, 3)
    return Outputs(mean, np.clip(log_beta, *LOG_BETA_RANGE), gate - _log_sum_exp(gate))


def _log_sum_exp(terms: FloatArray) -> FloatArray:
    top = terms.max(axis=0)
    return np.asarray(top + np.log(np.exp(terms - top).sum(axis=0)))


def log_density(
    outputs: Outputs, y: FloatArray, variance: FloatArray | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the log density of every row, (n,), the shares ``r`` of the heads in it, and their precisions, (K, n).

    `variance` is added to that of the noise.
    """
    precision = np.exp(outputs.log_beta)
    if variance is not None:
        precision = precision / (1.0 + precision * variance)
    terms = outputs.log_pi + 0.5 * (np.log(precision) - precision * (y - outputs.mean) ** 2 - LOG_2PI)
    total = _log_sum_exp(terms)
    return total, np.exp(terms - total), precision


def moments(
    block: Block, scratch: Scratch, state: State, Theta: FloatArray, factors: Sequence[Factor]
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return weights, means, model variances and noise variances of the heads for a block, (K, n) each."""
    return moments_of(responses(block, scratch, state)[1], Theta, factors)


def moments_of(
    Phi: FloatArray, Theta: FloatArray, factors: Sequence[Factor]
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the same from basis functions (M, n)."""
    mean, log_beta, log_pi = head_outputs(Theta, Phi)
    nu = np.stack([np.square(factor.whitener @ Phi).sum(axis=0) for factor in factors])  # Eq. 3.13
    return np.exp(log_pi), mean, nu, np.exp(-log_beta)


def head_precisions(block: Block, scratch: Scratch, state: State, Theta: FloatArray) -> Sums:
    """Kernel: ``Phi' B_k Phi`` of every head, (K, M, M), with ``B_k = r_k beta_k``."""
    Phi = responses(block, scratch, state)[1]
    outputs = head_outputs(Theta, Phi)
    _, share, precision = log_density(outputs, block.y, block.v)
    B = share * precision * block.omega
    return (np.stack([(Phi * row) @ Phi.T for row in B]),)


def fit_head_posteriors(engine: Engine, heads: Heads, layout: Layout, blurs: Sequence[Blur] = ()) -> tuple[Factor, ...]:
    """Return factors of the posterior precisions ``S_k`` of the weights of every head's mean.

    The prior precision of each head is that of greatest evidence (Eq. 3.9), the weights being what they are.
    """
    (PhiT_B_Phi,) = engine.sum(head_precisions, heads.state(layout, blurs), heads.Theta)
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
