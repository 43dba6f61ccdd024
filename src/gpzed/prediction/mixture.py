r"""Densities, distribution functions and moments of Gaussian mixtures cut at a lower bound.

Arrays of parameters have shape (K, r, 1) for r objects with K components, arguments (r, g): the sum over
components is then over the first axis. With truncation at `lower` the mixture is rewritten as a mixture of
truncated Gaussians,

.. math:: p(z) = \sum_k w_k \frac{N(z; \mu_k, s_k^2)}{Q(a_k)}, \quad a_k = \frac{lower - \mu_k}{s_k},
          \quad w_k \propto \pi_k Q(a_k),

with Q the upper tail of the standard normal; this is the cut and renormalised density exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr, ndtri, ndtri_exp

from gpzed._types import AnyArray, FloatArray, IntArray
from gpzed.compiled.points import SERIES_FROM

LOG_SQRT_2PI = 0.5 * np.log(2 * np.pi)
SQRT_HALF = np.sqrt(0.5)
# Cuts farther out than this, in standard deviations, leave no trace in double precision.
UNCUT = -9.0
# Elements per temporary array: 1 MB, so that a handful of them stays in cache.
CHUNK_ELEMENTS = 1 << 17


def row_chunks(n: int, columns: int) -> Iterator[slice]:
    """Cut n rows into slices with about `CHUNK_ELEMENTS` elements of `columns` each."""
    step = max(1, CHUNK_ELEMENTS // max(1, columns))
    for start in range(0, n, step):
        yield slice(start, min(n, start + step))


@dataclass(frozen=True, slots=True)
class Mixture:
    """Mixtures of r objects, arrays of shape (K, r, 1); weights, summing to 1, already account for the truncation.

    `alpha` is ``(lower - means) / stds``; None without truncation.
    """

    weights: FloatArray
    means: FloatArray
    stds: FloatArray
    alpha: FloatArray | None
    lower: float | None

    def by_size(self) -> Iterator[tuple[AnyArray, Mixture]]:
        """Yield the objects (a mask) with as many components of any weight as each other, and these components."""
        has_weight = self.weights[:, :, 0] > 0.0
        sizes = has_weight.sum(axis=0)
        for size in np.unique(sizes):
            rows = sizes == size
            order = np.argsort(~has_weight[:, rows], axis=0, kind="stable")[:size, :, None]
            yield rows, self.take(rows).along(order)

    def take(self, rows: AnyArray) -> Mixture:
        """Return the mixtures of some of the objects."""
        alpha = None if self.alpha is None else self.alpha[:, rows]
        return Mixture(self.weights[:, rows], self.means[:, rows], self.stds[:, rows], alpha, self.lower)

    def along(self, k: IntArray) -> Mixture:
        """Return the components k, (any number, r, any number), of each object."""
        parts = [np.take_along_axis(a, k, axis=0) for a in (self.weights, self.means, self.stds)]
        alpha = None if self.alpha is None else np.take_along_axis(self.alpha, k, axis=0)
        return Mixture(parts[0], parts[1], parts[2], alpha, self.lower)


def build(weights: FloatArray, means: FloatArray, stds: FloatArray, lower: float | None) -> Mixture:
    """Make a `Mixture` from (r, K) arrays of untruncated weights, means and standard deviations."""
    w, mu, s = (np.ascontiguousarray(a.T)[:, :, None] for a in (weights, means, stds))  # (K, r, 1)
    if lower is None:
        return Mixture(w, mu, s, None, None)
    alpha = (lower - mu) / s
    kept = w * _tails(w, alpha)
    return Mixture(kept / total(kept), mu, s, alpha, lower)


def _tails(w: FloatArray, alpha: FloatArray) -> FloatArray:
    """Return Q(alpha) of every component, up to a factor for each object: all of them may be below the least number."""
    near = alpha > UNCUT
    log_tail = np.zeros_like(alpha)
    log_tail[near] = log_ndtr(-alpha[near])
    top = np.where(w > 0.0, log_tail, -np.inf).max(axis=0)
    relative = np.where(w > 0.0, log_tail - top, -np.inf)
    tails: FloatArray = np.exp(relative, out=np.ones_like(relative), where=relative != 0.0)
    return tails


def total(terms: FloatArray) -> FloatArray:
    """Return the sum over components, the first axis, in their order, however many objects there are."""
    found: FloatArray = terms[0].copy()
    for term in terms[1:]:
        found += term
    return found


def log_sum_exp(terms: FloatArray) -> FloatArray:
    """Return ``log(sum(exp(terms)))`` over the first axis, -inf where every term is -inf."""
    top = terms.max(axis=0)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        out: FloatArray = shift + np.log(total(np.exp(terms - shift)))
    return out


def log_pdf(mix: Mixture, z: FloatArray) -> FloatArray:
    """Return the log density at z, all of shape (r, g); -inf below the truncation."""
    t = (z - mix.means) / mix.stds
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        terms = np.log(mix.weights) - np.log(mix.stds) - LOG_SQRT_2PI + _log_kernel(mix, t, z)
    terms[np.isnan(terms)] = -np.inf
    out = log_sum_exp(terms)
    return out if mix.lower is None else np.where(z < mix.lower, -np.inf, out)


def _log_kernel(mix: Mixture, t: FloatArray, z: FloatArray) -> FloatArray:
    """Return ``-t^2/2 - log Q(alpha)``, with the large parts cancelled by hand where alpha > 0."""
    if mix.alpha is None or mix.lower is None:
        return -0.5 * t**2
    a = mix.alpha
    excess = (z - mix.lower) / mix.stds
    deep = -0.5 * excess * (t + a) - np.log(0.5 * erfcx(np.maximum(a, 0) * SQRT_HALF))
    out: FloatArray = np.where(a > 0, deep, -0.5 * t**2 - log_ndtr(-np.minimum(a, 0)))
    return out


def log_tail(mix: Mixture, z: FloatArray) -> FloatArray:
    """Return the log survival function of each component at z, shape (K, r, g)."""
    t = (z - mix.means) / mix.stds
    if mix.alpha is None or mix.lower is None:
        return np.asarray(log_ndtr(-t))
    excess = np.maximum(z - mix.lower, 0) / mix.stds
    near = np.minimum(mix.alpha, 0)
    shallow = log_ndtr(-np.maximum(t, near)) - log_ndtr(-near)
    with np.errstate(invalid="ignore"):
        deep = _log_tail_ratio(np.maximum(mix.alpha, 0), excess)
    return np.where(mix.alpha > 0, deep, shallow)


def _log_tail_ratio(a: FloatArray, x: FloatArray) -> FloatArray:
    """Return ``log(Q(a + x) / Q(a))`` for a, x >= 0 without cancellation."""
    with np.errstate(divide="ignore", over="ignore"):
        scaled = np.log(erfcx((a + x) * SQRT_HALF) / erfcx(a * SQRT_HALF))
        out: FloatArray = scaled - x * (a + 0.5 * x)
    return out


def cdf(mix: Mixture, z: FloatArray) -> FloatArray:
    """Return the distribution function at z, shape (r, g)."""
    parts = ndtr((z - mix.means) / mix.stds)
    if mix.alpha is not None:
        near = np.minimum(mix.alpha, 0)
        parts = (np.maximum(parts, ndtr(near)) - ndtr(near)) / ndtr(-near)
        k, rows = np.nonzero(mix.alpha[:, :, 0] > 0)
        if k.size and mix.lower is not None:
            excess = np.maximum(z[rows] - mix.lower, 0) / mix.stds[k, rows]
            parts[k, rows] = -np.expm1(_log_tail_ratio(mix.alpha[k, rows], excess))
    out: FloatArray = np.clip(total(mix.weights * parts), 0.0, 1.0)
    return out


def component_quantile(mix: Mixture, q: FloatArray) -> FloatArray:
    """Return the quantile of every (truncated) component at q of shape (r, g), shape (K, r, g)."""
    if mix.alpha is None or mix.lower is None:
        return np.asarray(mix.means + mix.stds * ndtri(q))
    with np.errstate(divide="ignore"):
        log_q = np.log1p(-q)
    t = -ndtri_exp(log_q + log_ndtr(-mix.alpha))
    shallow: FloatArray = np.maximum(mix.lower, mix.means + mix.stds * t)
    if not np.any(mix.alpha > 0):
        return shallow
    a = np.broadcast_to(np.maximum(mix.alpha, 0), t.shape)
    return np.where(mix.alpha > 0, mix.lower + mix.stds * _tail_excess(a, t, log_q), shallow)


def _tail_excess(a: FloatArray, t: FloatArray, log_q: FloatArray) -> FloatArray:
    """Polish ``x = t - a`` so that ``log(Q(a + x) / Q(a)) = log_q``, by Newton on a concave function."""
    x = np.maximum(t - a, 0)
    target = np.broadcast_to(log_q, x.shape)
    free = np.isfinite(x)
    for _ in range(3):
        hazard = np.sqrt(2 / np.pi) / erfcx((a + x)[free] * SQRT_HALF)
        step = (_log_tail_ratio(a[free], x[free]) - target[free]) / hazard
        x[free] = np.maximum(x[free] + step, 0)
    return x


def tail_moments(alpha: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean above the cut, ``E[t] - alpha``, and variance of a standard normal cut below `alpha`.

    Both are computed without cancellation for large `alpha`, where they tend to ``1 / alpha`` and ``1 / alpha^2``.
    """
    near = np.minimum(alpha, SERIES_FROM)
    mills = np.sqrt(2 / np.pi) / erfcx(near * SQRT_HALF)
    above = mills - near
    spread = 1 - mills * above
    i = 1 / np.maximum(alpha, SERIES_FROM) ** 2
    far_above = np.sqrt(i) * (1 - i * (2 - i * (10 - i * (74 - i * 706))))
    far_spread = i * (1 - i * (6 - i * (50 - i * (518 - i * 6354))))
    far = alpha > SERIES_FROM
    return np.where(far, far_above, above), np.where(far, far_spread, spread)


