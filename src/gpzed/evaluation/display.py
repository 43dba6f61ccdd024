"""How metrics are written wherever they are shown: heading and format, one for all tables and pages."""

from __future__ import annotations

from collections.abc import Mapping

HEADINGS: tuple[tuple[str, str, str], ...] = (
    ("n", "n", ",.0f"),
    ("rmse", "RMSE of dz/(1+z)", ".4f"),
    ("mll", "MLL", ".3f"),
    ("fr_0.15", "FR0.15 %", ".2f"),
    ("fr_0.05", "FR0.05 %", ".2f"),
    ("bias", "bias of dz/(1+z)", "+.5f"),
    ("sigma_nmad", "sigma_NMAD", ".4f"),
    ("outliers_0.15", "outliers > 0.15", ".4f"),
    ("odds", "ODDS", ".3f"),
    ("crps", "CRPS", ".4f"),
    ("cde_loss", "CDE loss", ".2f"),
    ("pit_ks", "PIT KS", ".4f"),
    ("coverage_68", "in 68 %", ".3f"),
    ("coverage_95", "in 95 %", ".3f"),
)
"""Name, heading and format of the metrics of a table, ``n`` the number of objects."""
CHALLENGE: tuple[tuple[str, str, str], ...] = (
    ("median_bias", "median bias", "+.5f"),
    ("clipped_mean", "clipped mean", "+.5f"),
    ("clipped_std", "clipped std", ".4f"),
    ("outliers_clipped", "outliers > 3 std", ".4f"),
    ("outliers_0.2", "outliers > 0.2", ".4f"),
    ("sigma_mad", "sigma_MAD", ".4f"),
    ("pit_cvm", "PIT CvM", ".4g"),
    ("pit_ad_2sample", "PIT AD", ".4g"),
    ("pit_outliers", "PIT outliers", ".4f"),
)
"""The same of DESC's photo-z challenge, beside PIT KS and CDE loss."""
SIGN = "RMSE, bias and widths are those of dz/(1+z), dz = z_phot - z_spec: a positive bias means redshifts too high"
"""What is said wherever a bias is shown."""


def shown(scores: Mapping[str, float]) -> dict[str, str]:
    """Return metrics (from `evaluate`) as they are written; those without a heading are left out.

    Examples
    --------
    >>> shown({"rmse": 0.04159, "bias": 0.001234})
    {'rmse': '0.0416', 'bias': '+0.00123'}
    """
    return {name: format(scores[name], style) for name, _, style in HEADINGS if name in scores}
