r"""The redshift to quote where one number must stand for a density: that of least expected loss.

What counts is the relative error :math:`d = (z - \hat z) / (1 + z)`, as in all scores of the field. Its square alone is
minimised by a mean, which falls between two peaks and follows the tails; its absolute value alone by a median. The loss
of Huber (1964) is quadratic up to a `KNEE` and linear beyond, so that narrow densities get their mean, and of two
peaks the heavier one is quoted, not the empty place between them. The loss is convex: there is one minimum. Compiled
code looks for it in single precision, from an origin within each density: to a millionth of its range.

Where many objects are off by far, an error beyond `FAR` may cost extra: the point then keeps as much of the density
within reach as it can (`safest`). This loss has several minima, and is searched for the least.
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
FAR, RAMP = 0.2, 0.04
"""Relative error of a redshift that is of no use, and the width of the step in the cost there."""
FAR_COST = FAR - 0.5 * KNEE
"""What it costs beside, in units of the knee: as much as an error of `FAR`."""
FAR_SHARE, FAR_STDS = 0.002, 2.0
"""Share of a density beyond `FAR` from which on a better point is looked for, and how far from its mean."""
FAR_STEPS, FAR_HALVINGS = 32, 6
"""Points at even distances that are tried, and how often the distance is then halved."""
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
    far_cost: float = 0.0,
) -> FloatArray:
    """Return the point (n,) of least expected loss of Gaussian mixtures, given as (n, K) before the cut at `lower`.

    The nodes of the quadrature are shared out among `sharing` components, K by default. Errors beyond `FAR` cost
    `far_cost` more.
    """
    K = sharing or weights.shape[1]
    if is_compiled():
        cuts = None if lower is None else cut_table(K)
        return _compiled(
            weights, means, stds, quadrature(K), lower, NEGLIGIBLE, LIGHT, LIGHT_NODES, cuts, knee, far_cost
        )
    out = np.empty(len(weights))
    for rows in row_chunks(len(weights), 4 * MIN_NODES * weights.shape[1]):
        z, p = nodes_of(build(weights[rows], means[rows], stds[rows], lower), K)
        out[rows] = least_loss(z, p, knee) if not far_cost else safest(z, p, least_loss(z, p, knee), knee, far_cost)
    return out


def best_of_table(z: FloatArray, p: FloatArray, far_cost: float = 0.0) -> FloatArray:
    """Return the point (n,) of least expected loss under probabilities p at redshifts z, both (n, N)."""
    if is_compiled():
        nodes = np.zeros(1), np.full(1, 0.5), np.ones(1)
        return _compiled(p, z, np.zeros_like(z), nodes, None, far_cost=far_cost)
    return least_loss(z, p) if not far_cost else safest(z, p, least_loss(z, p), KNEE, far_cost)


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
    far_cost: float = 0.0,
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
        far_cost=far_cost,
        far_from=FAR - 0.5 * RAMP,
        far_to=FAR + 0.5 * RAMP,
        far_share=FAR_SHARE,
        far_stds=FAR_STDS,
        far_steps=FAR_STEPS,
        far_halvings=FAR_HALVINGS,
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


def expected_loss(z: FloatArray, p: FloatArray, point: FloatArray, knee: float, far_cost: float) -> FloatArray:
    """Return the expected loss (r,) of points, in units of the knee, under probabilities p at redshifts z, (r, N)."""
    d = np.abs((z - point[:, None]) / np.maximum(1.0 + z, SMALLEST_SCALE))
    near = np.minimum(d, knee)
    far = np.clip((d - (FAR - 0.5 * RAMP)) / RAMP, 0.0, 1.0)
    return np.asarray(np.einsum("rn,rn->r", p, near * (d - 0.5 * near) / knee + far_cost * far))


def safest(z: FloatArray, p: FloatArray, point: FloatArray, knee: float, far_cost: float) -> FloatArray:
    """Return the point (r,) of least expected loss where far errors cost more, given that without this cost.

    There are several minima: points at even distances are tried, then both sides of the best, ever closer; none where
    hardly anything is far.
    """
    total = p.sum(axis=1)
    d = np.abs((z - point[:, None]) / np.maximum(1.0 + z, SMALLEST_SCALE))
    rows = np.flatnonzero(np.where(d > FAR - 0.5 * RAMP, p, 0.0).sum(axis=1) > FAR_SHARE * total)
    z, p, best = z[rows], p[rows], point[rows]
    mean = (p * z).sum(axis=1) / total[rows]
    reach = FAR_STDS * np.sqrt((p * (z - mean[:, None]) ** 2).sum(axis=1) / total[rows])
    low = np.maximum(np.where(p > 0.0, z, np.inf).min(axis=1, initial=np.inf), mean - reach)
    high = np.minimum(np.where(p > 0.0, z, -np.inf).max(axis=1, initial=-np.inf), mean + reach)
    step, least = (high - low) / FAR_STEPS, expected_loss(z, p, best, knee, far_cost)

    def choose(other: FloatArray) -> None:
        loss = expected_loss(z, p, other, knee, far_cost)
        best[loss < least] = other[loss < least]
        np.minimum(least, loss, out=least)

    for i in range(FAR_STEPS + 1):
        choose(low + i * step)
    for halving in range(1, FAR_HALVINGS + 1):
        middle = best.copy()
        choose(middle - step / 2**halving)
        choose(middle + step / 2**halving)
    out = point.copy()
    out[rows] = best
    return out
