"""Expected basis functions of rows each of which has an uncertainty of its own: x ~ N(xhat, V V'), V lower triangular.

Rows with errors differ in these, so that there are no kinds of rows to prepare for; the formulas are those of
`gpzed.incomplete.blur`. With x = xhat + V z and f the logarithm of a basis function, or of a product of two,

    ln E = f(xhat) - 1/2 ln |R| + 1/2 g' R^-1 g,    g = V' grad f(xhat),    R = I + V' Lambda V.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpzed._types import FloatArray
from gpzed.compiled.binding import is_compiled
from gpzed.compiled.pairs import MAX_RANK, Pairs, rows_block
from gpzed.engine.blocks import Scratch
from gpzed.gp.basis import quadratic_map
from gpzed.gp.covariance import full_precision
from gpzed.incomplete.blur import Forms

ROWS = 64
"""Rows that NumPy takes at once."""


@dataclass(frozen=True)
class NoisyRows:
    """Expectations of basis functions, and of quadratic forms of them, for rows that each have their own errors.

    Attributes
    ----------
    forms : Forms
    k : int
        Columns ``[1, x]`` of the mean function that follow the basis functions.
    """

    forms: Forms
    k: int

    @cached_property
    def _Lambda(self) -> FloatArray:
        m, d = self.forms.P.shape
        return np.ascontiguousarray(np.broadcast_to(full_precision(self.forms.Lambda), (m, d, d)))

    @cached_property
    def _slopes(self) -> FloatArray:
        """``grad ln phi``, linear in x, (m, d, 1 + d)."""
        h = (self._Lambda @ self.forms.P[:, :, None])[:, :, 0]
        return np.ascontiguousarray(np.concatenate([h[:, :, None], -self._Lambda], axis=2))

    @cached_property
    def _linear(self) -> FloatArray | None:
        """Weights of ``Cov[x, phi_j]`` in every form, (s, m, d); None if the mean function is not linear."""
        m = len(self.forms.P)
        cross = self.forms.matrices[:, :m, m + 1 :]
        return np.ascontiguousarray(2.0 * cross) if self.forms.is_linear else None

    @cached_property
    def _pairs(self) -> Pairs:
        j, k, weights = self.forms.pairs
        return Pairs(j, k, self.forms.plain, self._slopes, None, weights, self.forms.lower, self._linear)

    def __call__(self, Xt: FloatArray, V: FloatArray, scratch: Scratch) -> tuple[FloatArray, FloatArray]:
        """Give expected basis functions with columns of the mean function, (M, n), and ``trace(Q Cov[phi])``, (s, n).

        Parameters
        ----------
        Xt : ndarray of shape (d, n)
            Expected inputs.
        V : ndarray of shape (n, d, d)
        scratch : Scratch
            Work arrays of this thread.
        """
        if is_compiled() and len(Xt) <= MAX_RANK:
            Phi, total = rows_block(Xt, V, self._Lambda, self._pairs, scratch)
        else:
            parts = [self._some(Xt[:, i : i + ROWS].T, V[i : i + ROWS]) for i in range(0, Xt.shape[1], ROWS)]
            Phi, total = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
        if self.forms.is_linear:
            m = len(self.forms.P)
            own = self.forms.matrices[:, m + 1 :, m + 1 :]
            total += np.einsum("sab,nac,nbc->sn", own, V, V, optimize=True)
        columns = np.concatenate([np.ones((1, Xt.shape[1])), Xt])[: self.k]
        return np.concatenate([Phi, columns]), np.maximum(total, 0.0)

    def _some(self, X: FloatArray, V: FloatArray) -> tuple[FloatArray, FloatArray]:
        """NumPy's way, for few rows: E[phi] (m, n), and the forms but for those of x alone (s, n)."""
        Z = quadratic_map(np.ascontiguousarray(X.T), True, np.empty((self.forms.plain.shape[1], len(X))))
        a = (self.forms.plain @ Z).T
        slope = self._slopes[:, :, 0] - np.einsum("jab,nb->nja", self._Lambda, X)
        g = np.einsum("nai,nja->nji", V, slope)
        VLV = np.einsum("nai,jab,nbl->njil", V, self._Lambda, V, optimize=True)
        log_phi, z = _complete_square(a, g, VLV)
        Phi = np.exp(log_phi)
        j, k, weights = self.forms.pairs
        products = np.exp(_complete_square(a[:, j] + a[:, k], g[:, j] + g[:, k], VLV[:, j] + VLV[:, k])[0])
        total = weights @ products.T - np.einsum("nj,sjk,nk->sn", Phi, self.forms.lower, Phi, optimize=True)
        if self._linear is not None:
            total += np.einsum("sja,nai,nji,nj->sn", self._linear, V, z, Phi, optimize=True)
        return Phi.T, total


def _complete_square(a: FloatArray, g: FloatArray, VLV: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Give ``a - 1/2 ln |R| + 1/2 g' R^-1 g`` (n, p) and ``R^-1 g`` (n, p, d)."""
    R = VLV + np.eye(VLV.shape[-1])
    z = np.asarray(np.linalg.solve(R, g[..., None])[..., 0], dtype=np.float64)
    return a - 0.5 * np.linalg.slogdet(R)[1] + 0.5 * np.sum(g * z, axis=-1), z
