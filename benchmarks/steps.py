"""From the paper's GPz to the default committee in five steps, on parts of training files, several seeds.

    python benchmarks/steps.py > docs/results/steps.jsonl
    python benchmarks/steps.py --table docs/results/steps.jsonl      # the tables of docs/explanation/which-model.md

For each catalogue and seed, random rows of the training files are divided into rows to train on and rows to score;
test files are not touched. Every step keeps what those before it changed. Needs the catalogues (`--data-dir`, or
GPZED_DATA).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

from common import emit
from gpzed.catalog import Catalog
from gpzed.config import RunConfig
from gpzed.evaluation import evaluate
from gpzed.features import FeatureConfig
from gpzed.workflows import train
from mixtures import CATALOGUES, ROOT, tables

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
Runs = dict[int, dict[str, float]]
"""Results by seed."""
SHOWN = {"mll": 3, "crps": 4, "rmse": 4, "fr_0.05": 2, "outliers_0.15": 4, "pit_ks": 3}


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


def table(path: Path) -> str:
    """Return gains of each step in MLL and CRPS with their standard errors over seeds, and the means of all scores."""
    runs = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if '"steps"' in line]
    names, steps = (list(dict.fromkeys(run[key] for run in runs)) for key in ("catalogue", "step"))
    found = {
        (name, step): {run["seed"]: run for run in runs if (run["catalogue"], run["step"]) == (name, step)}
        for name in names for step in steps
    }  # fmt: skip
    lines = []
    for key, better, digits in (("mll", 1.0, 3), ("crps", -1.0, 4)):
        lines += ["", f"Gain in {key.upper()} by each step:", "", row("step", *names), row(*["---"] * (len(names) + 1))]
        for before, step in itertools.pairwise(steps):
            cells = [gain(found[name, before], found[name, step], key, better, digits) for name in names]
            lines.append(row(step, *cells))
    lines += [
        "",
        "Means over seeds:",
        "",
        row("catalogue", "step", *SHOWN, "CPU seconds"),
        row(*["---"] * (len(SHOWN) + 3)),
    ]
    for (name, step), by_seed in found.items():
        means = {key: np.mean([run[key] for run in by_seed.values()]) for key in (*SHOWN, "cpu_seconds")}
        shown = [f"{means[key]:.{digits}f}" for key, digits in SHOWN.items()]
        lines.append(row(name, step, *shown, f"{means['cpu_seconds']:.1f}"))
    return "\n".join(lines[1:])


def row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def gain(before: Runs, after: Runs, key: str, better: float, digits: int) -> str:
    gains = [better * (run[key] - before[seed][key]) for seed, run in after.items()]
    error = np.std(gains, ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else np.nan
    return f"{np.mean(gains):+.{digits}f}\u00a0±\u00a0{error:.{digits}f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = Path(os.environ.get("GPZED_DATA") or ROOT.parent / "shared/data")
    parser.add_argument("--data-dir", type=Path, default=data)
    parser.add_argument("--catalogues", nargs="+", choices=list(CATALOGUES), default=list(CATALOGUES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--n-train", type=int, default=3000)
    parser.add_argument("--n-test", type=int, default=2000)
    parser.add_argument("--table", type=Path, help="print the tables of such a file instead")
    args = parser.parse_args()
    if args.table is not None:
        print(table(args.table))
    else:
        measure(args)


if __name__ == "__main__":
    main()
