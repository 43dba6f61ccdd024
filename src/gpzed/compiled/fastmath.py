"""Whole blocks in one compiled call (`_kernels.c`), and the same element by element in NumPy.

An evaluation is four matrix products over the rows with element-wise work in between. Done by NumPy, every step is a
pass over memory that takes Python's lock before and after; and BLAS, made for large matrices, repacks its operands at
every call. The compiled functions take rows through all steps in pieces that stay in the cache, without the lock. Where
the build found no compiler, `gp/evidence.py` and `gp/predictive.py` do the same in NumPy; these are the readable
forms, and tests hold the two together. Arrays are features first.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpzed._types import FloatArray

if TYPE_CHECKING:
    from gpzed.engine.threads import Scratch

_SIZES = ("lanes", "n", "d", "q", "m", "k", "is_full", "is_inverse", "K", "stride_feature", "stride_row")
_ARRAYS = ("Xt", "y", "omega", "c", "v", "Ct", "u", "w", "A", "kept", "work", "sum_a", "sum_b", "sums")
_FUNCTIONS = (
    "forward",
    "backward",
    "predict",
    "responses",
    "gradient",
    "exponential",
    "spread",
    "rows",
    "heads",
    "mixture",
    "pair_factors",
)
MAX_FUSED = 256
_lanes = 0  # widest vectors to use, in numbers; 0 for the widest that the processor has


_SHAPE_ARRAYS = ("P", "Lambda", "V", "grad_C", "Ct", "grad_P", "grad_Lambda", "work")
_SHAPE_FUNCTIONS = ("blur", "blur_gradient", "shape_prior")
_PAIR_SIZES = ("count", "r", "s")
PAIR_ARRAYS = ("j", "k", "plain", "slopes", "factors", "weights", "matrices", "linear")


class PairsStruct(ctypes.Structure):
    """Pairs of basis functions: `struct pairs` of `_kernels.c`."""

    _fields_ = [(name, ctypes.c_ssize_t) for name in _PAIR_SIZES] + [(name, ctypes.c_void_p) for name in PAIR_ARRAYS]


class ShapesStruct(ctypes.Structure):
    """Shapes of basis functions: `struct shapes` of `_shapes.h`."""

    _fields_ = (
        [(name, ctypes.c_ssize_t) for name in ("m", "d", "r", "is_shared", "keeps")]
        + [("kappa", ctypes.c_double)]
        + [(name, ctypes.c_void_p) for name in _SHAPE_ARRAYS]
    )


class CallStruct(ctypes.Structure):
    """Arguments of all compiled functions: `struct call` of `_kernels.c`."""

    _fields_ = (
        [(name, ctypes.c_ssize_t) for name in _SIZES]
        + [("b", ctypes.c_double)]
        + [(name, ctypes.c_void_p) for name in _ARRAYS]
        + [("pairs", ctypes.POINTER(PairsStruct))]
    )


_STEP_NUMBERS = ("kappa", "ridge", "scale", "max_norm", "momentum", "decay", "rate", "root_scale", "epsilon")


class StepStruct(ctypes.Structure):
    """A step of the training of heads: `struct step` of `_step.h`."""

    _fields_ = (
        [(name, ctypes.c_ssize_t) for name in ("m", "d", "k", "K", "gamma", "is_shared", "n_blocks")]
        + [(name, ctypes.c_void_p) for name in ("blocks", "ranks", "V")]
        + [(name, ctypes.c_double) for name in (*_STEP_NUMBERS, "value", "norm")]
        + [(name, ctypes.c_void_p) for name in ("theta", "first", "second", "work")]
        + [("lanes", ctypes.c_ssize_t)]
    )


class PointsStruct(ctypes.Structure):
    """Mixtures whose points of least loss are wanted: `struct points` of `_kernels.c`."""

    _fields_ = (
        [(name, ctypes.c_ssize_t) for name in ("lanes", "n", "K", "G", "newton_steps", "max_steps")]
        + [(name, ctypes.c_double) for name in ("lower", "uncut", "knee", "smallest", "negligible", "tolerance")]
        + [(name, ctypes.c_void_p) for name in ("weights", "means", "stds", "t", "above", "share", "work", "out")]
    )


_STRUCTS = (CallStruct, PairsStruct, ShapesStruct, StepStruct, PointsStruct)
_SIGNATURES: dict[type[ctypes.Structure], tuple[tuple[str, ...], tuple[str, ...]]] = {
    CallStruct: (_FUNCTIONS, ("work_size", "kept_size", "spread_work_size", "rows_work_size", "heads_work_size")),
    ShapesStruct: (_SHAPE_FUNCTIONS, ("shapes_work_size",)),
    StepStruct: (("step",), ("step_work_size",)),
    PointsStruct: (("points",), ("points_work_size",)),
}
"""Functions of each structure, those that compute and those that give the size of an array."""


def _load() -> ctypes.CDLL | None:
    """Load the compiled functions; None where they were not compiled, or for another machine or version."""
    try:
        library = ctypes.CDLL(str(Path(__file__).with_name("_kernels.so")))
        library.gpzed_struct_sizes.restype = ctypes.c_size_t
        for struct, (functions, sizes) in _SIGNATURES.items():
            for name in (*functions, *sizes):
                function = getattr(library, f"gpzed_{name}")
                function.argtypes = [ctypes.POINTER(struct)]
                function.restype = ctypes.c_size_t if name in sizes else ctypes.c_int
    except (OSError, AttributeError):
        return None
    expected = 0
    for struct in _STRUCTS:
        expected = 1000 * expected + ctypes.sizeof(struct)
    return library if library.gpzed_struct_sizes() == expected else None


_library = _load()
HAS_KERNELS = _library is not None


def library() -> ctypes.CDLL:
    """Return the compiled functions."""
    assert _library is not None
    return _library


def widest_lanes() -> int:
    """Numbers in the widest vectors that may be used; 0 for the widest that the processor has."""
    return _lanes


def new_call(**fields: Any) -> CallStruct:
    """Make the arguments of a compiled function, with vectors as wide as is allowed."""
    return CallStruct(lanes=_lanes, **fields)


def is_compiled() -> bool:
    """Whether the functions on whole blocks can be used."""
    return _library is not None


def is_fused(M: int) -> bool:
    """Whether the compiled passes are to be used for M weights; for many, BLAS on larger pieces is ahead (measured)."""
    return _library is not None and M <= MAX_FUSED


@dataclass(frozen=True)
class Basis:
    """What the compiled functions need to know of the basis functions.

    Attributes
    ----------
    Ct : ndarray of shape (m, q)
        Coefficients of the quadratic map.
    is_full : bool
        Whether the map has all products, or the squares only.
    u : ndarray of shape (m,)
    b : float
        ``ln beta = u' Phi + b``.
    k : int
        Columns of the mean function, the first rows of the quadratic map.
    """

    Ct: FloatArray
    is_full: bool
    u: FloatArray
    b: float = 0.0
    k: int = 0


def _run(function: str, Xt: FloatArray, basis: Basis, scratch: Scratch, **arguments: Any) -> int:
    """Call a compiled function on a block; arrays that are not contiguous are copied, except for the inputs."""
    assert _library is not None
    arrays = {"Ct": basis.Ct, "u": basis.u} | {
        name: value for name, value in arguments.items() if isinstance(value, np.ndarray)
    }
    arrays = {name: np.ascontiguousarray(value, dtype=np.float64) for name, value in arrays.items()}
    Xt = np.asarray(Xt, dtype=np.float64)
    (d, n), (m, q) = Xt.shape, basis.Ct.shape
    call = CallStruct(lanes=_lanes, n=n, d=d, q=q, m=m, k=basis.k, is_full=basis.is_full, b=basis.b)
    call.is_inverse = bool(arguments.get("is_inverse", False))
    call.stride_feature, call.stride_row = (stride // 8 for stride in Xt.strides)
    call.K = int(arguments.get("K", 0))
    call.w = arrays["w"].ctypes.data if "w" in arrays else None
    size = _library.gpzed_heads_work_size if call.K else _library.gpzed_work_size
    work = scratch.array("work", (size(ctypes.byref(call)),))
    for name, value in (arrays | {"Xt": Xt, "work": work}).items():
        setattr(call, name, value.ctypes.data)
    return int(getattr(_library, f"gpzed_{function}")(ctypes.byref(call)))


def kept_size(M: int, n: int) -> int:
    """Numbers that the first pass over n rows with M weights leaves to the second."""
    assert _library is not None
    return int(_library.gpzed_kept_size(ctypes.byref(CallStruct(lanes=_lanes, n=n, m=M))))


def forward_block(
    Xt: FloatArray,
    y: FloatArray,
    omega: FloatArray,
    c: FloatArray,
    basis: Basis,
    scratch: Scratch,
    *,
    kept: FloatArray | None = None,
    v: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """First pass over a block.

    Parameters
    ----------
    Xt : ndarray of shape (d, n)
    y, omega, c : ndarray of shape (n,)
        Targets, weights, and weights of ``ln B`` in the log-likelihood.
    basis : Basis
    scratch : Scratch
    kept : ndarray of `kept_size` or None
        Where ``Psi`` and ``B^1/2`` are left to the second pass.
    v : ndarray of shape (n,) or None
        Variance beside that of the noise: ``B = omega / (1 / beta + v)``.

    Returns
    -------
    tuple of ndarray, or None
        ``Phi' B Phi``, ``Phi' B y`` and ``sum c ln(B / omega)``; None if a noise precision is out of bounds or NaN.
    """
    M = len(basis.u) + basis.k
    sums = np.zeros((M, M)), np.zeros(M), np.zeros(1)
    results = dict(zip(("sum_a", "sum_b", "sums"), sums, strict=True))
    failed = _run("forward", Xt, basis, scratch, y=y, omega=omega, c=c, v=v, kept=kept, **results)
    return None if failed else (sums[0], sums[1], sums[2].reshape(()))


def backward_block(
    Xt: FloatArray,
    y: FloatArray,
    omega: FloatArray,
    c: FloatArray,
    basis: Basis,
    scratch: Scratch,
    w: FloatArray,
    A: FloatArray,
    is_inverse: bool,
    *,
    kept: FloatArray | None = None,
    v: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray] | None:
    """Second pass over a block.

    Parameters
    ----------
    Xt, y, omega, c, basis, scratch, kept, v
        As in `forward_block`; what it left in `kept` is used and not computed again.
    w : ndarray of shape (M,)
        Posterior mean.
    A : ndarray of shape (M, M)
        ``S^-1`` if `is_inverse`, else lower triangular ``W`` with ``S^-1 = W' W``.
    is_inverse : bool

    Returns
    -------
    tuple of ndarray, or None
        ``Z' G``, ``Phi' g``, ``sum g`` and ``delta' B delta``; None if a noise precision is out of bounds or NaN.
    """
    m, q = basis.Ct.shape
    Z_G, Phi_g, sums = np.zeros((q, m)), np.zeros(m), np.zeros(2)
    arrays = {"y": y, "omega": omega, "c": c, "v": v, "kept": kept, "w": w, "A": A}
    results = {"sum_a": Z_G, "sum_b": Phi_g, "sums": sums}
    failed = _run("backward", Xt, basis, scratch, is_inverse=is_inverse, **arrays, **results)
    return None if failed else (Z_G, Phi_g, sums[0].reshape(()), sums[1].reshape(()))


def predict_block(Xt: FloatArray, basis: Basis, scratch: Scratch, w: FloatArray, W: FloatArray) -> FloatArray:
    """Mean, model variance ``|W Phi|^2`` and noise variance, of shape (3, n), for lower triangular W."""
    moments = np.empty((3, Xt.shape[1]))
    _run("predict", Xt, basis, scratch, w=w, A=W, sum_a=moments)
    return moments


def responses_block(
    Xt: FloatArray, basis: Basis, scratch: Scratch, out: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """``Phi`` (m + k, n), in the contiguous memory `out` if given, and ``ln beta`` (n,)."""
    n = Xt.shape[1]
    Phi = np.empty((len(basis.u) + basis.k, n)) if out is None else out
    assert Phi.flags.c_contiguous
    log_beta = np.empty(n)
    _run("responses", Xt, basis, scratch, sum_a=Phi, sum_b=log_beta)
    return Phi, log_beta


def gradient_block(Xt: FloatArray, G: FloatArray, basis: Basis, scratch: Scratch) -> FloatArray:
    """``Z' G`` (q, m), the gradient for the coefficients, for ``G = dL / d ln Phi`` (m, n)."""
    out = np.zeros(basis.Ct.shape[::-1])
    _run("gradient", Xt, basis, scratch, A=G, sum_a=out)
    return out


