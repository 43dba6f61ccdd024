"""Photometric against spectroscopic redshift, for a hundred objects or for millions."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gpzed._types import FloatArray
from gpzed.evaluation import bias, outlier_fraction, rmse, sigma_nmad
from gpzed.plots._labels import Z_PHOT, Z_SPEC
from gpzed.plots._style import COLOURS, FAINT, INK, STYLE, drawn, uncertainty_map
from gpzed.prediction import Prediction

Limits: TypeAlias = tuple[float, float]

MAX_POINTS = 20_000
"""More objects than this are drawn as an image of cells, stronger where there are more."""
CELLS = 320
"""Cells along each axis of the image."""
FAINTEST = 0.25
"""Opacity of a cell with one object."""
OUTLIER = 0.15
"""Normalised error at which the dashed lines are drawn."""
MEDIANS = 25
"""Bins of redshift for the median residual, which hold at least 10 objects each."""


def _limits(z: FloatArray, z_phot: FloatArray) -> tuple[float, float]:
    """Return the range that shows all but a few in a thousand."""
    both = np.concatenate([z, z_phot[np.isfinite(z_phot)]])
    low, high = np.quantile(both, [0.0005, 0.9995])
    margin = 0.03 * max(high - low, 1e-3)
    return (0.0 if 0.0 <= low < 0.15 * high else float(low - margin)), float(high + margin)


def _image(x: FloatArray, y: FloatArray, log_std: FloatArray, x_limits: Limits, y_limits: Limits) -> Any:
    """Return counts and mean log10 std in cells, both of shape (CELLS, CELLS), rows along y."""
    edges = np.linspace(y_limits[0], y_limits[1], CELLS + 1), np.linspace(x_limits[0], x_limits[1], CELLS + 1)
    count = np.histogram2d(y, x, bins=edges)[0]
    total = np.histogram2d(y, x, bins=edges, weights=log_std)[0]
    with np.errstate(invalid="ignore", divide="ignore"):
        return count, total / count


def _draw_objects(
    ax: Any, x: FloatArray, y: FloatArray, log_std: FloatArray, scale: Any, limits: tuple[Limits, Limits]
) -> None:
    """Draw objects as points, the most certain on top, or as cells if there are many; `limits` are of x and y."""
    if len(x) <= MAX_POINTS:
        order = np.argsort(-log_std)
        size = float(np.clip(4000 / max(len(x), 1), 1.5, 9.0))
        ax.scatter(x[order], y[order], c=scale.to_rgba(log_std[order]), s=size, lw=0, rasterized=True)
    else:
        count, mean = _image(x, y, log_std, *limits)
        strength = np.log1p(count) / np.log1p(max(count.max(), 1.0))
        pixels = scale.to_rgba(np.nan_to_num(mean, nan=scale.norm.vmin))
        pixels[..., 3] = np.where(count > 0, FAINTEST + (1 - FAINTEST) * strength, 0.0)
        extent = (*limits[0], *limits[1])
        ax.imshow(pixels, extent=extent, origin="lower", interpolation="nearest", aspect="auto", zorder=1)


def _draw_residuals(ax: Any, z: FloatArray, error: FloatArray, log_std: FloatArray, scale: Any, limits: Limits) -> None:
    """Draw the normalised error against redshift in a panel below, with its median in bins."""
    if len(ax.figure.axes) == 1 and tuple(ax.figure.get_size_inches()) == STYLE["figure.figsize"]:
        ax.figure.set_size_inches(STYLE["figure.figsize"][0], 1.3 * STYLE["figure.figsize"][1])
    reach = float(np.clip(1.5 * np.quantile(np.abs(error), 0.98), 0.02, 0.5))
    panel = ax.inset_axes((0.0, -0.32, 1.0, 0.28), sharex=ax)
    _draw_objects(panel, z, error, log_std, scale, (limits, (-reach, reach)))
    panel.axhline(0.0, color=INK, lw=0.8, zorder=2)
    for sign in (-1.0, 1.0):
        panel.axhline(sign * OUTLIER, color=FAINT, lw=0.8, ls="--", zorder=2)
    edges = np.linspace(limits[0], limits[1], MEDIANS + 1)
    index = np.digitize(z, edges) - 1
    kept = [b for b in range(MEDIANS) if np.count_nonzero(index == b) >= 10]
    middle = [float(np.median(error[index == b])) for b in kept]
    panel.plot(0.5 * (edges[:-1] + edges[1:])[kept], middle, color=COLOURS[1], lw=1.2, zorder=3)
    panel.set(xlim=limits, ylim=(-reach, reach), xlabel=Z_SPEC, ylabel=r"$\Delta z\,/\,(1 + z)$")
    ax.tick_params(labelbottom=False)
    ax.xaxis.label.set_visible(False)


def _write_scores(ax: Any, z: FloatArray, prediction: Prediction) -> None:
    """Write the scores in the corner that has no objects: above the diagonal."""
    lines = [
        f"{len(z):,} objects",
        rf"RMSE of $\Delta z/(1+z)$ {rmse(z, prediction):.4f}",
        rf"$\sigma_{{\mathrm{{NMAD}}}}$ {sigma_nmad(z, prediction):.4f}",
        f"bias {bias(z, prediction):+.4f}",
        f"outliers {100 * outlier_fraction(z, prediction):.2f} %",
    ]
    box = {"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 1.5}
    ax.text(0.03, 0.97, "\n".join(lines), transform=ax.transAxes, va="top", fontsize=7.5, bbox=box, zorder=4)


@drawn
def plot_scatter(
    z_spec: npt.ArrayLike,
    prediction: Prediction,
    ax: Any = None,
    *,
    limits: tuple[float, float] | None = None,
    log_std_limits: tuple[float, float] | None = None,
    scores: bool = True,
    residuals: bool = True,
) -> None:
    """Draw photometric against spectroscopic redshift, coloured by the logarithm of the predicted uncertainty.

    Up to 20,000 objects are points, the most certain on top. More are counted in cells: the colour is the mean of log10
    of the standard deviation, stronger with the logarithm of the number of objects, so neither the ridge nor single
    outliers are lost. Dashed lines are errors of 0.15 (1 + z), the orange one is the median residual.

    Parameters
    ----------
    z_spec : array-like of shape (n,)
    limits : pair of float, optional
        Range of both axes; by default one that shows all but a few in a thousand.
    log_std_limits : pair of float, optional
        Range of the colours, log10 of the standard deviation; by default one that holds 98 % of the objects.
    scores : bool
        Whether to write the scores in a corner.
    residuals : bool
        Whether to draw ``(z_phot - z_spec) / (1 + z_spec)`` in a panel below.
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
    _draw_objects(ax, z, z_phot, log_std, scale, (limits, limits))
    line = np.array(limits)
    ax.plot(line, line, color=INK, lw=0.8, zorder=2)
    for sign in (-1.0, 1.0):
        ax.plot(line, line + sign * OUTLIER * (1.0 + line), color=FAINT, lw=0.8, ls="--", zorder=2)
    ax.set(xlim=limits, ylim=limits, xlabel=Z_SPEC, ylabel=Z_PHOT)
    ax.set_box_aspect(1)
    beside = ax.inset_axes((1.03, 0.0, 0.045, 1.0))  # as high as the square, whatever the shape of the figure
    ax.figure.colorbar(scale, cax=beside, label=r"$\log_{10}\,\sigma_z$, predicted", extend="both")
    if scores:
        _write_scores(ax, z, prediction)
    if residuals:
        _draw_residuals(ax, z, (z_phot - z) / (1.0 + z), log_std, scale, limits)
