"""The look that all figures share: sizes, colours that the colour-blind can tell apart, and how files are written."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, ParamSpec

import numpy as np

from gpzed._files import replacing
from gpzed.errors import MissingDependencyError

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""Okabe & Ito's colours without yellow, which is lost on white paper."""
LINES = ("-", "--", "-.", ":")
INK, FAINT = "#222222", "#8a8a8a"
FORMATS = ("pdf", "svg", "png", "eps", "jpg", "webp", "tif")
"""Suffixes that `save_figure` accepts."""

STYLE: Any = {  # as matplotlib types it, with all keys spelt out
    "figure.figsize": (4.6, 3.6),
    "figure.dpi": 150,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 300,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "gpzed",
    "font.size": 9.0,
    "font.family": "sans-serif",
    "mathtext.fontset": "dejavusans",
    "axes.labelsize": 9.5,
    "axes.titlesize": 9.5,
    "axes.linewidth": 0.7,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.direction": "in",
    "ytick.direction": "in",
    "xtick.top": True,
    "ytick.right": True,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.minor.visible": True,
    "ytick.minor.visible": True,
    "lines.linewidth": 1.4,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
}

Arguments = ParamSpec("Arguments")
_NEEDED = "figures need matplotlib; install it with `pip install gpzed[plot]`"


@contextmanager
def figure_style() -> Iterator[None]:
    """Give all figures created inside the look of gpzed's.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from gpzed.plots import figure_style
    >>> with figure_style():
    ...     figure, ax = plt.subplots()
    """
    try:
        from matplotlib import rc_context
    except ImportError as error:
        raise MissingDependencyError(_NEEDED) from error
    with rc_context(STYLE):
        yield


def new_axes(**options: Any) -> Any:
    """Return the axes of a new figure that no window shows."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError(_NEEDED) from error
    figure = Figure(**options)
    FigureCanvasAgg(figure)
    return figure.add_subplot()


def drawn(function: Callable[Arguments, None]) -> Callable[Arguments, Any]:
    """Wrap a function that draws on `ax`: create axes in gpzed's style if none are given, add a legend, return `ax`."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def draw(*args: Arguments.args, **options: Arguments.kwargs) -> Any:
        given: dict[str, Any] = signature.bind(*args, **options).arguments
        with figure_style() if given.get("ax") is None else nullcontext():
            ax = given["ax"] = given.get("ax") or new_axes()
            function(**given)  # type: ignore[call-arg]
            if ax.get_legend_handles_labels()[1]:
                ax.legend()
        return ax

    return draw


def save_figure(ax: Any, path: str | os.PathLike[str], dpi: float | None = None) -> None:
    """Write the figure of axes to a file; the suffix sets the format: .pdf and .svg for print, .png for the screen.

    Parameters
    ----------
    dpi : float, optional
        Dots per inch of pixel formats, and of the dense parts of the others; 300 by default.

    Examples
    --------
    >>> from pathlib import Path
    >>> from gpzed import Prediction
    >>> from gpzed.plots import plot_pdf, save_figure
    >>> save_figure(plot_pdf(Prediction.gaussian([0.5], 0.001, 0.002)), "pdf.png")
    >>> Path("pdf.png").exists()
    True
    """
    target = Path(path)
    kind = target.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise ValueError(
            f"'{target}' does not end in a known format; use one of {', '.join('.' + name for name in FORMATS)}."
        )
    if not target.parent.is_dir():
        raise ValueError(f"folder '{target.parent}' does not exist; create it, or write the figure elsewhere.")
    figure = ax if hasattr(ax, "savefig") else ax.figure
    undated: dict[str, dict[str, None]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    with figure_style(), replacing(target) as temporary:
        figure.savefig(temporary, format=kind, dpi=dpi or STYLE["savefig.dpi"], metadata=undated.get(kind))


def uncertainty_map() -> Any:
    """Return viridis without its yellow end, which is lost on white paper: perceptually even, and readable in grey."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    return ListedColormap(colormaps["viridis"](np.linspace(0.0, 0.9, 256)), name="gpzed")


def as_mapping(data: Any) -> Mapping[str, Any]:
    """Return data by name: a mapping as it is, one record under an empty name."""
    return data if isinstance(data, Mapping) else {"": data}


def line_styles(names: Iterable[str]) -> list[dict[str, Any]]:
    """Return colour, dashes and label of one line per name; no two alike."""
    styles = []
    for i, name in enumerate(names):
        dashes = LINES[i % len(LINES)] if i < len(COLOURS) else LINES[(i // len(COLOURS) + i) % len(LINES)]
        styles.append({"color": COLOURS[i % len(COLOURS)], "ls": dashes, "label": name or None})
    return styles


def draw_lines(ax: Any, named: Mapping[str, Any], points: Callable[[Any], tuple[Any, Any]], **look: Any) -> None:
    """Draw one line per name, through the points of its record."""
    for record, style in zip(named.values(), line_styles(named), strict=True):
        ax.plot(*points(record), **look, **style)
