"""The parameters as the passes over the rows need them, and the responses of the basis functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpzed._types import FloatArray
from gpzed.engine.blocks import Block, Scratch, Sums
from gpzed.gp.basis import Basis, Gaussians
from gpzed.gp.parameters import Layout, Parameters
from gpzed.incomplete.blur import Blur, BlurredBasis


@dataclass(frozen=True)
class State:
    """What the kernels need to know of the parameters: made once per evaluation, sent to every block."""

    basis: Basis  # the basis functions of m weights
    u: FloatArray  # (m,) of the noise precision
    b: float
    k: int  # columns of the mean function, the first ones of the feature map
    weighted_precision: bool = False  # see `gpzed.gp.evidence.evaluate`
    blurred_bases: tuple[BlurredBasis, ...] = ()  # basis functions as rows with blur 1, 2, ... see them

    @property
    def n_weights(self) -> int:
        """Number of weights M = m + k."""
        return len(self.u) + self.k

    def basis_of(self, blur: int) -> Basis:
        """Return the basis functions as rows with a blur see them: expected values where inputs are uncertain."""
        return self.basis if blur == 0 else Gaussians(self.blurred_bases[blur - 1].Ct, is_full=True)


def make_state(
    parameters: Parameters, layout: Layout, weighted_precision: bool = False, blurs: Sequence[Blur] = ()
) -> State:
    """Prepare the parameters for the kernels."""
    P, Gamma, structure = parameters.P, parameters.Gamma, layout.structure
    Lambda = structure.expand(Gamma, layout.d) if blurs else None
    blurred_bases = () if Lambda is None else tuple(BlurredBasis(P, Lambda, blur.V) for blur in blurs)
    u = np.ascontiguousarray(parameters.u)
    return State(structure.basis(P, Gamma), u, parameters.b, layout.k, weighted_precision, blurred_bases)


def responses(
    block: Block, scratch: Scratch, state: State, out: FloatArray | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return ``Zt`` (q, n), ``Phi`` (m + k, n) and ``ln beta`` (n,) of a block.

    Phi has the columns of the mean function below the basis functions, expected ones where inputs are uncertain; it is
    in `out` if given.
    """
    basis, m, n = state.basis_of(block.blur), len(state.u), block.Xt.shape[1]
    Zt = basis.map(block.Xt, scratch.array("Z", (basis.Ct.shape[1], n)))
    Phi = scratch.array("Phi", (state.n_weights, n)) if out is None else out
    basis.respond(Zt, Phi[:m])  # Eq. 3.2
    Phi[m:] = Zt[: state.k]
    return Zt, Phi, state.u @ Phi[:m] + state.b  # Eq. 5.10


def pulled_back(sums: Sums, block: Block, state: State) -> Sums:
    """Complete sums that begin with ``dL/dC``: if there are uncertain inputs, gradients for P and Lambda follow.

    Rows of other blurs than 0 have their own C, and what they ask of it is pulled back at once.
    """
    if not state.blurred_bases:
        return sums
    grad_C, *others = sums
    blurred = state.blurred_bases[max(block.blur - 1, 0)]
    if block.blur == 0:
        return grad_C, *others, np.zeros_like(blurred.P), np.zeros_like(blurred.Lambda)
    return np.zeros(state.basis.Ct.shape[::-1]), *others, *blurred.pull_back(grad_C)
