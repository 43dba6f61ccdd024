"""The log evidence (Eq. 5.6) as a sum of named terms, and its exact gradient (Eq. C.6-C.18).

Two passes over the rows, each a pure function of a block:

- `forward` gives the sums ``Phi' B Phi``, ``Phi' B y`` and ``sum ln B`` from which the posterior follows;
- `backward` gives the misfit and the gradient ``dL/dC = Z' G``.

Both work with ``Psi = B^1/2 Phi`` (features first), which turns ``Phi' B Phi`` into a symmetric product. The sign of
the residual is prediction minus truth, ``delta = Phi w - y``.

Rows with uncertain inputs (a missing band, noisy photometry) enter with expected basis functions (`BlurredBasis`:
another C for every blur) and with the variance v_i that the uncertainty adds, ``B_i = omega_i / (1/beta_i + v_i)``; v
is a given of the objective, set from time to time (`gpzed.incomplete.givens`), so that value and gradient
belong together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from gpzed._types import FloatArray
from gpzed.engine.blocks import Block, Engine, Scratch, Summing, Sums
from gpzed.errors import NumericalError
from gpzed.gp.parameters import Layout, Parameters
from gpzed.gp.posterior import Posterior, weight_posterior
from gpzed.gp.state import State, make_state, pulled_back, responses
from gpzed.incomplete.blur import Blur

LOG_2PI = float(np.log(2.0 * np.pi))
MAX_LOG_BETA = 100.0
"""Noise precisions beyond exp(+-100) are a diverged step of the optimiser, not a model of data."""


def evaluate(
    engine: Engine,
    parameters: Parameters,
    layout: Layout,
    weighted_precision: bool = False,
    blurs: Sequence[Blur] = (),
) -> Evaluation:
    """Return the log evidence and its gradient for every parameter.

    With `weighted_precision` the weights of rows are the paper's, ``B = beta omega`` throughout. By default they
    multiply the log-likelihood of a row instead, so that ``ln B`` becomes ``omega ln beta``: the noise then stays
    calibrated. Inputs of rows with blur 1, 2, ... are uncertain as `blurs` say.
    """
    passes = engine.passes()
    state, posterior, log_det_B = fit_posterior(passes, parameters, layout, weighted_precision, blurs)
    grad_C, PhiT_g, sum_g, misfit, *pulled = passes.sum(backward, state, posterior)
    w, u = posterior.w_mean, parameters.u
    alpha, eta = layout.expand_alpha(parameters.log_alpha), np.exp(parameters.log_eta)
    heteroscedastic = float(layout.heteroscedastic)
    evidence = LogEvidence(
        misfit=-0.5 * float(misfit),
        log_noise=0.5 * log_det_B,
        normalisation=-0.5 * LOG_2PI * (engine.n if weighted_precision else engine.sum_omega),
        weight_penalty=-0.5 * float(w @ (alpha * w)),
        weight_prior=0.5 * float(np.sum(np.log(alpha))),
        occam=-0.5 * posterior.factor.log_det,
        noise_penalty=-0.5 * heteroscedastic * float(u @ (eta * u)),
        noise_prior=0.5 * heteroscedastic * float(parameters.log_eta.sum()),
        noise_normalisation=-0.5 * heteroscedastic * layout.m * LOG_2PI,
    )
    grad_P, grad_Gamma = layout.structure.pull_back(grad_C, parameters.P, parameters.Gamma, pulled)  # Eq. C.12, C.13
    grad_log_alpha = 0.5 - 0.5 * alpha * w**2 - 0.5 * alpha * posterior.factor.inverse_diagonal
    gradient = Parameters(
        P=grad_P,
        Gamma=grad_Gamma,
        u=PhiT_g - eta * u,  # Eq. C.8
        b=float(sum_g),  # Eq. C.9
        log_alpha=layout.fold_alpha(grad_log_alpha),  # cf. Eq. C.11, terms in d w_mean cancel
        log_eta=0.5 - 0.5 * eta * u**2,  # Eq. C.10
    )
    return Evaluation(evidence, gradient, posterior, state)


def fit_posterior(
    rows: Summing,
    parameters: Parameters,
    layout: Layout,
    weighted_precision: bool = False,
    blurs: Sequence[Blur] = (),
) -> tuple[State, Posterior, float]:
    """Run the first pass alone: state, posterior of the weights, and ``ln |B|``."""
    state = make_state(parameters, layout, weighted_precision, blurs)
    PhiT_B_Phi, PhiT_B_y, log_det_B = rows.sum(forward, state)
    posterior = weight_posterior(PhiT_B_Phi, PhiT_B_y, layout.expand_alpha(parameters.log_alpha))  # Eq. 5.3, 5.4
    return state, posterior, float(log_det_B)


def forward(block: Block, scratch: Scratch, state: State) -> Sums:
    """First pass: ``Phi' B Phi``, ``Phi' B y`` and the log-determinant of B (or its weighted form)."""
    _, Psi, sqrt_B, log_beta = scaled_responses(block, scratch, state)
    log_det_B = np.sum(log_beta + np.log(block.omega)) if state.weighted_precision else block.omega @ log_beta
    return Psi @ Psi.T, Psi @ (sqrt_B * block.y), np.asarray(log_det_B)


def backward(block: Block, scratch: Scratch, state: State, posterior: Posterior) -> Sums:
    """Second pass: ``Z' G``, ``Phi' g``, ``sum g`` and ``delta' B delta``, and see `pulled_back`.

    ``g = dL/d ln beta`` is Eq. C.6 and ``G = dL/d ln Phi`` Eq. C.7.
    """
    m, u, w = len(state.u), state.u, posterior.w_mean
    Zt, Psi, sqrt_B = recalled_responses(block, scratch, state)
    T = posterior.factor.solve_block(Psi, scratch.array("T", Psi.shape))  # S^-1 Psi
    B_nu = np.einsum("ij,ij->j", T, Psi)  # Eq. 3.13 times B
    sqrt_B_delta = w @ Psi - sqrt_B * block.y
    c = 1.0 if state.weighted_precision else block.omega  # of ln beta in the log-likelihood
    g_scaled = 0.5 * (c - sqrt_B_delta**2 - B_nu) / sqrt_B  # Eq. C.6, B^-1/2 g
    if block.v is not None:  # d ln B / d ln beta = (1/beta) / (1/beta + v)
        g_scaled *= 1.0 - block.v * sqrt_B**2 / block.omega
    G = (np.outer(u, g_scaled) - np.outer(w[:m], sqrt_B_delta) - T[:m]) * Psi[:m]  # Eq. C.7
    G = state.basis_of(block.blur).chain(G, Psi[:m], sqrt_B)
    sums = Zt @ G.T, Psi[:m] @ g_scaled, np.asarray(g_scaled @ sqrt_B), np.asarray(sqrt_B_delta @ sqrt_B_delta)
    return pulled_back(sums, block, state)


def scaled_responses(
    block: Block, scratch: Scratch, state: State
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return ``Zt``, ``Psi = B^1/2 Phi``, ``B^1/2`` and ``ln B / omega``; the two in the middle are kept."""
    kept = scratch.array_to_keep("Psi", (state.n_weights + 1, block.Xt.shape[1]))
    Zt, Phi, log_beta = responses(block, scratch, state, kept[:-1])
    if not np.all(np.abs(log_beta) < MAX_LOG_BETA):  # also catches NaN
        raise noise_out_of_bounds()
    if block.v is not None:
        log_beta = log_beta - np.log1p(block.v * np.exp(log_beta))  # 1 / (1/beta + v)
    sqrt_B = kept[-1]
    np.sqrt(np.exp(log_beta) * block.omega, out=sqrt_B)  # B = beta omega
    return Zt, np.multiply(Phi, sqrt_B, out=Phi), sqrt_B, log_beta


