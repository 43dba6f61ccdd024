"""What the defaults rest on: held-out scores of each choice, one at a time, on real catalogues.

Each line is one setting on one catalogue, all else by default, scored on rows that took no part in training. Times are
for orientation only. Needs the catalogues (`--data-dir`, or GPZED_DATA); magnitudes and ln errors, magnitude and error
clipped, bands that were not measured at a faint limit.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from common import emit
from gpzed import GPzRegressor, Training
from gpzed.errors import ConvergenceWarning
from gpzed.evaluation import evaluate

CATALOGUES = {
    "boss": ("ugriz", ["sdss_boss_dr10/boss_dr10_0", "sdss_boss_dr10/boss_dr10_3"], "sdss_boss_dr10/boss_dr10_1"),
    "dc2": ("ugrizy", ["rail_dc2_9816/training"], "rail_dc2_9816/validation"),
    "deep": ("ugriz", ["deep23_3dhst_ugrizy/half"], None),
    "qso": ("ugriz", ["sdss_qso_dr5/half"], None),
}
CHOICES: list[dict[str, Any]] = [
    {},
    {"n_members": 1},
    {"n_heads": 1},
    {"n_basis": 15},
    {"n_basis": 25},
    {"n_basis": 50},
    {"n_basis": 100},
    {"training": {"init": "data"}},
    {"training": {"init": "random"}},
    {"whitening": "scale"},
    {"mean_function": "zero"},
    {"mean_function": "constant"},
    {"shape_prior": 0.0},
    {"shape_prior": 5.0},
    {"calibrate": "noise"},
    {"calibrate": "none"},
    {"noise": "homoscedastic"},
    {"relevance": "shared"},
    {"training": {"memory": 10}},
    {"covariance": "GL", "n_basis": 100},
    {"covariance": "VL", "n_basis": 100},
    {"covariance": "VD"},
    {"covariance": "GC", "n_basis": 100},
]


def read(folder: Path, bands: str, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Features and redshifts of some files together."""
    features, redshifts = [], []
    for name in names:
        table = pq.read_table(folder / f"{name}.parquet")
        mag = np.stack([np.asarray(table[f"mag_{band}"], dtype=float) for band in bands], axis=1)
        err = np.stack([np.asarray(table[f"mag_err_{band}"], dtype=float) for band in bands], axis=1)
        z = np.asarray(table["z_spec"], dtype=float)
        missing = ~np.isfinite(mag) | ~np.isfinite(err)
        mag, err = np.where(missing, 28.0, np.clip(mag, 10.0, 28.0)), np.where(missing, 1.0, np.clip(err, 1e-3, 3.0))
        used = (z > 0.002) & ~missing.all(axis=1)
        features.append(np.hstack([mag, np.log(err)])[used])
        redshifts.append(z[used])
    return np.concatenate(features), np.concatenate(redshifts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", default=os.environ.get("GPZED_DATA", "../shared/data"))
    parser.add_argument("--catalogues", default=",".join(CATALOGUES))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    folder = Path(options.data_dir)
    if not folder.is_dir():
        parser.exit(2, f'no folder "{folder}"; give the catalogues with --data-dir or GPZED_DATA.\n')
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in options.catalogues.split(","):
        bands, train, test = CATALOGUES[name]
        X, z = read(folder, bands, train)
        if test is None:
            order = np.random.default_rng(0).permutation(len(z))
            half = len(z) // 2
            X, z, X_test, z_test = X[order[:half]], z[order[:half]], X[order[half:]], z[order[half:]]
        else:
            X_test, z_test = read(folder, bands, [test])
        for choice in CHOICES:
            started = time.perf_counter()
            changes = {**choice, "training": Training(**choice.get("training", {}))}
            model = GPzRegressor(random_state=options.seed, **changes).fit(X, z)
            seconds = time.perf_counter() - started
            scores = evaluate(z_test, model.predict_distribution(X_test))
            keys = ("rmse", "mll", "fr_0.15", "fr_0.05", "crps", "pit_ks", "coverage_68")
            figures = {key: round(scores[key], 4) for key in keys}
            worst = min(r.best_score - max((s.score for s in r.history), default=r.best_score) for r in model.reports_)
            emit(
                {"catalogue": name, "choice": choice, "n": len(z), "n_basis": model.n_basis_, **figures}
                | {"kept_minus_best_score": worst, "seconds": round(seconds, 1)}
            )


if __name__ == "__main__":
    main()
