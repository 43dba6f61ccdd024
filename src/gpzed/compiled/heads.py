"""Likelihood, predictions and the posterior of batches of a mixture of heads, each in one compiled call.

Batches of training are small: in NumPy most of a step is Python's own time, with its lock held, so that members of a
committee wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpzed._types import FloatArray, IntArray
from gpzed.compiled.binding import array_of, call, fill, inputs
from gpzed.compiled.network import adam_struct
from gpzed.compiled.passes import BlocksOfRows, basis_struct, parts_struct
from gpzed.engine.adam import Adam
from gpzed.engine.blocks import Block, Givens, Rows, Scratch, Sums
from gpzed.gp.basis import Gaussians
from gpzed.gp.linalg import Factor, not_finite
from gpzed.gp.parameters import Layout
from gpzed.gp.state import State, pulled_back
from gpzed.incomplete.blur import Blur
from gpzed.mixture import likelihood as numpy_likelihood
from gpzed.mixture import training
from gpzed.mixture.heads import Heads
from gpzed.mixture.likelihood import LOG_BETA_RANGE

_GAMMA = {"L": 0, "D": 1, "C": 2}


def likelihood(block: Block, scratch: Scratch, state: State, Theta: FloatArray) -> Sums:
    """Likelihood of a block and its gradient, see `gpzed.mixture.likelihood.likelihood`."""
    basis = _basis(block, state)
    ZT_G, PhiT_H, total = np.zeros(basis.Ct.shape[::-1]), np.zeros(Theta.shape), np.zeros(())
    call("heads", scratch, **_fields(block, state, Theta), ZT_G=ZT_G, PhiT_H=PhiT_H, log_likelihood=total)
    return pulled_back((ZT_G, PhiT_H, total), block, state)


def held_out_likelihood(rows: BlocksOfRows, state: State, Theta: FloatArray) -> Sums:
    """Likelihood of blocks alone, see `gpzed.mixture.likelihood.held_out_likelihood`."""
    K, total, basis = Theta.shape[1] // 3, np.zeros(()), state.basis
    assert isinstance(basis, Gaussians)
    each = fill("heads", basis=basis_struct(basis, state.k), outputs=outputs_struct(K, Theta), log_likelihood=total)
    if not call("heads_parts", rows[0][1], parts=parts_struct(rows, state, K=K), each=each):
        raise not_finite()
    return (total,)


def moments(
    block: Block, scratch: Scratch, state: State, Theta: FloatArray, factors: Sequence[Factor]
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Weights, means and variances of the components, see `gpzed.mixture.likelihood.moments`."""
    components = np.empty((4, len(factors), block.Xt.shape[1]))
    call(
        "mixture",
        scratch,
        inputs=inputs(block.Xt),
        basis=basis_struct(_basis(block, state), state.k),
        outputs=outputs_struct(Theta.shape[1] // 3, Theta),
        whiteners=np.stack([factor.whitener for factor in factors]),
        components=components,
    )
    return components[0], components[1], components[2], components[3]


def batch_posterior(
    blocks: Sequence[Block],
    scratch: Scratch,
    heads: Heads,
    layout: Layout,
    blurs: Sequence[Blur],
    kappa: float,
    ridge: float,
) -> tuple[float, FloatArray]:
    """Log posterior of a batch and its gradient, see `gpzed.mixture.likelihood.batch_posterior`."""
    theta = heads.pack()
    value, gradient = np.zeros(()), np.empty(len(theta))
    fields = _posterior_fields([_part(block, blurs) for block in blocks], layout, heads.K, kappa, ridge)
    if not call("posterior", scratch, **fields, theta=theta, value=value, gradient=gradient):  # shapes not definite
        return numpy_likelihood.batch_posterior(blocks, scratch, heads, layout, blurs, kappa, ridge)
    return float(value), gradient


def descend(
    adam: Adam,
    like: Heads,
    rows: Rows,
    order: IntArray,
    givens: Givens,
    layout: Layout,
    blurs: Sequence[Blur],
    options: training.StochasticOptions,
    scratch: Scratch,
) -> tuple[float, float]:
    """Take steps by batches of rows, see `gpzed.mixture.training.descend`."""
    n, share, blur = len(rows.y), order.shape[1] / len(rows.y), rows.blur
    if blur is not None:  # rows of one kind come together
        order = np.take_along_axis(order, np.argsort(blur[order], axis=1, kind="stable"), axis=1)
    has_labels, v = rows.label_variance is not None or rows.wrong is not None, givens.v
    if rows.label_variance is not None:
        added = 0.0 if v is None or blur is None else np.where(blur > 0, v, 0.0)
        v = np.broadcast_to(added + rows.label_variance, (like.K, n))
    trust = givens.trust if has_labels else None
    kinds = [_kind(index, blurs) for index in range(len(blurs) + 1)]
    posterior = _posterior_fields(kinds, layout, like.K, options.kappa * share, options.ridge * share)
    schedule, count = [adam.advance() for _ in order], 0
    total, norm, done = np.zeros(()), np.zeros(()), np.zeros(())
    fields = {
        "posterior": fill("posterior", **posterior),
        "adam": adam_struct(adam, order, schedule),
        "n": n,
        "all_vary": rows.label_variance is not None,
        "kind": None if blur is None else np.ascontiguousarray(blur, dtype=np.int64),
        "X": rows.X,
        "y": rows.y,
        "omega": rows.omega if trust is None else rows.omega * trust,
        "v": None if v is None else np.ascontiguousarray(v.T),
    }
    state = {"theta": adam.theta, "mean": adam.mean, "first_moment": adam.first, "second_moment": adam.second}
    while not call("heads_descent", scratch, **fields, **state, first=count, value=total, norm=norm, done=done):
        count = int(done)  # shapes are not positive definite in this batch: NumPy takes its step
        more = rows, order[count], givens, layout, blurs, options, scratch, schedule[count]
        value, last = training.take_step(adam, like, *more)
        total += value
        norm[...], count = last, count + 1
        done[...] = count
    return float(total), float(norm)


def _posterior_fields(parts: Sequence[Any], layout: Layout, K: int, kappa: float, ridge: float) -> dict[str, Any]:
    structure = layout.structure
    fields = {"m": layout.m, "d": layout.d, "k": layout.k, "kappa": kappa, "ridge": ridge}
    fields |= {"gamma": _GAMMA[structure.code[1]], "is_shared": structure.is_global}
    return fields | {"outputs": outputs_struct(K, None), "n_parts": len(parts), "parts": array_of("part", list(parts))}


def _basis(block: Block, state: State) -> Gaussians:
    basis = state.basis_of(block.blur)
    assert isinstance(basis, Gaussians)
    return basis


def outputs_struct(K: int, Theta: FloatArray | None) -> Any:
    """Return K heads as a struct."""
    low, high = LOG_BETA_RANGE
    return fill("head_outputs", K=K, min_log_beta=low, max_log_beta=high, Theta=Theta)


def _fields(block: Block, state: State, Theta: FloatArray) -> dict[str, Any]:
    K = Theta.shape[1] // 3
    v = None if block.v is None else np.broadcast_to(block.v, (K, len(block.y)))
    return {
        "inputs": inputs(block.Xt),
        "targets": fill("targets", y=block.y, omega=block.omega, v=v),
        "basis": basis_struct(_basis(block, state), state.k),
        "outputs": outputs_struct(K, Theta),
    }


def _part(block: Block, blurs: Sequence[Blur]) -> Any:
    """Return rows that are blurred alike as a struct; v, if any, is that of every head, (K, n)."""
    targets = fill("targets", y=block.y, omega=block.omega, v=block.v)
    return _kind(block.blur, blurs, inputs=inputs(block.Xt), targets=targets)


def _kind(blur: int, blurs: Sequence[Blur], **rows: Any) -> Any:
    """Return a kind of rows as a struct, with rows or without."""
    V = blurs[blur - 1].V if blur else np.zeros((0, 0))
    return fill("part", r=V.shape[1], V=V, **rows)
