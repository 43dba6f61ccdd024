"""Cholesky factors with a stated jitter policy; the only file that catches LinAlgError.

A positive definite matrix ``S`` is first brought to unit diagonal, ``R = s S s`` with ``s = diag(S)^-1/2``: with
relevance determination the diagonal spans many decades, and scaling removes that part of the ill-conditioning
exactly. ``R`` is then factorised; only if that fails is a multiple of the identity added, 1e-14 first and then
up to `MAX_JITTER` in steps of 100. What was added is recorded in the factor, never hidden.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.linalg import lapack, solve_triangular

from gpzed._types import FloatArray
from gpzed.errors import NumericalError

MAX_JITTER = 1e-8
SINGLE_CONDITIONED = 1e-6
"""Reciprocal condition number above which a factor in single precision gives variances to 1e-6 or better."""
WELL_CONDITIONED = 1e-9
"""Reciprocal condition number above which products with an explicit inverse are as good as solves."""


@dataclass(frozen=True)
class Factor:
    """Cholesky factor of ``S = s^-1 L L' s^-1``."""

    L: FloatArray  # (m, m) lower triangular factor of the scaled matrix
    s: FloatArray  # (m,) scale that brings ``S`` to unit diagonal
    jitter: float  # what had to be added to the unit diagonal; 0 almost always
    rcond: float  # estimate of the reciprocal condition number of the scaled matrix (1-norm)

    @property
    def log_det(self) -> float:
        """``ln |S|``."""
        return float(2.0 * np.sum(np.log(np.diagonal(self.L)) - np.log(self.s)))

    @property
    def is_well_conditioned(self) -> bool:
        """Whether products with `inverse` are safe."""
        return self.rcond > WELL_CONDITIONED

    def rounded(self) -> Factor:
        """Return the factor in numbers that single precision holds, shorter in a file, if that does no harm."""
        if self.rcond < SINGLE_CONDITIONED:
            return self
        return Factor(self.L.astype(np.float32).astype(np.float64), self.s, self.jitter, self.rcond)

    @cached_property
    def whitener(self) -> FloatArray:
        """Lower triangular ``W`` with ``S^-1 = W' W``, so that ``phi S^-1 phi' = |W phi'|^2``."""
        return np.ascontiguousarray(solve_triangular(self.L, np.diag(self.s), lower=True))

    @cached_property
    def inverse(self) -> FloatArray:
        """``S^-1``; for products only where `is_well_conditioned`."""
        return self.whitener.T @ self.whitener

    @cached_property
    def inverse_diagonal(self) -> FloatArray:
        """Diagonal of ``S^-1``, a sum of squares: positive whatever the conditioning."""
        return np.asarray(np.einsum("ij,ij->j", self.whitener, self.whitener))

    def solve(self, rhs: FloatArray) -> FloatArray:
        """``S^-1 rhs`` by two triangular solves."""
        scale = self.s if rhs.ndim == 1 else self.s[:, None]
        half = solve_triangular(self.L, scale * rhs, lower=True)
        return np.asarray(scale * solve_triangular(self.L, half, lower=True, trans="T"))

    def solve_block(self, Psi: FloatArray, out: FloatArray) -> FloatArray:
        """``S^-1 Psi``: one product where S is well conditioned, two triangular ones where it is not."""
        if self.is_well_conditioned:
            return np.matmul(self.inverse, Psi, out=out)
        half = triangular_product(self.whitener, Psi, np.empty_like(Psi))
        return np.matmul(self.whitener.T, half, out=out)


def triangular_product(W: FloatArray, Phi: FloatArray, out: FloatArray) -> FloatArray:
    """``W Phi`` for lower triangular W, by strips that leave out the zeros: 5/8 of the work of a full product."""
    edges = np.linspace(0, len(W), 5).astype(int)
    for start, stop in pairwise(edges):
        if stop > start:
            np.matmul(W[start:stop, :stop], Phi[:stop], out=out[start:stop])
    return out


