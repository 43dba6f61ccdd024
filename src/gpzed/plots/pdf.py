"""Predictive densities of single objects."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpzed.plots._style import COLOURS, FAINT, INK, drawn
from gpzed.prediction import Prediction
from gpzed.prediction.gridded import GriddedPrediction

SMALLEST = 0.005
"""Weight of the smallest Gaussian drawn by itself."""
POINTS = 600


@drawn
def plot_pdf(
    prediction: Prediction, ax: Any = None, *, index: int = 0, z_spec: float | npt.ArrayLike | None = None
) -> None:
    """Draw the density of one object, its components, the quoted redshift, and the true one if it is known.

    Parameters
    ----------
    prediction : Prediction
        Of any number of objects.
    index : int
        Which of them, counted from 0.
    z_spec : float or array-like of shape (n,), optional
        True redshift of the object, or of all.
    """
    if not -len(prediction) <= index < len(prediction):
        raise ValueError(f"`index` is {index} but the prediction has {len(prediction)} objects, counted from 0.")
    one = prediction[[index % len(prediction)]]
    truth = None if z_spec is None else float(np.ravel(z_spec)[0 if np.ndim(z_spec) == 0 else index])
    marks = [float(one.z_phot[0]), *([] if truth is None else [truth])]
    low, high = one.quantile_grid([0.0005, 0.9995])[0]
    margin = 0.08 * (max(high, *marks) - min(low, *marks))
    start = min(low, *marks) - margin
    grid = np.linspace(start if one.lower is None else max(start, one.lower), max(high, *marks) + margin, POINTS)
    density = one.pdf_grid(grid)[0]
    ax.fill_between(grid, density, color=COLOURS[0], alpha=0.15, lw=0)
    if not isinstance(one, GriddedPrediction):
        _draw_gaussians(ax, one, grid)
    ax.plot(grid, density, color=COLOURS[0], label="$p(z)$")
    ax.axvline(marks[0], color=INK, lw=1.0, label=rf"$z_{{\mathrm{{phot}}}} = {marks[0]:.3f}$")
    if truth is not None:
        ax.axvline(truth, color=COLOURS[1], lw=1.2, ls="--", label=rf"$z_{{\mathrm{{spec}}}} = {truth:.3f}$")
    ax.set(xlim=(grid[0], grid[-1]), ylim=(0.0, 1.08 * density.max()), xlabel="redshift $z$", ylabel="$p(z)$")


def _draw_gaussians(ax: Any, one: Prediction, grid: npt.NDArray[np.float64]) -> None:
    """Draw the Gaussians of a mixture with more than one of them, so that they add up to the density."""
    weights, means, stds = one.weights[0], one.means[0], one.component_stds[0]
    if np.count_nonzero(weights > SMALLEST) < 2:
        return
    parts = weights[:, None] * np.exp(-0.5 * ((grid - means[:, None]) / stds[:, None]) ** 2) / stds[:, None]
    total = parts.sum(axis=0).max()
    scale = one.pdf_grid(grid)[0].max() / total if total > 0 else 1.0  # the factor of a cut is the same for all
    for k, part in enumerate(parts[weights > SMALLEST]):
        ax.plot(grid, scale * part, color=FAINT, lw=0.7, label="components" if k == 0 else None)
