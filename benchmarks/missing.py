"""Missing bands on real catalogues: marginalising beside what is usually done, on rows that took no part in training.

Each line is one treatment on one catalogue. All models of gpzed have the same options; only the treatment of bands
without a measurement differs:

- marginalise: the expectation over them (`missing="marginalise"`), non-detections as zero flux with its error;
- marginalise all: non-detections, too, as if not observed;
- limit: non-detections at the limit (or the faint end of the training rows), the rest marginalised;
- fill: the mean given the other bands in place of missing ones, as if measured;
- mean: the mean of the training rows in place of everything without a measurement, as if measured;
- drop: training on complete rows only; others get the mean, since something must be predicted;
- boosting: scikit-learn's histogram gradient boosting, which handles NaN itself; its Gaussian has the variance of a
second
  booster, fitted to squared residuals of rows left out of the first in turn (five folds).

Needs the catalogues (`--data-dir`, or GPZED_DATA).
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import cross_val_predict

from common import emit
from gpzed import GPzRegressor
from gpzed.catalog import Catalog, Photometry, extract_photometry, guess_schema
from gpzed.errors import ConvergenceWarning
from gpzed.evaluation import evaluate
from gpzed.features import FeatureConfig, fit_transformer, photometry_rows
from gpzed.prediction import Prediction

CATALOGUES = {
    "dc2": (["rail_dc2_9816/training"], "rail_dc2_9816/validation"),
    "deep": (["deep23_3dhst_ugrizy/half"], None),
    "des": (["des_dr2_gama_vipers/gama_train", "des_dr2_gama_vipers/vipers_train"], None),
}
TREATMENTS = ("marginalise", "marginalise all", "limit", "fill", "mean", "drop", "boosting")
KEYS = ("rmse", "mll", "crps", "fr_0.15", "fr_0.05", "nmad", "pit_ks", "coverage_68", "coverage_95")


def read(folder: Path, names: list[str]) -> tuple[Photometry, np.ndarray]:
    """Photometry and redshifts of rows with at least one measured band."""
    tables = [pq.read_table(folder / f"{name}.parquet") for name in names]
    columns = {c: np.concatenate([np.asarray(t[c]) for t in tables]) for c in tables[0].column_names}
    table = Catalog(columns)
    photometry, z = extract_photometry(table, guess_schema(table.names)), table.floats("z_spec")
    used = np.flatnonzero((z > 0.002) & photometry.measured.any(axis=1))
    return photometry_rows(photometry, used), z[used]


def features(treatment: str, errors: str) -> FeatureConfig:
    options = {
        "marginalise all": {"non_detections": "marginalise"},
        "limit": {"non_detections": "limit"},
        "fill": {"missing": "fill"},
        "mean": {"non_detections": "marginalise"},
        "drop": {"non_detections": "marginalise"},
        "boosting": {"non_detections": "marginalise"},
    }.get(treatment, {})
    return FeatureConfig(magnitudes="asinh", errors=errors, **options)


def boost(X: np.ndarray, z: np.ndarray, X_test: np.ndarray) -> Prediction:
    mean = HistGradientBoostingRegressor(max_iter=300, learning_rate=0.06, random_state=0)
    residual = z - cross_val_predict(mean, X, z, cv=5)
    spread = HistGradientBoostingRegressor(max_iter=100, learning_rate=0.05, random_state=0).fit(
        X, np.log(residual**2 + 1e-8)
    )
    scale = np.mean(residual**2 / np.exp(spread.predict(X)))
    variance = np.maximum(scale * np.exp(spread.predict(X_test)), 1e-6)
    return Prediction.gaussian(mean.fit(X, z).predict(X_test), 0.0, variance)


def predict(
    treatment: str, train: Photometry, z: np.ndarray, test: Photometry, options: argparse.Namespace
) -> Prediction:
    transformer = fit_transformer(train, features(treatment, options.errors))
    (X, _), (X_test, _) = transformer.transform(train), transformer.transform(test)
    if treatment == "boosting":
        return boost(X, z, X_test)
    if treatment in ("mean", "drop"):
        mean = np.nanmean(X, axis=0)
        if treatment == "drop":
            complete = np.isfinite(X).all(axis=1)
            X, z = X[complete], z[complete]
        X, X_test = np.where(np.isnan(X), mean, X), np.where(np.isnan(X_test), mean, X_test)
    model = GPzRegressor(random_state=options.seed, n_members=options.members, n_basis=options.n_basis).fit(X, z)
    return model.predict_distribution(X_test)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", default=os.environ.get("GPZED_DATA", "../shared/data"))
    parser.add_argument("--catalogues", default=",".join(CATALOGUES))
    parser.add_argument("--treatments", default=",".join(TREATMENTS))
    parser.add_argument("--errors", default="none", help="inputs or none")
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--n-basis", type=int, default=40)
    parser.add_argument("--max-train", type=int, default=8000, help="training rows at most, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    folder = Path(options.data_dir)
    if not folder.is_dir():
        parser.exit(2, f'no folder "{folder}"; give the catalogues with --data-dir or GPZED_DATA.\n')
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in options.catalogues.split(","):
        files, test_file = CATALOGUES[name]
        train, z = read(folder, files)
        if test_file is None:
            order = np.random.default_rng(0).permutation(len(z))
            half = len(z) // 2
            test, z_test = photometry_rows(train, order[half:]), z[order[half:]]
            train, z = photometry_rows(train, order[:half]), z[order[:half]]
        else:
            test, z_test = read(folder, [test_file])
        if len(z) > options.max_train:
            some = np.sort(np.random.default_rng(1).permutation(len(z))[: options.max_train])
            train, z = photometry_rows(train, some), z[some]
        gaps = ~test.measured.all(axis=1)
        for treatment in options.treatments.split(","):
            started = time.perf_counter()
            prediction = predict(treatment, train, z, test, options)
            seconds = round(time.perf_counter() - started, 1)
            for rows, which in ((slice(None), "all"), (gaps, "with gaps")):
                scores = evaluate(z_test[rows], prediction[rows])
                figures = {key: round(scores[key], 4) for key in KEYS if key in scores}
                emit(
                    {"catalogue": name, "treatment": treatment, "rows": which, "n": len(z_test[rows]), **figures}
                    | {"n_train": len(z), "members": options.members, "n_basis": options.n_basis}
                    | {"errors": options.errors, "seconds": seconds}
                )


if __name__ == "__main__":
    main()