def heads_block(
    Xt: FloatArray,
    y: FloatArray,
    omega: FloatArray,
    basis: Basis,
    Theta: FloatArray,
    scratch: Scratch,
    *,
    v: FloatArray | None = None,
    has_gradient: bool = True,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log-likelihood of a mixture of heads, see `gpzed.mixture.heads`.

    Parameters
    ----------
    Xt : ndarray of shape (d, n)
    y, omega : ndarray of shape (n,)
        Targets and weights.
    basis : Basis
        Its u and b have no meaning here.
    Theta : ndarray of shape (m + k, 3 K)
    scratch : Scratch
    v : ndarray of shape (n,) or (K, n), or None
        Variance that is added to that of the noise, the same for all heads or one for each.
    has_gradient : bool
        Whether the first two results are wanted; they are 0 otherwise.

    Returns
    -------
    tuple of ndarray
        ``Z' G`` (q, m), ``Phi' H`` (m + k, 3 K) and the log-likelihood.
    """
    Z_G, Phi_H, sums = np.zeros(basis.Ct.shape[::-1]), np.zeros(Theta.shape), np.zeros(1)
    results = {"sum_a": Z_G, "sum_b": Phi_H} if has_gradient else {}
    K = Theta.shape[1] // 3
    v = None if v is None else np.broadcast_to(v, (K, len(y)))
    _run("heads", Xt, basis, scratch, y=y, omega=omega, v=v, A=Theta, K=K, sums=sums, **results)
    return Z_G, Phi_H, sums.reshape(())


def mixture_block(
    Xt: FloatArray, basis: Basis, Theta: FloatArray, whiteners: FloatArray, scratch: Scratch
) -> FloatArray:
    """Weights, means, model variances and noise variances of K heads, of shape (4, K, n).

    Parameters
    ----------
    Xt : ndarray of shape (d, n)
    basis : Basis
        Its u and b have no meaning here.
    Theta : ndarray of shape (m + k, 3 K)
    whiteners : ndarray of shape (K, m + k, m + k)
        Lower triangular ``W_k``: the model variance of head k is ``|W_k Phi|^2``.
    scratch : Scratch
    """
    K = len(whiteners)
    out = np.empty((4, K, Xt.shape[1]))
    _run("mixture", Xt, basis, scratch, A=Theta, w=whiteners, K=K, sum_a=out)
    return out


def exp_in_place(x: FloatArray) -> None:
    """Replace every element of an array by its exponential; below -708 the result may be 0."""
    if _library is None or not x.flags.c_contiguous or x.dtype != np.float64:
        np.exp(x, out=x)
    else:
        _library.gpzed_exponential(ctypes.byref(CallStruct(lanes=_lanes, n=x.size, sum_a=x.ctypes.data)))


def fill_quadratic(Xt: FloatArray, is_full: bool, out: FloatArray) -> None:
    """Fill the quadratic map ``[1, x_k, x_k x_l (k <= l)]``, or ``[1, x_k, x_k^2]``, of shape (q, n)."""
    d = len(Xt)
    out[0] = 1.0
    out[1 : d + 1] = Xt
    row = d + 1
    for k in range(d):
        stop = d if is_full else k + 1
        np.multiply(Xt[k], Xt[k:stop], out=out[row : row + stop - k])
        row += stop - k


def respond(log_Phi: FloatArray, u: FloatArray, b: float) -> FloatArray:
    """Turn ``ln Phi`` (m, n) into ``Phi`` in place, and give ``ln beta = u' Phi + b`` (n,)."""
    exp_in_place(log_Phi)
    return np.asarray(u @ log_Phi + b)


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
    m = len(u)
    B_nu = np.einsum("ij,ij->j", T, Psi)  # Eq. 3.13 times B
    sqrt_B_delta = w @ Psi - sqrt_B * y
    g_scaled = 0.5 * (c - sqrt_B_delta**2 - B_nu) / sqrt_B  # Eq. C.6
    G = T[:m]
    np.subtract(np.outer(u, g_scaled) - np.outer(w[:m], sqrt_B_delta), G, out=G)
    return np.multiply(G, Psi[:m], out=G), g_scaled, sqrt_B_delta  # Eq. C.7
