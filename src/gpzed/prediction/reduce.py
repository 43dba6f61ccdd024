r"""A mixture of many Gaussians as one of few, to be stored: at most `MOST`, and no more than an object needs.

Two Gaussians are merged into the one with their common mean and variance, the cheapest pair first (Runnalls 2007). What
a merge costs is a bound of the information lost by it, in nats,

.. math:: B_{ij} = \tfrac12 \left[(w_i + w_j) \ln v_{ij} - w_i \ln v_i - w_j \ln v_j\right],

with w the weights, v the variances, and v_ij that of the pair. Merging goes on while there are more than allowed, and
while the costs of all merges together stay within `TOLERANCE`. Members of a committee often say nearly the same, so
that `gpzed.prediction.compact` comes first. Light components say where an object hardly is, and their merging costs
little, but without them true redshifts there would be ruled out: they are merged with each other alone.

Mean and variance of each object stay as they were. A density cut at zero is merged by its parts above zero. Compiled
code decides in single precision: of two merges that cost the same within a millionth it may choose the other.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr

from gpzed._types import AnyArray, BoolArray, FloatArray, IntArray
from gpzed.compiled import substitute
from gpzed.prediction.compact import costs, heaviest, pair, with_rest
from gpzed.prediction.components import Components
from gpzed.prediction.mixture import row_chunks, tail_moments

MOST = 8
"""Gaussians per object at most."""
TOLERANCE = 0.025
"""Bound of the information that merging may lose, in nats; the loss is a tenth of it or less."""
LIGHT = 1e-3
"""Weight below which components are merged with each other alone."""
NEAR_CUT = -4.0
"""Components whose cut is farther out, in standard deviations, are merged as they are: the cut takes 3e-5 of them."""
LEAST_LOG_TAIL = -300.0
"""Log probability above the cut that needs no care with numbers too small."""
CUTS = 4096
"""Points of a table of cuts."""
DEEPEST_CUT = 1.0
"""Of a component that is stored, in standard deviations above its mean: it keeps its mean above the cut, and as much of
its variance as that allows."""
WEIGHT_STEP = 2.0**-14
DIGITS = WEIGHT_STEP, 8, 9
"""The step of weights, which sum to 1 exactly, and binary digits of a standard deviation, and of a mean in units of it:
0.2 and 0.2 % of the standard deviation may be lost."""


class Gaussians(NamedTuple):
    """Mixtures of few Gaussians, before any cut: (n, MOST) each, heaviest first.

    Those not used have weight 0, mean 0 and standard deviation 1, which does no harm in any formula.
    """

    weights: AnyArray
    means: AnyArray
    stds: AnyArray


def reduced(components: Components, lower: float | None) -> Gaussians:
    """Return the mixtures of few Gaussians, in float32, that stand for those of many, cut at `lower`."""
    n = len(components)
    out = Gaussians(*(np.empty((n, MOST), dtype=np.float32) for _ in Gaussians._fields))
    for which, mixtures in components.mixtures(lower):
        for rows in row_chunks(len(mixtures.weights), mixtures.weights.shape[1]):
            part = (array[rows] for array in mixtures)
            w, m, v = substitute(merge)(*part, most=MOST, light=LIGHT, tolerance=TOLERANCE, lower=lower, uncut=NEAR_CUT)
            few = substitute(stored)(w, m, v, lower=lower, uncut=NEAR_CUT, cuts=_cuts(), digits=DIGITS)
            for values, given in zip(out, few, strict=True):
                values[rows if isinstance(which, slice) else which[rows]] = given
    return out


def merge(
    weights: FloatArray,
    means: FloatArray,
    variances: FloatArray,
    *,
    most: int,
    light: float,
    tolerance: float,
    lower: float | None = None,
    uncut: float = NEAR_CUT,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Merge the components of each mixture, (n, K), to at most `most`, 2 or more; see the module for the rule.

    Those whose cut at `lower` is farther out than `uncut` standard deviations are not cut.

    Returns
    -------
    weights, means, variances : ndarray of shape (n, most)
        Heaviest first; those not used have weight 0, mean 0 and variance 1.
    """
    if lower is not None:
        weights, means, variances = above_cut(weights, means, variances, lower, uncut)
    w, m, v = with_rest(weights, means, variances, light)
    n, K = w.shape
    total = np.zeros(n)
    used = w > 0.0
    movable = used.copy()
    movable[:, -1] = False  # light ones, merged before
    cost = costs(w[:, :, None], m[:, :, None], v[:, :, None], w[:, None], m[:, None], v[:, None])
    cost[~(movable[:, :, None] & movable[:, None]) | np.eye(K, dtype=bool)] = np.inf
    rows = np.arange(n)
    for _ in range(K - 1):
        i, j = np.divmod(cost.reshape(n, -1).argmin(axis=1), K)
        cheapest = cost[rows, i, j]
        goes = np.isfinite(cheapest) & ((used.sum(axis=1) > most) | (total + cheapest <= tolerance))
        if not goes.any():
            break
        at, i, j = rows[goes], np.minimum(i, j)[goes], np.maximum(i, j)[goes]
        total[at] += cheapest[goes]
        w[at, i], m[at, i], v[at, i] = pair(w[at, i], m[at, i], v[at, i], w[at, j], m[at, j], v[at, j])
        w[at, j], used[at, j], movable[at, j] = 0.0, False, False
        one = w[at, i][:, None], m[at, i][:, None], v[at, i][:, None]
        new = costs(*one, w[at], m[at], v[at])
        new[~movable[at]] = np.inf
        new[np.arange(len(at)), i] = np.inf
        cost[at, i], cost[at, :, i] = new, new
        cost[at, j], cost[at, :, j] = np.inf, np.inf
    return heaviest(w, m, v, most)