def cholesky(S: FloatArray) -> Factor:
    """Factorise a symmetric positive definite matrix under the jitter policy of this module.

    A matrix that is not finite, or singular beyond `MAX_JITTER`, raises `NumericalError`.
    """
    diagonal = np.diagonal(S)
    if not np.all(np.isfinite(diagonal)) or np.any(diagonal <= 0.0):
        raise NumericalError(
            "posterior precision has a diagonal that is not positive and finite; inputs or weights may be out of all "
            "scale. Whiten the inputs (`whitening`), and look for outliers."
        )
    s = 1.0 / np.sqrt(diagonal)
    R = s[:, None] * S * s
    jitter = 0.0
    while True:
        R[np.diag_indices_from(R)] = 1.0 + jitter
        try:
            L = np.asarray(np.linalg.cholesky(R), dtype=np.float64)
        except np.linalg.LinAlgError:
            jitter = max(1e-14, 100.0 * jitter)
            if jitter > MAX_JITTER:
                raise NumericalError(
                    f"a {len(R)} x {len(R)} posterior precision is singular even with {MAX_JITTER:g} added to its "
                    "scaled diagonal; expected a positive definite matrix. Basis functions may coincide or "
                    "features may be duplicates: use fewer basis functions or drop duplicated columns."
                ) from None
            continue
        if not np.all(np.isfinite(L)):
            raise NumericalError("posterior precision holds values that are not finite.")
        norm = float(np.max(np.sum(np.abs(R), axis=0)))
        rcond, _ = lapack.dpocon(L, norm, uplo="L")
        return Factor(L, s, jitter, float(rcond))


def non_negative_least_squares(A: FloatArray, b: FloatArray) -> FloatArray:
    """Return the x >= 0 for which ``|A x - b|`` is least, by the active sets of Lawson & Hanson (1974).

    It works on the normal equations, scaled to unit diagonal; columns without any value get 0.
    """
    norms = np.sqrt(np.einsum("ij,ij->j", A, A))
    s = np.where(norms > 0.0, 1.0 / np.where(norms > 0.0, norms, 1.0), 0.0)
    G, h = s[:, None] * (A.T @ A) * s, s * (A.T @ b)
    G[np.diag_indices_from(G)] = 1.0 + 1e-12
    x, free = np.zeros(len(h)), np.zeros(len(h), dtype=bool)
    tolerance = 1e-10 * max(float(np.abs(h).max(initial=0.0)), 1e-300)
    for _ in range(3 * len(h)):
        gain = np.where(free, -np.inf, h - G @ x)
        if not gain.max(initial=-np.inf) > tolerance:
            break
        free[np.argmax(gain)] = True
        while True:
            trial = np.zeros_like(x)
            trial[free] = np.linalg.solve(G[np.ix_(free, free)], h[free])
            blocked = free & (trial <= 0.0)
            if not blocked.any():
                break
            reach = float(np.min(x[blocked] / (x[blocked] - trial[blocked]), initial=1.0))
            x += reach * (trial - x)
            free &= x > 1e-14 * max(float(x.max()), 1e-300)
            x[~free] = 0.0
        x = trial
    return np.asarray(s * x)


def cholesky_stack(R: FloatArray) -> FloatArray:
    """Lower factors of matrices such as ``I + V' Lambda V`` (g, r, r): positive definite unless a step diverged."""
    try:
        L = np.asarray(np.linalg.cholesky(R), dtype=np.float64)
    except np.linalg.LinAlgError:
        raise not_finite() from None
    if not np.all(np.isfinite(L)):
        raise not_finite()
    return L


def inverse_stack(matrices: FloatArray) -> FloatArray:
    """Inverses of precision matrices of basis functions, (g, d, d), which are regular unless a step diverged."""
    try:
        return np.asarray(np.linalg.inv(matrices), dtype=np.float64)
    except np.linalg.LinAlgError:
        raise NumericalError("shapes of basis functions are singular; whiten the inputs (`whitening`).") from None


def root_stack(covariances: FloatArray, jitter: float) -> FloatArray:
    """Lower factors of covariances (n, d, d) that may be singular: `jitter` is added, a larger one only if needed."""
    largest = max(1.0, float(np.diagonal(covariances, axis1=1, axis2=2).max(initial=1.0)))
    for factor in (1.0, largest, 1e3 * largest, 1e6 * largest):
        try:
            return np.asarray(np.linalg.cholesky(covariances + factor * jitter * np.eye(covariances.shape[1])))
        except np.linalg.LinAlgError:
            continue
    raise NumericalError("covariances of uncertain inputs are not finite; look for errors or inputs out of all scale.")


def not_finite() -> NumericalError:
    """Say that a matrix such as ``I + V' Lambda V`` is not finite."""
    return NumericalError("shapes of basis functions are not finite.")
