"""Noise of rows with gaps: offsets of ``ln beta``, one for every input that may be missing and every head.

Expected basis functions are right where inputs are missing at random. Where they are not, as where fields without a
band are shallower than others, rows with gaps are noisier than complete ones with the same inputs, or less noisy, by
more than the variance of what is missing tells. With o (d, K), and s the number of missing inputs of a row,

    ln beta_k = phi u_k + 1/s sum_(i missing) o_ik,       o ~ N(0, 1 / PRECISION).

The mean, not the sum: gaps that no training row had in common cannot add up to more than each. The offsets are learned
after all else, from training rows with gaps alone; complete rows know nothing of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize

from gpzed._types import BoolArray, FloatArray, IntArray
from gpzed.engine.blocks import Block, Givens, Rows, Scratch, by_blur
from gpzed.gp.parameters import Layout
from gpzed.gp.state import responses
from gpzed.incomplete.blur import Blur
from gpzed.mixture.heads import Heads
from gpzed.mixture.likelihood import Outputs, head_outputs, log_density

PRECISION = 3.0
"""Of the prior: few rows, or rows that miss inputs at random, leave the offsets near zero."""
BLOCK_ROWS = 1024


def offsets_of(offsets: FloatArray, blurs: Sequence[Blur]) -> FloatArray:
    """Give what is added to ``ln beta`` of the heads in rows with blur 0, 1, ..., (1 + blurs, K)."""
    return np.vstack([np.zeros(offsets.shape[1]), *(shares_of(blur.missing) @ offsets for blur in blurs)])


def shares_of(missing: BoolArray) -> FloatArray:
    """Share (..., d) of every input in what is missing."""
    return np.asarray(missing / np.maximum(missing.sum(axis=-1, keepdims=True), 1))


def log_likelihood(
    offsets: FloatArray, shares: FloatArray, outputs: Outputs, y: FloatArray, omega: FloatArray, v: FloatArray
) -> tuple[float, FloatArray]:
    """Log-likelihood of n rows as a function of the offsets (d, K), and its gradient.

    `outputs` are those of the heads without offsets, and v (K, n) is the variance that uncertain inputs add.
    """
    log_beta = outputs.log_beta + (shares @ offsets).T
    total, share, precision = log_density(outputs._replace(log_beta=log_beta), y, v)
    misfit = precision * (y - outputs.mean) ** 2
    H = 0.5 * omega * share * (1.0 - misfit) * precision * np.exp(-log_beta)  # d ln precision / d ln beta is the last
    return float(total @ omega), (H @ shares).T


def fit_offsets(rows: Rows, givens: Givens, heads: Heads, layout: Layout, blurs: Sequence[Blur]) -> FloatArray:
    """Learn the offsets (d, K) of trained heads from rows with what is given in them; v is (K, n)."""
    start = np.zeros((layout.d, heads.K))
    if rows.blur is None or givens.v is None:
        return start
    has_gaps = np.array([False, *(bool(blur.missing.any()) for blur in blurs)])
    chosen = np.flatnonzero(has_gaps[rows.blur])
    if not len(chosen):
        return start
    blur = rows.blur[chosen]
    shares = np.stack([np.zeros(layout.d), *(shares_of(one.missing) for one in blurs)])[blur]
    outputs = _outputs(rows.X[chosen], blur, heads, layout, blurs)
    v, omega = np.ascontiguousarray(givens.v[:, chosen]), rows.omega[chosen]
    if rows.label_variance is not None:
        v = v + rows.label_variance[chosen]
    if givens.trust is not None:
        omega = omega * givens.trust[chosen]
    given = (shares, outputs, rows.y[chosen], omega, v)

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = log_likelihood(flat.reshape(start.shape), *given)
        return 0.5 * PRECISION * float(flat @ flat) - value, PRECISION * flat - gradient.ravel()

    return np.asarray(minimize(objective, start.ravel(), jac=True, method="L-BFGS-B").x.reshape(start.shape))


def _outputs(X: FloatArray, blur: IntArray, heads: Heads, layout: Layout, blurs: Sequence[Blur]) -> Outputs:
    state = heads.state(layout, blurs)
    outputs = Outputs(*np.empty((3, heads.K, len(X))))
    for index in by_blur(blur, BLOCK_ROWS):
        block = Block.of_inputs(X[index], int(blur[index[0]]))
        Phi = responses(block, Scratch(), state)[1]
        for target, values in zip(outputs, head_outputs(heads.Theta, Phi), strict=True):
            target[:, index] = values
    return outputs
