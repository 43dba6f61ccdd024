"""What recalibration by held-out rows does where there is something to correct, one head: one JSON line per method.

    python benchmarks/recalibration.py --catalogue dc2 --seed 0

A committee of single Gaussians, which comes out too wide in the middle and too narrow in the wings; scores on rows that
took no part in training. The default model, with several heads, is in `defaults.py`. Needs the catalogues
(`--data-dir`, or GPZED_DATA).
"""

from __future__ import annotations

import argparse
import copy
import os
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

from catalogues import CATALOGUES, tables
from common import emit
from gpzed import GPzRegressor
from gpzed.catalog import Catalog, extract_photometry
from gpzed.config import SchemaConfig
from gpzed.errors import ConvergenceWarning
from gpzed.evaluation import evaluate
from gpzed.features import FeatureTransformer, fit_transformer
from gpzed.workflows.schema import resolve_schema

ROOT = Path(__file__).resolve().parents[1]
KEYS = ("rmse", "mll", "crps", "cde_loss", "pit_ks", "coverage_68", "coverage_95")
MAX_TRAIN, MAX_TEST = 16_000, 10_000


def inputs(table: Catalog, transformer: FeatureTransformer | None) -> tuple[np.ndarray, FeatureTransformer]:
    """Make the inputs of rows; how they are made is learned from these rows if not given."""
    photometry = extract_photometry(table, resolve_schema(table.names, SchemaConfig()))
    transformer = transformer or fit_transformer(photometry)
    return transformer.transform(photometry)[0], transformer


def measured(table: Catalog, limit: int) -> Catalog:
    """Rows with any measurement, at most `limit` of them at random."""
    seen = extract_photometry(table, resolve_schema(table.names, SchemaConfig())).measured.any(axis=1)
    table = table.take(seen)
    return table.take(np.sort(np.random.default_rng(0).permutation(len(table))[:limit]))


def models(X: np.ndarray, z: np.ndarray, seed: int) -> dict[str, GPzRegressor]:
    """Train with both ways of recalibration, on the same held-out rows; without is the first less its own."""
    trained = {
        way: GPzRegressor(n_heads=1, n_networks=0, random_state=seed, calibrate=way).fit(X, z)
        for way in ("global", "local")
    }
    plain = copy.copy(trained["global"])
    plain.committee_ = replace(plain.committee_, recalibration=None)
    return {"none": plain, **trained}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(os.environ.get("GPZED_DATA") or ROOT.parent / "shared/data")
    parser.add_argument("--data-dir", type=Path, default=default)
    parser.add_argument("--catalogue", choices=list(CATALOGUES), default="dc2")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    training, test = tables(args.data_dir, args.catalogue)
    training, test = measured(training, MAX_TRAIN), measured(test, MAX_TEST)
    X, transformer = inputs(training, None)
    X_test, _ = inputs(test, transformer)
    for way, model in models(X, training.floats("z_spec"), args.seed).items():
        found = model.recalibration_
        scores = evaluate(test.floats("z_spec"), model.predict_distribution(X_test))
        record = {"catalogue": args.catalogue, "n": len(X), "seed": args.seed, "recalibrate": way}
        record |= {key: round(scores[key], 4) for key in KEYS}
        if found is not None:
            record |= {"factor": round(float(np.exp(found.log_scale)), 3), "wings": round(found.wing_weight, 3)}
            record |= {"held_out": found.n_rows}
        emit(record)


if __name__ == "__main__":
    main()
