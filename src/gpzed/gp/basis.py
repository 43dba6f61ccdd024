"""Basis functions through one matrix product (Eq. 3.2 and C.12-C.13).

With the quadratic feature map ``z(x) = [1, x, x_k x_l]`` of q entries, the logarithm of every basis function is
linear, ``ln phi_j(x) = z(x)' C[:, j]``, so that responses and gradients are matrix products over the rows:
``ln Phi = Z C`` and ``dL/dC = Z' G``. The six structures differ only in how ``C`` is made from ``P`` and
``Lambda`` and in how ``dL/dC`` is folded back. Arrays over rows are stored features first, ``(q, n)``.

The neurons of appendix B are sigmoids of a linear function, ``phi_j = 1 / (1 + exp(-t_j))`` with ``t = Z C`` and the
linear map ``z(x) = [1, x]``; all else is the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpzed._types import FloatArray
from gpzed.compiled.fastmath import fill_quadratic
from gpzed.gp.covariance import Structure


def quadratic_map(Xt: FloatArray, is_full: bool, out: FloatArray) -> FloatArray:
    """Fill the quadratic feature map of a block of rows.

    Parameters
    ----------
    Xt : ndarray of shape (d, n)
        Inputs, one column per row of the data.
    is_full : bool
        All products ``x_k x_l`` (k <= l) if true, only the squares otherwise.
    out : ndarray of shape (q, n)
        Filled and returned; with 1 + d rows it gets the linear map alone.
    """
    d = len(Xt)
    if len(out) == 1 + d:
        out[0], out[1:] = 1.0, Xt
    else:
        fill_quadratic(Xt, is_full, out)
    return out


def make_coefficients(structure: Structure, P: FloatArray, Gamma: FloatArray) -> FloatArray:
    """Coefficients ``C`` (q, m) of the basis functions of a structure, or of neurons."""
    if structure.is_sigmoid:
        return np.concatenate([Gamma[None], P.T])
    return coefficients(P, structure.expand(Gamma, P.shape[1]))


def fold_coefficients(
    structure: Structure, grad_C: FloatArray, P: FloatArray, Gamma: FloatArray, more: Sequence[FloatArray] = ()
) -> tuple[FloatArray, FloatArray]:
    """Turn ``dL/dC`` into gradients for ``P`` and ``Gamma``, for which `make_coefficients` gave C.

    `more` are gradients for P and Lambda from elsewhere, to be added, if any.
    """
    if structure.is_sigmoid:
        return np.ascontiguousarray(grad_C[1:].T), grad_C[0].copy()
    grad_P, grad_Lambda = pull_back(grad_C, P, structure.expand(Gamma, P.shape[1]))
    if more:
        grad_P, grad_Lambda = grad_P + more[0], grad_Lambda + more[1]
    return grad_P, structure.fold(Gamma, grad_Lambda)


def log_sigmoid(t: FloatArray) -> None:
    """Replace t by the logarithm of its sigmoid, in place and without overflow."""
    np.logaddexp(0.0, np.negative(t, out=t), out=t)
    np.negative(t, out=t)


def coefficients(P: FloatArray, Lambda: FloatArray) -> FloatArray:
    """Coefficients ``C`` such that ``ln Phi = Z C``.

    Parameters
    ----------
    P : ndarray of shape (m, d)
        Centres of the basis functions.
    Lambda : ndarray of shape (g, d) or (g, d, d)
        Precision matrices, diagonal or full; g is 1 (shared) or m.

    Returns
    -------
    C : ndarray of shape (q, m)
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
    """Turn ``dL/dC`` into gradients for the centres and the precision matrices.

    With ``G = dL/d ln Phi`` and ``Delta_j = X - p_j`` the results are Eq. C.12, ``G[:, j]' Delta_j Lambda_j``, and
    ``-1/2 Delta_j' diag(G[:, j]) Delta_j``, from which Eq. C.13 follows by ``dLambda = 2 Gamma' dGamma``.

    Returns
    -------
    grad_P : ndarray of shape (m, d)
    grad_Lambda : ndarray of the shape of ``Lambda``
        Symmetric; summed over basis functions where ``Lambda`` is shared.
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
