"""Both passes over a block of rows, and predictions, each in one compiled call.

Done by NumPy, every step of a pass goes over memory and takes Python's lock before and after; and BLAS, made for large
matrices, repacks its operands at every call. The compiled functions take rows through all steps in pieces that stay in
the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpzed._types import FloatArray
from gpzed.compiled.binding import call, fill, inputs, kept_size
from gpzed.engine.blocks import Block, Scratch, Sums
from gpzed.gp import evidence, predictive
from gpzed.gp.basis import Basis, Gaussians
from gpzed.gp.evidence import MAX_LOG_BETA, noise_out_of_bounds
from gpzed.gp.posterior import Posterior
from gpzed.gp.state import State, pulled_back

MAX_WEIGHTS = 256
"""Weights up to which the compiled passes are used; for more, BLAS on larger pieces is ahead (measured)."""


def forward(block: Block, scratch: Scratch, state: State) -> Sums:
    """First pass, see `gpzed.gp.evidence.forward`."""
    if not _is_suited(state):
        return evidence.forward(block, scratch, state)
    M = state.n_weights
    PhiT_B_Phi, PhiT_B_y, log_det = np.zeros((M, M)), np.zeros(M), np.zeros(())
    succeeded = call(
        "forward",
        scratch,
        **_fields(block, state),
        kept=_enough(scratch.keep, block, state),
        PhiT_B_Phi=PhiT_B_Phi,
        PhiT_B_y=PhiT_B_y,
        log_det=log_det,
    )
    if not succeeded:
        raise noise_out_of_bounds()
    if state.weighted_precision:
        log_det = np.asarray(log_det + np.sum(np.log(block.omega)))
    return PhiT_B_Phi, PhiT_B_y, log_det


def backward(block: Block, scratch: Scratch, state: State, posterior: Posterior) -> Sums:
    """Second pass, see `gpzed.gp.evidence.backward`."""
    if not _is_suited(state):
        return evidence.backward(block, scratch, state, posterior)
    factor = posterior.factor
    m, q = state.basis_of(block.blur).Ct.shape
    ZT_G, PhiT_g, sum_g, misfit = np.zeros((q, m)), np.zeros(m), np.zeros(()), np.zeros(())
    succeeded = call(
        "backward",
        scratch,
        **_fields(block, state),
        w=posterior.w_mean,
        inverse=factor.inverse if factor.is_well_conditioned else None,
        whitener=None if factor.is_well_conditioned else factor.whitener,
        kept=_enough(scratch.kept, block, state),
        ZT_G=ZT_G,
        PhiT_g=PhiT_g,
        sum_g=sum_g,
        misfit=misfit,
    )
    if not succeeded:
        raise noise_out_of_bounds()
    return pulled_back((ZT_G, PhiT_g, sum_g, misfit), block, state)


def moments(
    block: Block, scratch: Scratch, state: State, posterior: Posterior
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean, model variance and noise variance, see `gpzed.gp.predictive.moments`."""
    basis = state.basis_of(block.blur)
    if not isinstance(basis, Gaussians):
        return predictive.moments(block, scratch, state, posterior)
    result = np.empty((3, block.Xt.shape[1]))
    call(
        "predict",
        scratch,
        inputs=inputs(block.Xt),
        basis=basis_struct(basis, state.k),
        noise=_noise(state),
        w=posterior.w_mean,
        whitener=posterior.factor.whitener,
        moments=result,
    )
    return result[0], result[1], result[2]


def basis_struct(basis: Gaussians, k: int) -> Any:
    """Return basis functions and k columns of the mean function as a struct."""
    m, q = basis.Ct.shape
    return fill("basis", m=m, q=q, k=k, is_full=basis.is_full, Ct=basis.Ct)


def _noise(state: State) -> Any:
    return fill("noise", u=state.u, b=state.b, max_log_beta=MAX_LOG_BETA)


def _is_suited(state: State) -> bool:
    return state.n_weights <= MAX_WEIGHTS and isinstance(state.basis, Gaussians)


def _fields(block: Block, state: State) -> dict[str, Any]:
    """Return what both passes need to know of a block and the parameters."""
    basis: Basis = state.basis_of(block.blur)
    assert isinstance(basis, Gaussians)
    c = np.ones_like(block.omega) if state.weighted_precision else block.omega
    return {
        "inputs": inputs(block.Xt),
        "targets": fill("targets", y=block.y, omega=block.omega, c=c, v=block.v),
        "basis": basis_struct(basis, state.k),
        "noise": _noise(state),
    }


def _enough(memory: FloatArray | None, block: Block, state: State) -> FloatArray | None:
    """Return memory to keep, if it is enough."""
    is_enough = memory is not None and memory.size >= kept_size(block.Xt.shape[1], state.n_weights)
    return memory if is_enough else None
