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
NODES, MIN_NODES, MAX_NODES = 128, 8, 24
"""Points that stand for a mixture, shared out among its components; for each of these at least, and at most."""
SMALLEST_SCALE = 0.05
"""Of ``1 + z``, where a density that is not cut at zero reaches below -1."""
UNCUT = -3.0
"""Components whose cut is farther out than this, in standard deviations, are worked on as if they had none: no point
of the quadrature lies beyond."""
MAX_ITERATIONS, TOLERANCE = 100, 1e-9


def nodes_of(mix: Mixture) -> tuple[FloatArray, FloatArray]:
    """Return points and weights, both (r, N), of a quadrature of each mixture: Gauss-Legendre in probability."""
    K = len(mix.means)
    t, share = np.polynomial.legendre.leggauss(min(max(MIN_NODES, -(-NODES // K)), MAX_NODES))
    level, share = 0.5 * (t + 1.0), 0.5 * share
    r = mix.means.shape[1]
    free = Mixture(mix.weights, mix.means, mix.stds, None, None)
    z = component_quantile(free, level[None, :])  # (K, r, G)
    if mix.alpha is not None:
        cut = mix.alpha[:, :, 0]
        for part in ((cut > UNCUT) & (cut <= 0.0), cut > 0.0):  # the second takes three times as long
            k, rows = np.nonzero(part)
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
    lo, hi = z.min(axis=1), z.max(axis=1)
    point = np.einsum("rn,rn->r", quadratic, z) / np.einsum("rn->r", quadratic)
    out: FloatArray = point.copy()
    rows = np.arange(len(z))
    done = np.zeros(len(z), dtype=bool)
    for _ in range(MAX_ITERATIONS):
        d = (z - point[:, None]) * inverse
        clipped = np.minimum(np.maximum(d, -knee), knee)
        pull = np.einsum("rn,rn->r", slope, clipped)
        curvature = np.einsum("rn,rn->r", quadratic, np.equal(d, clipped, out=d))
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
