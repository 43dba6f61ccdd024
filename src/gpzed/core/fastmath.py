"""What happens to a block between two matrix products: compiled from `_kernels.c`, or the same in NumPy.

An evaluation is four matrix products and these functions. NumPy needs a pass over memory for every operation, takes
Python's lock between any two of them, and has no vector instructions for the float64 exponential on x86 without
AVX-512; together that nearly doubles the time of an evaluation. The compiled functions do it in one pass each. Where
the build found no compiler (or an array is not contiguous) the NumPy forms below are used; they are the readable ones,
and tests hold the two together. Arrays are features first.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

from gpzed._types import FloatArray

_POINTER, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_SIGNATURES = {
    "gpzed_exp": [_POINTER, _SIZE],
    "gpzed_quadratic": [_POINTER, _POINTER, _SIZE, _SIZE, _SIZE],
    "gpzed_respond": [_POINTER] * 4 + [_SIZE] * 2,
    "gpzed_backward": [_POINTER] * 9 + [_SIZE] * 3,
}


def _load() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(str(Path(__file__).with_name("_kernels.so")))
        for name, signature in _SIGNATURES.items():
            function = getattr(library, name)
            function.argtypes, function.restype = signature, None
    except (OSError, AttributeError):  # not compiled, or compiled for another machine or version
        return None
    return library


_library = _load()
HAS_KERNELS = _library is not None


def _are_contiguous(*arrays: FloatArray) -> bool:
    return all(array.flags.c_contiguous and array.dtype == np.float64 for array in arrays)


def exp_in_place(x: FloatArray) -> None:
    """Replace every element of an array by its exponential; below -708 the result may be 0."""
    if _library is None or not _are_contiguous(x):
        np.exp(x, out=x)
    else:
        _library.gpzed_exp(x.ctypes.data, x.size)


def fill_quadratic(Xt: FloatArray, is_full: bool, out: FloatArray) -> None:
    """Fill the quadratic map ``[1, x_k, x_k x_l (k <= l)]``, or ``[1, x_k, x_k^2]``, of shape (q, n)."""
    d, n = Xt.shape
    if _library is not None and _are_contiguous(Xt, out):
        _library.gpzed_quadratic(Xt.ctypes.data, out.ctypes.data, d, n, is_full)
        return
    out[0] = 1.0
    out[1 : d + 1] = Xt
    row = d + 1
    for k in range(d):
        stop = d if is_full else k + 1
        np.multiply(Xt[k], Xt[k:stop], out=out[row : row + stop - k])
        row += stop - k


def respond(log_Phi: FloatArray, u: FloatArray, b: float) -> FloatArray:
    """Turn ``ln Phi`` (m, n) into ``Phi`` in place, and give ``ln beta = u' Phi + b`` (n,)."""
    m, n = log_Phi.shape
    if _library is None or not _are_contiguous(log_Phi, u):
        exp_in_place(log_Phi)
        return np.asarray(u @ log_Phi + b)
    log_beta, offset = np.empty(n), ctypes.c_double(b)
    _library.gpzed_respond(log_Phi.ctypes.data, u.ctypes.data, ctypes.byref(offset), log_beta.ctypes.data, m, n)
    return log_beta


def backward_terms(
    T: FloatArray,
    Psi: FloatArray,
    u: FloatArray,
    w: FloatArray,
    y: FloatArray,
    c: FloatArray,
    sqrt_B: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Residuals and gradients of a block from ``T = S^-1 Psi``, whose memory is reused.

    Parameters
    ----------
    T, Psi : ndarray of shape (M, n)
    u : ndarray of shape (m,)
    w : ndarray of shape (M,)
    y, c, sqrt_B : ndarray of shape (n,)
        Targets, weights of ``ln beta`` in the log-likelihood, and ``B^1/2``.

    Returns
    -------
    G : ndarray of shape (m, n)
        ``dL / d ln Phi`` (Eq. C.7).
    g_scaled : ndarray of shape (n,)
        ``B^-1/2 dL / d ln beta`` (Eq. C.6).
    sqrt_B_delta : ndarray of shape (n,)
        ``B^1/2 (Phi w - y)``.
    """
    (M, n), m = T.shape, len(u)
    if _library is not None and _are_contiguous(T, Psi, u, w, y, c, sqrt_B):
        g_scaled, sqrt_B_delta = np.empty(n), np.empty(n)
        arrays = (T, Psi, u, w, y, c, sqrt_B, g_scaled, sqrt_B_delta)
        _library.gpzed_backward(*(array.ctypes.data for array in arrays), M, m, n)
        return T[:m], g_scaled, sqrt_B_delta
    B_nu = np.einsum("ij,ij->j", T, Psi)  # Eq. 3.13 times B
    sqrt_B_delta = w @ Psi - sqrt_B * y
    g_scaled = 0.5 * (c - sqrt_B_delta**2 - B_nu) / sqrt_B  # Eq. C.6
    G = T[:m]
    np.subtract(np.outer(u, g_scaled) - np.outer(w[:m], sqrt_B_delta), G, out=G)
    return np.multiply(G, Psi[:m], out=G), g_scaled, sqrt_B_delta  # Eq. C.7
