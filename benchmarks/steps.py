"""From the paper's GPz to the default committee in five steps, on parts of training files, several seeds.

    python benchmarks/steps.py --catalogues dc2

For each catalogue and seed, random rows of the training files are divided into rows to train on and rows to score;
test files are not touched. Every step keeps what those before it changed. Needs the catalogues (`--data-dir`, or
GPZED_DATA).
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

from catalogues import CATALOGUES, ROOT, tables
from common import emit
from gpzed.catalog import Catalog
from gpzed.config import RunConfig
from gpzed.evaluation import evaluate
from gpzed.features import FeatureConfig
from gpzed.workflows import train

PAPER = RunConfig.paper().override("model", n_basis=25)
"""With 25 basis functions: of 25, 50, 100 and "auto" the best for 3,000 rows of BOSS, DC2 and VIPERS (seed 0)."""
ONE_GAUSSIAN = RunConfig().override("model", n_heads=1, n_members=1)
STEPS = {
    "the paper's GPz": PAPER,
    "1 inputs": replace(PAPER, features=FeatureConfig()).override("model", missing="marginalise"),
    "2 training": replace(ONE_GAUSSIAN, predict=PAPER.predict),
    "3 eight heads": RunConfig().override("model", n_members=1),
    "4 five members": RunConfig().override("model", n_networks=0),
    "5 networks": RunConfig(),
}
KEYS = ("mll", "crps", "rmse", "fr_0.15", "fr_0.05", "sigma_nmad", "outliers_0.15", "pit_ks", "coverage_68")


def parts(folder: Path, name: str, n_train: int, n_test: int, seed: int) -> tuple[Catalog, Catalog]:
    """Rows to train on and rows to score, both from the training files."""
    table, _ = tables(folder, name)
    order = np.random.default_rng(seed).permutation(len(table))
    return table.take(np.sort(order[:n_train])), table.take(np.sort(order[n_train : n_train + n_test]))


def measure(args: argparse.Namespace) -> None:
    for name in args.catalogues:
        for seed in args.seeds:
            training, test = parts(args.data_dir, name, args.n_train, args.n_test, seed)
            for step, config in STEPS.items():
                started = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # few rows, limits of iterations: the same for all
                    model = train(training, config=replace(config, seed=seed))
                    trained = time.process_time()
                    prediction = model.predict(test, config.predict).prediction
                scores = evaluate(test.floats("z_spec"), prediction)
                emit(
                    {
                        "benchmark": "steps", "catalogue": name, "step": step, "seed": seed,
                        "n_train": len(training), "n_test": len(test), "cpu_seconds": round(trained - started, 1),
                        **{key: round(float(scores[key]), 5) for key in KEYS},
                    }
                )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = Path(os.environ.get("GPZED_DATA") or ROOT.parent / "shared/data")
    parser.add_argument("--data-dir", type=Path, default=data)
    parser.add_argument("--catalogues", nargs="+", choices=list(CATALOGUES), default=list(CATALOGUES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--n-train", type=int, default=3000)
    parser.add_argument("--n-test", type=int, default=2000)
    measure(parser.parse_args())


if __name__ == "__main__":
    main()
