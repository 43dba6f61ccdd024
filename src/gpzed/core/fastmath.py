"""The exponential of a block, vectorised: the compiled kernel if the build made one, NumPy's otherwise.

Where NumPy has no vector instructions for float64 (x86 without AVX-512), its exponential costs as much as a
quarter of all matrix products of an evaluation; `_vexp.c` is about three times faster.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

from gpzed._types import FloatArray


def _load() -> ctypes.CDLL | None:
    path = Path(__file__).with_name("_vexp.so")
    try:
        library = ctypes.CDLL(str(path))
        library.gpzed_exp.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    except (OSError, AttributeError):  # not compiled, or compiled for another machine
        return None
    library.gpzed_exp.restype = None
    return library


_library = _load()
HAS_KERNEL = _library is not None


def exp_in_place(x: FloatArray) -> None:
    """Replace every element of a C-contiguous array by its exponential; below -708 the result may be 0."""
    if _library is None or not x.flags.c_contiguous:
        np.exp(x, out=x)
    else:
        _library.gpzed_exp(x.ctypes.data, x.size)
