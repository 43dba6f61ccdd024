"""What the figures of the paper have in common: panels in the style of `gpzed.plots`, one legend under them."""

from __future__ import annotations

import math
from typing import Any

from gpzed.errors import MissingDependencyError
from gpzed.plots import figure_style

PANELS = ("rmse", "mll", "fr_0.05", "fr_0.15")
"""Metrics of the panels, in the order of the paper."""

LOOKS: dict[str, dict[str, Any]] = {
    "TPZ": {"color": "#D55E00", "ls": ":"},
    "forest": {"color": "#D55E00", "ls": "-"},
    "ANNz2": {"color": "#E69F00", "ls": ":"},
    "randomised": {"color": "#E69F00", "ls": "-"},
    "exact GP": {"color": "#8a8a8a", "ls": "--"},
    "SPGP": {"color": "#CC79A7", "ls": "-."},
    "GPGL": {"color": "#009E73", "ls": ":"},
    "GPGD": {"color": "#009E73", "ls": "--"},
    "GPGC": {"color": "#009E73", "ls": "-"},
    "GPVL": {"color": "#0072B2", "ls": ":"},
    "GPVD": {"color": "#0072B2", "ls": "--"},
    "GPVC": {"color": "#000000", "ls": "-", "lw": 1.8, "zorder": 3},
    "ANN": {"color": "#8a8a8a", "ls": "-."},
    "network, least squares": {"color": "#D55E00", "ls": "--"},
    "network, evidence": {"color": "#E69F00", "ls": "-."},
}
"""How each method looks in all figures: colour tells the family, dashes the kind; safe for the colour-blind."""
LEGEND_COLUMNS = 6


def panels(n_rows: int, n_columns: int, width: float = 4.2, height: float = 3.4, **options: Any) -> tuple[Any, Any]:
    """Return a figure without a window, and its axes (n_rows, n_columns)."""
    with figure_style():
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
            from matplotlib.layout_engine import ConstrainedLayoutEngine
        except ImportError as error:
            raise MissingDependencyError(
                "figures need matplotlib; install it with `pip install gpzed[plot]`"
            ) from error
        spacing = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08)
        figure = Figure(figsize=(width * n_columns, height * n_rows), layout=spacing)
        FigureCanvasAgg(figure)
        return figure, figure.subplots(n_rows, n_columns, squeeze=False, **options)


def dress(ax: Any) -> None:
    """Give the lines of methods, known by their labels, the look they have in all figures."""
    for line in ax.get_lines():
        line.set(**LOOKS.get(str(line.get_label()).partition(":")[0], {}))


def legend_below(figure: Any, axes: Any) -> None:
    """Put one legend for all panels under them, in the place of one in each; lines look as in all figures."""
    for ax in axes.flat:
        dress(ax)
        if ax.get_legend() is not None:
            ax.get_legend().remove()
    handles, labels = axes.flat[0].get_legend_handles_labels()
    rows = max(1, math.ceil(len(labels) / LEGEND_COLUMNS))
    figure.legend(handles, labels, loc="outside lower center", ncols=math.ceil(len(labels) / rows) or 1, frameon=False)
