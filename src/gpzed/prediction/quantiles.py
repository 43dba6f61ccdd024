"""Quantiles, modes and draws of Gaussian mixtures, for many objects at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from gpzed._types import BoolArray, FloatArray
from gpzed.prediction.components import Components
from gpzed.prediction.mixture import Mixture, build, cdf, component_quantile, log_pdf, row_chunks, total

SQRT_TWO_PI = float(np.sqrt(2.0 * np.pi))
MAX_ITERATIONS = 200
NEARLY = 1e-7
"""A Newton step as small as this, in units of the narrowest component, is the last."""
# Mean-shift starts: a mixture with more modes of nearly equal height than this is a matter of taste.
MODE_STARTS = 3
MODE_ITERATIONS = 60


def compact_quantiles(components: Components, lower: float | None, levels: Sequence[float]) -> FloatArray:
    """Return the quantiles at the levels (g,), shape (n, g), of mixtures without repetition: much sooner."""
    out = np.empty((len(components), len(levels)))
    for which, few in components.mixtures(lower):
        for rows in row_chunks(*few.weights.shape):
            mix = build(few.weights[rows], few.means[rows], np.sqrt(few.variances[rows]), lower)
            found = np.empty((mix.means.shape[1], len(levels)))
            for part, of_size in mix.by_size():
                each = np.ones(of_size.means.shape[1])
                found[part] = np.column_stack([quantile(of_size, level * each) for level in levels])
            out[rows if isinstance(which, slice) else which[rows]] = found
    return out


def quantile(mix: Mixture, q: FloatArray) -> FloatArray:
    """Return the quantile of each object at q of shape (r,).

    The quantile of a mixture lies between the smallest and the largest quantile of its components, which
    have a closed form; inside this bracket Newton steps are taken where they help and bisections elsewhere.
    """
    edges: FloatArray = component_quantile(mix, q[:, None])[:, :, 0]  # (K, r)
    if len(edges) == 1:
        single: FloatArray = edges[0]
        return single
    counts = mix.weights[:, :, 0] > 0
    lo = np.where(counts, edges, np.inf).min(axis=0)
    hi = np.where(counts, edges, -np.inf).max(axis=0)
    z: FloatArray = lo.copy()
    open_ = np.isfinite(lo) & np.isfinite(hi) & (hi > lo)
    is_deep = np.zeros(len(q), dtype=bool) if mix.alpha is None else (mix.alpha[:, :, 0] > 0).any(axis=0)
    for form, which in ((_Shallow.of, open_ & ~is_deep), (_Deep, open_ & is_deep)):
        rows = np.flatnonzero(which)
        if rows.size:
            part = mix.take(rows)
            mean = total(part.weights * part.means)
            variance = total(part.weights * (part.stds**2 + (part.means - mean) ** 2))
            start = mean[:, 0] + np.sqrt(variance[:, 0]) * ndtri(q[rows])
            finest = part.stds.min(axis=0)[:, 0]
            z[rows] = _bracketed_newton(form(part), q[rows], lo[rows], hi[rows], start, finest)
    return z


class _Shallow(NamedTuple):
    """Mixtures of r objects, no component of which has its mean below the cut; (K, r) and (r,)."""

    weights: FloatArray  # of the components without their cut
    means: FloatArray
    stds: FloatArray
    below: FloatArray  # what these would have below the cut

    @classmethod
    def of(cls, mix: Mixture) -> _Shallow:
        weights, means, stds = mix.weights[:, :, 0], mix.means[:, :, 0], mix.stds[:, :, 0]
        if mix.alpha is None:
            return cls(weights, means, stds, np.zeros(weights.shape[1]))
        alpha = mix.alpha[:, :, 0]
        weights = weights / ndtr(-alpha)
        return cls(weights, means, stds, total(weights * ndtr(alpha)))

    def take(self, rows: BoolArray) -> _Shallow:
        """Return the mixtures of some of the objects."""
        return _Shallow(*(array[..., rows] for array in self))

    def at(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return distribution function and density at z (r,)."""
        t = (z - self.means) / self.stds
        density = total(self.weights / self.stds * np.exp(-0.5 * t * t)) / SQRT_TWO_PI
        return total(self.weights * ndtr(t)) - self.below, density


