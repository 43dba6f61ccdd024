"""Basis functions of inputs that are uncertain: x ~ N(xhat, Psi), as where bands are missing or noisy.

Rows of one *kind* share ``Psi = V V'``. With ``R = I + V' Lambda V`` the expected basis function is again the
exponential of a quadratic form in xhat,

    E[phi_j] = |R_j|^-1/2 exp(-1/2 (xhat - p_j)' Lambda_j* (xhat - p_j)),   Lambda* = (Lambda^-1 + Psi)^-1,

so that a kind only has coefficients of its own (`Blur`), and everything else stays as it is. A product of two basis
functions has the same form with ``Lambda_j + Lambda_k``; from these follow the covariances of the basis functions that
the uncertainty of the inputs brings, ``Cov[phi_j, phi_k] = E[phi_j phi_k] - E[phi_j] E[phi_k]`` (`Spread`). No
precision matrix is inverted: shapes may be as flat as they like.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpzed._types import BoolArray, FloatArray, IntArray
from gpzed.compiled import substitute
from gpzed.compiled.binding import is_compiled
from gpzed.compiled.pairs import MAX_RANK, Pairs, pair_factors, spread_block
from gpzed.engine.blocks import Scratch
from gpzed.gp.basis import coefficients, pull_back, quadratic_map
from gpzed.gp.covariance import full_precision
from gpzed.gp.linalg import cholesky_stack, not_finite

PAIRS, ROWS = 1024, 256
"""Pairs of basis functions, and rows, that are worked on at once: 2 MB of products stay near the core."""
NEGLIGIBLE = 1e-10
"""Pairs are left out whose part in a variance is together below this, the target having unit variance."""


@dataclass(frozen=True)
class Kind:
    """How the inputs of some rows are uncertain.

    Attributes
    ----------
    V : ndarray of shape (d, r)
        Factor of the covariance, ``Psi = V V'``.
    origin : ndarray of shape (d,)
    directions : ndarray of shape (d, e)
        Expected inputs of such rows are ``origin + directions t``: where inputs are missing, e is the number of the
        others. The columns are orthonormal.
    missing : ndarray of bool of shape (d,)
        Which inputs were not seen at all, before any whitening.
    """

    V: FloatArray
    origin: FloatArray
    directions: FloatArray
    missing: BoolArray


@dataclass(frozen=True)
class Blur:
    """Basis functions as seen by rows of one kind.

    Attributes
    ----------
    P : ndarray of shape (m, d)
    Lambda : ndarray of shape (g, d) or (g, d, d)
    V : ndarray of shape (d, r)
    """

    P: FloatArray
    Lambda: FloatArray
    V: FloatArray

    @cached_property
    def parts(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """``Lambda*`` (g, d, d), ``ln |R|`` (g,), ``V L'^-1`` (g, d, r), ``L^-1 V' Lambda`` (g, r, d); ``R = L L'``."""
        Lambda = full_precision(self.Lambda)
        L, L_inverse = _root(Lambda, self.V)
        A = L_inverse @ (self.V.T @ Lambda)
        Lambda_star = Lambda - np.swapaxes(A, 1, 2) @ A
        return Lambda_star, _log_det(L), self.V @ np.swapaxes(L_inverse, 1, 2), A

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


def blurred_coefficients(blur: Blur) -> FloatArray:
    """Return coefficients of ``ln E[phi]`` on the full quadratic map, (m, q)."""
    Lambda_star, log_det, _, _ = blur.parts
    C = coefficients(blur.P, Lambda_star)
    C[0] -= 0.5 * log_det
    return np.ascontiguousarray(C.T)


