"""The six covariance structures of the basis functions (section 3 of the paper).

Basis function j has the precision matrix ``Lambda_j = Gamma_j' Gamma_j``. The structures differ in what
``Gamma_j`` may be (a multiple of the identity, diagonal, full) and in whether all basis functions share it.
Everything that depends on the structure is one row of `STRUCTURES` and the three small functions that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.cluster.vq import vq

from gpzed._types import FloatArray
from gpzed.compiled import substitute
from gpzed.gp.basis import Basis, Gaussians, coefficients, pull_back
from gpzed.gp.linalg import cholesky_stack, inverse_stack
from gpzed.gp.prior import common_shape

WIDTH = 4.0
"""Basis functions start this much wider than the scatter of the rows they stand for, so that neighbours overlap."""
SHRINKAGE = 2.0
"""Rows per feature for which the scatter around one centre counts as much as the pooled scatter."""


@dataclass(frozen=True)
class Structure:
    """One way to parametrise the precision matrices of the basis functions."""

    code: str  # "GL", "VL", "GD", "VD", "GC" or "VC"
    is_global: bool  # whether all basis functions share one ``Gamma``
    is_full: bool  # whether ``Lambda`` has off-diagonal elements
    expand: Callable[[FloatArray, int], FloatArray]  # Gamma, d -> Lambda, (g, d) or (g, d, d); g is 1 or m
    fold: Callable[[FloatArray, FloatArray], FloatArray]  # Gamma, grad_Lambda -> grad_Gamma
    factor: Callable[[FloatArray], FloatArray]  # full Lambda (g, d, d) -> Gamma, the nearest member, to start from

    def gamma_shape(self, m: int, d: int) -> tuple[int, ...]:
        """Return the shape of the array ``Gamma`` for m basis functions in d dimensions."""
        tail: dict[str, tuple[int, ...]] = {"L": (), "D": (d,), "C": (d, d)}
        return (1 if self.is_global else m, *tail[self.code[1]])

    def n_shape(self, d: int) -> int:
        """Count the free numbers of one basis function's shape."""
        return 0 if self.is_global else {"L": 1, "D": d, "C": d * (d + 1) // 2}[self.code[1]]

    def basis(self, P: FloatArray, Gamma: FloatArray) -> Basis:
        """Return the basis functions at a point in parameter space."""
        C = coefficients(P, self.expand(Gamma, P.shape[1]))
        return Gaussians(np.ascontiguousarray(C.T), self.is_full)

    def pull_back(
        self, grad_C: FloatArray, P: FloatArray, Gamma: FloatArray, more: Sequence[FloatArray] = ()
    ) -> tuple[FloatArray, FloatArray]:
        """Turn ``dL/dC`` of `basis` into gradients for P and Gamma; add `more` for P and Lambda, if any."""
        grad_P, grad_Lambda = pull_back(grad_C, P, self.expand(Gamma, P.shape[1]))
        if more:
            grad_P, grad_Lambda = grad_P + more[0], grad_Lambda + more[1]
        return grad_P, self.fold(Gamma, grad_Lambda)

    def log_prior(self, P: FloatArray, Gamma: FloatArray, kappa: float) -> tuple[float, FloatArray, FloatArray]:
        """Return the log prior of strength kappa (`gpzed.gp.prior.common_shape`), and its gradients for P and Gamma."""
        if kappa == 0.0 or self.is_global or len(P) == 1:
            return 0.0, np.zeros_like(P), np.zeros_like(Gamma)
        value, grad_Lambda = substitute(common_shape)(self.expand(Gamma, P.shape[1]), kappa)
        return value, np.zeros_like(P), self.fold(Gamma, grad_Lambda)

    def start(self, X: FloatArray, P: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Return P and Gamma to start from: centres as given, shapes from the scatter of the rows X around them."""
        Lambda = local_precision(X, P)
        if self.is_global:
            Lambda = inverse_stack(inverse_stack(Lambda).mean(axis=0, keepdims=True))
        return P, self.factor(Lambda)


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
    return np.swapaxes(cholesky_stack(Lambda), 1, 2)


STRUCTURES: dict[str, Structure] = {
    "GL": Structure("GL", True, False, _expand_isotropic, _fold_isotropic, _factor_isotropic),
    "VL": Structure("VL", False, False, _expand_isotropic, _fold_isotropic, _factor_isotropic),
    "GD": Structure("GD", True, False, _expand_diagonal, _fold_diagonal, _factor_diagonal),
    "VD": Structure("VD", False, False, _expand_diagonal, _fold_diagonal, _factor_diagonal),
    "GC": Structure("GC", True, True, _expand_full, _fold_full, _factor_full),
    "VC": Structure("VC", False, True, _expand_full, _fold_full, _factor_full),
}
"""All that `covariance` may be."""


def get_structure(code: str) -> Structure:
    """Look up a structure by its code, or raise an error that lists the valid ones.

    >>> get_structure("VC").gamma_shape(m=5, d=3)
    (5, 3, 3)
    """
    try:
        return STRUCTURES[code]
    except (KeyError, TypeError):
        valid = ", ".join(f'"{name}"' for name in STRUCTURES)
        raise ValueError(f"`covariance` is {code!r}; expected one of {valid}.") from None


def full_precision(Lambda: FloatArray) -> FloatArray:
    """Write a diagonal ``Lambda`` (g, d) as matrices (g, d, d); a full one is returned as it is."""
    return Lambda if Lambda.ndim == 3 else Lambda[:, :, None] * np.eye(Lambda.shape[1])


def local_precision(X: FloatArray, P: FloatArray) -> FloatArray:
    """Return precision matrices (m, d, d) of the rows nearest to each centre, shrunk towards their common value."""
    (m, d), n = P.shape, len(X)
    label = vq(X, P)[0]
    residual = X - P[label]
    pooled = residual.T @ residual / n + 1e-3 * np.eye(d)
    scatter = np.zeros((m, d, d))
    np.add.at(scatter, label, residual[:, :, None] * residual[:, None, :])
    count = np.bincount(label, minlength=m)[:, None, None]
    covariance = (scatter + SHRINKAGE * d * pooled) / (count + SHRINKAGE * d)
    return inverse_stack(WIDTH**2 * covariance)
