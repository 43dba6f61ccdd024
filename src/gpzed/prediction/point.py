r"""The redshift to quote where one number must stand for a density: that of least expected loss.

What counts is the relative error :math:`d = (z - \hat z) / (1 + z)`, as in all scores of the field. Its square alone is
minimised by a mean, which falls between two peaks and follows the tails; its absolute value alone by a median. The loss
of Huber (1964) is quadratic up to a `KNEE` and linear beyond, so that narrow densities get their mean, and of two
peaks the heavier one is quoted, not the empty place between them. The loss is convex: there is one minimum. Compiled
code looks for it in single precision, from an origin within each density: to a millionth of its range.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import log_ndtr, ndtri

from gpzed._types import FloatArray
from gpzed.compiled.binding import is_compiled
from gpzed.compiled.points import least_loss_points
from gpzed.prediction.mixture import Mixture, build, component_quantile, row_chunks

KNEE = 0.05
"""Relative error from which the loss grows linearly: the smaller of the two by which redshifts are judged."""
NODES, MIN_NODES, MAX_NODES = 128, 8, 24
"""Points that stand for a mixture, shared out among its components; for each of these at least, and at most."""
SMALLEST_SCALE = 0.05
"""Of ``1 + z``, where a density that is not cut at zero reaches below -1."""
LIGHT, LIGHT_NODES = 0.01, 3
"""Components with a smaller share of a mixture have so many nodes alone."""
NEGLIGIBLE = 1e-5
"""Share of a mixture that a component must have to be worked on: less moves the point by a millionth at most."""
UNCUT = -3.0
"""Components whose cut is farther out than this, in standard deviations, are worked on as if they had none: no point
of the quadrature lies beyond."""
NEWTON_STEPS, MAX_STEPS, TOLERANCE = 20, 80, 1e-9
"""Of the search for the minimum under the quadrature. What limits the accuracy is the quadrature: against one of 4,000
points per component, mixtures cut at zero are off by 0.04 % of their standard deviation in the median and 0.5 % at the
99th percentile (1.1 % at most in 1,900); uncut ones that reach below -1, where the scale is bounded, by up to 8 %."""


def best_points(
    weights: FloatArray,
    means: FloatArray,
    stds: FloatArray,
    lower: float | None,
    sharing: int | None = None,
    knee: float = KNEE,
) -> FloatArray:
    """Return the point (n,) of least expected loss of Gaussian mixtures, given as (n, K) before the cut at `lower`.

    The nodes of the quadrature are shared out among `sharing` components, K by default.
    """
    K = sharing or weights.shape[1]
    if is_compiled():
        cuts = None if lower is None else cut_table(K)
        return _compiled(weights, means, stds, quadrature(K), lower, NEGLIGIBLE, LIGHT, LIGHT_NODES, cuts, knee)
    out = np.empty(len(weights))
    for rows in row_chunks(len(weights), 4 * MIN_NODES * weights.shape[1]):
        out[rows] = least_loss(*nodes_of(build(weights[rows], means[rows], stds[rows], lower), K), knee)
    return out


def best_of_table(z: FloatArray, p: FloatArray) -> FloatArray:
    """Return the point (n,) of least expected loss under probabilities p at redshifts z, both (n, N)."""
    if is_compiled():
        return _compiled(p, z, np.zeros_like(z), (np.zeros(1), np.full(1, 0.5), np.ones(1)), None)
    return least_loss(z, p)


def _compiled(
    weights: FloatArray,
    means: FloatArray,
    stds: FloatArray,
    nodes: tuple[FloatArray, FloatArray, FloatArray],
    lower: float | None,
    negligible: float = 0.0,
    light: float = 0.0,
    n_light: int = 0,
    cuts: tuple[float, float, FloatArray, FloatArray] | None = None,
    knee: float = KNEE,
) -> FloatArray:
    return least_loss_points(
        weights,
        means,
        stds,
        nodes,
        n_light=n_light,
        light=light,
        cuts=cuts,
        lower=lower,
        uncut=UNCUT,
        knee=knee,
        smallest=SMALLEST_SCALE,
        negligible=negligible,
        tolerance=TOLERANCE,
        newton_steps=NEWTON_STEPS,
        max_steps=MAX_STEPS,
    )


@cache
def quadrature(K: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return nodes of the standard normal, probabilities above them and weights for each of K components.

    The last `LIGHT_NODES` are for those that are light. Gauss-Legendre in probability: the nodes are denser where the
    density is.
    """
    sizes = min(max(MIN_NODES, -(-NODES // K)), MAX_NODES), LIGHT_NODES
    x, share = np.concatenate([np.polynomial.legendre.leggauss(size) for size in sizes], axis=1)
    return ndtri(0.5 * (1.0 + x)), 0.5 * (1.0 - x), 0.5 * share


@cache
def cut_table(K: int) -> tuple[float, float, FloatArray, FloatArray]:
    """Return the nodes for K components beyond cuts, less these, and the logs of the tails, for compiled code.

    The first cut and how many there are in a standard deviation come first; linear interpolation errs by a
    hundred-thousandth of a standard deviation.
    """
    first, per_unit = -5.0, 64.0
    cuts = first + np.arange(17 * int(per_unit) + 1) / per_unit
    a = cuts[None, :, None]
    unit = Mixture(np.ones_like(a), -a, np.ones_like(a), a, 0.0)  # cut at zero
    at = np.broadcast_to(1.0 - quadrature(K)[1], (len(cuts), len(quadrature(K)[1])))
    return first, per_unit, np.ascontiguousarray(component_quantile(unit, at)[0]), log_ndtr(-cuts)


def nodes_of(mix: Mixture, K: int) -> tuple[FloatArray, FloatArray]:
    """Return points and weights, both (r, N), of a quadrature of each mixture, with nodes as for K components."""
    t, above, share = quadrature(K)
    r, heavy = mix.means.shape[1], np.arange(len(t)) < len(t) - LIGHT_NODES
    z = mix.means + mix.stds * t  # (K, r, G)
    if mix.alpha is not None:
        cut = mix.alpha[:, :, 0]
        k, rows = np.nonzero(cut > UNCUT)
        w, mu, s, alpha = (a[k, rows][None] for a in (mix.weights, mix.means, mix.stds, mix.alpha))
        z[k, rows] = component_quantile(Mixture(w, mu, s, alpha, mix.lower), 1.0 - above[None, :])[0]
    p = np.where((mix.weights > NEGLIGIBLE) & ((mix.weights >= LIGHT) == heavy), mix.weights, 0.0) * share
    return z.transpose(1, 0, 2).reshape(r, -1), p.transpose(1, 0, 2).reshape(r, -1)


def least_loss(z: FloatArray, p: FloatArray, knee: float = KNEE) -> FloatArray:
    """Return the point (r,) of least expected loss under probabilities p at redshifts z, both (r, N).

    The derivative of the loss falls monotonically and is linear between kinks: Newton's method, kept between bounds,
    then bisection for the few that go to and fro between kinks.
    """
    inverse = 1.0 / np.maximum(1.0 + z, SMALLEST_SCALE)
    slope = p * inverse
    quadratic = slope * inverse
    lo, hi = z.min(axis=1), z.max(axis=1)
    point = np.einsum("rn,rn->r", quadratic, z) / np.einsum("rn->r", quadratic)
    done = np.zeros(len(z), dtype=bool)
    for step in range(MAX_STEPS):
        d = (z - point[:, None]) * inverse
        clipped = np.minimum(np.maximum(d, -knee), knee)
        pull = np.einsum("rn,rn->r", slope, clipped)
        curvature = np.einsum("rn,rn->r", quadratic, np.equal(d, clipped, out=d))
        lo, hi = np.where(pull > 0.0, point, lo), np.where(pull < 0.0, point, hi)
        with np.errstate(divide="ignore", invalid="ignore"):
            following = point + pull / curvature
        inside = (following > lo) & (following < hi) & (step < NEWTON_STEPS) | (following == point)
        following = np.where(inside, following, 0.5 * (lo + hi))
        following = np.where(done, point, following)  # a row's point does not depend on how long others take
        done |= np.abs(following - point) <= TOLERANCE
        point = following
        if done.all():
            break
    return np.asarray(point)
