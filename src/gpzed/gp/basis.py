"""Basis functions through one matrix product (Eq. 3.2 and C.12-C.13).

With the quadratic feature map ``z(x) = [1, x, x_k x_l]`` of q entries, the logarithm of every basis function is
linear, ``ln phi_j(x) = z(x)' C[:, j]``, so that responses and gradients are matrix products over the rows:
``ln Phi = Z C`` and ``dL/dC = Z' G``. The six structures differ only in how ``C`` is made from ``P`` and
``Lambda`` and in how ``dL/dC`` is folded back. Arrays over rows are stored features first, ``(q, n)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from gpzed._types import FloatArray


@dataclass(frozen=True)
class Basis(ABC):
    """Basis functions that depend on ``t = Z C``, as both passes over the rows use them."""

    Ct: FloatArray  # (m, q) coefficients of the feature map

    @abstractmethod
    def map(self, Xt: FloatArray, out: FloatArray) -> FloatArray:
        """Fill the feature map ``Zt`` (q, n) of inputs (d, n) and return it."""

    @abstractmethod
    def respond(self, Zt: FloatArray, out: FloatArray) -> FloatArray:
        """Fill the responses ``Phi`` (m, n) and return them."""

    @abstractmethod
    def chain(self, G: FloatArray, Psi: FloatArray, sqrt_B: FloatArray) -> FloatArray:
        """Turn ``G = dL / d ln Phi`` (m, n) into ``dL / dt``; ``Psi = B^1/2 Phi``."""


@dataclass(frozen=True)
class Gaussians(Basis):
    """``phi = exp(t)`` with the quadratic map (Eq. 3.2)."""

    is_full: bool

    def map(self, Xt: FloatArray, out: FloatArray) -> FloatArray:
        """Fill the quadratic map."""
        return quadratic_map(Xt, self.is_full, out)

    def respond(self, Zt: FloatArray, out: FloatArray) -> FloatArray:
        """Fill ``Phi = exp(C' Z)``."""
        return np.exp(np.matmul(self.Ct, Zt, out=out), out=out)

    def chain(self, G: FloatArray, Psi: FloatArray, sqrt_B: FloatArray) -> FloatArray:
        """Return G: t is ``ln Phi``."""
        return G


def quadratic_map(Xt: FloatArray, is_full: bool, out: FloatArray) -> FloatArray:
    """Fill `out` (q, n) with the quadratic feature map of inputs (d, n) and return it.

    It has all products ``x_k x_l`` (k <= l) if `is_full`, only the squares otherwise.
    """
    d = len(Xt)
    out[0] = 1.0
    out[1 : d + 1] = Xt
    row = d + 1
    for k in range(d):
        stop = d if is_full else k + 1
        np.multiply(Xt[k], Xt[k:stop], out=out[row : row + stop - k])
        row += stop - k
    return out


def coefficients(P: FloatArray, Lambda: FloatArray) -> FloatArray:
    """Return coefficients ``C`` (q, m) such that ``ln Phi = Z C``, of basis functions with centres P (m, d).

    Their precision matrices Lambda are diagonal, (g, d), or full, (g, d, d); g is 1 (shared) or m.
    """
    m, d = P.shape
    if Lambda.ndim == 2:
        Lambda_p = Lambda * P  # (m, d)
        quadratic = np.broadcast_to(-0.5 * Lambda, (m, d))
    else:
        Lambda_p = (Lambda @ P[:, :, None])[:, :, 0]
        row, column = np.triu_indices(d)
        scale = np.where(row == column, -0.5, -1.0)  # x_k x_l with k < l stands for two elements of x x'
        quadratic = np.broadcast_to(scale * Lambda[:, row, column], (m, row.size))
    constant = -0.5 * np.sum(P * Lambda_p, axis=1)
    return np.concatenate([constant[None], Lambda_p.T, quadratic.T])


def pull_back(grad_C: FloatArray, P: FloatArray, Lambda: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Turn ``dL/dC`` into gradients for the centres P and the precision matrices Lambda, symmetric.

    With ``G = dL/d ln Phi`` and ``Delta_j = X - p_j`` these are Eq. C.12, ``G[:, j]' Delta_j Lambda_j``, and
    ``-1/2 Delta_j' diag(G[:, j]) Delta_j``, from which Eq. C.13 follows by ``dLambda = 2 Gamma' dGamma``.
    """
    m, d = P.shape
    G_sum = grad_C[0]  # (m,)   sum_i G_ij
    G_x = grad_C[1 : d + 1].T  # (m, d) sum_i G_ij x_i
    shift = G_x - G_sum[:, None] * P  # sum_i G_ij (x_i - p_j)
    if Lambda.ndim == 2:
        grad_P = Lambda * shift  # Eq. C.12
        G_xx = grad_C[d + 1 :].T
        grad_Lambda = -0.5 * (G_xx - 2.0 * G_x * P + G_sum[:, None] * P**2)
    else:
        grad_P = (Lambda @ shift[:, :, None])[:, :, 0]  # Eq. C.12
        row, column = np.triu_indices(d)
        G_xx = np.empty((m, d, d))
        G_xx[:, row, column] = G_xx[:, column, row] = grad_C[d + 1 :].T
        cross = G_x[:, :, None] * P[:, None, :]
        outer = G_sum[:, None, None] * P[:, :, None] * P[:, None, :]
        grad_Lambda = -0.5 * (G_xx - cross - np.swapaxes(cross, 1, 2) + outer)  # cf. Eq. C.13
    if Lambda.shape[0] == 1 and m != 1:
        grad_Lambda = grad_Lambda.sum(axis=0, keepdims=True)  # Eq. C.14
    return grad_P, grad_Lambda
