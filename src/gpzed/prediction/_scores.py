"""Scores of Gaussian mixtures that need an integral: CRPS and the integral of the squared density."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, ndtr

from gpzed._types import FloatArray
from gpzed.prediction._mixture import (
    LOG_SQRT_2PI,
    Mixture,
    component_quantile,
    log_sum_exp,
    log_tail,
)

# A cut this many standard deviations below every mean removes less than 1e-17 of the probability.
NEGLIGIBLE_CUT = -8.5
# Panel edges of the quadrature, as quantiles of each component; eight Gauss-Legendre nodes per panel.
PANEL_QUANTILES = np.array([0, 1e-6, 1e-3, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98, 0.999, 1 - 1e-6, 1 - 1e-13])
# Values per component that the quadrature holds at a time.
COST = len(PANEL_QUANTILES)
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(8)


def crps(mix: Mixture, z: FloatArray) -> FloatArray:
    """Return the continuous ranked probability score of each object at z, both of shape (r,)."""
    out = np.empty_like(z)
    cut = np.zeros(len(z), dtype=np.bool_)
    if mix.alpha is not None and mix.lower is not None:
        weighty = np.where(mix.weights > 0, mix.alpha, -np.inf)
        cut = (weighty.max(axis=0)[:, 0] > NEGLIGIBLE_CUT) | (z < mix.lower)
    whole = ~cut
    if whole.any():
        out[whole] = _crps_closed(mix.take(whole), z[whole])
    if cut.any():
        out[cut] = _crps_quadrature(mix.take(cut), z[cut])
    return out


def _absolute_moment(mean: FloatArray, std: FloatArray) -> FloatArray:
    """Return E|X| for X ~ N(mean, std^2)."""
    t = mean / std
    with np.errstate(under="ignore", over="ignore"):
        density = np.exp(-0.5 * t**2 - LOG_SQRT_2PI)
    return np.asarray(2 * std * density + mean * (2 * ndtr(t) - 1))


def _crps_closed(mix: Mixture, z: FloatArray) -> FloatArray:
    """Return E|X - z| - E|X - X'| / 2 for Gaussian mixtures (Grimit et al. 2006, Eq. 5)."""
    w, mu, s = (a[:, :, 0] for a in (mix.weights, mix.means, mix.stds))  # (K, r)
    score: FloatArray = (w * _absolute_moment(z - mu, s)).sum(axis=0)
    for k in range(len(w)):
        pair = w * _absolute_moment(mu[k] - mu, np.hypot(s[k], s))
        score -= 0.5 * w[k] * pair.sum(axis=0)
    return score


def _crps_quadrature(mix: Mixture, z: FloatArray) -> FloatArray:
    """Return the integral of ``(F(x) - [x >= z])^2`` over x >= lower, plus ``lower - z`` where positive.

    Composite Gauss-Legendre on panels that follow every component's quantiles and break at z; the
    integrand is smooth and not negative inside each panel, so nothing cancels.
    """
    lower = mix.lower if mix.lower is not None else -np.inf
    q = np.broadcast_to(PANEL_QUANTILES, (len(z), len(PANEL_QUANTILES)))
    edges = np.moveaxis(component_quantile(mix, q), 0, 1).reshape(len(z), -1)
    edges = np.sort(np.column_stack([edges, np.maximum(z, lower)]), axis=1)
    total = np.maximum(lower - z, 0.0)
    for left, right in zip(edges.T[:-1], edges.T[1:], strict=True):
        half = 0.5 * (right - left)
        x = left[:, None] + half[:, None] * (NODES + 1)  # (r, 8)
        survival = (mix.weights * np.exp(log_tail(mix, x))).sum(axis=0)
        height = np.where((left < z)[:, None], 1 - survival, survival)
        total += half * (height**2 @ NODE_WEIGHTS)
    return total


def squared_density_integral(mix: Mixture) -> FloatArray:
    r"""Return the integral of the squared density of each object, shape (r,).

    A product of two Gaussians is a Gaussian, so that with truncation

    .. math:: \int_l^\infty p^2 = \sum_{ij} \frac{w_i w_j}{Q(a_i) Q(a_j)}
              N(\mu_i; \mu_j, s_i^2 + s_j^2)\, Q\!\left(\frac{l - m_{ij}}{s_{ij}}\right).
    """
    w, mu, s = (a[:, :, 0] for a in (mix.weights, mix.means, mix.stds))  # (K, r)
    with np.errstate(divide="ignore"):
        log_w = np.log(w)
    if mix.alpha is not None:
        log_w = log_w - log_ndtr(-mix.alpha[:, :, 0])
    rows = [log_sum_exp(log_w[k] + log_w + _log_product(mix, mu, s, k)) for k in range(len(w))]
    out: FloatArray = np.exp(log_sum_exp(np.array(rows)))
    return out


def _log_product(mix: Mixture, mu: FloatArray, s: FloatArray, k: int) -> FloatArray:
    """Return the log integral of component k times every component above the cut, shape (K, r)."""
    scale = np.hypot(s[k], s)
    with np.errstate(over="ignore"):
        log_norm: FloatArray = -0.5 * ((mu[k] - mu) / scale) ** 2 - np.log(scale) - LOG_SQRT_2PI
    if mix.lower is None:
        return log_norm
    centre = (mu[k] * s**2 + mu * s[k] ** 2) / scale**2
    width = s[k] * s / scale
    return np.asarray(log_norm + log_ndtr((centre - mix.lower) / width))