def recalled_responses(block: Block, scratch: Scratch, state: State) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return ``Zt``, ``Psi`` and ``B^1/2``: what the first pass kept, or computed again."""
    kept = scratch.recall((state.n_weights + 1, block.Xt.shape[1]))
    if kept is None:
        return scaled_responses(block, scratch, state)[:3]
    basis = state.basis_of(block.blur)
    Zt = basis.map(block.Xt, scratch.array("Z", (basis.Ct.shape[1], block.Xt.shape[1])))
    return Zt, kept[:-1], kept[-1]


def noise_out_of_bounds() -> NumericalError:
    """Say that a noise precision has diverged."""
    return NumericalError(f"noise precision is outside exp(+-{MAX_LOG_BETA:g}) or is not a number.")


@dataclass(frozen=True)
class LogEvidence:
    """The terms of Eq. 5.6; `total` is their sum."""

    misfit: float  # -1/2 delta' B delta
    log_noise: float  # 1/2 ln |B|
    normalisation: float  # -n/2 ln 2 pi
    weight_penalty: float  # -1/2 w' A w
    weight_prior: float  # 1/2 ln |A|
    occam: float  # -1/2 ln |S|
    noise_penalty: float  # -1/2 u' N u
    noise_prior: float  # 1/2 ln |N|
    noise_normalisation: float  # -m/2 ln 2 pi

    @property
    def log_marginal_likelihood(self) -> float:
        """Eq. 5.5: the terms without the prior on u."""
        return self.total - self.noise_penalty - self.noise_prior - self.noise_normalisation

    @property
    def total(self) -> float:
        """Eq. 5.6."""
        return float(sum(getattr(self, field.name) for field in fields(self)))


@dataclass(frozen=True)
class Evaluation:
    """Everything one evaluation of the evidence gives."""

    evidence: LogEvidence
    gradient: Parameters
    posterior: Posterior
    state: State
