"""Whether chosen spectra help more than others: DC2, with few bright spectra at first. One JSON line per choice.

A model is trained on `--start` objects with i < `--limit`; then `--add` more, of the whole training file, get their
redshift: chosen as a batch by `gpzed.model.survey`, at random, the most uncertain ones, or those of largest model
variance. The model trained with them is scored on the validation file. Needs the catalogues (`--data-dir`, or
GPZED_DATA).
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
from gpzed.model.survey import Survey

KEYS = ("rmse", "mll", "crps", "fr_0.15")


def regions(X: np.ndarray, n: int = 10) -> np.ndarray:
    """Cells of g-i and i."""
    columns = (X[:, 3], X[:, 1] - X[:, 3])
    edges = [np.quantile(column, np.linspace(0, 1, n + 1)[1:-1]) for column in columns]
    return n * np.searchsorted(edges[0], columns[0]) + np.searchsorted(edges[1], columns[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", default=os.environ.get("GPZED_DATA", "../shared/data"))
    parser.add_argument("--start", type=int, default=1500)
    parser.add_argument("--limit", type=float, default=24.0)
    parser.add_argument("--add", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    folder = Path(options.data_dir)
    if not folder.is_dir():
        parser.exit(2, f'no folder "{folder}"; give the catalogues with --data-dir or GPZED_DATA.\n')
    warnings.simplefilter("ignore", ConvergenceWarning)
    bands, train, test = CATALOGUES["dc2"]
    X, z = read(folder, bands, train)
    X_test, z_test = read(folder, bands, [test])
    for seed in range(options.seeds):
        rng = np.random.default_rng(seed)
        first = rng.permutation(np.flatnonzero(X[:, 3] < options.limit))[: options.start]
        pool = np.setdiff1d(np.arange(len(z)), first)
        model = GPzRegressor(random_state=seed).fit(X[first], z[first])
        state = Survey(model, X[pool], region=regions(X[pool]))
        p = state.prediction
        choices = {
            "none": np.empty(0, dtype=int),
            "random": rng.permutation(len(pool))[: options.add],
            "most uncertain": np.argsort(p.std)[-options.add :],
            "largest model variance": np.argsort(p.model_variance)[-options.add :],
            "survey": state.batch(options.add)[0],
        }
        for name, rows in choices.items():
            used = np.concatenate([first, pool[rows]])
            again = GPzRegressor(random_state=seed).fit(X[used], z[used])
            scores = evaluate(z_test, again.predict_distribution(X_test))
            emit({"seed": seed, "chosen": name, "n": len(used)} | {key: round(scores[key], 4) for key in KEYS})


if __name__ == "__main__":
    main()