def uncut_moments(mean: FloatArray, variance: FloatArray, lower: float) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of the Gaussians that have these moments once they are cut at `lower`; all (n,).

    The inverse of `tail_moments`: its variance over its squared mean grows with the cut, from 0 to 1, so that the cut
    is found by bisection, between `UNCUT` and `SERIES_FROM` standard deviations.
    """
    mean, variance = np.array(mean, dtype=np.float64), np.array(variance, dtype=np.float64)
    rows = np.flatnonzero(variance * UNCUT**2 > (mean - lower) ** 2)
    ratio = variance[rows] / (mean[rows] - lower) ** 2
    low, high = np.full(len(rows), UNCUT), np.full(len(rows), SERIES_FROM)
    for _ in range(60):
        alpha = 0.5 * (low + high)
        above, spread = tail_moments(alpha)
        is_less = spread < ratio * above**2
        low, high = np.where(is_less, alpha, low), np.where(is_less, high, alpha)
    above, spread = tail_moments(low)
    std = (mean[rows] - lower) / above
    mean[rows], variance[rows] = lower - low * std, std**2
    return mean, variance


class Moments(NamedTuple):
    """Mean and the three parts of the variance of each object, all of shape (n,)."""

    mean: FloatArray
    model_variance: FloatArray
    noise_variance: FloatArray
    input_variance: FloatArray


def moments(
    mix: Mixture, model: FloatArray, noise: FloatArray, inputs: FloatArray, members: IntArray, parts: IntArray
) -> Moments:
    """Return the exact moments of each mixture, given its parts of the variance, all of shape (r, K).

    Components of one model differ because the inputs may be either of several: that is input variance; or because the
    object may be at either of them: that is noise. `members` says where the components of each model begin, `parts`
    where those of each model for the same inputs do.
    """
    w, centre = mix.weights[:, :, 0].T, mix.means[:, :, 0].T  # (r, K)
    shrink = np.ones_like(w)
    if mix.alpha is not None and mix.lower is not None:
        near = mix.alpha[:, :, 0].T > UNCUT
        alpha, std = mix.alpha[:, :, 0].T[near], mix.stds[:, :, 0].T[near]
        above, shrink[near] = tail_moments(alpha)
        # mean + std (above + alpha) and lower + std above are equal; each is exact where the other rounds.
        centre = centre.copy()
        centre[near] = np.where(alpha > 0, mix.lower + std * above, centre[near] + std * (above + np.minimum(alpha, 0)))
    mean = (w * centre).sum(axis=1)
    total = (w * (centre - mean[:, None]) ** 2).sum(axis=1)
    between = total if len(members) == w.shape[1] else _between(w, centre, mean, members)
    both = between if len(parts) == len(members) else _between(w, centre, mean, parts)
    scaled = w * shrink
    return Moments(
        mean,
        (scaled * model).sum(axis=1) + between,
        (scaled * noise).sum(axis=1) + np.maximum(total - both, 0.0),
        (scaled * inputs).sum(axis=1) + np.maximum(both - between, 0.0),
    )


def _between(w: FloatArray, centre: FloatArray, mean: FloatArray, starts: IntArray) -> FloatArray:
    """Return the variance of the means of runs of components, (r,)."""
    weight = np.add.reduceat(w, starts, axis=1)  # (r, runs)
    first = np.add.reduceat(w * (centre - mean[:, None]), starts, axis=1)
    positive = weight > 0.0
    return np.asarray(np.where(positive, first**2 / np.where(positive, weight, 1.0), 0.0).sum(axis=1))
