"""What the figures of the paper have in common: panels, colours of the methods, axes."""

from __future__ import annotations

from typing import Any

from gpzed.errors import MissingDependencyError

#: Colour and line style of each method, the same in all figures.
STYLES: dict[str, dict[str, Any]] = {
    "TPZ": {"color": "tab:brown"},
    "forest": {"color": "tab:orange"},
    "ANNz2": {"color": "tab:pink", "ls": ":"},
    "randomised": {"color": "tab:pink"},
    "exact GP": {"color": "tab:gray"},
    "SPGP": {"color": "tab:green"},
    "GPGL": {"color": "tab:cyan"},
    "GPVL": {"color": "tab:blue"},
    "GPGD": {"color": "tab:cyan", "ls": "--"},
    "GPVD": {"color": "tab:blue", "ls": "--"},
    "GPGC": {"color": "tab:purple", "ls": "--"},
    "GPVC": {"color": "black", "lw": 1.8},
    "ANN": {"color": "tab:red"},
}
#: Names of the metrics of the paper on axes.
LABELS = {"rmse": "RMSE", "mll": "MLL", "fr_0.05": "FR$_{0.05}$ (%)", "fr_0.15": "FR$_{0.15}$ (%)"}


def panels(n_rows: int, n_columns: int, width: float = 4.2, height: float = 3.4, **options: Any) -> tuple[Any, Any]:
    """Return a figure that no window shows, and its axes (n_rows, n_columns)."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError("figures need matplotlib; install it with `pip install gpzed[plot]`") from error
    figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(n_rows, n_columns, squeeze=False, **options)


def style(name: str) -> dict[str, Any]:
    """Return colour and line of a method."""
    return {"lw": 1.2, **STYLES.get(name, {})}


def legend_below(figure: Any, axes: Any) -> None:
    """Put one legend for all panels under them."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(6, max(1, len(labels))), frameon=False)
