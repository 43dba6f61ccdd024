"""The variance that uncertain inputs add: quadratic forms of the basis functions, ``trace(Q Cov[phi])``.

Rows that are blurred alike share their preparation (`AddedVariance`); rows with errors of their own get expected basis
functions and added variance one by one (`BlurredRows`). With x = xhat + V z and f the logarithm of a basis function, or
of a product of two,

    ln E = f(xhat) - 1/2 ln |R| + 1/2 g' R^-1 g,    g = V' grad f(xhat),    R = I + V' Lambda V.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from gpzed._types import FloatArray, IntArray
from gpzed.compiled import substitute
from gpzed.engine.blocks import Scratch
from gpzed.gp.basis import coefficients, quadratic_map
from gpzed.gp.covariance import full_precision
from gpzed.gp.linalg import cholesky_stack
from gpzed.incomplete.blur import Blur, BlurredBasis, log_determinant

PAIRS, ROWS = 1024, 256
"""Pairs of basis functions, and rows, that are worked on at once: 2 MB of products stay near the core."""
NEGLIGIBLE = 1e-10
"""Pairs are left out whose part in a variance is together below this, the target having unit variance."""
FEW_ROWS = 64
"""Rows with errors of their own that NumPy takes at once."""


@dataclass(frozen=True)
class QuadraticForms:
    """Quadratic forms of the weights, for which rows however blurred may be asked."""

    P: FloatArray  # (m, d)
    Lambda: FloatArray  # (g, d) or (g, d, d)
    # (s, M, M) symmetric: ``w w'`` gives the variance of the mean, ``S^-1`` what is added to the model variance
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
class AddedVariance:
    """What the uncertain inputs of one blur of rows add to quadratic forms of the weights: ``trace(Q Cov[phi])``."""

    forms: QuadraticForms
    blur: Blur
    prepared: dict[str, Any] = field(default_factory=dict, compare=False)  # by the compiled twin

    @cached_property
    def singles(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """``Lambda`` (m, d, d), ``Lambda p`` (m, d), ``V' Lambda`` (m, r, d), ``V' Lambda V`` (m, r, r)."""
        P, V = self.forms.P, self.blur.V
        Lambda = np.broadcast_to(full_precision(self.forms.Lambda), (len(P), *[P.shape[1]] * 2))
        VL = V.T @ Lambda
        return Lambda, (Lambda @ P[:, :, None])[:, :, 0], VL, VL @ V

    @cached_property
    def _coefficients(self) -> FloatArray:
        """``ln E[phi_j phi_k]`` on the quadratic map of the coordinates t, (pairs, 1 + e + e (e + 1) / 2).

        What does not mix two basis functions is computed for each of them once.
        """
        P, V, origin, D = self.forms.P, self.blur.V, self.blur.origin, self.blur.directions
        Lambda, h, VL, VLV_one = self.singles
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
            constant = constant - 0.5 * log_determinant(L) + 0.5 * np.sum(c**2, axis=1)
            linear = linear - (c[:, None, :] @ A)[:, 0]
            quadratic = quadratic - scale * np.einsum("pri,pri->pi", A[:, :, row], A[:, :, column])
            parts.append(np.concatenate([constant[:, None], linear, quadratic], axis=1))
        return np.concatenate(parts) if parts else np.empty((0, 1 + D.shape[1] + len(row)))

    @cached_property
    def basis(self) -> BlurredBasis:
        """Expected basis functions of these rows."""
        return BlurredBasis(self.forms.P, self.forms.Lambda, self.blur.V)

    @cached_property
    def linear(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What a linear mean function adds: with inputs x, ``Cov[x, phi_j] = Psi Lambda_j* (p_j - xhat) E[phi_j]``."""
        P, V, matrices = self.forms.P, self.blur.V, self.forms.matrices
        m, d = P.shape
        cross = matrices[:, m + 1 :, :m]  # (s, d, m)
        Lambda_star = np.broadcast_to(self.basis.parts[0], (m, d, d))
        R = 2.0 * np.einsum("jab,bc,scj->sja", Lambda_star, V @ V.T, cross, optimize=True)
        own = np.einsum("sab,ab->s", matrices[:, m + 1 :, m + 1 :], V @ V.T)
        return R, np.einsum("sja,ja->sj", R, P), own

    def __call__(self, Xt: FloatArray, scratch: Scratch | None = None) -> FloatArray:
        """Give ``trace(Q Cov[phi])`` for every form and row, (s, n), from expected inputs (d, n)."""
        total = substitute(pair_sums)(self, Xt, Scratch() if scratch is None else scratch)
        if self.forms.is_linear:
            total += self.linear[2][:, None]
        return np.maximum(total, 0.0)


