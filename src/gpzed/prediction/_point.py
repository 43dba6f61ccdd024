r"""The redshift to quote where one number must stand for a density: that of least expected loss.

What counts is the relative error :math:`d = (z - \hat z) / (1 + z)`, as in all scores of the field. Its square alone is
minimised by a mean, which falls between two peaks and follows the tails; its absolute value alone by a median. The loss
of Huber (1964) is quadratic up to a `KNEE` and linear beyond, so that narrow densities get their mean, and of two
peaks the heavier one is quoted, not the empty place between them. The loss is convex: there is one minimum.
"""

from __future__ import annotations

import numpy as np

from gpzed._types import FloatArray
from gpzed.prediction._mixture import Mixture, component_quantile

KNEE = 0.1
"""Relative error from which the loss grows linearly: between the 0.05 and 0.15 by which redshifts are judged."""
NODES, MIN_NODES = 128, 8
"""Points that stand for a mixture, shared out among its components, and for each of these at least."""
SMALLEST_SCALE = 0.05
"""Of ``1 + z``, where a density that is not cut at zero reaches below -1."""
UNCUT = -6.0
"""Components whose cut is farther out than this, in standard deviations, are worked on as if they had none."""
MAX_ITERATIONS, TOLERANCE = 100, 1e-10


def nodes_of(mix: Mixture) -> tuple[FloatArray, FloatArray]:
    """Return points and weights, both (r, N), of a quadrature of each mixture: Gauss-Legendre in probability."""
    K = len(mix.means)
    t, share = np.polynomial.legendre.leggauss(max(MIN_NODES, -(-NODES // K)))
    level, share = 0.5 * (t + 1.0), 0.5 * share
    r = mix.means.shape[1]
    free = Mixture(mix.weights, mix.means, mix.stds, None, None)
    z = component_quantile(free, level[None, :])  # (K, r, G)
    if mix.alpha is not None:
        k, rows = np.nonzero(mix.alpha[:, :, 0] > UNCUT)
        if k.size:
            w, mu, s, alpha = (a[k, rows][None] for a in (mix.weights, mix.means, mix.stds, mix.alpha))
            z[k, rows] = component_quantile(Mixture(w, mu, s, alpha, mix.lower), level[None, :])[0]
    p = mix.weights * share
    return z.transpose(1, 0, 2).reshape(r, -1), p.transpose(1, 0, 2).reshape(r, -1)


def least_loss(z: FloatArray, p: FloatArray, knee: float = KNEE) -> FloatArray:
    """Return the point (r,) of least expected loss under probabilities p at redshifts z, both (r, N).

    The derivative of the loss falls monotonically and is linear between kinks: Newton's method, kept between bounds.
    """
    inverse = 1.0 / np.maximum(1.0 + z, SMALLEST_SCALE)
    slope = p * inverse
    quadratic = slope * inverse
    counts = p > 0.0
    lo = np.where(counts, z, np.inf).min(axis=1)
    hi = np.where(counts, z, -np.inf).max(axis=1)
    point = (quadratic * z).sum(axis=1) / quadratic.sum(axis=1)
    out: FloatArray = point.copy()
    rows = np.arange(len(z))
    done = np.zeros(len(z), dtype=bool)
    for _ in range(MAX_ITERATIONS):
        d = (z - point[:, None]) * inverse
        pull = np.einsum("rn,rn->r", slope, np.clip(d, -knee, knee))
        curvature = np.einsum("rn,rn->r", quadratic, np.abs(d) < knee)
        lo, hi = np.where(pull > 0.0, point, lo), np.where(pull < 0.0, point, hi)
        with np.errstate(divide="ignore", invalid="ignore"):
            following = point + pull / curvature
        inside = (following >= lo) & (following <= hi)
        following = np.where(inside, following, 0.5 * (lo + hi))
        following = np.where(done, point, following)  # a row's point does not depend on how long others take
        done |= np.abs(following - point) <= TOLERANCE
        out[rows] = point = following
        if done.all():
            break
        keep = ~done
        if keep.sum() < 0.7 * len(keep):
            rows, point, lo, hi, done = rows[keep], point[keep], lo[keep], hi[keep], done[keep]
            z, inverse, slope, quadratic = z[keep], inverse[keep], slope[keep], quadratic[keep]
    return out
