"""The log evidence (Eq. 5.6) as a sum of named terms, and its exact gradient (Eq. C.6-C.18).

Two passes over the rows, each a pure function of a block:

- `forward` gives the sums ``Phi' B Phi``, ``Phi' B y`` and ``sum ln B`` from which the posterior follows;
- `backward` gives the misfit and the gradient ``dL/dC = Z' G``.

Both work with ``Psi = B^1/2 Phi`` (features first), which turns ``Phi' B Phi`` into a symmetric product. The
sign of the residual is prediction minus truth, ``delta = Phi w - y``. Where the compiled functions of
`compiled/fastmath.py` are at hand they do the same in one call per block.

Rows with uncertain inputs (a missing band, noisy photometry) enter with expected basis functions (`uncertain.Blur`:
another C for every kind of row) and with the variance v_i that the uncertainty adds, ``B_i = omega_i / (1/beta_i +
v_i)``; v is a given of the objective, refreshed from time to time (`gpzed.incomplete.refresh`), so that value and
gradient belong together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from gpzed._types import FloatArray
from gpzed.compiled.fastmath import (
    Basis,
    backward_block,
    backward_terms,
    forward_block,
    is_compiled,
    is_fused,
    kept_size,
    respond,
    responses_block,
)
from gpzed.engine.threads import Block, Engine, Scratch, Sums
from gpzed.errors import NumericalError
from gpzed.gp.basis import fold_coefficients, log_sigmoid, make_coefficients, quadratic_map
from gpzed.gp.linalg import triangular_product
from gpzed.gp.parameters import Layout, Parameters
from gpzed.gp.posterior import Posterior, weight_posterior
from gpzed.incomplete.blur import Blur, Kind

LOG_2PI = float(np.log(2.0 * np.pi))
MAX_LOG_BETA = 100.0
"""Noise precisions beyond exp(+-100) are a diverged step of the optimiser, not a model of data."""


@dataclass(frozen=True)
class State:
    """What the kernels need to know of the parameters: made once per evaluation, sent to every block."""

    Ct: FloatArray  # (m, q)
    u: FloatArray  # (m,)
    b: float
    k: int
    is_full: bool
    weighted_precision: bool
    blurs: tuple[Blur, ...] = ()  # basis functions as seen by rows of kind 1, 2, ...
    is_sigmoid: bool = False

    def of(self, kind: int) -> State:
        """Return the state as rows of one kind see it."""
        return self if kind == 0 else replace(self, Ct=self.blurs[kind - 1].Ct, is_full=True)

    @property
    def basis(self) -> Basis:
        """The part that describes the basis functions."""
        return Basis(self.Ct, self.is_full, self.u, self.b, self.k)

    @property
    def is_compiled(self) -> bool:
        """Whether the compiled functions on whole blocks can be used; they know no sigmoids."""
        return is_compiled() and not self.is_sigmoid

    @property
    def is_fused(self) -> bool:
        """Whether a pass is to be one compiled call per block."""
        return is_fused(len(self.u) + self.k) and not self.is_sigmoid


def make_state(
    parameters: Parameters, layout: Layout, weighted_precision: bool = False, kinds: Sequence[Kind] = ()
) -> State:
    """Prepare the parameters for the kernels."""
    structure = layout.structure
    Ct = np.ascontiguousarray(make_coefficients(structure, parameters.P, parameters.Gamma).T)
    blurs = tuple(Blur(parameters.P, structure.expand(parameters.Gamma, layout.d), kind.V) for kind in kinds)
    u = np.ascontiguousarray(parameters.u)
    options = (structure.is_full, weighted_precision, blurs, structure.is_sigmoid)
    return State(Ct, u, parameters.b, layout.k, *options)


def responses(
    block: Block, scratch: Scratch, state: State, out: FloatArray | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Basis responses of a block, with the columns of the mean function below them, in the memory `out` if given.

    Returns
    -------
    Zt : ndarray of shape (q, n)
    Phi : ndarray of shape (m + k, n)
        Eq. 3.2, features first; expected values where inputs are uncertain.
    log_beta : ndarray of shape (n,)
        Eq. 5.10.
    """
    state = state.of(block.kind)
    m, q = state.Ct.shape
    n = block.Xt.shape[1]
    Zt = quadratic_map(block.Xt, state.is_full, scratch.array("Z", (q, n)))
    Phi = scratch.array("Phi", (m + state.k, n)) if out is None else out
    if state.is_compiled and Phi.flags.c_contiguous:
        return Zt, *responses_block(block.Xt, state.basis, scratch, Phi)
    np.matmul(state.Ct, Zt, out=Phi[:m])
    if state.is_sigmoid:
        log_sigmoid(Phi[:m])  # appendix B
    log_beta = respond(Phi[:m], state.u, state.b)  # Eq. 3.2 and 5.10
    Phi[m:] = Zt[: state.k]
    return Zt, Phi, log_beta


