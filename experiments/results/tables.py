"""The tables of the pages by name."""

from __future__ import annotations

from experiments.results.views import View

DENSITY = ("mll", "crps", "cde_loss", "pit_ks", "coverage_68", "coverage_95")
POINT = ("rmse", "fr_0.15", "fr_0.05", "sigma_nmad", "bias")
KEY = ("rmse", "mll", "crps")

TABLES: dict[str, View] = {
    # all catalogues, as gpzed comes
    "headline": View(
        "defaults",
        ("catalogue", "n_train"),
        ("rmse", "fr_0.15", "fr_0.05", "sigma_nmad", "mll", "crps", "pit_ks"),
        {"what": "density", "variant": "gpzed"},
    ),
    "boosting": View(
        "defaults",
        ("catalogue", "variant"),
        POINT,
        {"what": "density"},
        ("variant", "boosting"),
        ("rmse", "fr_0.15", "fr_0.05", "sigma_nmad"),
    ),
    "points": View("defaults", ("catalogue", "variant"), POINT, {"what": "point"}),
    **{
        f"points-{score}": View("defaults", ("variant",), (key,), {"what": "point"}, pivot="catalogue")
        for score, key in (("rmse", "rmse"), ("fr", "fr_0.05"), ("nmad", "sigma_nmad"))
    },
    "densities": View("defaults", ("catalogue",), DENSITY, {"what": "density", "variant": "gpzed"}),
    "cells": View("defaults", ("catalogue",), ("cells", "cells_off", "worst_cell", "cell_error"), {"what": "cells"}),
    "local": View(
        "local",
        ("catalogue", "method"),
        ("cells", "cells_off", "worst_cell", "cell_error", "cde_loss", "mll"),
        {},
        ("method", "gpzed"),
        ("cell_error", "cde_loss"),
    ),
    "recalibration-defaults": View(
        "defaults",
        ("catalogue", "variant"),
        (*DENSITY, "factor", "wings", "held_out"),
        {"what": "recalibration"},
        ("variant", "none"),
        ("mll",),
    ),
    "recalibration": View(
        "recalibration",
        ("catalogue", "recalibrate"),
        (*DENSITY, "factor", "wings", "held_out"),
        {},
        ("recalibrate", "none"),
        ("mll", "cde_loss"),
    ),
    "coverage-inside": View(
        "defaults", ("catalogue", "variant"), ("rmse", *DENSITY), {"what": "coverage"}, ("variant", "none"), ("mll",)
    ),
    "coverage": View(
        "coverage",
        ("trained on", "applied to", "treatment"),
        ("flagged", "median_std", "rmse", "rmse_mean", "rmse_best", *DENSITY[:2], *DENSITY[3:]),
    ),
    "choices": View(
        "choices",
        ("catalogue", "choice"),
        ("n_basis", *KEY, "fr_0.15", "fr_0.05", "pit_ks"),
        {},
        ("choice", "defaults"),
        KEY,
    ),
    "errors": View(
        "errors",
        ("catalogue", "choice"),
        ("mll", "crps", "rmse", "fr_0.05"),
        {},
        ("choice", "errors=none"),
        ("mll", "crps", "fr_0.05"),
    ),
    "steps": View("steps", ("step",), ("mll",), pivot="catalogue"),
    "steps-scores": View(
        "steps",
        ("catalogue", "step"),
        ("mll", "crps", "rmse", "fr_0.05", "outliers_0.15", "pit_ks", "cpu_seconds"),
        {},
        ("step", "the paper's GPz"),
        ("mll", "crps"),
    ),
    # beside other codes
    "league": View(
        "league league-rivals",
        ("catalogue", "code"),
        (
            "rmse",
            "fr_0.15",
            "fr_0.05",
            "bias",
            "sigma_nmad",
            "mll",
            "mll_floored",
            "crps",
            "cde_loss",
            "pit_ks",
            "brier",
        ),
    ),
    "league-mode": View("league league-rivals", ("catalogue", "code"), tuple(f"mode_{key}" for key in POINT)),
    "league-cost": View(
        "league league-rivals",
        ("catalogue", "code", "package", "version", "note"),
        ("inform_cpu_seconds", "estimate_cpu_seconds", "peak_mb", "zero_density_percent", "left_out"),
    ),
    "networks": View(
        "networks",
        ("catalogue", "n", "method"),
        ("mll", "crps", "cde_loss", "fr_0.15", "fr_0.05", "sigma_nmad", "rmse"),
        {"gpzed_less": None},
        ("method", "gpzed"),
        ("mll", "crps", "fr_0.05"),
    ),
    # spectra unlike the target, labels, gaps
    "shift": View(
        "shift shift-rivals", ("run",), ("outliers_0.2", "mll", "crps", "cde_loss", "pit_ks", "tomographic_means")
    ),
    "shift-points": View(
        "shift shift-rivals", ("run",), ("outliers_best", "outliers_safe", "fr_0.05_best", "fr_0.05_safe")
    ),
    "shift-cells": View("shift", ("run",), tuple(f"coverage_68_by_magnitude.{cell}" for cell in range(6))),
    "cuts": View(
        "cuts",
        ("cut", "method"),
        ("mll", "crps", "cde_loss", "fr_0.15", "fr_0.05", "rmse", "pit_ks", "coverage_68"),
        {},
        ("method", "networks"),
        ("mll", "crps", "fr_0.05"),
    ),
    "nz": View("nz", ("kind", "bins"), ("inside", "pull_std", "inside_endless_labels", "pull_std_endless_labels")),
    "labels": View("labels", ("set", "wrong", "wrong_labels"), ("mll", "crps", "rmse", "sigma_nmad", "pit_ks")),
    "depth": View(
        "depth",
        ("catalogue", "errors", "depth", "rows"),
        ("slope", "std", "rmse", "mll", "crps", "coverage_68", "coverage_95"),
    ),
    "survey": View("survey", ("catalogue", "bias", "chosen"), (*KEY, "fr_0.15"), {}, ("chosen", "random"), KEY),
    "missing": View("missing", ("catalogue", "treatment"), KEY, {"rows": "all"}, ("treatment", "marginalise"), KEY),
    "missing-gaps": View(
        "missing", ("catalogue", "treatment"), KEY, {"rows": "with gaps"}, ("treatment", "marginalise"), KEY
    ),
    "soundness": View(
        "soundness",
        ("structure", "heads", "members", "n"),
        ("excess", "mll_before", "mll_after", "coverage_68_before", "coverage_68_after"),
    ),
    "pdfs": View(
        "pdfs",
        ("catalogue",),
        ("bytes_per_object", "delta_mll", "delta_crps", "delta_cde", "delta_nz_mean"),
        {"benchmark": "pdfs"},
    ),
    "simulator": View("simulator", ("sample",), ("median_redshift", "rmse", "fr_0.15", "fr_0.05", "sigma_nmad")),
    # times, as ratios taken in turns
    "evidence": View("evidence", ("n", "m"), ("fraction_of_dgemm",), {"stream": False}, pivot="structure"),
    "prediction": View("prediction", ("n", "m"), ("fraction_of_dgemm",), pivot="structure"),
    "committee": View(
        "committee",
        ("components", "networks"),
        ("speedup_over_exact", "speedup_over_other"),
        {"benchmark": "committee"},
    ),
    "committee-scores": View(
        "committee",
        ("catalogue", "n_test", "quick_members"),
        ("rmse_change", "mll_change", "crps_change", "cde_loss_change"),
        {"benchmark": "committee scores"},
    ),
    "training": View(
        "training", ("rows", "n", "d", "m", "patterns", "threads"), ("cpu_seconds", "seconds", "speedup_over_other")
    ),
    "versus": View("versus", ("benchmark",), ("ratio_of_best", "ratio_of_medians"), {"benchmark": "versus evidence"}),
    "versus-training": View(
        "versus", ("benchmark", "m", "noise_correction"), ("ratio_to_final", "ratio_to_best"), {"ours_best": None}
    ),
    "stages": View("stages", ("n", "n_basis", "stages"), ("ratio", "growing_score", "all_rows_score")),
    "pipeline": View("pipeline", ("model", "rows"), ("ratio", "peak_mb")),
    "patterns": View("patterns", ("benchmark", "n", "d", "m"), ("ratio",), {"benchmark": "evidence with patterns"}),
    "committee-hours": View(
        "committee", ("components", "networks"), ("core_hours_of_1e10_rows",), {"benchmark": "committee"}
    ),
    "committee-files": View(
        "committee",
        ("rows", "written"),
        ("bytes_added_per_row", "over_columns_in_memory", "speedup_over_other", "core_hours_of_1e10_rows"),
        {"benchmark": "committee files"},
    ),
    "ten-billion-check": View(
        "ten_billion", ("rows", "workers"), ("predicted_over_measured",), {"what": "check: one evaluation"}
    ),
    "ten-billion-training": View(
        "ten_billion",
        ("rows", "workers"),
        ("evaluation_seconds", "hours", "worker_gigabytes", "network_gigabytes", "core_hours", "dollars"),
        {"what": "training"},
    ),
    "ten-billion-prediction": View(
        "ten_billion",
        ("rows", "workers"),
        ("hours", "read_terabytes", "written_terabytes", "network_gigabytes", "core_hours", "dollars"),
        {"what": "prediction"},
    ),
    "faults": View("faults", ("run", "outcomes"), ("cases", "fresh", "broken", "minutes"), {"what": "campaign"}),
    "faults-signals": View("faults", ("command",), ("cases",), {"what": "fault", "run": "--each 200"}, pivot="fault"),
    "dask-patterns": View(
        "dask", ("pattern", "m", "shards"), ("bytes_sent", "overhead_ms"), {"benchmark": "dask patterns"}
    ),
    "dask": View(
        "dask", ("n",), ("ratio", "median_ratio", "evidence_difference", "gradient_difference"), {"benchmark": "dask"}
    ),
}
"""Table by table: whose records, which rows, which scores, and against what."""