class _Deep(NamedTuple):
    """Mixtures of components of which little is left above the cut."""

    mix: Mixture

    def take(self, rows: BoolArray) -> _Deep:
        """Return the mixtures of some of the objects."""
        return _Deep(self.mix.take(rows))

    def at(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return distribution function and density at z (r,)."""
        return cdf(self.mix, z[:, None])[:, 0], np.exp(log_pdf(self.mix, z[:, None])[:, 0])


def _bracketed_newton(
    mix: _Shallow | _Deep, q: FloatArray, lo: FloatArray, hi: FloatArray, start: FloatArray, finest: FloatArray
) -> FloatArray:
    """Solve ``cdf(z) = q`` between lo and hi, all of shape (r,), dropping objects as they converge.

    Newton steps square the error, in units of the finest structure there is.
    """
    out = np.empty_like(q)
    rows = np.arange(len(q))
    z, width = np.where((start > lo) & (start < hi), start, 0.5 * (lo + hi)), hi - lo
    tolerance, step = 1e-14 * width, width.copy()
    for _ in range(MAX_ITERATIONS):
        value, slope = mix.at(z)
        f = value - q
        lo, hi = np.where(f < 0, z, lo), np.where(f < 0, hi, z)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            newton = z - f / slope
            slow = np.abs(2 * f) > np.abs(step * slope)
        use_newton = (newton > lo) & (newton < hi) & ~slow
        following = np.where(use_newton, newton, 0.5 * (lo + hi))
        following = np.where(f == 0, z, following)
        step = np.abs(following - z)
        z = following
        done = step <= tolerance + 2 * np.finfo(np.float64).eps * np.abs(z)
        done |= use_newton & (step <= NEARLY * finest)
        out[rows[done]] = z[done]
        if done.all():
            return out
        keep = ~done
        mix = mix.take(keep)
        rows, q, lo, hi, z, step, tolerance, finest = (
            array[keep] for array in (rows, q, lo, hi, z, step, tolerance, finest)
        )
    out[rows] = z
    return out


def mode(mix: Mixture) -> FloatArray:
    """Return the highest point of each density, shape (r,), by mean shift from the likeliest means."""
    floor = -np.inf if mix.lower is None else mix.lower
    means = np.maximum(mix.means[:, :, 0].T, floor)  # (r, K)
    if means.shape[1] == 1:
        return means[:, 0]
    height = log_pdf(mix, means)
    n_starts = min(MODE_STARTS, means.shape[1])
    best = np.argpartition(-height, n_starts - 1, axis=1)[:, :n_starts]
    z = np.take_along_axis(means, best, axis=1)  # (r, s)
    for _ in range(MODE_ITERATIONS):
        following = np.maximum(_mean_shift(mix, z), floor)
        moved = np.abs(following - z).max(initial=0.0)
        z = following
        if moved == 0:
            break
    if mix.lower is not None:
        z = np.column_stack([z, np.full(len(z), mix.lower)])
    rows = np.arange(len(z))
    z = z[rows, np.argmax(log_pdf(mix, z), axis=1)]
    return _polish_mode(mix, z, floor)


def _responsibilities(mix: Mixture, z: FloatArray) -> FloatArray:
    """Return the share of every component in the density at z (r, g), shape (K, r, g).

    Dividing the weights by ``Q(alpha_k)`` undoes the truncation up to a common factor.
    """
    with np.errstate(divide="ignore", over="ignore"):
        logs = np.log(mix.weights / mix.stds) - 0.5 * ((z - mix.means) / mix.stds) ** 2
        if mix.alpha is not None:
            logs = logs - log_ndtr(-mix.alpha)
    top = logs.max(axis=0)
    share = np.exp(logs - np.where(np.isfinite(top), top, 0.0))
    out: FloatArray = share / np.maximum(share.sum(axis=0), np.finfo(np.float64).tiny)
    return out


def _mean_shift(mix: Mixture, z: FloatArray) -> FloatArray:
    """Move z (r, g) uphill to the precision-weighted mean of the components that explain it."""
    pull = _responsibilities(mix, z) / mix.stds**2
    whole = pull.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        following = (pull * mix.means).sum(axis=0) / whole
    return np.where(whole > 0, following, z)


def _polish_mode(mix: Mixture, z: FloatArray, floor: float) -> FloatArray:
    """Take Newton steps on the derivative of the log density while they do not lower the density."""
    height = log_pdf(mix, z[:, None])[:, 0]
    for _ in range(8):
        share = _responsibilities(mix, z[:, None])[:, :, 0]
        s2 = mix.stds[:, :, 0] ** 2
        score = (mix.means[:, :, 0] - z) / s2  # d log N_k / dz
        gradient = (share * score).sum(axis=0)
        curvature = (share * (score**2 - 1 / s2)).sum(axis=0) - gradient**2
        with np.errstate(divide="ignore", invalid="ignore"):
            following = np.where(curvature < 0, z - gradient / curvature, z)
        following = np.maximum(following, floor)
        new_height = log_pdf(mix, following[:, None])[:, 0]
        better = new_height >= height
        z, height = np.where(better, following, z), np.where(better, new_height, height)
    return z


def draw(mix: Mixture, which: FloatArray, where: FloatArray) -> FloatArray:
    """Turn two uniform numbers per draw, (r, size), into redshifts: pick a component, then its quantile."""
    k = (which > np.cumsum(mix.weights, axis=0)[:-1]).sum(axis=0)[None]  # (1, r, size)
    heavy = np.argmax(mix.weights, axis=0)[None]
    k = np.where(np.take_along_axis(mix.weights, k, axis=0) > 0, k, heavy)
    drawn: FloatArray = component_quantile(mix.along(k), np.maximum(where, 2.0**-54))[0]
    return drawn
