"""Training sets that are not like the target: task sets of a replica of DESC's photo-z challenge.

    python benchmarks/shift.py --data-dir ../shared/data/pzdc_replica --runs 1 2 2+target 3 3+target 4+target

One JSON line for each run: scores of the challenge, the mean error of tomographic means (five bins of equal numbers,
``|d<z>| / (1 + <z>)``), the share of objects in their central 68 % by magnitude, and the part of the outliers that is
lost by leaving out the tenth of greatest risk (`z_risk`); outliers and FR0.05 of both redshifts of least loss. Any
folder with files of the same names will do.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import gpzed
from gpzed.catalog import read_catalog
from gpzed.evaluation import evaluate, outlier_risk
from gpzed.prediction import Prediction

SCORES = ("outliers_0.2", "mll", "crps", "cde_loss", "pit_ks", "rmse", "sigma_nmad")
EDGES = (16.0, 22.0, 23.0, 24.0, 24.5, 25.0, 25.4)
N_BINS = 5
OUTLIER = 0.2


def file(folder: Path, task_set: int, part: str, years: int) -> Path:
    """Name a file as the challenge does; task set 3 is tested on the rows of task set 2."""
    number = 2 if task_set == 3 and part != "training" else task_set
    return folder / f"pz_challenge_taskset_{number}_flow_{part}_{years}yr.parquet"


def tomography(z: np.ndarray, prediction: Prediction) -> float:
    """Return the mean error of the mean redshifts of bins by point estimate."""
    point = prediction.z_phot
    edges = np.quantile(point, np.linspace(0.0, 1.0, N_BINS + 1))
    bins = np.clip(np.searchsorted(edges, point, side="right") - 1, 0, N_BINS - 1)
    filled = np.unique(bins)  # point estimates on a grid may leave some empty
    means = [(prediction.mean[bins == k].mean(), z[bins == k].mean()) for k in filled]
    return float(np.mean([abs(found - true) / (1.0 + true) for found, true in means]))


def run(name: str, folder: Path, years: int, members: int, seed: int) -> dict[str, Any]:
    """Train on a task set, with the target if asked to, and score its test rows."""
    task_set, _, how = name.partition("+")
    number = int(task_set)
    test = file(folder, number, "test", years)
    options: dict[str, Any] = {"n_members": members, "seed": seed}
    if number > 2:
        options["redshift"] = "redshift,redshift_manyband"
    if how:
        options |= {"target": test} if how == "target" else {"target": test, "adapt": how}
    started = time.perf_counter()
    model = gpzed.train(file(folder, number, "training", years), **options)
    seconds = time.perf_counter() - started
    out = model.predict(test)
    z = read_catalog(file(folder, number, "truth", years))["redshift"]
    return {
        "benchmark": "shift",
        "run": name,
        "years": years,
        "members": members,
        "seed": seed,
        **scores(z, out["mag_i_lsst"], out.prediction),
        "train_seconds": round(seconds, 1),
        "gpzed": gpzed.__version__,
    }


def scores(z: np.ndarray, magnitude: np.ndarray, prediction: Prediction) -> dict[str, Any]:
    """Return the scores of predictions for objects of known redshift."""
    found = evaluate(z, prediction)
    inside = np.abs(prediction.cdf(z) - 0.5) < 0.34
    cells = [(magnitude >= low) & (magnitude < high) for low, high in pairwise(EDGES)]
    risk, outlier = outlier_risk(prediction), np.abs(prediction.z_phot - z) > OUTLIER * (1.0 + z)
    quoted = {}
    for point in ("best", "safe"):
        error = np.abs(getattr(prediction, point) - z) / (1.0 + z)
        quoted |= {
            f"outliers_{point}": float(np.mean(error > OUTLIER)),
            f"fr_0.05_{point}": 100 * float(np.mean(error < 0.05)),
        }
    return {
        **{score: round(float(found[score]), 4) for score in SCORES},
        **{score: round(value, 4) for score, value in quoted.items()},
        "tomographic_means": round(tomography(z, prediction), 4),
        "coverage_68_by_magnitude": [round(float(inside[cell].mean()), 3) for cell in cells if cell.any()],
        "rejected_outliers": round(float(np.mean((risk > np.quantile(risk, 0.9))[outlier])), 3),
    }


def arguments(description: str, runs: list[str]) -> argparse.ArgumentParser:
    """Return the arguments that rivals have, too."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    default = Path(os.environ.get("GPZED_DATA", "../shared/data")) / "pzdc_replica"
    parser.add_argument("--data-dir", type=Path, default=default)
    parser.add_argument("--runs", nargs="+", default=runs)
    parser.add_argument("--years", type=int, default=10)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    return parser


def main() -> None:
    parser = arguments(__doc__, ["1", "2", "2+weights", "2+target", "3", "3+target", "4+target"])
    parser.add_argument("--members", type=int, default=5)
    options = parser.parse_args()
    for name in options.runs:
        for seed in options.seeds:
            print(json.dumps(run(name, options.data_dir, options.years, options.members, seed)), flush=True)


if __name__ == "__main__":
    main()
