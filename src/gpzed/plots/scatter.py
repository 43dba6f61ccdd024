"""Photometric against spectroscopic redshift, for a hundred objects or for millions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpzed._types import FloatArray
from gpzed.plots._labels import Z_PHOT, Z_SPEC
from gpzed.plots._style import FAINT, INK, drawn, uncertainty_map
from gpzed.prediction import Prediction

MAX_POINTS = 20_000
"""More objects than this are drawn as an image of cells, stronger where there are more."""
CELLS = 320
"""Cells along each axis of the image."""
FAINTEST = 0.25
"""Opacity of a cell with one object."""
OUTLIER = 0.15
"""Normalised error at which the dotted lines are drawn."""


def _limits(z: FloatArray, z_phot: FloatArray) -> tuple[float, float]:
    """Return the range that shows all but a few in a thousand."""
    both = np.concatenate([z, z_phot[np.isfinite(z_phot)]])
    low, high = np.quantile(both, [0.0005, 0.9995])
    margin = 0.03 * max(high - low, 1e-3)
    return (0.0 if 0.0 <= low < 0.15 * high else float(low - margin)), float(high + margin)


def _image(z: FloatArray, z_phot: FloatArray, log_std: FloatArray, limits: tuple[float, float]) -> Any:
    """Return counts and mean log10 std in cells, both of shape (CELLS, CELLS), rows along z_phot."""
    edges = np.linspace(*limits, CELLS + 1)
    count = np.histogram2d(z_phot, z, bins=(edges, edges))[0]
    total = np.histogram2d(z_phot, z, bins=(edges, edges), weights=log_std)[0]
    with np.errstate(invalid="ignore", divide="ignore"):
        return count, total / count


@drawn
def plot_scatter(
    z_spec: npt.ArrayLike,
    prediction: Prediction,
    ax: Any = None,
    *,
    limits: tuple[float, float] | None = None,
    log_std_limits: tuple[float, float] | None = None,
) -> None:
    """Draw photometric against spectroscopic redshift, coloured by the logarithm of the predicted uncertainty.

    Up to 20,000 objects are points, the most certain on top. More are counted in cells: the colour is the mean of log10
    of the standard deviation, stronger with the logarithm of the number of objects, so neither the ridge nor single
    outliers are lost. Dotted lines are errors of 0.15 (1 + z).

    Parameters
    ----------
    z_spec : array-like of shape (n,)
    limits : pair of float, optional
        Range of both axes; by default one that shows all but a few in a thousand.
    log_std_limits : pair of float, optional
        Range of the colours, log10 of the standard deviation; by default one that holds 98 % of the objects.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    z, z_phot = np.asarray(z_spec, dtype=np.float64), prediction.z_phot
    if z.shape != z_phot.shape:
        raise ValueError(
            f"`z_spec` has shape {z.shape} but the prediction has {len(z_phot)} objects; give one value per object."
        )
    log_std = np.log10(prediction.std)
    limits = _limits(z, z_phot) if limits is None else limits
    low, high = np.quantile(log_std, [0.01, 0.99]) if log_std_limits is None else log_std_limits
    scale = ScalarMappable(Normalize(low, max(high, low + 1e-6)), uncertainty_map())
    if len(z) <= MAX_POINTS:
        order = np.argsort(-log_std)
        size = float(np.clip(4000 / max(len(z), 1), 1.5, 9.0))
        colours = scale.to_rgba(log_std[order])
        ax.scatter(z[order], z_phot[order], c=colours, s=size, lw=0, rasterized=True)
    else:
        count, mean = _image(z, z_phot, log_std, limits)
        strength = np.log1p(count) / np.log1p(max(count.max(), 1.0))
        pixels = scale.to_rgba(np.nan_to_num(mean, nan=low))
        pixels[..., 3] = np.where(count > 0, FAINTEST + (1 - FAINTEST) * strength, 0.0)
        ax.imshow(pixels, extent=(*limits, *limits), origin="lower", interpolation="nearest", aspect="auto", zorder=1)
    line = np.array(limits)
    ax.plot(line, line, color=INK, lw=0.8, zorder=2)
    for sign in (-1.0, 1.0):
        ax.plot(line, line + sign * OUTLIER * (1.0 + line), color=FAINT, lw=0.8, ls=":", zorder=2)
    ax.set(xlim=limits, ylim=limits, xlabel=Z_SPEC, ylabel=Z_PHOT)
    ax.set_box_aspect(1)
    beside = ax.inset_axes((1.03, 0.0, 0.045, 1.0))  # as high as the square, whatever the shape of the figure
    ax.figure.colorbar(scale, cax=beside, label=r"$\log_{10}\,\sigma_z$, predicted", extend="both")
