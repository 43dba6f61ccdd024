"""Maps of what spectra and deeper bands would gain."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpzed.plots._style import drawn


@drawn
def plot_survey(cells: Any, magnitude: str, colour: str, ax: Any = None, *, column: str = "gain_per_spectrum") -> None:
    """Draw a `column` of the table of cells of `gpzed.workflows.survey.survey` as a map of colour and magnitude."""
    low, high = np.asarray(cells["magnitude_low"]), np.asarray(cells["magnitude_high"])
    bottom, top = np.asarray(cells["colour_low"]), np.asarray(cells["colour_high"])
    values = np.asarray(cells[column], dtype=np.float64)
    x, y = np.unique(np.round(np.concatenate([low, high]), 9)), np.unique(np.round(np.concatenate([bottom, top]), 9))
    grid = np.full((len(y) - 1, len(x) - 1), np.nan)
    grid[np.searchsorted(y, np.round(bottom, 9)), np.searchsorted(x, np.round(low, 9))] = values
    image = ax.pcolormesh(x, y, grid, cmap="viridis")
    ax.figure.colorbar(image, ax=ax, label=column.replace("_", " "))
    ax.set(xlabel=f"{magnitude} [mag]", ylabel=f"{colour} [mag]")
