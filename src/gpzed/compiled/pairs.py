"""Compiled sums over pairs of basis functions, for rows whose inputs are uncertain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpzed._types import FloatArray, IntArray
from gpzed.compiled.binding import CONSTANTS, call, fill, inputs

if TYPE_CHECKING:
    from gpzed.engine.blocks import Scratch

MAX_RANK = CONSTANTS["MAX_RANK"]
"""Columns of V at most."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of basis functions and quadratic forms of their weights."""

    j: IntArray  # (pairs,)
    k: IntArray
    plain: FloatArray  # (m, q) ``ln phi`` on the full quadratic map
    slopes: FloatArray  # (m, r, 1 + d) ``V' grad ln phi``, linear in x
    factors: FloatArray | None  # (pairs, 1 + r (r + 1) / 2); of `pair_factors`
    weights: FloatArray  # (s, pairs) of the products of two basis functions
    matrices: FloatArray  # (s, m, m) lower triangular: of the products of their expected values
    linear: FloatArray | None = None  # what a linear mean function adds for each expected basis function

    @property
    def _struct(self) -> Any:
        return fill("pairs", count=len(self.j), r=self.slopes.shape[1], s=len(self.weights), **vars(self))


def spread_block(Xt: FloatArray, Ct: FloatArray, pairs: Pairs, scratch: Scratch) -> FloatArray:
    """Sum over pairs of basis functions less the products of their expected values, for every form and row, (s, n).

    Parameters
    ----------
    Xt : ndarray of shape (d, n)
        Expected inputs.
    Ct : ndarray of shape (m, q)
        Coefficients of the expected basis functions on the full quadratic map.
    pairs : Pairs
        With a linear part (s, m, 1 + d).
    scratch : Scratch
    """
    totals = np.empty((len(pairs.weights), Xt.shape[1]))
    basis = fill("basis", m=len(Ct), q=Ct.shape[1], is_full=True, Ct=Ct)
    call("spread", scratch, inputs=inputs(Xt), basis=basis, pairs=pairs._struct, totals=totals)
    return totals


def rows_block(
    Xt: FloatArray, V: FloatArray, Lambda: FloatArray, pairs: Pairs, scratch: Scratch
) -> tuple[FloatArray, FloatArray]:
    """Return E[phi] (m, n), and the same sums as `spread_block`, for rows with uncertainties of their own.

    Parameters
    ----------
    Xt : ndarray of shape (d, n)
        Expected inputs.
    V : ndarray of shape (n, d, d)
        Lower triangular.
    Lambda : ndarray of shape (m, d, d)
    pairs : Pairs
        With ``grad ln phi`` as slopes, no factors, and the weights (s, m, d) of ``Cov[x, phi]`` as the linear part.
    scratch : Scratch
    """
    (d, n), m = Xt.shape, len(Lambda)
    row, column = np.tril_indices(d)
    Phi, totals = np.empty((m, n)), np.empty((len(pairs.weights), n))
    rows = {"inputs": inputs(Xt), "m": m, "V": V[:, row, column].T, "Lambda": Lambda}
    call("rows", scratch, **rows, pairs=pairs._struct, totals=totals, Phi=Phi)
    return Phi, totals


def pair_factors(j: IntArray, k: IntArray, VLV: FloatArray) -> FloatArray | None:
    """Return ``-1/2 ln |R|`` and the rows of ``L^-1 / sqrt(2)``, ``R = I + VLV_j + VLV_k = L L'``, of every pair.

    Parameters
    ----------
    j, k : ndarray of int64 of shape (pairs,)
    VLV : ndarray of shape (m, r, r)
        ``V' Lambda V``.

    Returns
    -------
    ndarray of shape (pairs, 1 + r (r + 1) / 2), or None if a matrix is not finite
    """
    r = VLV.shape[1]
    factors = np.empty((len(j), 1 + r * (r + 1) // 2))
    return factors if call("pair_factors", count=len(j), r=r, j=j, k=k, VLV=VLV, factors=factors) else None
