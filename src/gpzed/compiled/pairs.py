"""Compiled sums over pairs of basis functions, for rows whose inputs are uncertain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpzed._types import FloatArray
from gpzed.compiled.binding import CONSTANTS, call, fill, inputs
from gpzed.gp.linalg import not_finite
from gpzed.incomplete import spread as numpy_spread

if TYPE_CHECKING:
    from gpzed.engine.blocks import Scratch
    from gpzed.incomplete.spread import AddedVariance, BlurredRows, QuadraticForms

MAX_RANK = CONSTANTS["MAX_RANK"]
"""Columns of V at most. Measured for m = 100, d = 10: 10 against NumPy's 30 microseconds of a core per row for r = 2,
equal at r = 7; at r = d a row takes a little longer, but NumPy prepares 30 times as long."""


def pair_sums(spread: AddedVariance, Xt: FloatArray, scratch: Scratch) -> FloatArray:
    """Sum over pairs of basis functions, see `gpzed.incomplete.spread.pair_sums`."""
    if spread.blur.V.shape[1] > MAX_RANK:
        return numpy_spread.pair_sums(spread, Xt, scratch)
    Ct, totals = spread.basis.Ct, np.empty((len(spread.forms.matrices), Xt.shape[1]))
    basis = fill("basis", m=len(Ct), q=Ct.shape[1], is_full=True, Ct=Ct)
    if not spread.prepared:
        spread.prepared.update(_prepare(spread))
    call(
        "spread", scratch, inputs=inputs(Xt), basis=basis, pairs=_pairs(spread.forms, **spread.prepared), totals=totals
    )
    return totals


def row_sums(rows: BlurredRows, Xt: FloatArray, V: FloatArray, scratch: Scratch) -> tuple[FloatArray, FloatArray]:
    """E[phi] and the same sums for rows with errors of their own, see `gpzed.incomplete.spread.row_sums`."""
    (d, n), m = Xt.shape, len(rows.Lambda)
    if d > MAX_RANK:
        return numpy_spread.row_sums(rows, Xt, V, scratch)
    row, column = np.tril_indices(d)
    Phi, totals = np.empty((m, n)), np.empty((len(rows.forms.matrices), n))
    given = {"inputs": inputs(Xt), "m": m, "V": V[:, row, column].T, "Lambda": rows.Lambda}
    pairs = _pairs(rows.forms, slopes=rows.slopes, factors=None, linear=rows.linear)
    call("rows", scratch, **given, pairs=pairs, totals=totals, Phi=Phi)
    return Phi, totals


def _prepare(spread: AddedVariance) -> dict[str, Any]:
    """Return what the sums need of a blur, computed once.

    With x = xhat + V z and f the exponent of a product, the expectation over z leaves ``-1/2 ln |R| + f(xhat) + 1/2
    |L^-1 V' grad f(xhat)|^2``, where ``R = I + V' (Lambda_j + Lambda_k) V = L L'``: most of it belongs to one basis
    function and one row; what is left to the pair are ``-1/2 ln |R|`` and the rows of ``L^-1 / sqrt(2)``.
    """
    _, h, VL, VLV = spread.singles
    (j, k, _), r = spread.forms.pairs, VLV.shape[1]
    factors = np.empty((len(j), 1 + r * (r + 1) // 2))
    if not call("pair_factors", count=len(j), r=r, j=j, k=k, VLV=VLV, factors=factors):
        raise not_finite()
    slopes = np.ascontiguousarray(np.concatenate([(h @ spread.blur.V)[:, :, None], -VL], axis=2))
    linear = None
    if spread.forms.is_linear:
        R, offset, _ = spread.linear
        linear = np.ascontiguousarray(np.concatenate([offset[:, :, None], -R], axis=2))
    return {"slopes": slopes, "factors": factors, "linear": linear}


def _pairs(forms: QuadraticForms, slopes: FloatArray, **arrays: FloatArray | None) -> Any:
    j, k, weights = forms.pairs
    sizes = {"count": len(j), "r": slopes.shape[1], "s": len(weights)}
    given = {"j": j, "k": k, "plain": forms.plain, "weights": weights, "matrices": forms.lower, "slopes": slopes}
    return fill("pairs", **sizes, **given, **arrays)
