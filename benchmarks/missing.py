"""Missing bands on real catalogues: marginalising beside what is usually done, on rows that took no part in training.

    python benchmarks/missing.py --catalogue "dc2" --treatment fill --seed 0

Three lines: judged by all rows, by those with gaps and by complete ones. All models of gpzed are the committee that
`gpzed train` trains by default (or `--members` of it), whose predictions are quoted and cut at zero as by `gpzed
predict`; only the treatment of bands without a measurement differs:

- marginalise: the default. The expectation over bands that were not observed, given the others; non-detections as a
  measurement of little flux;
- marginalise all: non-detections, too, as if not observed;
- limit: non-detections at the limit (the faint end of the training rows), the rest marginalised;
- limit all: the limit in place of everything without a measurement, as if measured;
- fill: the mean given the other bands in place of missing ones, as if measured;
- mean: the mean of the training rows in place of everything without a measurement, as if measured;
- drop: training on complete rows only; the others get the mean, since something must be predicted;
- boosting: scikit-learn's histogram gradient boosting, which handles NaN itself, on magnitudes and colours; its
  Gaussian has the variance of a second booster, fitted to squared residuals of rows left out of the first in turn (five
  folds).

"des-gaps" is the DES catalogue, which has hardly any gaps, with each band but i taken from a tenth of the rows at
random, in training and test. DC2 has a test file: seeds differ in the training rows, if these are more than `--max-
train`, and in the start of training. Of the others half of the rows is for the test, another one with each seed.
Needs the catalogues (`--data-dir`, or GPZED_DATA).
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import cross_val_predict

from common import emit
from gpzed import GPzRegressor
from gpzed.catalog import Catalog, Photometry, Status, extract_photometry, guess_schema
from gpzed.config import PredictConfig
from gpzed.errors import ConvergenceWarning
from gpzed.evaluation import evaluate
from gpzed.features import FeatureConfig, fit_transformer, photometry_rows
from gpzed.prediction import Prediction
from gpzed.workflows.columns import quoted

DES = ["des_dr2_gama_vipers/gama_train", "des_dr2_gama_vipers/vipers_train"]
CATALOGUES: dict[str, tuple[list[str], str | None]] = {
    "dc2": (["rail_dc2_9816/training"], "rail_dc2_9816/validation"),
    "deep": (["deep23_3dhst_ugrizy/half"], None),
    "des": (DES, None),
    "des-gaps": (DES, None),
}
TREATMENTS: dict[str, dict[str, Any]] = {
    "marginalise": {},
    "marginalise all": {"non_detections": "marginalise"},
    "limit": {"non_detections": "limit"},
    "limit all": {"non_detections": "limit"},
    "fill": {"missing": "fill"},
    "mean": {"non_detections": "marginalise"},
    "drop": {"non_detections": "marginalise"},
    "boosting": {"non_detections": "marginalise"},
}
KEYS = ("rmse", "mll", "crps", "fr_0.15", "fr_0.05", "sigma_nmad", "pit_ks", "coverage_68", "coverage_95")


def read(folder: Path, names: list[str]) -> tuple[Photometry, np.ndarray]:
    """Photometry and redshifts of rows with at least one measured band."""
    tables = [pq.read_table(folder / f"{name}.parquet") for name in names]
    columns = {c: np.concatenate([np.asarray(t[c]) for t in tables]) for c in tables[0].column_names}
    table = Catalog(columns)
    photometry, z = extract_photometry(table, guess_schema(table.names)), table.floats("z_spec")
    used = np.flatnonzero((z > 0.002) & photometry.measured.any(axis=1))
    return photometry_rows(photometry, used), z[used]


def with_gaps(photometry: Photometry, share: float = 0.1) -> Photometry:
    """Take bands from some rows at random, all but i; always the same."""
    gaps = np.random.default_rng(2).random(photometry.values.shape) < share
    gaps[:, photometry.bands.index("i")] = False
    values, errors = (np.where(gaps, np.nan, array) for array in (photometry.values, photometry.errors))
    status = np.where(gaps, np.int8(Status.NOT_OBSERVED), photometry.status)
    return dataclasses.replace(photometry, values=values, errors=errors, status=status)


def all_at_the_limit(photometry: Photometry) -> Photometry:
    """Take bands that were not observed for non-detections."""
    status = np.where(photometry.measured, photometry.status, np.int8(Status.NOT_DETECTED))
    return dataclasses.replace(photometry, status=status)


def boost(X: np.ndarray, X_test: np.ndarray, z: np.ndarray) -> Prediction:
    mean = HistGradientBoostingRegressor(max_iter=300, learning_rate=0.06, random_state=0)
    residual = z - cross_val_predict(mean, X, z, cv=5)
    spread = HistGradientBoostingRegressor(max_iter=100, learning_rate=0.05, random_state=0).fit(
        X, np.log(residual**2 + 1e-8)
    )
    scale = np.mean(residual**2 / np.exp(spread.predict(X)))
    variance = np.maximum(scale * np.exp(spread.predict(X_test)), 1e-6)
    return Prediction.gaussian(mean.fit(X, z).predict(X_test), 0.0, variance)


def predict(
    treatment: str, train: Photometry, z: np.ndarray, test: Photometry, seed: int, options: argparse.Namespace
) -> Prediction:
    if treatment == "limit all":
        train, test = all_at_the_limit(train), all_at_the_limit(test)
    transformer = fit_transformer(train, FeatureConfig(errors=options.errors, **TREATMENTS[treatment]))
    (X, _, X_std), (X_test, _, X_test_std) = transformer.transform(train), transformer.transform(test)
    if treatment == "boosting":
        return boost(*(np.hstack([A, np.diff(A, axis=1)]) for A in (X, X_test)), z)
    if treatment in ("mean", "drop"):
        mean = np.nanmean(X, axis=0)
        if treatment == "drop":
            complete = np.isfinite(X).all(axis=1)
            X, z, X_std = X[complete], z[complete], None if X_std is None else X_std[complete]
        X, X_test = np.where(np.isnan(X), mean, X), np.where(np.isnan(X_test), mean, X_test)
    changed = {"n_members": options.members, "n_heads": options.heads, "n_threads": options.threads}
    model = GPzRegressor(**changed, random_state=seed)
    return model.fit(X, z, X_std=X_std).predict_distribution(X_test, X_std=X_test_std)


def split(name: str, seed: int, folder: Path, max_train: int) -> tuple[Photometry, np.ndarray, Photometry, np.ndarray]:
    """Training rows and their redshifts, test rows and theirs."""
    files, test_file = CATALOGUES[name]
    train, z = read(folder, files)
    if name == "des-gaps":
        train = with_gaps(train)
    order = np.random.default_rng([0, seed]).permutation(len(z))
    if test_file is None:
        half = len(z) // 2
        test, z_test = photometry_rows(train, order[half:]), z[order[half:]]
        order = order[:half]
    else:
        test, z_test = read(folder, [test_file])
    some = np.sort(order[:max_train])
    return photometry_rows(train, some), z[some], test, z_test


def judge(prediction: Prediction, z: np.ndarray, gaps: np.ndarray) -> Iterator[dict[str, Any]]:
    """Scores of all rows, of those with gaps and of complete ones."""
    for which, rows in (("all", np.ones_like(gaps)), ("with gaps", gaps), ("complete", ~gaps)):
        scores = evaluate(z[rows], prediction[rows])
        yield {"rows": which, "n": int(rows.sum())} | {key: round(scores[key], 4) for key in KEYS if key in scores}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("GPZED_DATA", "../shared/data")))
    parser.add_argument("--catalogue", choices=list(CATALOGUES), required=True)
    parser.add_argument(
        "--treatment", type=lambda text: text.replace("_", " "), choices=list(TREATMENTS), required=True
    )
    parser.add_argument("--errors", default="none", help="inputs, noise, both or none")
    parser.add_argument("--members", type=int, default=GPzRegressor().n_members)
    parser.add_argument("--heads", type=int, default=GPzRegressor().n_heads)
    parser.add_argument("--max-train", type=int, default=12_000, help="training rows at most, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=None, help="all cores by default")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    train, z, test, z_test = split(options.catalogue, options.seed, options.data_dir, options.max_train)
    prediction = predict(options.treatment, train, z, test, options.seed, options)
    if options.treatment != "boosting":  # which is judged by its own mean
        prediction = quoted(prediction, PredictConfig())
    made = {"catalogue": options.catalogue, "seed": options.seed, "treatment": options.treatment, "n_train": len(z)}
    for scores in judge(prediction, z_test, ~test.measured.all(axis=1)):
        emit(made | scores)


if __name__ == "__main__":
    main()
