"""What recalibration by held-out rows does to scores on other rows: one JSON line per catalogue and method.

    python benchmarks/recalibration.py > docs/results/recalibration.jsonl

The model that `gpzed train` trains by default, and with `--heads 1` the same with one head; scores on rows that took no
part in training. The three ways of recalibration share their held-out rows. Needs the
catalogues (`--data-dir`, or GPZED_DATA).
"""

from __future__ import annotations

import argparse
import copy
import os
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

from common import emit
from gpzed import GPzRegressor
from gpzed.catalog import Catalog, extract_photometry
from gpzed.config import SchemaConfig
from gpzed.errors import ConvergenceWarning
from gpzed.evaluation import evaluate
from gpzed.features import FeatureTransformer, fit_transformer
from gpzed.workflows.schema import resolve_schema
from mixtures import CATALOGUES, tables

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


def models(X: np.ndarray, z: np.ndarray, n_heads: int, args: argparse.Namespace) -> dict[str, GPzRegressor]:
    """Train with both ways of recalibration, on the same held-out rows; without is the first less its own."""
    options = {"n_heads": n_heads, "n_members": args.members, "random_state": args.seed}
    trained = {method: GPzRegressor(**options, calibrate=method).fit(X, z) for method in ("global", "local")}
    plain = copy.copy(trained["global"])
    plain.committee_ = replace(plain.committee_, recalibration=None)
    return {"none": plain, **trained}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data-dir", type=Path, default=Path(os.environ.get("GPZED_DATA") or ROOT.parent / "shared/data")
    )
    parser.add_argument("--catalogues", nargs="+", choices=list(CATALOGUES), default=list(CATALOGUES))
    parser.add_argument("--heads", type=int, nargs="+", default=[GPzRegressor().n_heads, 1])
    parser.add_argument("--members", type=int, default=GPzRegressor().n_members)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if not args.data_dir.is_dir():
        parser.exit(2, f'no folder "{args.data_dir}"; give the catalogues with --data-dir or GPZED_DATA.\n')
    warnings.simplefilter("ignore", ConvergenceWarning)
    for n_heads, name in [(heads, name) for heads in args.heads for name in args.catalogues]:
        training, test = tables(args.data_dir, name)
        training, test = measured(training, MAX_TRAIN), measured(test, MAX_TEST)
        X, transformer = inputs(training, None)
        X_test, _ = inputs(test, transformer)
        for method, model in models(X, training.floats("z_spec"), n_heads, args).items():
            found = model.recalibration_
            scores = evaluate(test.floats("z_spec"), model.predict_distribution(X_test))
            record = {"catalogue": name, "n": len(X), "heads": n_heads, "members": args.members, "recalibrate": method}
            record |= {key: round(scores[key], 4) for key in KEYS}
            if found is not None:
                record |= {"factor": round(float(np.exp(found.log_scale)), 3), "wings": round(found.wing_weight, 3)}
                record |= {"held_out": found.n_rows, "held_out_before": found.before, "held_out_after": found.after}
            emit(record)


if __name__ == "__main__":
    main()
