"""What stands beside the axes: one wording per quantity in all figures."""

from __future__ import annotations

Z_SPEC = r"spectroscopic redshift $z_{\mathrm{spec}}$"
Z_PHOT = r"photometric redshift $z_{\mathrm{phot}}$"
ERROR = r"$|z_{\mathrm{phot}} - z_{\mathrm{spec}}|\,/\,(1 + z_{\mathrm{spec}})$"
KEPT = "objects kept, by predicted variance [%]"

METRICS = {
    "rmse": r"RMSE of $\Delta z\,/\,(1 + z)$",
    "mll": "MLL",
    "fr_0.15": r"FR$_{0.15}$ [%]",
    "fr_0.05": r"FR$_{0.05}$ [%]",
    "bias": r"bias $\langle(z_{\mathrm{phot}} - z_{\mathrm{spec}})/(1 + z_{\mathrm{spec}})\rangle$",
    "sigma_nmad": r"$\sigma_{\mathrm{NMAD}}$",
    "outliers_0.15": "outliers, error above 0.15",
    "outliers_3sigma": r"outliers, error above 3 $\sigma_{\mathrm{NMAD}}$",
    "crps": "CRPS",
    "cde_loss": "CDE loss",
    "brier": "Brier score",
    "pit_ks": "KS distance of PIT",
    "pit_cvm": "Cramér-von Mises of PIT",
    "pit_ad": "Anderson-Darling of PIT",
    "coverage_68": "coverage of the 68 % interval",
    "coverage_95": "coverage of the 95 % interval",
    "odds": "mean ODDS",
    "median_bias": r"median of $\Delta z\,/\,(1 + z)$",
    "clipped_mean": r"clipped mean of $\Delta z\,/\,(1 + z)$",
    "clipped_std": r"clipped scatter of $\Delta z\,/\,(1 + z)$",
    "outliers_clipped": "outliers, error above 3 clipped scatters",
    "outliers_0.2": "outliers, error above 0.2",
    "sigma_mad": r"$\sigma_{\mathrm{MAD}}$",
    "pit_ad_2sample": "two-sample Anderson-Darling of PIT",
    "pit_outliers": "PIT values at the very ends",
}


def metric_label(name: str) -> str:
    """Return the label of a metric; unknown ones keep their names."""
    return METRICS.get(name, name)
