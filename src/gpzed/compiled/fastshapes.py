"""Compiled algebra on shapes of basis functions, alone and in pairs (`_shapes.h`, `_pairs.h`).

What is small for each basis function is slow in NumPy, and done with Python's lock held. The same in NumPy is in
`incomplete/blur.py` and `gp/prior.py`; tests hold the two together.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpzed._types import FloatArray, IntArray
from gpzed.compiled.fastmath import PAIR_ARRAYS, PairsStruct, ShapesStruct, library, new_call

if TYPE_CHECKING:
    from gpzed.engine.threads import Scratch

MAX_RANK = 16
"""Columns of V at most in sums over pairs; as in `_kernels.c`."""


@dataclass(frozen=True)
class Pairs:
    """What the sums over pairs of basis functions need to know, for rows of one kind; see `uncertain.Spread`.

    Attributes
    ----------
    j, k : ndarray of int64 of shape (pairs,)
    plain : ndarray of shape (m, q)
        ``ln phi`` on the full quadratic map.
    slopes : ndarray of shape (m, r, 1 + d)
        ``V' grad ln phi``, linear in x.
    factors : ndarray of shape (pairs, 1 + r (r + 1) / 2)
        Of `pair_factors`.
    weights : ndarray of shape (s, pairs)
        Of the products of two basis functions.
    matrices : ndarray of shape (s, m, m)
        Lower triangular: of the products of their expected values.
    linear : ndarray of shape (s, m, 1 + d), or None
        What is added for each expected basis function, linear in x.
    """

    j: IntArray
    k: IntArray
    plain: FloatArray
    slopes: FloatArray
    factors: FloatArray
    weights: FloatArray
    matrices: FloatArray
    linear: FloatArray | None = None

    def _struct(self) -> PairsStruct:
        """Return the same for C; arrays must be contiguous, and live as long as it is used."""
        struct = PairsStruct(count=len(self.j), r=self.slopes.shape[1], s=len(self.weights))
        for name in PAIR_ARRAYS:
            value = getattr(self, name)
            if value is not None:
                assert value.flags.c_contiguous
                assert value.dtype == (np.int64 if name in "jk" else np.float64)
                setattr(struct, name, value.ctypes.data)
        return struct


def _run_shapes(
    function: str, Lambda: FloatArray, arrays: dict[str, FloatArray], *, r: int = 0, kappa: float = 0.0
) -> bool:
    """Call a compiled function on shapes, (m or 1, d, d); tell whether it succeeded. Results are among the arrays."""
    (g, d, _), m = Lambda.shape, len(arrays.get("P", Lambda))
    struct = ShapesStruct(m=m, d=d, r=r, is_shared=g != m, kappa=kappa)
    arrays = {"Lambda": Lambda, **arrays, "work": np.empty(library().gpzed_shapes_work_size(ctypes.byref(struct)))}
    arrays = {name: np.ascontiguousarray(value, dtype=np.float64) for name, value in arrays.items()}
    for name, value in arrays.items():
        setattr(struct, name, value.ctypes.data)
    return not getattr(library(), f"gpzed_{function}")(ctypes.byref(struct))


def blur_coefficients(P: FloatArray, Lambda: FloatArray, V: FloatArray) -> FloatArray | None:
    """Coefficients of ``ln E[phi]`` on the full quadratic map, (m, q); None if a shape is not finite.

    Parameters
    ----------
    P : ndarray of shape (m, d)
    Lambda : ndarray of shape (m, d, d) or (1, d, d)
    V : ndarray of shape (d, r)
        Inputs are uncertain by ``Psi = V V'``.
    """
    m, d = P.shape
    Ct = np.empty((m, 1 + d + d * (d + 1) // 2))
    return Ct if _run_shapes("blur", Lambda, {"P": P, "V": V, "Ct": Ct}, r=V.shape[1]) else None


def blur_pull_back(
    grad_C: FloatArray, P: FloatArray, Lambda: FloatArray, V: FloatArray
) -> tuple[FloatArray, FloatArray] | None:
    """Gradients for P and Lambda from that for the coefficients, (q, m); None if a shape is not finite."""
    grad_P, grad_Lambda = np.zeros(P.shape), np.zeros(Lambda.shape)
    arrays = {"P": P, "V": V, "grad_C": grad_C, "grad_P": grad_P, "grad_Lambda": grad_Lambda}
    return (grad_P, grad_Lambda) if _run_shapes("blur_gradient", Lambda, arrays, r=V.shape[1]) else None


def wishart(Lambda: FloatArray, kappa: float) -> tuple[float, FloatArray] | None:
    """Log prior on shapes (m, d, d), see `gpzed.gp.prior`, and its gradient; None if one is not positive definite."""
    value, grad_Lambda = np.zeros(1), np.zeros(Lambda.shape)
    if not _run_shapes("shape_prior", Lambda, {"Ct": value, "grad_Lambda": grad_Lambda}, kappa=kappa):
        return None
    return float(value[0]), grad_Lambda


def pair_factors(j: IntArray, k: IntArray, VLV: FloatArray) -> FloatArray | None:
    """``-1/2 ln |R|`` and the rows of ``L^-1 / sqrt(2)``, where ``R = I + VLV_j + VLV_k = L L'``, of every pair.

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
    VLV, out = np.ascontiguousarray(VLV), np.empty((len(j), 1 + r * (r + 1) // 2))
    pairs = PairsStruct(count=len(j), r=r, j=j.ctypes.data, k=k.ctypes.data)
    call = new_call(A=VLV.ctypes.data, sum_a=out.ctypes.data, pairs=ctypes.pointer(pairs))
    return None if library().gpzed_pair_factors(ctypes.byref(call)) else out


def spread_block(Xt: FloatArray, Ct: FloatArray, pairs: Pairs, scratch: Scratch) -> FloatArray:
    """Sum over pairs of basis functions less the products of their expected values, for every form and row, (s, n).

    Parameters
    ----------
    Xt : ndarray of shape (d, n)
        Expected inputs.
    Ct : ndarray of shape (m, q)
        Coefficients of the expected basis functions on the full quadratic map.
    pairs : Pairs
    scratch : Scratch
    """
    Xt, Ct = np.asarray(Xt, dtype=np.float64), np.ascontiguousarray(Ct)
    (d, n), (m, q) = Xt.shape, Ct.shape
    out = np.empty((len(pairs.weights), n))
    call = new_call(n=n, d=d, q=q, m=m, is_full=True, pairs=ctypes.pointer(pairs._struct()))
    call.stride_feature, call.stride_row = (stride // 8 for stride in Xt.strides)
    work = scratch.array("work", (library().gpzed_spread_work_size(ctypes.byref(call)),))
    for name, value in (("Xt", Xt), ("Ct", Ct), ("work", work), ("sum_a", out)):
        setattr(call, name, value.ctypes.data)
    library().gpzed_spread(ctypes.byref(call))
    return out


def rows_block(
    Xt: FloatArray, V: FloatArray, Lambda: FloatArray, pairs: Pairs, scratch: Scratch
) -> tuple[FloatArray, FloatArray]:
    """Give E[phi] (m, n), and the same sums as `spread_block`, for rows with uncertainties of their own.

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
    Xt, (m, q) = np.asarray(Xt, dtype=np.float64), pairs.plain.shape
    d, n = Xt.shape
    row, column = np.tril_indices(d)
    lower = np.ascontiguousarray(V[:, row, column].T)
    Phi, out = np.empty((m, n)), np.empty((len(pairs.weights), n))
    call = new_call(n=n, d=d, q=q, m=m, is_full=True, pairs=ctypes.pointer(pairs._struct()))
    call.stride_feature, call.stride_row = (stride // 8 for stride in Xt.strides)
    work = scratch.array("work", (library().gpzed_rows_work_size(ctypes.byref(call)),))
    arrays = {"Xt": Xt, "A": lower, "w": Lambda, "Ct": pairs.plain, "work": work, "sum_a": out, "sum_b": Phi}
    for name, value in arrays.items():
        setattr(call, name, value.ctypes.data)
    library().gpzed_rows(ctypes.byref(call))
    return Phi, out
