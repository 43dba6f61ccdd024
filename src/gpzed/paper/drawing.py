"""What the figures of the paper have in common: panels in the style of `gpzed.plots`, one legend under them."""

from __future__ import annotations

from typing import Any

from gpzed.errors import MissingDependencyError
from gpzed.plots import figure_style

#: Metrics of the panels, in the order of the paper.
PANELS = ("rmse", "mll", "fr_0.05", "fr_0.15")


def panels(n_rows: int, n_columns: int, width: float = 4.2, height: float = 3.4, **options: Any) -> tuple[Any, Any]:
    """Return a figure that no window shows, and its axes (n_rows, n_columns)."""
    with figure_style():
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError as error:
            raise MissingDependencyError(
                "figures need matplotlib; install it with `pip install gpzed[plot]`"
            ) from error
        figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
        FigureCanvasAgg(figure)
        return figure, figure.subplots(n_rows, n_columns, squeeze=False, **options)


def legend_below(figure: Any, axes: Any) -> None:
    """Put one legend for all panels under them, in the place of one in each."""
    handles, labels = axes.flat[0].get_legend_handles_labels()
    for ax in axes.flat:
        if ax.get_legend() is not None:
            ax.get_legend().remove()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(6, max(1, len(labels))), frameon=False)
