"""Three loops over a block that NumPy cannot fuse: compiled from `_kernels.c` if the build could, NumPy's otherwise.

An evaluation is four matrix products and these. Where NumPy has no vector instructions for the float64 exponential
(x86 without AVX-512), that alone costs a quarter of the products; the compiled one is about three times faster.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

from gpzed._types import FloatArray

_POINTER, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_SIGNATURES = {
    "gpzed_exp": [_POINTER, _SIZE],
    "gpzed_products": [_POINTER, _POINTER, _SIZE, _SIZE],
    "gpzed_gradient": [_POINTER] * 6 + [_SIZE, _SIZE],
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


def exp_in_place(x: FloatArray) -> None:
    """Replace every element of an array by its exponential; below -708 the result may be 0."""
    if _library is None or not x.flags.c_contiguous:
        np.exp(x, out=x)
    else:
        _library.gpzed_exp(x.ctypes.data, x.size)


def pair_products(Xt: FloatArray, out: FloatArray) -> None:
    """Fill `out` (d (d + 1) / 2, n) with the rows ``x_k x_l``, k <= l, of ``Xt`` (d, n); both C-contiguous."""
    d, n = Xt.shape
    if _library is not None:
        _library.gpzed_products(Xt.ctypes.data, out.ctypes.data, d, n)
        return
    row = 0
    for k in range(d):
        np.multiply(Xt[k], Xt[k:], out=out[row : row + d - k])
        row += d - k


def fold_gradient(
    T: FloatArray, Psi: FloatArray, u: FloatArray, w: FloatArray, g: FloatArray, s: FloatArray
) -> FloatArray:
    """``(u g' - w s' - T) o Psi``, of shape (m, n), in the memory of ``T``; all arguments C-contiguous."""
    m, n = T.shape
    if _library is not None:
        addresses = (array.ctypes.data for array in (T, Psi, u, w, g, s))
        _library.gpzed_gradient(*addresses, m, n)
        return T
    np.subtract(np.stack([u, -w[:m]], axis=1) @ np.stack([g, s]), T, out=T)
    return np.multiply(T, Psi, out=T)
