"""Train and score one of RAIL's codes, a random forest or gpzed on one catalogue: one JSON line.

    .venv-league/bin/python benchmarks/league/league.py --code flexzboost --catalogue dc2 --seed 0

The code runs with its own defaults, inform and estimate each in a separate process, and is scored by `gpzed.evaluation`
from the qp file that it writes. `make results` runs all of them and fills in the page. Catalogues: DC2 as RAIL has it;
task set 1 of the replica of DESC's challenge; BOSS, another file for the test; DES with the redshifts of GAMA, of which
a random 30 % is for the test. Of the last two only rows measured in all bands, and their bands go by RAIL's names.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from codes import BANDS, CODES
from rail.utils.path_utils import find_rail_file

from gpzed.catalog import Catalog, read_catalog
from gpzed.evaluation import evaluate, outlier_fraction
from gpzed.evaluation.metrics import METRICS, per_object_values
from gpzed.workflows import PredictionSource, read_predictions

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORK = ROOT / "build" / "league"
FLOOR = 1e-3  # of densities, for the log-likelihood that is never infinite
POINTS = ("rmse", "fr_0.15", "fr_0.05", "bias", "sigma_nmad")
TASK_SET = "pzdc_replica/pz_challenge_taskset_1_flow_{}_10yr.parquet"


def make_files(folder: Path, name: str) -> dict[str, Path]:
    """Return the files to train on and to judge by, as RAIL reads them."""
    if name == "dc2":
        found = {part: f"examples_data/testdata/test_dc2_{part}_9816.hdf5" for part in ("training", "validation")}
        return {part: Path(find_rail_file(file)) for part, file in found.items()}
    paths = {part: WORK / f"{name}_{part}.hdf5" for part in ("training", "validation")}
    if not all(path.exists() for path in paths.values()):
        WORK.mkdir(parents=True, exist_ok=True)
        for path, columns in zip(paths.values(), read_columns(folder, name), strict=True):
            with h5py.File(path, "w") as file:
                for column, values in columns.items():
                    file[f"photometry/{column}"] = values
    return paths


def read_columns(folder: Path, name: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the columns of training and test rows under RAIL's names."""
    if name == "taskset1":
        training, test, truth = (read_catalog(folder / TASK_SET.format(k)) for k in ("training", "test", "truth"))
        return columns(training, name, "redshift"), columns(test, name, "", truth.floats("redshift"))
    if name == "boss":
        files = [folder / f"sdss_boss_dr10/boss_dr10_{number}.parquet" for number in (0, 3, 1)]
        first, second, test = map(read_catalog, files)
        return columns(Catalog.concatenate([first, second]), name), columns(test, name)
    table = read_catalog(folder / "des_dr2_gama_vipers/gama_train.parquet")
    kept = np.random.default_rng(0).random(len(table)) < 0.7
    return columns(table.take(kept), name), columns(table.take(~kept), name)


def columns(table: Catalog, name: str, redshift: str = "z_spec", z: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Return magnitudes, errors and redshifts of the rows above redshift 0.002."""
    z = table.floats(redshift) if z is None else z
    value, error = ("mag_{}_lsst", "mag_{}_lsst_err") if name == "taskset1" else ("mag_{}", "mag_err_{}")
    found = {f"mag_{band}_lsst": table.floats(value.format(band)) for band in BANDS[name]}
    found |= {f"mag_err_{band}_lsst": table.floats(error.format(band)) for band in BANDS[name]}
    used = z > 0.002
    if name != "taskset1":
        used &= np.isfinite(np.stack(list(found.values()))).all(axis=0)
    return {key: values[used] for key, values in {**found, "redshift": z}.items()}


def run_phase(phase: str, args: argparse.Namespace, file: Path, folder: Path) -> dict[str, Any]:
    """Run one phase in a separate process; return what it printed last."""
    given = [phase, args.code, args.catalogue, str(args.seed), str(file), str(folder)]
    done = subprocess.run([sys.executable, str(HERE / "run_stage.py"), *given], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{args.code} fails to {phase}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def score(path: Path, truth: Path) -> dict[str, Any]:
    """Score the densities of a qp file by gpzed's metrics; truth from the catalogue, since not all codes pass it on."""
    file = read_predictions(PredictionSource(path, truth=str(truth), redshift="redshift"))
    z, prediction = file.z_spec, file.prediction
    log_density = prediction.log_pdf(z)
    scores = {
        key: finite(value) for key, value in evaluate(z, prediction).items() if key not in ("n", "pit_cvm", "pit_ad")
    }
    at_mode = per_object_values(list(POINTS), z, prediction.changed(point="mode"))
    scores |= {f"mode_{key}": float(METRICS[key].reduce(at_mode[key], np.ones(len(z)))) for key in POINTS}
    return scores | {
        "outliers_percent": 100.0 * outlier_fraction(z, prediction),
        "mll_floored": float(np.mean(np.maximum(log_density, math.log(FLOOR)))),
        "zero_density_percent": float(100.0 * np.mean(np.isneginf(log_density))),
        "n": len(z),
        "left_out": file.n_rows - len(z),
    }


def finite(value: float) -> float | None:
    """Return a number that JSON can hold; None stands for minus infinity."""
    return float(value) if math.isfinite(value) else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(os.environ.get("GPZED_DATA") or ROOT.parent / "shared/data")
    parser.add_argument("--data-dir", type=Path, default=default)
    parser.add_argument("--code", choices=list(CODES), required=True)
    parser.add_argument("--catalogue", choices=list(BANDS), default="dc2")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    code, files = CODES[args.code], make_files(args.data_dir, args.catalogue)
    folder = WORK / f"{args.code}-{args.catalogue}-{args.seed}"
    inform = run_phase("inform", args, files["training"], folder)
    estimate = run_phase("estimate", args, files["validation"], folder)
    record = {"catalogue": args.catalogue, "code": code.label, "seed": args.seed, "package": code.distribution}
    record |= {"version": importlib.metadata.version(code.distribution), "note": code.note}
    record |= {"inform_cpu_seconds": inform["cpu_seconds"], "estimate_cpu_seconds": estimate["cpu_seconds"]}
    record |= {"peak_mb": max(inform["peak_mb"], estimate["peak_mb"])}
    print(json.dumps(record | score(folder / "output.hdf5", files["validation"])))


if __name__ == "__main__":
    main()