def _scaled_responses(
    block: Block, scratch: Scratch, state: State
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """``Zt``, ``Psi = B^1/2 Phi``, ``B^1/2``, ``ln B / omega``; two of them stay in `scratch.kept` if it is there."""
    M, n = len(state.u) + state.k, block.Xt.shape[1]
    kept = _kept(scratch, state, n)
    Zt, Phi, log_beta = responses(block, scratch, state, None if kept is None else kept[: M * n].reshape(M, n))
    if not np.all(np.abs(log_beta) < MAX_LOG_BETA):  # also catches NaN
        raise _noise_out_of_bounds()
    if block.v is not None:
        log_beta = log_beta - np.log1p(block.v * np.exp(log_beta))  # 1 / (1/beta + v)
    sqrt_B = np.sqrt(np.exp(log_beta) * block.omega)  # B = beta omega
    Psi = np.multiply(Phi, sqrt_B, out=Phi)
    if kept is not None:
        kept[M * n :] = sqrt_B
    return Zt, Psi, sqrt_B, log_beta


def _noise_out_of_bounds() -> NumericalError:
    return NumericalError(f"noise precision is outside exp(+-{MAX_LOG_BETA:g}) or is not a number.")


def _kept(scratch: Scratch, state: State, n: int) -> FloatArray | None:
    """Memory for Psi and B^1/2 that lasts until the second pass, if the engine grants enough of it."""
    M = len(state.u) + state.k
    size = kept_size(M, n) if state.is_fused else (M + 1) * n
    return None if scratch.kept is None or scratch.kept.size < size else scratch.kept[:size]


def forward(block: Block, scratch: Scratch, state: State) -> Sums:
    """First pass: ``Phi' B Phi``, ``Phi' B y`` and the log-determinant of B (or its weighted form)."""
    if state.is_fused:
        return _forward_compiled(block, scratch, state)
    _, Psi, sqrt_B, log_beta = _scaled_responses(block, scratch, state)
    log_det_B = np.sum(log_beta + np.log(block.omega)) if state.weighted_precision else block.omega @ log_beta
    return Psi @ Psi.T, Psi @ (sqrt_B * block.y), np.asarray(log_det_B)


def _weights(block: Block, state: State) -> FloatArray:
    """Weights of ``ln beta`` in the log-likelihood."""
    return np.ones_like(block.omega) if state.weighted_precision else block.omega


def _forward_compiled(block: Block, scratch: Scratch, state: State) -> Sums:
    kept = _kept(scratch, state, len(block.y))
    c = _weights(block, state)
    basis = state.of(block.kind).basis
    sums = forward_block(block.Xt, block.y, block.omega, c, basis, scratch, kept=kept, v=block.v)
    if sums is None:
        raise _noise_out_of_bounds()
    PhiT_B_Phi, PhiT_B_y, log_det_B = sums
    if state.weighted_precision:
        log_det_B = log_det_B + np.sum(np.log(block.omega))
    return PhiT_B_Phi, PhiT_B_y, np.asarray(log_det_B)


def _recall(block: Block, scratch: Scratch, state: State) -> tuple[FloatArray, FloatArray, FloatArray]:
    """``Zt``, ``Psi`` and ``B^1/2``: what the first pass kept, or computed again."""
    state = state.of(block.kind)
    m, q = state.Ct.shape
    M, n = m + state.k, len(block.y)
    kept = _kept(scratch, state, n)
    if kept is None:
        return _scaled_responses(block, scratch, state)[:3]
    Zt = quadratic_map(block.Xt, state.is_full, scratch.array("Z", (q, n)))
    return Zt, kept[: M * n].reshape(M, n), kept[M * n :]


def _solve_block(Psi: FloatArray, posterior: Posterior, out: FloatArray) -> FloatArray:
    """``S^-1 Psi``: one product where S is well conditioned, two triangular ones where it is not."""
    factor = posterior.factor
    if factor.is_well_conditioned:
        return np.matmul(factor.inverse, Psi, out=out)
    half = triangular_product(factor.whitener, Psi, np.empty_like(Psi))
    return np.matmul(factor.whitener.T, half, out=out)


def backward(block: Block, scratch: Scratch, state: State, posterior: Posterior) -> Sums:
    """Second pass: ``Z' G``, ``Phi' g``, ``sum g`` and ``delta' B delta``.

    ``g = dL/d ln beta`` is Eq. C.6 and ``G = dL/d ln Phi`` Eq. C.7. If the state knows of uncertain inputs, gradients
    for P and Lambda follow: rows of other kinds than 0 have their own C, and what they ask of it is pulled back at
    once.
    """
    if state.is_fused:
        return _backward_compiled(block, scratch, state, posterior)
    m = len(state.u)
    Zt, Psi, sqrt_B = _recall(block, scratch, state)
    T = _solve_block(Psi, posterior, scratch.array("T", Psi.shape))
    c = _weights(block, state)
    G, g_scaled, sqrt_B_delta = backward_terms(T, Psi, state.u, posterior.w_mean, block.y, c, sqrt_B)  # Eq. C.6, C.7
    if block.v is not None:  # d ln B / d ln beta = (1/beta) / (1/beta + v)
        lost = g_scaled * (block.v * sqrt_B**2 / block.omega)
        G -= state.u[:, None] * lost * Psi[:m]
        g_scaled = g_scaled - lost
    if state.is_sigmoid:
        G *= 1.0 - Psi[:m] / sqrt_B  # d ln phi / dt = 1 - phi
    sums = Zt @ G.T, Psi[:m] @ g_scaled, np.asarray(g_scaled @ sqrt_B), np.asarray(sqrt_B_delta @ sqrt_B_delta)
    return pulled_back(sums, block, state)


def _backward_compiled(block: Block, scratch: Scratch, state: State, posterior: Posterior) -> Sums:
    kept = _kept(scratch, state, len(block.y))
    factor, c = posterior.factor, _weights(block, state)
    is_inverse = factor.is_well_conditioned
    A = factor.inverse if is_inverse else factor.whitener
    rows = (block.Xt, block.y, block.omega, c)
    basis = state.of(block.kind).basis
    sums = backward_block(*rows, basis, scratch, posterior.w_mean, A, is_inverse, kept=kept, v=block.v)
    if sums is None:
        raise _noise_out_of_bounds()
    return pulled_back(sums, block, state)


def pulled_back(sums: tuple[FloatArray, ...], block: Block, state: State) -> Sums:
    """Give the sums of the second pass; if there are uncertain inputs, gradients for P and Lambda follow."""
    if not state.blurs:
        return sums
    grad_C, *others = sums
    if block.kind == 0:
        blur = state.blurs[0]
        return grad_C, *others, np.zeros_like(blur.P), np.zeros_like(blur.Lambda)
    pulled = state.blurs[block.kind - 1].pull_back(grad_C)
    return np.zeros(state.Ct.shape[::-1]), *others, *pulled


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


def fit_posterior(
    engine: Engine,
    parameters: Parameters,
    layout: Layout,
    weighted_precision: bool = False,
    kinds: Sequence[Kind] = (),
) -> tuple[State, Posterior, float]:
    """First pass alone: state, posterior of the weights, and ``ln |B|``."""
    state = make_state(parameters, layout, weighted_precision, kinds)
    PhiT_B_Phi, PhiT_B_y, log_det_B = engine.sum(forward, state)
    posterior = weight_posterior(PhiT_B_Phi, PhiT_B_y, layout.expand_alpha(parameters.log_alpha))
    return state, posterior, float(log_det_B)


def evaluate(
    engine: Engine,
    parameters: Parameters,
    layout: Layout,
    weighted_precision: bool = False,
    kinds: Sequence[Kind] = (),
) -> Evaluation:
    """Log evidence and its gradient for every parameter.

    Parameters
    ----------
    engine : Engine
        Holds the rows.
    parameters : Parameters
    layout : Layout
    weighted_precision : bool
        The paper's cost weights, ``B = beta omega`` throughout. By default weights multiply the log-likelihood of
        a row instead, so that ``ln B`` becomes ``omega ln beta``: the noise then stays calibrated.
    kinds : sequence of Kind
        How inputs of rows of kind 1, 2, ... are uncertain.

    Returns
    -------
    Evaluation
    """
    state, posterior, log_det_B = fit_posterior(engine, parameters, layout, weighted_precision, kinds)
    grad_C, PhiT_g, sum_g, misfit, *pulled = engine.sum(backward, state, posterior)
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
    grad_P, grad_Gamma = fold_coefficients(layout.structure, grad_C, parameters.P, parameters.Gamma, pulled)
    gradient = Parameters(
        P=grad_P,
        Gamma=grad_Gamma,
        u=PhiT_g - eta * u,  # Eq. C.8
        b=float(sum_g),  # Eq. C.9
        log_alpha=layout.fold_alpha(
            0.5 - 0.5 * alpha * w**2 - 0.5 * alpha * posterior.factor.inverse_diagonal
        ),  # cf. Eq. C.11, terms in d w_mean cancel
        log_eta=0.5 - 0.5 * eta * u**2,  # Eq. C.10
    )
    return Evaluation(evidence, gradient, posterior, state)
