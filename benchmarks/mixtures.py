"""Real catalogues from file to score: the paper's model, one head, several heads, and the committee by default.

    python benchmarks/mixtures.py --points docs/results/points.jsonl > docs/results/mixtures.jsonl

Each line is one catalogue and one configuration, everything else as `gpzed train` has it by default. DC2 and BOSS have
their own test files; of the others a random 30 % is kept for the test. Needs the catalogues (`--data-dir`, or
GPZED_DATA). With `--points`, scores of other numbers that might be quoted for each density of the default go to a file.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from common import emit
from gpzed.catalog import Catalog, read_catalog, write_catalog
from gpzed.config import RunConfig
from gpzed.evaluation import metrics
from gpzed.prediction import Prediction
from gpzed.workflows import evaluate, predict, train
from gpzed.workflows.predictions import read_predictions

ROOT = Path(__file__).resolve().parents[1]
CATALOGUES = {
    "dc2": (["rail_dc2_9816/training"], "rail_dc2_9816/validation"),
    "boss": (["sdss_boss_dr10/boss_dr10_0", "sdss_boss_dr10/boss_dr10_3"], "sdss_boss_dr10/boss_dr10_1"),
    "deep": (["deep23_3dhst_ugrizy/half"], None),
    "vipers": (["des_dr2_gama_vipers/vipers_train"], None),
    "quasars": (["sdss_qso_dr5/half"], None),
}
CONFIGURATIONS = {
    "paper": RunConfig.paper().override("model", n_basis="auto"),
    "one head": RunConfig().override("model", n_heads=1, n_members=1),
    "five heads": RunConfig().override("model", n_heads=5, n_members=1),
    "eight heads": RunConfig().override("model", n_members=1),
    "default": RunConfig(),
}
KEYS = ("rmse", "fr_0.15", "fr_0.05", "sigma_nmad", "bias", "mll", "crps", "cde_loss", "pit_ks", "coverage_68")


def tables(folder: Path, name: str) -> tuple[Catalog, Catalog]:
    """Rows to train on, and rows to be judged by, with a redshift above 0.002."""
    training, test = CATALOGUES[name]
    parts = [read_catalog(folder / f"{part}.parquet") for part in training]
    table = Catalog({c: np.concatenate([np.asarray(p[c]) for p in parts]) for c in parts[0].names})
    table = table.take(table.floats("z_spec") > 0.002)
    if test is not None:
        other = read_catalog(folder / f"{test}.parquet")
        return table, other.take(other.floats("z_spec") > 0.002)
    kept = np.random.default_rng(0).random(len(table)) < 0.7
    return table.take(kept), table.take(~kept)


def score_points(path: Path, name: str, output: Path) -> None:
    """Write scores of all numbers that a density may be quoted by, a line each."""
    file = read_predictions(path)
    with output.open("a", encoding="utf-8") as stream:
        for point in ("best", "mean", "median", "mode"):
            dz = point_metrics(file.z_spec, file.prediction, point)
            stream.write(json.dumps({"catalogue": name, "point": point, **dz}) + "\n")


def point_metrics(z: np.ndarray, prediction: Prediction, point: str) -> dict[str, float]:
    return {
        "rmse": metrics.rmse(z, prediction, point=point),
        "fr_0.15": metrics.fraction_retained(z, prediction, threshold=0.15, point=point),
        "fr_0.05": metrics.fraction_retained(z, prediction, threshold=0.05, point=point),
        "sigma_nmad": metrics.sigma_nmad(z, prediction, point=point),
        "bias": metrics.bias(z, prediction, point=point),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data-dir", type=Path, default=Path(os.environ.get("GPZED_DATA") or ROOT.parent / "shared/data")
    )
    parser.add_argument("--catalogues", nargs="+", choices=list(CATALOGUES), default=list(CATALOGUES))
    parser.add_argument("--configurations", nargs="+", choices=list(CONFIGURATIONS), default=list(CONFIGURATIONS))
    parser.add_argument("--points", type=Path, help="file for the scores of other point estimates; lines are added")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for name in args.catalogues:
        training, test = tables(args.data_dir, name)
        for configuration in args.configurations:
            config = replace(CONFIGURATIONS[configuration], seed=args.seed)
            with tempfile.TemporaryDirectory() as folder:
                paths = [Path(folder) / file for file in ("train.parquet", "test.parquet", "m.gpzed", "out.parquet")]
                write_catalog(training, paths[0])
                write_catalog(test, paths[1])
                started = time.perf_counter()
                report = train(paths[0], paths[2], config).report
                trained = time.perf_counter()
                predict(paths[2], paths[1], paths[3])
                predicted = time.perf_counter()
                scores = evaluate(paths[3]).to_dict()
                if args.points is not None and configuration == "default":
                    score_points(paths[3], name, args.points)
            emit(
                {
                    "benchmark": "mixtures",
                    "catalogue": name,
                    "configuration": configuration,
                    "n_train": len(training),
                    "n_test": len(test),
                    "n_basis": report.n_basis,
                    "seed": args.seed,
                    "train_seconds": round(trained - started, 1),
                    "predict_seconds": round(predicted - trained, 1),
                    **{key: scores[key] for key in KEYS},
                }
            )


if __name__ == "__main__":
    main()
