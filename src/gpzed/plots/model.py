"""The inside of a trained model: relevance and shape of its basis functions, and how training went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpzed._types import FloatArray
from gpzed.plots._style import COLOURS, FAINT, INK, drawn, line_styles

MAX_POINTS = 20_000
"""Most points of the training set to draw behind the ellipses."""


@drawn
def plot_history(reports: Sequence[Any], ax: Any = None) -> None:
    """Draw the score of the held-out rows at each iteration, one line per `model.reports_`; a dot marks the one kept.

    Dotted lines stand where training went on with more rows.
    """
    lowest = []
    names = [f"member {index + 1}" if len(reports) > 1 else "" for index in range(len(reports))]
    for report, style in zip(reports, line_styles(names), strict=True):
        scores = np.array([step.score for step in report.history], dtype=np.float64)
        ax.plot(np.arange(1, len(scores) + 1), scores, **style)
        for step in np.flatnonzero(np.diff(getattr(report, "stage", ()))) + 1:
            ax.axvline(step + 0.5, color=FAINT, lw=0.6, ls=":")
        if 0 < report.best_iteration <= len(scores):
            ax.plot(report.best_iteration, scores[report.best_iteration - 1], "o", color=style["color"], ms=5)
        lowest += [np.quantile(scores[np.isfinite(scores)], 0.1)] if np.isfinite(scores).any() else []
    if lowest:
        ax.set_ylim(bottom=min(lowest))
    ax.set(xlabel="iteration of L-BFGS", ylabel=r"mean $\ln p(z_{\mathrm{spec}})$ of the held-out rows")
    ax.set_xlim(left=0.0)


@drawn
def plot_sparsity(
    weight_precisions: npt.ArrayLike, noise_weight_precisions: npt.ArrayLike | None = None, ax: Any = None
) -> None:
    """Draw how relevant each basis function is for the mean (alpha) and for the noise (eta), the most relevant first.

    Drawn is the prior standard deviation of a weight, ``alpha ** -0.5``. A basis function is 1 at its centre, so this
    is what it typically adds to the redshift there, in standard deviations of the training redshifts; for the noise,
    on the axis to the right, what it adds to the logarithm of the precision. One that falls by orders of magnitude
    below the first ones is switched off; those above a hundredth of the first are counted.

    Parameters
    ----------
    weight_precisions : array-like of shape (m,) or more
        ``model.weight_precisions_``; those of the mean function, which follow the m of the basis functions, are left
        out if `noise_weight_precisions` tells m.
    noise_weight_precisions : array-like of shape (m,), optional
        ``model.noise_weight_precisions_``.
    """
    alpha = np.asarray(weight_precisions, dtype=np.float64)
    eta = None if noise_weight_precisions is None else np.asarray(noise_weight_precisions, dtype=np.float64)
    alpha = alpha if eta is None else alpha[: len(eta)]
    _draw_relevance(ax, alpha, COLOURS[0], "mean")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set(xlabel="rank of the basis function", ylabel=r"typical part of the redshift [std], $\alpha^{-1/2}$")
    if eta is not None:
        beside = ax.twinx()
        _draw_relevance(beside, eta, COLOURS[1], "noise")
        beside.set_ylabel(r"typical part of the log precision, $\eta^{-1/2}$", color=COLOURS[1])
        ax.plot([], [], color=COLOURS[1], label=beside.lines[0].get_label())


def _draw_relevance(ax: Any, precisions: FloatArray, colour: str, name: str) -> None:
    relevance = np.sort(precisions**-0.5)[::-1]
    n_used = int(np.count_nonzero(relevance > 0.01 * relevance[0]))
    label = f"{name}: {n_used} of {len(relevance)} matter"
    ax.plot(np.arange(1, len(relevance) + 1), relevance, color=colour, drawstyle="steps-mid", label=label)
    if relevance[0] > 10.0 * relevance[-1]:
        ax.set_yscale("log")
    else:
        ax.set_ylim(0.0, 1.3 * relevance[0])  # room for the legend


def _precisions(factors: npt.ArrayLike, m: int, d: int) -> FloatArray:
    """Return Lambda = Gamma' Gamma of m basis functions, (m, d, d), from any of the six structures' Gamma."""
    gamma = np.asarray(factors, dtype=np.float64)
    if gamma.ndim == 1:
        gamma = gamma[:, None, None] * np.eye(d)
    elif gamma.ndim == 2:
        gamma = gamma[:, :, None] * np.eye(d)
    if gamma.ndim != 3 or gamma.shape[0] not in (1, m) or gamma.shape[1:] != (d, d):
        raise ValueError(
            f"`factors` has shape {np.shape(factors)}; expected one or {m} factors of {d} dimensions, as "
            "`basis_factors_` of a fitted model has them."
        )
    return np.broadcast_to(np.swapaxes(gamma, 1, 2) @ gamma, (m, d, d))


@drawn
def plot_basis_ellipses(
    centers: npt.ArrayLike,
    factors: npt.ArrayLike,
    ax: Any = None,
    *,
    dimensions: tuple[int, int] = (0, 1),
    weights: npt.ArrayLike | None = None,
    points: npt.ArrayLike | None = None,
    names: tuple[str, str] | None = None,
) -> None:
    """Draw the basis functions as ellipses in two dimensions of the inputs.

    Parameters
    ----------
    centers : array-like of shape (m, d)
        ``model.basis_centers_``.
    factors : array-like
        ``model.basis_factors_``, of any structure.
    dimensions : pair of int
        Which two of the d dimensions, counted from 0.
    weights : array-like of shape (m,) or more, optional
        ``model.weights_``: stronger lines for larger weights, the sign as colour.
    points : array-like of shape (n, d), optional
        Inputs to draw behind, whitened like the centres.
    names : pair of str, optional
        Labels of the axes.

    Notes
    -----
    An ellipse is the cut through the centre along the two dimensions at which the response is e^-1/2.
    """
    from matplotlib.patches import Ellipse

    P = np.asarray(centers, dtype=np.float64)
    m, d = P.shape
    i, j = dimensions
    if not (0 <= i < d and 0 <= j < d and i != j):
        raise ValueError(f"`dimensions` is {dimensions}; expected two different ones of 0 to {d - 1}.")
    cut = _precisions(factors, m, d)[:, [[i], [j]], [i, j]]  # (m, 2, 2)
    strength, positive = np.ones(m), np.ones(m, dtype=bool)
    if weights is not None:
        w = np.asarray(weights, dtype=np.float64)[:m]
        strength, positive = np.sqrt(np.abs(w) / max(np.abs(w).max(), 1e-300)), w >= 0
    if points is not None:
        cloud = np.asarray(points, dtype=np.float64)
        chosen = np.random.default_rng(0).permutation(len(cloud))[:MAX_POINTS]
        ax.scatter(cloud[chosen, i], cloud[chosen, j], s=1.5, lw=0, color=FAINT, alpha=0.4, rasterized=True, zorder=1)
    for k in range(m):
        value, vector = np.linalg.eigh(cut[k])
        size = 2.0 / np.sqrt(np.maximum(value, 1e-12))
        angle = float(np.degrees(np.arctan2(vector[1, 0], vector[0, 0])))
        colour = COLOURS[0] if positive[k] else COLOURS[1]
        outline = {"ec": colour, "fc": "none", "lw": 0.4 + 1.2 * strength[k], "alpha": 0.25 + 0.75 * strength[k]}
        ax.add_patch(Ellipse((P[k, i], P[k, j]), size[0], size[1], angle=angle, zorder=2, **outline))
    ax.plot(P[:, i], P[:, j], "+", color=INK, ms=4, mew=0.8, zorder=3)
    shown = P if points is None else np.concatenate([P, np.asarray(points, dtype=np.float64)[:MAX_POINTS]])
    for axis, dimension in (("x", i), ("y", j)):
        low, high = np.quantile(shown[:, dimension], [0.002, 0.998])
        margin = (0.5 if points is None else 0.15) * max(high - low, 1e-6)
        getattr(ax, f"set_{axis}lim")(low - margin, high + margin)
    labels = names or (f"input {i + 1}, whitened", f"input {j + 1}, whitened")
    ax.set(xlabel=labels[0], ylabel=labels[1])
