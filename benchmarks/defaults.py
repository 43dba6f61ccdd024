"""`gpzed train` and `gpzed predict` as they come, on real catalogues: a JSON line for each thing to be said of it.

    python benchmarks/defaults.py --catalogue dc2 --seed 0

Trains once on the training rows of a catalogue, and scores the test rows: as written by default; by other numbers
that might be quoted for each density; without recalibration; without coverage, and with every Gaussian made wider
instead of one wide Gaussian; how well it is calibrated in cells. Beside it gradient boosting, its size and rate
chosen by held-out rows, for point estimates. DC2 and BOSS have their own test files; of the others a random 30 % is
kept for the test. Needs the catalogues (`--data-dir`, or GPZED_DATA).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from catalogues import arguments, point_metrics, tables
from cells import INSIDE, judge_cells, make_cells
from common import emit
from coverage import widened
from gpzed import train
from gpzed.catalog import Catalog, extract_photometry
from gpzed.evaluation import evaluate
from gpzed.prediction import Prediction
from gpzed.prediction.point import best_points
from gpzed.workflows import PhotozModel, predict_table
from networks import boosting, features

SCORES = (
    *("rmse", "mll", "crps", "cde_loss", "fr_0.15", "fr_0.05", "sigma_nmad", "bias"),
    *("pit_ks", "coverage_68", "coverage_95"),
)
POINTS = ("best", "safe", "mean", "median", "mode")
KNEES = (0.02, 0.1, 0.2)
"""Of other losses behind `best`; its own is 0.05."""


def without(model: PhotozModel, test: Catalog, **parts: Any) -> Prediction:
    """Predict with some parts of the committee replaced."""
    committee = model.regressor.committee_
    model.regressor.committee_ = replace(committee, **parts)
    try:
        return predict_table(model, test)[0]
    finally:
        model.regressor.committee_ = committee


def at_knee(p: Prediction, knee: float) -> np.ndarray:
    """Return the redshifts of least expected loss, with another knee of the loss."""
    return best_points(p.weights, p.means, p.component_stds, p.lower, knee=knee)


def measured(table: Catalog, model: PhotozModel) -> tuple[list[np.ndarray], np.ndarray]:
    """Return magnitude and colour of each object, and whether a band is missing."""
    photometry = extract_photometry(table, model.schema, model.config.sentinels)
    values = np.where(photometry.measured, photometry.values, np.nan)
    values = np.where(np.isnan(values), np.nanmedian(values, axis=0), values)
    middle = values.shape[1] // 2
    return [values[:, middle], values[:, max(middle - 1, 0)] - values[:, middle]], ~photometry.measured.all(axis=1)


def main() -> None:
    args = arguments(__doc__)
    warnings.simplefilter("ignore")
    training, test = tables(args.data_dir, args.catalogue)
    z = test.floats("z_spec")
    started = time.process_time()
    model = train(training, seed=args.seed)
    seconds = round(time.process_time() - started, 1)
    base = {"catalogue": args.catalogue, "seed": args.seed, "n_train": len(training), "n_test": len(test)}

    def say(what: str, variant: str, scores: Mapping[str, float], **more: Any) -> None:
        emit({**base, "what": what, "variant": variant, **{key: round(scores[key], 5) for key in SCORES}, **more})

    p = predict_table(model, test)[0]
    ours = evaluate(z, p)
    say("density", "gpzed", ours, cpu_seconds=seconds, n_basis=model.regressor.n_basis_)
    quoted = {point: p.changed(point=point) for point in POINTS}
    quoted |= {f"best, c = {knee}": p.changed(point=at_knee(p, knee)) for knee in KNEES}
    for name, q in quoted.items():
        found = point_metrics(z, q, "z_phot")
        emit({**base, "what": "point", "variant": name, **{key: round(value, 5) for key, value in found.items()}})
    recalibration = model.regressor.recalibration_
    factor = {} if recalibration is None else {
        "factor": float(np.exp(recalibration.log_scale)), "wings": recalibration.wing_weight,
        "held_out": recalibration.n_rows}  # fmt: skip
    say("recalibration", "none", evaluate(z, without(model, test, recalibration=None)))
    say("recalibration", "global", ours, **factor)
    plain, coverage = without(model, test, coverage=None), model.regressor.coverage_
    say("coverage", "none", evaluate(z, plain))
    say("coverage", "wide Gaussian", ours)
    if p.coverage is not None and coverage is not None:
        say("coverage", "wider", evaluate(z, widened(plain, p.coverage, coverage)))
    columns, gaps = measured(test, model)
    cells = make_cells([*columns, p.z_phot], gaps)
    emit({**base, "what": "cells", "variant": "gpzed", **judge_cells(np.abs(p.cdf(z) - 0.5) < INSIDE / 2, cells)})
    X, X_test = features(model, training, test)
    trees = boosting(X, training.floats("z_spec"), X_test, args.seed)
    found = point_metrics(z, trees, "mean")
    emit({**base, "what": "density", "variant": "boosting", **{key: round(value, 5) for key, value in found.items()}})


if __name__ == "__main__":
    main()