def blurred_pull_back(blur: Blur, grad_C: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Turn the gradient for these coefficients into gradients for P and full Lambda, (g, d, d).

    With ``T = (I + Psi Lambda)^-1`` the change of ``Lambda*`` is ``T' dLambda T``.
    """
    Lambda_star, _, K, A = blur.parts
    grad_P, grad_star = pull_back(grad_C, blur.P, Lambda_star)
    G_sum = grad_C[0] if len(Lambda_star) == len(blur.P) else grad_C[0].sum(keepdims=True)
    T = np.eye(len(blur.V)) - K @ A
    own = (0.5 * G_sum)[:, None, None] * (K @ np.swapaxes(K, 1, 2))
    return grad_P, T @ grad_star @ np.swapaxes(T, 1, 2) - own


def _root(Lambda: FloatArray, V: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Cholesky factors of ``I + V' Lambda V`` and their inverses, (g, r, r)."""
    L = cholesky_stack(np.eye(V.shape[1]) + V.T @ Lambda @ V)
    return L, np.asarray(np.linalg.inv(L), dtype=np.float64)


def _log_det(L: FloatArray) -> FloatArray:
    return np.asarray(2.0 * np.log(np.diagonal(L, axis1=1, axis2=2)).sum(axis=1))


@dataclass(frozen=True)
class Forms:
    """Quadratic forms of the weights, for which rows of any kind may be asked.

    Attributes
    ----------
    P : ndarray of shape (m, d)
    Lambda : ndarray of shape (g, d) or (g, d, d)
    matrices : ndarray of shape (s, M, M)
        Symmetric. ``w w'`` gives the variance of the mean, ``S^-1`` what is added to the model variance; one for each
        head of a mixture serves as well.
    """

    P: FloatArray
    Lambda: FloatArray
    matrices: FloatArray

    @property
    def is_linear(self) -> bool:
        """Whether there are weights of a linear mean function, which spreads, too."""
        return bool(self.matrices.shape[1] > len(self.P) + 1)

    @cached_property
    def plain(self) -> FloatArray:
        """Coefficients of ``ln phi`` on the full quadratic map, (m, q)."""
        return np.ascontiguousarray(coefficients(self.P, full_precision(self.Lambda)).T)

    @cached_property
    def lower(self) -> FloatArray:
        """Matrices of the same forms of the basis functions, lower triangular, (s, m, m)."""
        matrices = self.matrices[:, : len(self.P), : len(self.P)]
        return np.ascontiguousarray(np.tril(2.0 * matrices) - matrices * np.eye(len(self.P)))

    @cached_property
    def pairs(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Pairs (j, k), j <= k, of basis functions that matter, and the weights (s, pairs) of their products."""
        m = len(self.P)
        j, k = np.triu_indices(m)
        weight = self.matrices[:, j, k] * np.where(j == k, 1.0, 2.0)
        part = np.abs(weight).max(axis=0) * self._heights(j, k)
        order = np.argsort(part)
        kept = np.sort(order[np.searchsorted(np.cumsum(part[order]), NEGLIGIBLE) :])
        return j[kept], k[kept], np.ascontiguousarray(weight[:, kept])

    def _heights(self, j: IntArray, k: IntArray) -> FloatArray:
        """Largest value of ``phi_j phi_k`` anywhere: ``exp(-1/2 c' Lambda_j (Lambda_j + Lambda_k)^-1 Lambda_k c)``."""
        difference = self.P[j] - self.P[k]
        if self.Lambda.ndim == 2:
            Lambda = np.broadcast_to(self.Lambda, self.P.shape)
            total = Lambda[j] + Lambda[k]
            half = np.where(total > 0.0, Lambda[j] * Lambda[k] / np.where(total > 0.0, total, 1.0), 0.0)
            return np.asarray(np.exp(-0.5 * np.sum(difference**2 * half, axis=1)))
        Lambda = np.broadcast_to(self.Lambda, (len(self.P), *self.Lambda.shape[1:]))
        d = self.P.shape[1]
        total = Lambda[j] + Lambda[k]
        trace = np.trace(total, axis1=1, axis2=2)
        total = total + 1e-12 * np.maximum(trace, 1e-300)[:, None, None] * np.eye(d)
        right = (Lambda[k] @ difference[:, :, None])[:, :, 0]
        left = (Lambda[j] @ difference[:, :, None])[:, :, 0]
        exponent = np.sum(left * np.linalg.solve(total, right[:, :, None])[:, :, 0], axis=1)
        return np.asarray(np.exp(-0.5 * np.maximum(exponent, 0.0)))


@dataclass(frozen=True)
class Spread:
    """What the uncertain inputs of one kind of rows add to quadratic forms of the weights: ``trace(Q Cov[phi])``.

    There are two ways to ``ln E[phi_j phi_k]``. Most of it belongs to one basis function and one row; what is left to
    the pair are the r (r + 1) / 2 numbers of a triangular matrix (`_pairs`, compiled). Or it is a quadratic form of the
    coordinates t of the row, with coefficients for every pair (`_coefficients`, NumPy).
    """

    forms: Forms
    kind: Kind

    @cached_property
    def _singles(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """``Lambda`` (m, d, d), ``Lambda p`` (m, d), ``V' Lambda`` (m, r, d), ``V' Lambda V`` (m, r, r)."""
        P, V = self.forms.P, self.kind.V
        Lambda = np.broadcast_to(full_precision(self.forms.Lambda), (len(P), *[P.shape[1]] * 2))
        VL = V.T @ Lambda
        return Lambda, (Lambda @ P[:, :, None])[:, :, 0], VL, VL @ V

    @property
    def is_by_rank(self) -> bool:
        """Whether the compiled sums over pairs can be used.

        Measured for m = 100, d = 10: 10 against 30 microseconds of a core per row for r = 2, equal at r = 7; at r = d a
        row takes a little longer, but coefficients of all pairs are 30 times the preparation.
        """
        return is_compiled() and self.kind.V.shape[1] <= MAX_RANK

    @cached_property
    def _pairs(self) -> Pairs:
        """What the compiled sums over pairs need.

        With x = xhat + V z and f the exponent of a product, the expectation over z leaves ``-1/2 ln |R| + f(xhat) + 1/2
        |L^-1 V' grad f(xhat)|^2``, where ``R = I + V' (Lambda_j + Lambda_k) V = L L'``.
        """
        _, h, VL, VLV = self._singles
        j, k, weights = self.forms.pairs
        factors = pair_factors(j, k, VLV)
        if factors is None:
            raise not_finite()
        slopes = np.ascontiguousarray(np.concatenate([(h @ self.kind.V)[:, :, None], -VL], axis=2))
        linear = None
        if self.forms.is_linear:
            R, offset, _ = self._linear
            linear = np.ascontiguousarray(np.concatenate([offset[:, :, None], -R], axis=2))
        return Pairs(j, k, self.forms.plain, slopes, factors, weights, self.forms.lower, linear)

    @cached_property
    def _coefficients(self) -> FloatArray:
        """``ln E[phi_j phi_k]`` on the quadratic map of the coordinates t, (pairs, 1 + e + e (e + 1) / 2).

        The same formula as in `_pairs`; what does not mix two basis functions is computed for each of them once.
        """
        P, V, origin, D = self.forms.P, self.kind.V, self.kind.origin, self.kind.directions
        Lambda, h, VL, VLV_one = self._singles
        Lambda_origin = Lambda @ origin
        row, column = np.triu_indices(D.shape[1])
        scale = np.where(row == column, -0.5, -1.0)
        single = [
            -0.5 * np.sum(P * h, axis=1) + h @ origin - 0.5 * Lambda_origin @ origin,  # constant
            (h - Lambda_origin) @ D,  # linear
            scale * (D.T @ Lambda @ D)[:, row, column],  # quadratic
            VLV_one,
            (h @ V) - VL @ origin,  # V' grad f at the origin
            VL @ D,
        ]
        j, k, _ = self.forms.pairs
        parts = []
        for first in range(0, len(j), 4096):
            one, two = j[first : first + 4096], k[first : first + 4096]
            constant, linear, quadratic, VLV, slope, VLD = (values[one] + values[two] for values in single)
            L = cholesky_stack(np.eye(V.shape[1]) + VLV)
            L_inverse = np.linalg.inv(L)
            c, A = (L_inverse @ slope[:, :, None])[:, :, 0], L_inverse @ VLD
            constant = constant - 0.5 * _log_det(L) + 0.5 * np.sum(c**2, axis=1)
            linear = linear - (c[:, None, :] @ A)[:, 0]
            quadratic = quadratic - scale * np.einsum("pri,pri->pi", A[:, :, row], A[:, :, column])
            parts.append(np.concatenate([constant[:, None], linear, quadratic], axis=1))
        return np.concatenate(parts) if parts else np.empty((0, 1 + D.shape[1] + len(row)))

    @cached_property
    def _blur(self) -> Blur:
        return Blur(self.forms.P, self.forms.Lambda, self.kind.V)

    @cached_property
    def _linear(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What a linear mean function adds: with inputs x, ``Cov[x, phi_j] = Psi Lambda_j* (p_j - xhat) E[phi_j]``."""
        P, V, matrices = self.forms.P, self.kind.V, self.forms.matrices
        m, d = P.shape
        cross = matrices[:, m + 1 :, :m]  # (s, d, m)
        Lambda_star = np.broadcast_to(self._blur.parts[0], (m, d, d))
        R = 2.0 * np.einsum("jab,bc,scj->sja", Lambda_star, V @ V.T, cross, optimize=True)
        own = np.einsum("sab,ab->s", matrices[:, m + 1 :, m + 1 :], V @ V.T)
        return R, np.einsum("sja,ja->sj", R, P), own

    def __call__(self, Xt: FloatArray, scratch: Scratch | None = None) -> FloatArray:
        """``trace(Q Cov[phi])`` for every form and row, (s, n).

        Parameters
        ----------
        Xt : ndarray of shape (d, n)
            Expected inputs.
        scratch : Scratch or None
            Work arrays of this thread.
        """
        if self.is_by_rank:
            total = spread_block(Xt, self._blur.Ct, self._pairs, Scratch() if scratch is None else scratch)
        else:
            total = self._by_coefficients(Xt)
        if self.forms.is_linear:
            total += self._linear[2][:, None]
        return np.maximum(total, 0.0)

    def _by_coefficients(self, Xt: FloatArray) -> FloatArray:
        """Sum over pairs less the products of expected basis functions, (s, n)."""
        n = Xt.shape[1]
        weights, C = self.forms.pairs[2], self._coefficients
        total = np.empty((len(weights), n))
        Tt = np.ascontiguousarray(self.kind.directions.T @ (Xt - self.kind.origin[:, None]))
        for start in range(0, n, ROWS):
            rows = slice(start, min(start + ROWS, n))
            size = rows.stop - start
            T = np.ascontiguousarray(Tt[:, rows])
            Zt = quadratic_map(T, True, np.empty((C.shape[1], size))) if C.size else np.empty((C.shape[1], size))
            sums = np.zeros((len(weights), size))
            work = np.empty((min(PAIRS, len(C)), size))
            for first in range(0, len(C), PAIRS):
                last = min(first + PAIRS, len(C))
                products = np.matmul(C[first:last], Zt, out=work[: last - first])
                np.exp(products, out=products)
                sums += weights[:, first:last] @ products
            total[:, rows] = sums
        Ct = self._blur.Ct
        Phi = Ct @ quadratic_map(np.ascontiguousarray(Xt), True, np.empty((Ct.shape[1], n)))
        np.exp(Phi, out=Phi)
        total -= np.einsum("jn,sjn->sn", Phi, self.forms.lower @ Phi)
        if self.forms.is_linear:
            R, offset, _ = self._linear
            total += np.einsum("sjn,jn->sn", offset[:, :, None] - R @ Xt, Phi)
        return total


def input_variance(Xt: FloatArray, kind: Kind, P: FloatArray, Lambda: FloatArray, W: FloatArray) -> FloatArray:
    """Variance of ``w_k' phi(x)`` over the inputs of rows of one kind, for several sets of weights at once, (K, n).

    Parameters
    ----------
    Xt : ndarray of shape (d, n)
        Expected inputs.
    kind : Kind
    P, Lambda
        Of the basis functions.
    W : ndarray of shape (K, M)
        Weights.
    """
    return Spread(Forms(P, Lambda, W[:, :, None] * W[:, None, :]), kind)(Xt)
