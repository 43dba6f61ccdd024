"""Figures: functions that draw on given matplotlib axes `ax`, or on new ones, and return them.

Most draw records of `gpzed.evaluation`: one, or a mapping from names to several of the same kind.
"""

from __future__ import annotations

from gpzed.plots._style import COLOURS, figure_style, save_figure
from gpzed.plots.bins import plot_binned, plot_variance_boxes
from gpzed.plots.calibration import plot_pit, plot_qq, plot_reliability
from gpzed.plots.model import plot_basis_ellipses, plot_history, plot_sparsity
from gpzed.plots.pdf import plot_pdf
from gpzed.plots.redshift import plot_redshift_distribution, plot_stack
from gpzed.plots.scatter import plot_scatter
from gpzed.plots.scores import plot_complexity, plot_improvement, plot_rejection, plot_retained
from gpzed.plots.survey import plot_survey

__all__ = [
    "COLOURS",
    "figure_style",
    "plot_basis_ellipses",
    "plot_binned",
    "plot_complexity",
    "plot_history",
    "plot_improvement",
    "plot_pdf",
    "plot_pit",
    "plot_qq",
    "plot_redshift_distribution",
    "plot_rejection",
    "plot_reliability",
    "plot_retained",
    "plot_scatter",
    "plot_sparsity",
    "plot_stack",
    "plot_survey",
    "plot_variance_boxes",
    "save_figure",
]
