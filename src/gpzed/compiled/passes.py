"""Both passes over blocks of rows, and predictions, each in one compiled call.

Done by NumPy, every step of a pass goes over memory and takes Python's lock before and after; and BLAS, made for large
matrices, repacks its operands at every call. The compiled functions take rows through all steps in pieces that stay in
the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpzed._types import FloatArray
from gpzed.compiled.binding import array_of, call, fill, inputs, kept_size
from gpzed.compiled.shapes import shapes_struct
from gpzed.engine.blocks import Block, Scratch, Sums
from gpzed.errors import NumericalError
from gpzed.gp import predictive
from gpzed.gp.basis import Gaussians
from gpzed.gp.evidence import MAX_LOG_BETA, noise_out_of_bounds
from gpzed.gp.posterior import Posterior
from gpzed.gp.state import State

BlocksOfRows = Sequence[tuple[Block, Scratch]]

MAX_WEIGHTS = 256
"""Weights up to which the compiled passes are used; for more, BLAS on larger pieces is ahead (measured)."""


def forward(rows: BlocksOfRows, state: State) -> Sums | None:
    """First pass over blocks, see `gpzed.gp.evidence.forward`."""
    if not _is_suited(state):
        return None
    M = state.n_weights
    sums = np.zeros((M, M)), np.zeros(M), np.zeros(())
    each = fill("forward", **_common(state), **dict(zip(("PhiT_B_Phi", "PhiT_B_y", "log_det"), sums, strict=True)))
    memory = [_enough(scratch.keep, block, state) for block, scratch in rows]
    if not call("forward_parts", rows[0][1], parts=parts_struct(rows, state, memory), each=each):
        raise _broken(state)
    if state.weighted_precision:
        sums[2][...] += sum(np.sum(np.log(block.omega)) for block, _ in rows)
    return sums


def backward(rows: BlocksOfRows, state: State, posterior: Posterior) -> Sums | None:
    """Second pass over blocks, see `gpzed.gp.evidence.backward`."""
    if not _is_suited(state):
        return None
    factor, (m, q) = posterior.factor, state.basis.Ct.shape
    sums = np.zeros((q, m)), np.zeros(m), np.zeros(()), np.zeros(())
    each = fill(
        "backward",
        **_common(state),
        w=posterior.w_mean,
        inverse=factor.inverse if factor.is_well_conditioned else None,
        whitener=None if factor.is_well_conditioned else factor.whitener,
        **dict(zip(("ZT_G", "PhiT_g", "sum_g", "misfit"), sums, strict=True)),
    )
    memory = [_enough(scratch.kept, block, state) for block, scratch in rows]
    pulled: tuple[FloatArray, ...] = ()
    if state.blurred_bases:
        P, Lambda = state.blurred_bases[0].P, state.blurred_bases[0].Lambda
        pulled = np.zeros(P.shape), np.zeros((len(Lambda), *2 * P.shape[1:]))
    gradients = dict(zip(("grad_P", "grad_Lambda"), pulled, strict=False))
    if not call("backward_parts", rows[0][1], parts=parts_struct(rows, state, memory), each=each, **gradients):
        raise _broken(state)
    if pulled and Lambda.ndim == 2:
        pulled = pulled[0], np.diagonal(pulled[1], axis1=1, axis2=2)
    return *sums, *pulled


def score(rows: BlocksOfRows, state: State, posterior: Posterior, shifts: FloatArray) -> Sums | None:
    """Log-likelihood of held-out rows, see `gpzed.gp.predictive.score`."""
    if not isinstance(state.basis, Gaussians):
        return None
    totals = np.zeros(len(shifts))
    each = fill("predict", **_common(state), w=posterior.w_mean, whitener=posterior.factor.whitener)
    given = {"n_factors": len(shifts), "factors": np.exp(-shifts), "totals": totals}
    if not call("score_parts", rows[0][1], parts=parts_struct(rows, state), each=each, **given):
        raise _broken(state)
    return (totals,)


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


def _common(state: State) -> dict[str, Any]:
    """Return what all blocks have in common."""
    assert isinstance(state.basis, Gaussians)
    return {"basis": basis_struct(state.basis, state.k), "noise": _noise(state)}


def parts_struct(rows: BlocksOfRows, state: State, memory: Sequence[FloatArray | None] = (), K: int = 1) -> Any:
    """Return blocks, and what uncertain inputs do to the basis functions, as a struct.

    `memory` is what they keep; K heads have a variance beside their noise each.
    """
    parts = array_of("part", [_part(block, state, K) for block, _ in rows])
    for part, kept in zip(parts, memory, strict=False):
        part.kept = None if kept is None else kept.__array_interface__["data"][0]
    if not state.blurred_bases:
        return fill("parts", n_parts=len(rows), parts=parts)
    blurred = state.blurred_bases[0]
    rank = max(one.V.shape[1] for one in state.blurred_bases)
    return fill("parts", n_parts=len(rows), parts=parts, shapes=shapes_struct(blurred.P, blurred.Lambda, rank))


def _part(block: Block, state: State, K: int) -> Any:
    """Return a block as a struct; it is made once."""
    V = state.blurred_bases[block.blur - 1].V if block.blur else None
    V_known, *key, part = block.cache.get("part", (None, None, None, None))
    if V_known is not V or key != [state.weighted_precision, K]:
        c = np.ones_like(block.omega) if state.weighted_precision else block.omega
        v = block.v if K == 1 or block.v is None else np.broadcast_to(block.v, (K, len(block.y)))
        wrong = None if block.labels is None else block.labels.wrong
        targets = fill("targets", y=block.y, omega=block.omega, c=c, v=v, wrong=wrong)
        part = fill("part", inputs=inputs(block.Xt), targets=targets, r=0 if V is None else V.shape[1], V=V)
        block.cache["part"] = V, state.weighted_precision, K, part
    return part


def _broken(state: State) -> NumericalError:
    """Say what failed."""
    for blurred in state.blurred_bases:
        blurred.Ct  # noqa: B018  says so if a shape is not finite
    return noise_out_of_bounds()


def _enough(memory: FloatArray | None, block: Block, state: State) -> FloatArray | None:
    """Return memory to keep, if it is enough."""
    is_enough = memory is not None and memory.size >= kept_size(block.Xt.shape[1], state.n_weights)
    return memory if is_enough else None
