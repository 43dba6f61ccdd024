"""Basis functions of inputs that are uncertain: x ~ N(xhat, Psi), as where bands are missing or noisy.

Rows of one *blur* share ``Psi = V V'``. With ``R = I + V' Lambda V`` the expected basis function is again the
exponential of a quadratic form in xhat,

    E[phi_j] = |R_j|^-1/2 exp(-1/2 (xhat - p_j)' Lambda_j* (xhat - p_j)),   Lambda* = (Lambda^-1 + Psi)^-1,

so that a blur only has its own coefficients (`BlurredBasis`), and all else stays the same. A product of two basis
functions has the same form with ``Lambda_j + Lambda_k``; from these follow the covariances of the basis functions that
the uncertainty of the inputs brings, ``Cov[phi_j, phi_k] = E[phi_j phi_k] - E[phi_j] E[phi_k]`` (`AddedVariance`). No
precision matrix is inverted: shapes may be as flat as they like.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpzed._types import BoolArray, FloatArray
from gpzed.compiled import substitute
from gpzed.gp.basis import coefficients, pull_back
from gpzed.gp.covariance import full_precision
from gpzed.gp.linalg import cholesky_stack


@dataclass(frozen=True)
class Blur:
    """How the inputs of some rows are uncertain."""

    V: FloatArray  # (d, r) factor of the covariance, ``Psi = V V'``
    origin: FloatArray  # (d,)
    directions: FloatArray  # (d, e) orthonormal; expected inputs are ``origin + directions t``
    missing: BoolArray  # (d,) which inputs were not seen at all, before any whitening


@dataclass(frozen=True)
class BlurredBasis:
    """Basis functions as seen by rows that are blurred alike."""

    P: FloatArray  # (m, d)
    Lambda: FloatArray  # (g, d) or (g, d, d)
    V: FloatArray  # (d, r)

    @cached_property
    def parts(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """``Lambda*`` (g, d, d), ``ln |R|`` (g,), ``V L'^-1`` (g, d, r), ``L^-1 V' Lambda`` (g, r, d); ``R = L L'``."""
        Lambda = full_precision(self.Lambda)
        L, L_inverse = _root(Lambda, self.V)
        A = L_inverse @ (self.V.T @ Lambda)
        Lambda_star = Lambda - np.swapaxes(A, 1, 2) @ A
        return Lambda_star, log_determinant(L), self.V @ np.swapaxes(L_inverse, 1, 2), A

    @cached_property
    def Ct(self) -> FloatArray:
        """Coefficients of ``ln E[phi]`` on the full quadratic map, (m, q)."""
        return substitute(blurred_coefficients)(self)

    def pull_back(self, grad_C: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Turn the gradient for these coefficients into gradients for P and Lambda, as `basis.pull_back` does."""
        grad_P, grad_Lambda = substitute(blurred_pull_back)(self, grad_C)
        if self.Lambda.ndim == 2:
            grad_Lambda = np.diagonal(grad_Lambda, axis1=1, axis2=2)
        return grad_P, grad_Lambda


def blurred_coefficients(blurred: BlurredBasis) -> FloatArray:
    """Return coefficients of ``ln E[phi]`` on the full quadratic map, (m, q)."""
    Lambda_star, log_det, _, _ = blurred.parts
    C = coefficients(blurred.P, Lambda_star)
    C[0] -= 0.5 * log_det
    return np.ascontiguousarray(C.T)


def blurred_pull_back(blurred: BlurredBasis, grad_C: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Turn the gradient for these coefficients into gradients for P and full Lambda, (g, d, d).

    With ``T = (I + Psi Lambda)^-1`` the change of ``Lambda*`` is ``T' dLambda T``.
    """
    Lambda_star, _, K, A = blurred.parts
    grad_P, grad_star = pull_back(grad_C, blurred.P, Lambda_star)
    G_sum = grad_C[0] if len(Lambda_star) == len(blurred.P) else grad_C[0].sum(keepdims=True)
    T = np.eye(len(blurred.V)) - K @ A
    own = (0.5 * G_sum)[:, None, None] * (K @ np.swapaxes(K, 1, 2))
    return grad_P, T @ grad_star @ np.swapaxes(T, 1, 2) - own


def _root(Lambda: FloatArray, V: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Cholesky factors of ``I + V' Lambda V`` and their inverses, (g, r, r)."""
    L = cholesky_stack(np.eye(V.shape[1]) + V.T @ Lambda @ V)
    return L, np.asarray(np.linalg.inv(L), dtype=np.float64)


def log_determinant(L: FloatArray) -> FloatArray:
    """Return the log-determinants of matrices from their Cholesky factors."""
    return np.asarray(2.0 * np.log(np.diagonal(L, axis1=1, axis2=2)).sum(axis=1))
