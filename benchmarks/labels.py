"""What wrong labels cost: train with a part of the redshifts drawn from anywhere, judge on others that are right.

    python benchmarks/labels.py --data-dir ../shared/data --sets dc2,boss --members 3 --seeds 2

One JSON line for each catalogue, seed, part of wrong labels and value of `wrong_labels`: the first without wrong labels
is what the others are compared with.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np

import gpzed
from gpzed.catalog import read_catalog

SETS = {
    "dc2": ("rail_dc2_9816/training.parquet",),
    "boss": ("sdss_boss_dr10/boss_dr10_0.parquet", "sdss_boss_dr10/boss_dr10_3.parquet"),
    "quasars": ("sdss_qso_dr5/half.parquet",),
    "deep": ("deep23_3dhst_ugrizy/half.parquet",),
    "vipers": ("des_dr2_gama_vipers/vipers_train.parquet",),
    "gama": ("des_dr2_gama_vipers/gama_train.parquet",),
}
CASES = ((0.0, 0.0), (0.0, "auto"), (0.05, 0.0), (0.05, "auto"), (0.05, 0.05))
"""Part of the labels that is made wrong, and the option of training."""
MAX_ROWS, TRAIN_PART, MIN_REDSHIFT = 12_000, 0.65, 0.002


def halves(folder: Path, name: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return a part of a training file to train on, and the rest."""
    tables = [read_catalog(folder / path) for path in SETS[name]]
    names = [column for column in tables[0].names if column.startswith(("mag_", "flag_"))]
    columns = {column: np.concatenate([table[column] for table in tables]) for column in (*names, "z_spec")}
    order = np.random.default_rng(1).permutation(np.flatnonzero(columns["z_spec"] > MIN_REDSHIFT))[:MAX_ROWS]
    n = int(TRAIN_PART * len(order))
    return tuple({key: values[rows] for key, values in columns.items()} for rows in (order[:n], order[n:]))  # type: ignore[return-value]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default="dc2,boss", help=", ".join(SETS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--data-dir", default=os.environ.get("GPZED_DATA", "../shared/data"))
    options = parser.parse_args()
    for name in options.sets.split(","):
        train, test = halves(Path(options.data_dir), name)
        for seed in range(options.seeds):
            for part, asked in CASES:
                rng, z = np.random.default_rng(100 + seed), train["z_spec"].copy()
                bad = rng.random(len(z)) < part
                z[bad] = rng.choice(train["z_spec"], int(bad.sum()))
                started = time.process_time()
                given = {**train, "z_spec": z}
                model = gpzed.train(given, seed=seed, n_members=options.members, n_threads=1, wrong_labels=asked)
                scores = gpzed.evaluate(model.predict(test)).metrics
                line = {"benchmark": "labels", "set": name, "seed": seed, "wrong": part, "wrong_labels": asked}
                line |= {key: round(float(scores[key]), 4) for key in ("mll", "sigma_nmad", "rmse", "crps", "pit_ks")}
                print(json.dumps(line | {"cpu_seconds": round(time.process_time() - started)}), flush=True)


if __name__ == "__main__":
    main()
