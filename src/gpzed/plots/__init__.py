"""Figures: functions of data that draw on given axes, or on new ones, and return them."""

from __future__ import annotations

from gpzed.plots.basic import plot_history, plot_pit, plot_redshift_distribution, plot_scatter, save_figure

__all__ = ["plot_history", "plot_pit", "plot_redshift_distribution", "plot_scatter", "save_figure"]
