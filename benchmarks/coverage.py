"""What coverage does, inside and outside the region of the training rows: one JSON line per case and treatment.

    python benchmarks/coverage.py --case des --seed 0

A 1-D gap; DES trained on i < 21 and applied to i > 22; a model of BOSS galaxies applied to quasars. Where training
and test rows are alike, `defaults.py` has the same treatments. The model is that which `gpzed train` trains by
default. Treatments: none; the wide Gaussian of `gpzed.model.coverage`, which is the default; and every Gaussian made
wider, which was the default before. `rmse_mean` and `rmse_best` are those of the mean and of the redshift that `gpzed
predict` quotes, both of densities cut at zero. `--time` says what prediction costs instead. Needs the catalogues
(`--data-dir`, or GPZED_DATA).
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from catalogues import tables
from common import emit
from gpzed import GPzRegressor, Training
from gpzed.catalog import Catalog, read_catalog
from gpzed.errors import ConvergenceWarning
from gpzed.evaluation import evaluate, metrics
from gpzed.model.coverage import HALF_WAY, THRESHOLD, Coverage
from gpzed.prediction import Prediction
from recalibration import inputs, measured

ROOT = Path(__file__).resolve().parents[1]
KEYS = ("rmse", "mll", "crps", "pit_ks", "coverage_68", "coverage_95")
POINTS = ("mean", "best")
MAX_TARGETS = 6000
Rows = tuple[np.ndarray, np.ndarray]
Case = tuple[str, Rows, dict[str, Rows]]


def gap() -> Case:
    rng = np.random.default_rng(0)
    x = rng.uniform(-6, 6, 6000)
    y = 1.0 + np.sin(x) + 0.1 * rng.standard_normal(6000)
    seen = (np.abs(x) > 1) & (np.abs(x) < 4)
    used = seen & (rng.random(6000) < 0.5)
    X = x[:, None]
    parts = {"inside": seen & ~used, "in the gap": np.abs(x) < 0.8, "beyond the ends": np.abs(x) > 4.3}
    return "1-D wave with a gap", (X[used], y[used]), {name: (X[rows], y[rows]) for name, rows in parts.items()}


def case(name: str, training: Catalog, targets: dict[str, Catalog]) -> Case:
    X, transformer = inputs(training, None)
    parts = {}
    for part, table in targets.items():
        table = measured(table, MAX_TARGETS)
        parts[part] = inputs(table, transformer)[0], table.floats("z_spec")
    return name, (X, training.floats("z_spec")), parts


def three_quarters(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = np.random.default_rng(0).permutation(rows)
    return rows[: 3 * len(rows) // 4], rows[3 * len(rows) // 4 :]


def make_case(folder: Path, name: str) -> Case:
    """Name, training rows, and rows to predict."""
    if name == "gap":
        return gap()
    if name == "des":
        files = [folder / f"des_dr2_gama_vipers/{part}_train.parquet" for part in ("gama", "vipers")]
        table = Catalog.concatenate([read_catalog(file) for file in files])
        table = measured(table.take(table.floats("z_spec") > 0.002), len(table))
        i = table.floats("mag_i")
        used, held = three_quarters(np.flatnonzero(i < 21))
        return case("DES, i < 21", table.take(used), {"i < 21": table.take(held), "i > 22": table.take(i > 22)})
    table, other = tables(folder, name)
    if name != "boss":
        return case(name.upper(), measured(table, len(table)), {"test rows": other})
    used, held = three_quarters(np.arange(len(table)))
    quasars = read_catalog(folder / "sdss_qso_dr5/half.parquet")
    targets = {"same files": table.take(held), "another file": other, "quasars": quasars}
    return case("BOSS galaxies", table.take(used), targets)


def widened(prediction: Prediction, coverage: np.ndarray, density: Coverage) -> Prediction:
    """Every Gaussian made wider by the same amount, to the same total variance."""
    prior = density.variance + (prediction.mean - density.mean) ** 2
    added = np.maximum(prior - prediction.variance, 0.0) / (1.0 + (coverage / HALF_WAY) ** 4)
    parts = prediction.components
    widened = replace(parts, model_variances=parts.model_variances + added[:, None])
    return prediction.changed(components=widened, coverage=coverage)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(os.environ.get("GPZED_DATA") or ROOT.parent / "shared/data")
    parser.add_argument("--data-dir", type=Path, default=default)
    parser.add_argument("--case", choices=["gap", "des", "boss", "dc2", "deep"], default="gap")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time", action="store_true", help="time prediction instead")
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    if args.time:
        cost(args.data_dir)
        return
    name, (X, z), targets = make_case(args.data_dir, args.case)
    model = GPzRegressor(random_state=args.seed).fit(X, z)
    committee, density = model.committee_, model.coverage_
    assert density is not None
    for part, (X_new, z_new) in targets.items():
        model.committee_ = replace(committee, coverage=None)
        plain = model.predict_distribution(X_new)
        model.committee_ = committee
        wide = model.predict_distribution(X_new)
        assert wide.coverage is not None
        treatments = {"none": plain, "wide Gaussian": wide, "wider": widened(plain, wide.coverage, density)}
        for treatment, p in treatments.items():
            scores = evaluate(z_new, p)
            record: dict[str, Any] = {"trained on": name, "applied to": part, "seed": args.seed, "n": len(z_new)}
            record |= {"treatment": treatment, **{key: round(scores[key], 4) for key in KEYS}}
            for point in POINTS if z_new.min() >= 0.0 else ():
                quoted = p.truncate(0.0).changed(point=point)
                record[f"rmse_{point}"] = round(metrics.rmse(z_new, quoted), 4)
            record["flagged"] = round(float(np.mean(wide.coverage < THRESHOLD)), 4)
            emit(record | {"median_std": round(float(np.median(p.std)), 4), "std_train": round(float(z.std()), 4)})


def cost(folder: Path) -> None:
    """Seconds of prediction for 100,000 rows of DC2 without and with coverage, the least of five each, one thread."""
    _, (X, z), targets = make_case(folder, "dc2")
    (X_new, _), *_ = targets.values()
    X_new = np.resize(X_new, (100_000, X_new.shape[1]))
    for heads, members in ((1, 1), (5, 5)):
        options = {"training": Training(max_iter=5, n_epochs=1), "n_threads": 1, "random_state": 0}
        model = GPzRegressor(n_heads=heads, n_members=members, **options).fit(X, z)
        committee, seconds = model.committee_, {False: np.inf, True: np.inf}
        for _ in range(5):
            for wanted in (False, True):
                model.committee_ = committee if wanted else replace(committee, coverage=None)
                started = time.perf_counter()
                model.predict_distribution(X_new)
                seconds[wanted] = min(seconds[wanted], time.perf_counter() - started)
        record = {"heads": heads, "members": members, "n_basis": model.n_basis_, "rows": len(X_new)}
        emit(record | {"without": round(seconds[False], 3), "with": round(seconds[True], 3)})


if __name__ == "__main__":
    main()
