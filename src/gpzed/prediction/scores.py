"""Scores of Gaussian mixtures that need an integral: CRPS and the integral of the squared density."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, ndtr, owens_t

from gpzed._types import FloatArray
from gpzed.prediction.mixture import LOG_SQRT_2PI, Mixture, component_quantile, log_sum_exp, log_tail

# A cut that removes less than this probability is ignored by the CRPS, which it changes by about as much.
NEGLIGIBLE_LOSS = 1e-12
# The closed form of a truncated CRPS rounds to about 1e-16 over the square of the probability above the cut;
# objects with less above it than this are integrated numerically.
CLOSED_FORM_FROM = 0.01
# Panel edges of the quadrature, as quantiles of each component; eight Gauss-Legendre nodes per panel.
PANEL_QUANTILES = np.array([0, 1e-12, 1e-6, 1e-3, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98, 0.999, 1 - 1e-6, 1 - 1e-13])
# Values per component that the quadrature holds at a time.
COST = len(PANEL_QUANTILES)
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(8)


# Components farther below the cut than this, in standard deviations, have tails that are worked on as logarithms.
DEEP = 5.0
# Components whose cut is farther out than this, in standard deviations, are as if they had none.
FAR = 8.5


def crps(mix: Mixture, z: FloatArray) -> FloatArray:
    """Return the continuous ranked probability score of each object at z, both of shape (r,)."""
    out = np.empty_like(z)
    for rows, part in mix.by_size():
        out[rows] = _crps(part, z[rows])
    return out


def _crps(mix: Mixture, z: FloatArray) -> FloatArray:
    if mix.alpha is None or mix.lower is None:
        return _crps_closed(mix, z)
    loss = (mix.weights * ndtr(mix.alpha)).sum(axis=0)[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(mix.weights > 0, mix.weights / ndtr(-mix.alpha), 0.0)
    above = 1 / np.maximum(ratio.sum(axis=0)[:, 0], 1.0)  # probability above the cut
    whole = (loss < NEGLIGIBLE_LOSS) & (z >= mix.lower)
    closed = ~whole & (above >= CLOSED_FORM_FROM)
    out = np.empty_like(z)
    for rows, formula in ((whole, _crps_closed), (closed, _crps_truncated), (~whole & ~closed, _crps_quadrature)):
        if rows.any():
            out[rows] = formula(mix.take(rows), z[rows])
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


def _upper_integral(t: FloatArray) -> FloatArray:
    """Return the integral of the upper tail Q from t to infinity."""
    with np.errstate(over="ignore"):
        density = np.exp(-0.5 * t**2 - LOG_SQRT_2PI)
    return np.asarray(density - t * ndtr(-t))


def _crps_truncated(mix: Mixture, z: FloatArray) -> FloatArray:
    r"""Return the CRPS of truncated mixtures in closed form.

    With the survival function :math:`S = \sum_k c_k Q_k`, :math:`c_k = w_k / Q_k(l)`, and z not below l,

    .. math:: \mathrm{CRPS} = (z - l) - 2 \int_l^z S + \int_l^\infty S^2.
    """
    lower = mix.lower if mix.lower is not None else -np.inf
    w, mu, s = (a[:, :, 0] for a in (mix.weights, mix.means, mix.stds))  # (K, r)
    order = np.argsort((lower - mu) / s, axis=0, kind="stable")  # those that the cut concerns least come first
    w, mu, s = (np.take_along_axis(a, order, axis=0) for a in (w, mu, s))
    cut = (lower - mu) / s
    tail = ndtr(-cut)
    c = np.where(w > 0, w, 0.0) / np.maximum(tail, np.finfo(np.float64).tiny)
    inside = np.maximum(z, lower)
    survival = (c * s * (_upper_integral(cut) - _upper_integral((inside - mu) / s))).sum(axis=0)
    score: FloatArray = np.maximum(lower - z, 0.0) + (inside - lower) - 2 * survival
    with np.errstate(under="ignore"):
        edge = s * np.exp(-0.5 * cut**2 - LOG_SQRT_2PI)
    for i in range(len(w)):
        pairs = c[: i + 1] * _tail_products(mu, s, cut, tail, edge, i)
        score += c[i] * (2 * pairs.sum(axis=0) - pairs[i])
    return score


def _tail_products(
    mu: FloatArray, s: FloatArray, cut: FloatArray, tail: FloatArray, edge: FloatArray, i: int
) -> FloatArray:
    """Return integrals of ``Q_j Q_i`` above the cut for j = 0 ... i, E[(min(X_j, X_i) - l)^+], by parts; (i + 1, r)."""
    mu_j, s_j, cut_j, tail_j, edge_j = (a[: i + 1] for a in (mu, s, cut, tail, edge))
    scale = np.hypot(s_j, s[i])
    gap = (mu[i] - mu_j) / scale
    j_first = _both_below(-cut_j, gap, -s_j / scale)  # l < X_j < X_i
    i_first = tail_j * tail[i] - j_first
    with np.errstate(under="ignore"):
        pair = np.exp(-0.5 * gap**2 - LOG_SQRT_2PI) * scale
    centre = (mu_j * s[i] ** 2 + mu[i] * s_j**2) / scale**2  # of the product N_j N_i
    overlap = ndtr((centre - mu_j - cut_j * s_j) * scale / (s_j * s[i]))
    means = -cut_j * s_j * j_first - cut[i] * s[i] * i_first
    return np.asarray(means + edge_j * tail[i] + edge[i] * tail_j - pair * overlap)


def _both_below(h: FloatArray, k: FloatArray, rho: FloatArray) -> FloatArray:
    """Return P(U < h, V < k) for standard normals with correlation rho; where h is large, that of V alone."""
    out: FloatArray = ndtr(k)
    near = h < FAR
    out[near] = _owen(h[near], k[near], rho[near])
    return out


def _owen(h: FloatArray, k: FloatArray, rho: FloatArray) -> FloatArray:
    """Return P(U < h, V < k) by Owen's T function (1956)."""
    tiny = np.finfo(np.float64).tiny
    h, k = np.where(h == 0, tiny, h), np.where(k == 0, tiny, k)
    root = np.sqrt((1 - rho) * (1 + rho))
    with np.errstate(over="ignore"):
        both = owens_t(h, (k / h - rho) / root) + owens_t(k, (h / k - rho) / root)
    return np.asarray(0.5 * (ndtr(h) + ndtr(k)) - both - np.where((h > 0) != (k > 0), 0.5, 0.0))


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
    out = np.empty(mix.weights.shape[1])
    for rows, part in mix.by_size():
        values, deep = np.empty(part.weights.shape[1]), np.zeros(part.weights.shape[1], dtype=bool)
        if part.alpha is not None:
            deep |= (part.alpha[:, :, 0] > DEEP).any(axis=0)
        for chosen, formula in ((~deep, _squared_density), (deep, _squared_density_by_logs)):
            if chosen.any():
                values[chosen] = formula(part.take(chosen))
        out[rows] = values
    return out


def _squared_density(mix: Mixture) -> FloatArray:
    """Return the integral where no component lies far below the cut."""
    w, mu, s = (a[:, :, 0] for a in (mix.weights, mix.means, mix.stds))  # (K, r)
    c = w if mix.alpha is None else w / ndtr(-mix.alpha[:, :, 0])
    total = np.zeros(w.shape[1])
    for i in range(len(w)):
        scale = np.hypot(s[: i + 1], s[i])
        with np.errstate(under="ignore"):
            pairs = c[: i + 1] * np.exp(-0.5 * ((mu[: i + 1] - mu[i]) / scale) ** 2 - LOG_SQRT_2PI) / scale
        if mix.lower is not None:
            centre = (mu[: i + 1] * s[i] ** 2 + mu[i] * s[: i + 1] ** 2) / scale**2
            pairs *= ndtr((centre - mix.lower) * scale / (s[: i + 1] * s[i]))
        total += c[i] * (2 * pairs.sum(axis=0) - pairs[i])
    return total


def _squared_density_by_logs(mix: Mixture) -> FloatArray:
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
