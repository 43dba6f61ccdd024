"""What recalibration by rows held out does to scores on other rows: one JSON line per catalogue and method.

A committee of three with default options otherwise; scores on rows that took no part in training. Needs the catalogues
(`--data-dir`, or GPZED_DATA).
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path

import numpy as np

from choices import CATALOGUES, read
from common import emit
from gpzed import GPzRegressor
from gpzed.errors import ConvergenceWarning
from gpzed.evaluation import evaluate

KEYS = ("rmse", "mll", "crps", "cde_loss", "pit_ks", "coverage_68", "coverage_95")
MAX_TRAIN = 12_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", default=os.environ.get("GPZED_DATA", "../shared/data"))
    parser.add_argument("--catalogues", default="dc2,boss,des,deep,qso")
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    folder = Path(options.data_dir)
    if not folder.is_dir():
        parser.exit(2, f'no folder "{folder}"; give the catalogues with --data-dir or GPZED_DATA.\n')
    warnings.simplefilter("ignore", ConvergenceWarning)
    des = ("grizy", ["des_dr2_gama_vipers/gama_train", "des_dr2_gama_vipers/vipers_train"], None)
    for name in options.catalogues.split(","):
        bands, train, test = {**CATALOGUES, "des": des}[name]
        X, z = read(folder, bands, train)
        order = np.random.default_rng(0).permutation(len(z))
        if test is None:
            used, held = order[: min(len(z) // 2, MAX_TRAIN)], order[len(z) // 2 :]
            X_test, z_test = X[held], z[held]
        else:
            used = order[:MAX_TRAIN]
            X_test, z_test = read(folder, bands, [test])
        for method in ("none", "global", "local"):
            model = GPzRegressor(n_members=options.members, recalibrate=method, random_state=options.seed)
            p = model.fit(X[used], z[used]).predict_distribution(X_test)
            scores = evaluate(z_test, p)
            record = {"catalogue": name, "n": len(used), "recalibrate": method}
            record |= {key: round(scores[key], 4) for key in KEYS}
            found = model.recalibration_
            if found is not None:
                record |= {"factor": round(float(np.exp(found.log_scale)), 3), "wings": round(found.wing_weight, 3)}
                record |= {"held_out_before": found.before, "held_out_after": found.after}
            emit(record)


if __name__ == "__main__":
    main()
