"""Distributions of redshifts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpzed.evaluation.stack import RedshiftDistribution
from gpzed.plots._style import COLOURS, FAINT, INK, drawn
from gpzed.prediction import Prediction

MAX_DENSITIES = 50_000
"""Most densities to sum; the sum of this many is smooth."""


@drawn
def plot_redshift_distribution(
    z_spec: npt.ArrayLike | None, prediction: Prediction, ax: Any = None, *, bins: int = 60
) -> None:
    """Draw the distribution of true redshifts (if given) and point estimates, and the sum of predicted densities."""
    z_phot = prediction.z_phot
    z = None if z_spec is None else np.asarray(z_spec, dtype=np.float64)
    limit = float(np.quantile(z_phot if z is None else np.concatenate([z, z_phot]), 0.999)) * 1.05
    edges = np.linspace(0.0, limit, bins + 1)
    if z is not None:
        ax.hist(z, bins=edges, density=True, color=FAINT, alpha=0.5, label="spectroscopic")
    ax.hist(z_phot, bins=edges, density=True, histtype="step", color=COLOURS[0], label="photometric")
    rows = np.random.default_rng(0).permutation(len(prediction))[:MAX_DENSITIES]
    grid = np.linspace(0.0, limit, 400)
    ax.plot(grid, prediction[np.sort(rows)].stacked_pdf(grid), color=INK, label="sum of predicted densities")
    ax.set(xlim=(0.0, limit), ylim=(0.0, None), xlabel="redshift $z$", ylabel="$n(z)$, normalised")


@drawn
def plot_stack(distribution: RedshiftDistribution, ax: Any = None) -> None:
    """Draw n(z) of one or more samples, with error bands."""
    is_cut = bool(np.isfinite(distribution.sample_edges).all())
    for k, (density, error) in enumerate(zip(distribution.density, distribution.error, strict=True)):
        if not distribution.n[k]:
            continue
        called = distribution.names[k]
        low, _, high = called.partition(" - ")
        name = f"{low} < $z_\\mathrm{{phot}}$ < {high}" if is_cut else "all objects" if called == "all" else called
        colour = COLOURS[k % len(COLOURS)]
        ax.stairs(density, distribution.edges, color=colour, label=name)
        band = {"baseline": np.maximum(density - error, 0.0), "fill": True, "alpha": 0.3, "linewidth": 0}
        ax.stairs(density + error, distribution.edges, color=colour, **band)
    ax.set(xlim=(distribution.edges[0], distribution.edges[-1]), ylim=(0.0, None))
    ax.set(xlabel="redshift $z$", ylabel="$n(z)$, normalised")
