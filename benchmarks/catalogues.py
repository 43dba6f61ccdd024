"""The real catalogues that benchmarks train on and judge by, and the arguments of a run on one of them.

DC2 and BOSS have their own test files; of the others a random 30 % is kept for the test. Needs the catalogues
(`--data-dir`, or GPZED_DATA).
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np

from gpzed.catalog import Catalog, read_catalog
from gpzed.evaluation import metrics
from gpzed.prediction import Prediction

ROOT = Path(__file__).resolve().parents[1]
CATALOGUES = {
    "dc2": (["rail_dc2_9816/training"], "rail_dc2_9816/validation"),
    "boss": (["sdss_boss_dr10/boss_dr10_0", "sdss_boss_dr10/boss_dr10_3"], "sdss_boss_dr10/boss_dr10_1"),
    "deep": (["deep23_3dhst_ugrizy/half"], None),
    "vipers": (["des_dr2_gama_vipers/vipers_train"], None),
    "gama": (["des_dr2_gama_vipers/gama_train"], None),
    "quasars": (["sdss_qso_dr5/half"], None),
}


def arguments(description: str | None) -> argparse.Namespace:
    """Return the arguments of a run on one catalogue."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(os.environ.get("GPZED_DATA") or ROOT.parent / "shared/data")
    parser.add_argument("--data-dir", type=Path, default=default)
    parser.add_argument("--catalogue", choices=list(CATALOGUES), required=True)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def tables(folder: Path, name: str) -> tuple[Catalog, Catalog]:
    """Rows to train on, and rows to be judged by, with a redshift above 0.002 and a measured band."""
    training, test = CATALOGUES[name]
    parts = [read_catalog(folder / f"{part}.parquet") for part in training]
    table = Catalog({c: np.concatenate([np.asarray(p[c]) for p in parts]) for c in parts[0].names})
    table = table.take(table.floats("z_spec") > 0.002)
    if test is not None:
        other = read_catalog(folder / f"{test}.parquet")
        return measured_rows(table), measured_rows(other.take(other.floats("z_spec") > 0.002))
    kept = np.random.default_rng(0).random(len(table)) < 0.7
    return measured_rows(table.take(kept)), measured_rows(table.take(~kept))


def measured_rows(table: Catalog) -> Catalog:
    """Rows with a measured band."""
    bands = [name for name in table.names if name.startswith("mag_") and "err" not in name]
    return table.take(np.isfinite(np.stack([table.floats(name) for name in bands])).any(axis=0))


def point_metrics(z: np.ndarray, prediction: Prediction, point: str) -> dict[str, float]:
    """Return the scores of a point estimate."""
    return {
        "rmse": metrics.rmse(z, prediction, point=point),
        "fr_0.15": metrics.fraction_retained(z, prediction, threshold=0.15, point=point),
        "fr_0.05": metrics.fraction_retained(z, prediction, threshold=0.05, point=point),
        "sigma_nmad": metrics.sigma_nmad(z, prediction, point=point),
        "bias": metrics.bias(z, prediction, point=point),
    }
