"""One step of the training of heads in one compiled call (`_step.h`): likelihood of a batch, prior, gradient, Adam.

Batches are small: in NumPy most of a step is Python's own time, with its lock held, so that members of a committee wait
for each other. `stochastic.Adam` is the readable form.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpzed._types import FloatArray
from gpzed.compiled.fastmath import CallStruct, StepStruct, library, new_call
from gpzed.gp.parameters import Layout

if TYPE_CHECKING:
    from gpzed.engine.threads import Block
    from gpzed.incomplete.blur import Kind

_GAMMA = {"L": 0, "D": 1, "C": 2}


class CompiledStep:
    """Steps on parameters and moments of the gradient, in place.

    Parameters
    ----------
    layout : Layout
    K : int
        Heads.
    kinds : sequence of Kind
        How inputs of rows of kind 1, 2, ... are uncertain.
    theta, first, second : ndarray of shape (p,)
        Parameters P, Gamma and Theta, and mean and mean square of their gradient.
    max_norm, decay, epsilon : float
        Constants of the optimiser.
    """

    def __init__(
        self,
        layout: Layout,
        K: int,
        kinds: Sequence[Kind],
        theta: FloatArray,
        first: FloatArray,
        second: FloatArray,
        *,
        max_norm: float,
        decay: float,
        epsilon: float,
    ) -> None:
        structure = layout.structure
        self._V = [np.zeros((layout.d, 0)), *(np.ascontiguousarray(kind.V) for kind in kinds)]
        self._arrays = theta, first, second
        self._work = np.empty(0)
        self._struct = StepStruct(
            m=layout.m, d=layout.d, k=layout.k, K=K, gamma=_GAMMA[structure.code[1]], is_shared=structure.is_global
        )
        self._struct.lanes = new_call().lanes
        self._struct.max_norm, self._struct.decay, self._struct.epsilon = max_norm, decay, epsilon
        for name, array in zip(("theta", "first", "second"), self._arrays, strict=True):
            assert array.flags.c_contiguous
            setattr(self._struct, name, array.ctypes.data)

    def __call__(
        self, blocks: Sequence[Block], *, kappa: float, ridge: float, rate: float, momentum: float, root_scale: float
    ) -> tuple[float, float] | None:
        """Take a step.

        Parameters
        ----------
        blocks : sequence of Block
            The batch; rows of one kind each.
        kappa, ridge : float
            Strengths of the priors, the share of the batch in all rows included.
        rate, momentum : float
            The rate is divided by one minus the product of all momenta so far,
        root_scale : float
            and the mean square multiplied by this: corrections for the start at zero.

        Returns
        -------
        tuple of float, or None
            Log posterior and norm of its gradient per row; None, with nothing changed, if shapes are not positive
            definite.
        """
        struct = self._struct
        calls = (CallStruct * len(blocks))(*(_call_of(block) for block in blocks))
        matrices = [self._V[block.kind] for block in blocks]
        ranks = np.array([V.shape[1] for V in matrices])
        pointers = np.array([V.ctypes.data for V in matrices])
        struct.n_blocks, struct.blocks = len(blocks), ctypes.addressof(calls)
        struct.ranks, struct.V = ranks.ctypes.data, pointers.ctypes.data
        struct.kappa, struct.ridge, struct.scale = kappa, ridge, -1.0 / sum(len(block.y) for block in blocks)
        struct.rate, struct.momentum, struct.root_scale = rate, momentum, root_scale
        size = library().gpzed_step_work_size(ctypes.byref(struct))
        if self._work.size < size:
            self._work = np.empty(size)
        struct.work = self._work.ctypes.data
        if library().gpzed_step(ctypes.byref(struct)):
            return None
        return struct.value, struct.norm


def _call_of(block: Block) -> CallStruct:
    """Rows of a block for C; the block must outlive it."""
    for array in (block.y, block.omega, block.v):
        assert array is None or (array.flags.c_contiguous and array.dtype == np.float64)
    assert block.Xt.dtype == np.float64
    call = CallStruct(
        n=block.Xt.shape[1], Xt=block.Xt.ctypes.data, y=block.y.ctypes.data, omega=block.omega.ctypes.data
    )
    call.stride_feature, call.stride_row = (stride // 8 for stride in block.Xt.strides)
    if block.v is not None:
        assert block.v.ndim == 2  # of every head
        call.v = block.v.ctypes.data
    return call
