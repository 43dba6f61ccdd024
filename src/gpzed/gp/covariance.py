"""The six covariance structures of the basis functions (section 3 of the paper).

Basis function j has the precision matrix ``Lambda_j = Gamma_j' Gamma_j``. The structures differ in what
``Gamma_j`` may be (a multiple of the identity, diagonal, full) and in whether all basis functions share it.
Everything that depends on the structure is in the table ``STRUCTURES`` below: to change one, or to add a
seventh, edit one row and the two small functions that it names.

``NETWORK`` is no covariance: its basis functions are the neurons of appendix B, ``phi_j = sigmoid(x p_j' + gamma_j)``,
with the weights of the neuron in the place of the centre and its bias in that of Gamma.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpzed._types import FloatArray


def _expand_isotropic(Gamma: FloatArray, d: int) -> FloatArray:
    return np.repeat(Gamma[:, None] ** 2, d, axis=1)  # (g, d), the diagonal of gamma^2 I


def _expand_diagonal(Gamma: FloatArray, d: int) -> FloatArray:
    return Gamma**2  # (g, d)


def _expand_full(Gamma: FloatArray, d: int) -> FloatArray:
    return np.swapaxes(Gamma, 1, 2) @ Gamma  # (g, d, d)


def _fold_isotropic(Gamma: FloatArray, grad_Lambda: FloatArray) -> FloatArray:
    return np.asarray(2.0 * Gamma * grad_Lambda.sum(axis=1))  # Eq. C.17


def _fold_diagonal(Gamma: FloatArray, grad_Lambda: FloatArray) -> FloatArray:
    return 2.0 * Gamma * grad_Lambda  # Eq. C.15


def _fold_full(Gamma: FloatArray, grad_Lambda: FloatArray) -> FloatArray:
    return 2.0 * Gamma @ grad_Lambda  # Eq. C.13; grad_Lambda is symmetric


def _factor_isotropic(Lambda: FloatArray) -> FloatArray:
    d = Lambda.shape[1]
    return np.asarray(np.exp(0.5 * np.linalg.slogdet(Lambda)[1] / d))


def _factor_diagonal(Lambda: FloatArray) -> FloatArray:
    return np.sqrt(np.diagonal(Lambda, axis1=1, axis2=2))


def _factor_full(Lambda: FloatArray) -> FloatArray:
    return np.swapaxes(np.linalg.cholesky(Lambda), 1, 2)


@dataclass(frozen=True)
class Structure:
    """One way to parametrise the precision matrices of the basis functions.

    Attributes
    ----------
    code : str
        "GL", "VL", "GD", "VD", "GC" or "VC".
    is_global : bool
        Whether all basis functions share one ``Gamma``.
    is_full : bool
        Whether ``Lambda`` has off-diagonal elements.
    expand : callable
        ``(Gamma, d) -> Lambda``, of shape (g, d) if diagonal and (g, d, d) if full, g being 1 or m.
    fold : callable
        ``(Gamma, grad_Lambda) -> grad_Gamma``.
    factor : callable
        Full ``Lambda`` of shape (g, d, d) ``-> Gamma``, the nearest member of the structure: used to start.
    is_sigmoid : bool
        Whether basis functions are sigmoids of a linear function; there is no ``Lambda`` then.
    """

    code: str
    is_global: bool
    is_full: bool
    expand: Callable[[FloatArray, int], FloatArray]
    fold: Callable[[FloatArray, FloatArray], FloatArray]
    factor: Callable[[FloatArray], FloatArray]
    is_sigmoid: bool = False

    def gamma_shape(self, m: int, d: int) -> tuple[int, ...]:
        """Shape of the array ``Gamma`` for m basis functions in d dimensions."""
        g = 1 if self.is_global else m
        tail: dict[str, tuple[int, ...]] = {"L": (), "D": (d,), "C": (d, d), "N": ()}
        return (g, *tail[self.code[1]])

    def n_quadratic(self, d: int) -> int:
        """Count the columns q of the quadratic feature map that this structure needs."""
        return 1 + d + (0 if self.is_sigmoid else d * (d + 1) // 2 if self.is_full else d)


STRUCTURES: dict[str, Structure] = {
    "GL": Structure("GL", True, False, _expand_isotropic, _fold_isotropic, _factor_isotropic),
    "VL": Structure("VL", False, False, _expand_isotropic, _fold_isotropic, _factor_isotropic),
    "GD": Structure("GD", True, False, _expand_diagonal, _fold_diagonal, _factor_diagonal),
    "VD": Structure("VD", False, False, _expand_diagonal, _fold_diagonal, _factor_diagonal),
    "GC": Structure("GC", True, True, _expand_full, _fold_full, _factor_full),
    "VC": Structure("VC", False, True, _expand_full, _fold_full, _factor_full),
}


def _no_covariance(*_: object) -> FloatArray:
    raise AssertionError("a sigmoid basis function has no covariance")


NETWORK = Structure("ANN", False, False, _no_covariance, _no_covariance, _no_covariance, is_sigmoid=True)
BASES: dict[str, Structure] = {**STRUCTURES, NETWORK.code: NETWORK}
"""All that `covariance` may be."""


def get_structure(code: str) -> Structure:
    """Look up a structure by its code.

    Parameters
    ----------
    code : str
        One of "GL", "VL", "GD", "VD", "GC", "VC", or "ANN".

    Returns
    -------
    Structure

    Raises
    ------
    ValueError
        If the code is unknown; the message lists the valid ones.

    Examples
    --------
    >>> get_structure("VC").gamma_shape(m=5, d=3)
    (5, 3, 3)
    """
    try:
        return BASES[code]
    except (KeyError, TypeError):
        valid = ", ".join(f'"{name}"' for name in BASES)
        raise ValueError(f"`covariance` is {code!r}; expected one of {valid}.") from None


def full_precision(Lambda: FloatArray) -> FloatArray:
    """Write a diagonal ``Lambda`` (g, d) as matrices (g, d, d); a full one is returned as it is."""
    return Lambda if Lambda.ndim == 3 else Lambda[:, :, None] * np.eye(Lambda.shape[1])
