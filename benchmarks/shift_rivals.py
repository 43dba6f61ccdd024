"""Other methods on the task sets of shift.py, each told of the target: the rows to be predicted, without redshifts.

    .venv-networks/bin/python benchmarks/shift_rivals.py --methods stratlearn networks --runs 2 --seeds 0 1

StratLearn (Autenrieth et al. 2024): a logistic regression tells training and target rows apart, both are cut into five
strata by its probability, and each stratum of the target is predicted from that of the training rows, here by a forest
whose leaves weigh redshifts. The others cannot take weights: they are trained on as many rows, drawn with the
probability of target weights (Lima et al. 2008). FlexZBoost and pzflow have the settings of their RAIL stages. Scores
and lines are those of shift.py. `benchmarks/rivals/setup_networks.sh` makes the environment.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from common import emit
from gpzed.catalog import extract_photometry, read_catalog
from gpzed.config import RunConfig
from gpzed.features import FeatureConfig, fit_transformer, target_weights
from gpzed.prediction import Prediction
from gpzed.prediction.gridded import GriddedPrediction
from gpzed.workflows.schema import resolve_schema
from networks import forest, networks, rival_inputs
from shift import arguments, file, scores

N_STRATA, MIN_STRATUM = 5, 200
GRID = np.linspace(0.0, 3.0, 301)
BASIS, DEPTH, TUNED = 35, 8, 0.25
"""FlexZBoost: cosines, depth of the trees, and part of the rows that bumps and sharpness are chosen on."""
MAX_TUNED = 1000
FLOW_EPOCHS = 30


def rows_of(folder: Path, task_set: int, years: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs and redshifts of training rows, the best that each has, and inputs of the target."""
    training, test = (read_catalog(file(folder, task_set, part, years)) for part in ("training", "test"))
    z = training.floats("redshift")
    if "redshift_manyband" in training.names:
        z = np.where(np.isfinite(z), z, training.floats("redshift_manyband"))
    schema = resolve_schema(training.names, RunConfig().schema, {})
    photometry = [extract_photometry(part, schema, RunConfig().sentinels) for part in (training, test)]
    transformer = fit_transformer(photometry[0], FeatureConfig(errors="inputs"))
    X, X_test = rival_inputs(*(transformer.transform(part).X for part in photometry))
    return X, z, X_test


def resampled(method: Callable[[np.ndarray, np.ndarray, np.ndarray, int], Prediction]) -> Callable[..., Prediction]:
    """Let a method train on rows drawn to look like the target."""

    def run(X: np.ndarray, z: np.ndarray, X_test: np.ndarray, seed: int) -> Prediction:
        weights = target_weights(X, X_test)
        drawn = np.random.default_rng(seed).choice(len(z), len(z), p=weights / weights.sum())
        return method(X[drawn], z[drawn], X_test, seed)

    return run


def stratlearn(X: np.ndarray, z: np.ndarray, X_test: np.ndarray, seed: int) -> Prediction:
    """Predict each stratum of the propensity score by its training rows; where these are few, by the nearest."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import PolynomialFeatures

    is_target = np.repeat([0, 1], [len(X), len(X_test)])
    inputs = PolynomialFeatures(2, include_bias=False).fit_transform(np.concatenate([X, X_test]))
    score = LogisticRegression(C=0.1, max_iter=500).fit(inputs, is_target).decision_function(inputs)
    own, wanted = score[: len(X)], score[len(X) :]
    edges = np.quantile(score, np.linspace(0.0, 1.0, N_STRATA + 1)[1:-1])
    stratum, which = np.searchsorted(edges, own), np.searchsorted(edges, wanted)
    parts, rows = [], []
    for k in range(N_STRATA):
        here = np.flatnonzero(which == k)
        if not len(here):
            continue
        used = stratum == k
        if used.sum() < MIN_STRATUM:
            used = np.argsort(np.abs(own - np.median(wanted[here])))[:MIN_STRATUM]
        parts.append(forest(X[used], z[used], X_test[here], seed))
        rows.append(here)
    return Prediction.concatenate(parts)[np.argsort(np.concatenate(rows))]


def flexzboost(X: np.ndarray, z: np.ndarray, X_test: np.ndarray, seed: int) -> Prediction:
    """FlexCode with boosted trees; bumps and sharpness chosen on a quarter of the rows."""
    import flexcode
    from flexcode.regression_models import XGBoost

    held = np.random.default_rng(seed).permutation(len(z)) < TUNED * len(z)
    options = {"max_depth": DEPTH, "objective": "reg:squarederror"}
    model = flexcode.FlexCodeModel(
        XGBoost, max_basis=BASIS, basis_system="cosine", z_min=GRID[0], z_max=GRID[-1], regression_params=options
    )
    model.fit(X[~held], z[~held][:, None])
    tuned = np.flatnonzero(held)[:MAX_TUNED]
    model.tune(X[tuned], z[tuned][:, None], np.linspace(0.02, 0.35, 20), np.linspace(0.7, 2.1, 15))
    density, grid = model.predict(X_test, n_grid=len(GRID))
    return GriddedPrediction(np.ravel(grid), np.maximum(density, 0.0) + 1e-9, point="mode")


def pzflow(X: np.ndarray, z: np.ndarray, X_test: np.ndarray, seed: int) -> Prediction:
    """Estimate the joint density of redshift and inputs by a normalizing flow."""
    import pandas as pd
    from pzflow import Flow

    columns = [f"x{j}" for j in range(X.shape[1])]
    rows = pd.DataFrame(np.column_stack([z, X]), columns=["redshift", *columns]).astype("float32")
    flow = Flow(data_columns=("redshift", *columns), seed=seed)
    flow.train(rows, epochs=FLOW_EPOCHS, verbose=False)
    density = flow.posterior(pd.DataFrame(X_test, columns=columns).astype("float32"), "redshift", GRID, batch_size=500)
    density = np.nan_to_num(np.asarray(density, dtype=np.float64))
    return GriddedPrediction(GRID, density + 1e-9, point="mode")


METHODS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray, int], Prediction]] = {
    "stratlearn": stratlearn,
    "networks": resampled(networks),
    "flexzboost": resampled(flexzboost),
    "pzflow": resampled(pzflow),
}


def main() -> None:
    parser: argparse.ArgumentParser = arguments(__doc__, ["2"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    options = parser.parse_args()
    for run in options.runs:
        X, z, X_test = rows_of(options.data_dir, int(run), options.years)
        test = read_catalog(file(options.data_dir, int(run), "test", options.years))
        truth = read_catalog(file(options.data_dir, int(run), "truth", options.years)).floats("redshift")
        for method in options.methods:
            for seed in options.seeds:
                started = time.process_time()
                prediction = METHODS[method](X, z, X_test, seed)
                line = {"benchmark": "shift", "run": f"{run}, {method}", "years": options.years, "seed": seed}
                found = scores(truth, test.floats("mag_i_lsst"), prediction)
                emit(line | found | {"train_cpu_seconds": round(time.process_time() - started)})


if __name__ == "__main__":
    main()