def pair_sums(spread: AddedVariance, Xt: FloatArray, scratch: Scratch) -> FloatArray:
    """Sum over pairs of basis functions less the products of their expected values, for every form and row, (s, n)."""
    n = Xt.shape[1]
    weights, C = spread.forms.pairs[2], spread._coefficients
    total = np.empty((len(weights), n))
    Tt = np.ascontiguousarray(spread.blur.directions.T @ (Xt - spread.blur.origin[:, None]))
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
    Ct = spread.basis.Ct
    Phi = Ct @ quadratic_map(np.ascontiguousarray(Xt), True, np.empty((Ct.shape[1], n)))
    np.exp(Phi, out=Phi)
    total -= np.einsum("jn,sjn->sn", Phi, spread.forms.lower @ Phi)
    if spread.forms.is_linear:
        R, offset, _ = spread.linear
        total += np.einsum("sjn,jn->sn", offset[:, :, None] - R @ Xt, Phi)
    return total


@dataclass(frozen=True)
class BlurredRows:
    """Expectations of basis functions, and of quadratic forms of them, for rows that each have their own errors."""

    forms: QuadraticForms
    k: int  # columns ``[1, x]`` of the mean function that follow the basis functions

    @cached_property
    def Lambda(self) -> FloatArray:
        """Precision matrices, (m, d, d)."""
        m, d = self.forms.P.shape
        return np.ascontiguousarray(np.broadcast_to(full_precision(self.forms.Lambda), (m, d, d)))

    @cached_property
    def slopes(self) -> FloatArray:
        """``grad ln phi``, linear in x, (m, d, 1 + d)."""
        h = (self.Lambda @ self.forms.P[:, :, None])[:, :, 0]
        return np.ascontiguousarray(np.concatenate([h[:, :, None], -self.Lambda], axis=2))

    @cached_property
    def linear(self) -> FloatArray | None:
        """Weights of ``Cov[x, phi_j]`` in every form, (s, m, d); None if the mean function is not linear."""
        m = len(self.forms.P)
        cross = self.forms.matrices[:, :m, m + 1 :]
        return np.ascontiguousarray(2.0 * cross) if self.forms.is_linear else None

    def __call__(self, Xt: FloatArray, V: FloatArray, scratch: Scratch) -> tuple[FloatArray, FloatArray]:
        """Give E[phi] with columns of the mean function, (M, n), and ``trace(Q Cov[phi])``, (s, n)."""
        Phi, total = substitute(row_sums)(self, Xt, V, scratch)
        if self.forms.is_linear:
            m = len(self.forms.P)
            own = self.forms.matrices[:, m + 1 :, m + 1 :]
            total += np.einsum("sab,nac,nbc->sn", own, V, V, optimize=True)
        columns = np.concatenate([np.ones((1, Xt.shape[1])), Xt])[: self.k]
        return np.concatenate([Phi, columns]), np.maximum(total, 0.0)


def row_sums(rows: BlurredRows, Xt: FloatArray, V: FloatArray, scratch: Scratch) -> tuple[FloatArray, FloatArray]:
    """Return E[phi] (m, n), and the forms but for those of x alone (s, n)."""
    starts = range(0, Xt.shape[1], FEW_ROWS)
    parts = [_few_row_sums(rows, Xt[:, i : i + FEW_ROWS].T, V[i : i + FEW_ROWS]) for i in starts]
    Phi, total = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
    return Phi, total


def _few_row_sums(rows: BlurredRows, X: FloatArray, V: FloatArray) -> tuple[FloatArray, FloatArray]:
    Z = quadratic_map(np.ascontiguousarray(X.T), True, np.empty((rows.forms.plain.shape[1], len(X))))
    a = (rows.forms.plain @ Z).T
    slope = rows.slopes[:, :, 0] - np.einsum("jab,nb->nja", rows.Lambda, X)
    g = np.einsum("nai,nja->nji", V, slope)
    VLV = np.einsum("nai,jab,nbl->njil", V, rows.Lambda, V, optimize=True)
    log_phi, z = _complete_square(a, g, VLV)
    Phi = np.exp(log_phi)
    j, k, weights = rows.forms.pairs
    products = np.exp(_complete_square(a[:, j] + a[:, k], g[:, j] + g[:, k], VLV[:, j] + VLV[:, k])[0])
    total = weights @ products.T - np.einsum("nj,sjk,nk->sn", Phi, rows.forms.lower, Phi, optimize=True)
    if rows.linear is not None:
        total += np.einsum("sja,nai,nji,nj->sn", rows.linear, V, z, Phi, optimize=True)
    return Phi.T, total


def _complete_square(a: FloatArray, g: FloatArray, VLV: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Give ``a - 1/2 ln |R| + 1/2 g' R^-1 g`` (n, p) and ``R^-1 g`` (n, p, d)."""
    R = VLV + np.eye(VLV.shape[-1])
    z = np.asarray(np.linalg.solve(R, g[..., None])[..., 0], dtype=np.float64)
    return a - 0.5 * np.linalg.slogdet(R)[1] + 0.5 * np.sum(g * z, axis=-1), z
