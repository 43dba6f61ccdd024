"""What coverage does, inside and outside the region of the training rows: one JSON line per case.

A 1-D gap; DES trained on i < 21 and applied to i > 22; a model of BOSS galaxies applied to quasars. Inside: rows of the
same kind as the training rows, not used in training. Needs the catalogues (`--data-dir`, or GPZED_DATA).
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from choices import read
from common import emit
from gpzed import GPzRegressor
from gpzed.errors import ConvergenceWarning
from gpzed.evaluation import evaluate
from gpzed.model.coverage import THRESHOLD

KEYS = ("rmse", "mll", "crps", "pit_ks", "coverage_68", "coverage_95")
Rows = tuple[np.ndarray, np.ndarray]


def cases(folder: Path) -> Iterator[tuple[str, Rows, dict[str, Rows]]]:
    """Name, training rows, and rows to predict."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-6, 6, 6000)
    y = 1.0 + np.sin(x) + 0.1 * rng.standard_normal(6000)
    seen = (np.abs(x) > 1) & (np.abs(x) < 4)
    used = seen & (rng.random(6000) < 0.5)
    X = x[:, None]
    parts = {
        "inside": seen & ~used,
        "in the gap": np.abs(x) < 0.8,
        "beyond the ends": np.abs(x) > 4.3,
    }
    yield "1-D wave with a gap", (X[used], y[used]), {name: (X[rows], y[rows]) for name, rows in parts.items()}
    names = ["des_dr2_gama_vipers/gama_train", "des_dr2_gama_vipers/vipers_train"]
    X, z = read(folder, "grizy", names)
    bright = rng.permutation(np.flatnonzero(X[:, 2] < 21))
    used, held = bright[: 3 * len(bright) // 4], bright[3 * len(bright) // 4 :]
    faint = X[:, 2] > 22
    yield "DES, i < 21", (X[used], z[used]), {"i < 21": (X[held], z[held]), "i > 22": (X[faint], z[faint])}
    boss = read(folder, "ugriz", ["sdss_boss_dr10/boss_dr10_0", "sdss_boss_dr10/boss_dr10_3"])
    order = rng.permutation(len(boss[1]))
    used, held = order[: 3 * len(order) // 4], order[3 * len(order) // 4 :]
    targets = {
        "same fields": (boss[0][held], boss[1][held]),
        "another field": read(folder, "ugriz", ["sdss_boss_dr10/boss_dr10_1"]),
        "quasars": read(folder, "ugriz", ["sdss_qso_dr5/half"]),
    }
    yield "BOSS galaxies", (boss[0][used], boss[1][used]), targets


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", default=os.environ.get("GPZED_DATA", "../shared/data"))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    folder = Path(options.data_dir)
    if not folder.is_dir():
        parser.exit(2, f'no folder "{folder}"; give the catalogues with --data-dir or GPZED_DATA.\n')
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name, (X, z), targets in cases(folder):
        model = GPzRegressor(n_members=2, random_state=options.seed).fit(X, z)
        density = model.coverage_
        for part, (X_new, z_new) in targets.items():
            for widened in (False, True):
                model.coverage_ = density if widened else None
                p = model.predict_distribution(X_new)
                scores = evaluate(z_new, p)
                record: dict[str, Any] = {"trained on": name, "applied to": part, "n": len(z_new), "coverage": widened}
                record |= {key: round(scores[key], 4) for key in KEYS}
                if p.coverage is not None:
                    record["flagged"] = round(float(np.mean(p.coverage < THRESHOLD)), 4)
                emit(record | {"median_std": round(float(np.median(p.std)), 4), "std_train": round(float(z.std()), 4)})
            model.coverage_ = density


if __name__ == "__main__":
    main()