def above_cut(
    w: FloatArray, m: FloatArray, v: FloatArray, lower: float, uncut: float = NEAR_CUT
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return weights, means and variances of what is above the cut of each component."""
    near = np.flatnonzero(_is_near(m - lower, v, uncut) & (w > 0.0))
    if not len(near):
        return w, m, v
    w, m, v = w.copy(), m.copy(), v.copy()
    flat = w.reshape(-1), m.reshape(-1), v.reshape(-1)
    std = np.sqrt(flat[2][near])
    alpha = (lower - flat[1][near]) / std
    above, spread = tail_moments(alpha)
    log_tail = log_ndtr(-alpha)
    if log_tail.min() < LEAST_LOG_TAIL:  # relative to the most of each object: all of it may be below the cut
        tails = np.zeros_like(w)
        tails.reshape(-1)[near] = log_tail
        log_tail = (tails - np.where(w > 0.0, tails, -np.inf).max(axis=1, keepdims=True)).reshape(-1)[near]
    flat[0][near] *= np.exp(log_tail)
    flat[1][near], flat[2][near] = lower + std * above, std**2 * spread
    return w / w.sum(axis=1, keepdims=True), m, v


def _is_near(above: FloatArray, v: FloatArray, uncut: float = NEAR_CUT) -> BoolArray:
    """Tell which components, at this distance above the cut, have a part below it."""
    return np.asarray(above * np.abs(above) < uncut**2 * v)


def stored(
    weights: FloatArray,
    means: FloatArray,
    variances: FloatArray,
    *,
    lower: float | None,
    uncut: float,
    cuts: tuple[FloatArray, FloatArray],
    digits: tuple[float, int, int],
) -> FloatArray:
    """Return weights, means and standard deviations (3, n, most) of merged mixtures as they are stored.

    They are those before the cut, by a table of `_cuts`, with few digits: numbers that take less room.
    """
    w, m, v = weights, means, variances
    if lower is not None:
        w, m, v = _before_cut(w, m, v, lower, uncut, cuts)
    return _rounded(w, m, np.sqrt(v), *digits)


def _before_cut(
    w: FloatArray, m: FloatArray, v: FloatArray, lower: float, uncut: float, table: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the Gaussians whose parts above the cut have these weights, means and variances."""
    near = _is_near(m - lower, v, uncut)
    near &= w > 0.0
    if not near.any():
        return w, m, v
    w, m, v = w.copy(), m.copy(), v.copy()
    cuts, ratios = table
    above = m[near] - lower
    alpha = np.interp(v[near] / above**2, ratios, cuts)
    std = above / tail_moments(alpha)[0]
    w[near] /= ndtr(-alpha)
    m[near], v[near] = lower - alpha * std, std**2
    return w / w.sum(axis=1, keepdims=True), m, v


@cache
def _cuts() -> tuple[FloatArray, FloatArray]:
    """Return cuts, in standard deviations, and the variance over the squared mean above each, which grows with it."""
    alpha = np.linspace(2.0 * NEAR_CUT, DEEPEST_CUT, CUTS)
    above, spread = tail_moments(alpha)
    return alpha, spread / above**2


def _rounded(
    w: FloatArray, m: FloatArray, s: FloatArray, weight_step: float, std_digits: int, mean_digits: int
) -> FloatArray:
    """Return mixtures with numbers of few digits, heaviest first; weights sum to 1 exactly."""
    steps = np.rint(w / weight_step)
    heaviest = steps.argmax(axis=1)
    steps[np.arange(len(w)), heaviest] += 1.0 / weight_step - steps.sum(axis=1)
    used = steps > 0.0
    fraction, exponent = np.frexp(s)
    s = np.ldexp(np.rint(np.ldexp(fraction, std_digits)), exponent - std_digits)
    step = exponent - mean_digits
    m = np.ldexp(np.rint(np.ldexp(m, -step)), step)
    few = np.stack([steps * weight_step, np.where(used, m, 0.0), np.where(used, s, 1.0)])
    mixed_up = np.flatnonzero((np.diff(steps, axis=1) > 0.0).any(axis=1))  # by cuts, or by rounding
    order = np.argsort(-steps[mixed_up], axis=1, kind="stable")
    for values in few:
        values[mixed_up] = np.take_along_axis(values[mixed_up], order, axis=1)
    return few


def count(weights: AnyArray) -> IntArray:
    """Return how many Gaussians each object has, (n,)."""
    return np.asarray(np.count_nonzero(weights, axis=1))
