"""How metrics are written wherever they are shown: heading and format, one for all tables and pages."""

from __future__ import annotations

from collections.abc import Mapping

HEADINGS: tuple[tuple[str, str, str], ...] = (
    ("n", "n", ",.0f"),
    ("rmse", "RMSE", ".4f"),
    ("mll", "MLL", ".3f"),
    ("fr_0.15", "FR0.15 %", ".2f"),
    ("fr_0.05", "FR0.05 %", ".2f"),
    ("bias", "bias", "+.5f"),
    ("sigma_nmad", "sigma_NMAD", ".4f"),
    ("crps", "CRPS", ".4f"),
    ("cde_loss", "CDE loss", ".2f"),
    ("pit_ks", "PIT KS", ".4f"),
    ("coverage_68", "in 68 %", ".3f"),
    ("coverage_95", "in 95 %", ".3f"),
)
"""Name, heading and format of the metrics of a table, ``n`` the number of objects."""


def shown(scores: Mapping[str, float]) -> dict[str, str]:
    """Return metrics (from `evaluate`) as they are written; those without a heading are left out.

    Examples
    --------
    >>> shown({"rmse": 0.04159, "bias": 0.001234})
    {'rmse': '0.0416', 'bias': '+0.00123'}
    """
    return {name: format(scores[name], style) for name, _, style in HEADINGS if name in scores}
