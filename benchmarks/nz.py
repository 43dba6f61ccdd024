"""Are error bars of tomographic means right? Mock surveys, and parts of real catalogues, in bins of equal numbers.

    python benchmarks/nz.py --mocks 40 --data-dir ../shared/data --output docs/results/nz.jsonl

Each mock is a simulated survey, or a real catalogue of galaxies with redshifts, divided at random into a part to train
on and a part to predict. A line tells, for each kind, how often the 68 % interval of the mean redshift of a bin holds
the true mean of its objects, and the same had labels been taken for endless.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import gpzed
from common import emit
from gpzed.catalog import read_catalog
from gpzed.evaluation.realisations import realise
from gpzed.simulate import simulate_survey

REAL = {
    "dc2": ("rail_dc2_9816/training.parquet", "z_spec"),
    "boss": ("sdss_boss_dr10/boss_dr10_0.parquet", "z_spec"),
    "vipers": ("des_dr2_gama_vipers/vipers_train.parquet", "z_spec"),
    "taskset1": ("pzdc_replica/pz_challenge_taskset_1_flow_training_10yr.parquet", "redshift"),
}
BINS = 5


def survey(name: str, n: int, seed: int) -> tuple[dict[str, Any], np.ndarray]:
    """Return photometry and true redshifts of a simulated survey."""
    sky = simulate_survey(n, survey=name, random_state=seed)
    return {key: np.asarray(values) for key, values in sky.columns().items() if key.startswith("mag_")}, sky.z_true


def real(folder: Path, name: str, n: int, seed: int) -> tuple[dict[str, Any], np.ndarray]:
    """Return photometry and redshifts of rows of a catalogue, drawn at random."""
    path, column = REAL[name]
    table = read_catalog(folder / path)
    z = table.floats(column)
    chosen = np.random.default_rng(seed).permutation(np.flatnonzero(z > 0.002))[:n]
    table = table.take(chosen)
    wanted = [name for name in table.names if name.startswith(("mag_", "flag_"))]
    return {name: table[name] for name in wanted}, z[chosen]


def mock(columns: dict[str, Any], z: np.ndarray, n_train: int, seed: int, options: Any) -> list[dict[str, Any]]:
    """Train on the first rows, predict the others, and compare means in bins of equal numbers."""
    train = {name: values[:n_train] for name, values in columns.items()} | {"z_spec": z[:n_train]}
    model = gpzed.train(train, n_members=options.members, n_heads=options.heads, n_threads=1, seed=seed)
    p = model.predict({name: values[n_train:] for name, values in columns.items()}).prediction
    truth, edges = z[n_train:], np.quantile(p.z_phot, np.linspace(0, 1, BINS + 1))
    sample = np.clip(np.searchsorted(edges, p.z_phot, side="right") - 1, 0, BINS - 1)
    n_members = int(p.components.member.max()) + 1  # networks are members, too
    rows = []
    for n_labels in (n_train, None):
        drawn = realise(
            p, np.linspace(0, 6, 61), sample, BINS, n_labels=n_labels, n_members=n_members, random_state=seed
        )
        low, high = drawn.interval()
        for k in range(BINS):
            mean = truth[sample == k].mean()
            offset = (p.mean[sample == k].mean() - mean) / drawn.mean_error[k]
            rows.append({"labels": n_labels is not None, "inside": bool(low[k] <= mean <= high[k]), "pull": offset})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mocks", type=int, default=40, help="of all kinds together")
    parser.add_argument("--train", type=int, default=1500, help="training rows of each")
    parser.add_argument("--target", type=int, default=4500, help="objects of each")
    parser.add_argument("--members", type=int, default=2)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--data-dir", default=os.environ.get("GPZED_DATA", "../shared/data"))
    options = parser.parse_args()
    folder = Path(options.data_dir)
    kinds = ["sdss", "lsst", *(name for name, (path, _) in REAL.items() if (folder / path).exists())]
    found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
    started = time.process_time()
    for index in range(options.mocks):
        kind, seed = kinds[index % len(kinds)], options.seed + index
        n = options.train + options.target
        columns, z = survey(kind, n, seed) if kind in ("sdss", "lsst") else real(folder, kind, n, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found[kind] += mock(columns, z, options.train, seed, options)
    found["all"] = [row for own in found.values() for row in own]
    for kind, rows in found.items():
        line: dict[str, Any] = {"benchmark": "nz", "kind": kind, "bins": len(rows) // 2}
        line |= {"train": options.train, "target": options.target, "members": options.members, "heads": options.heads}
        for name, labels in (("", True), ("_endless_labels", False)):
            own = [row for row in rows if row["labels"] == labels]
            if own:
                line[f"inside{name}"] = round(float(np.mean([row["inside"] for row in own])), 3)
                line[f"pull_std{name}"] = round(float(np.std([row["pull"] for row in own])), 2)
        line["cpu_seconds"] = round(time.process_time() - started)
        emit(line)


if __name__ == "__main__":
    main()
