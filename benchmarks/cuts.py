"""Bright galaxies to train on, faint ones to predict: gpzed as it is, told of the target, and an ensemble of networks.

    .venv-networks/bin/python benchmarks/cuts.py --cut dc2 --seeds 0 1 2

DC2 trained on i < 24 and judged at i > 24, DES on i < 21 and at i > 22. The networks are those of `networks.py`; also
trained on rows drawn with the weights of the target, as in `shift_rivals.py`. One JSON line for each method and seed.
Needs PyTorch (`benchmarks/rivals/setup_networks.sh`) and the catalogues (`--data-dir`, or GPZED_DATA).
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from catalogues import ROOT
from common import emit
from gpzed import train
from gpzed.catalog import Catalog, extract_photometry, read_catalog
from gpzed.config import RunConfig
from gpzed.evaluation import evaluate
from gpzed.features import FeatureConfig, fit_transformer
from gpzed.prediction import Prediction
from gpzed.workflows.schema import resolve_schema
from networks import networks, rival_inputs
from recalibration import measured
from shift_rivals import resampled

KEYS = ("mll", "crps", "cde_loss", "fr_0.15", "fr_0.05", "sigma_nmad", "rmse", "pit_ks", "coverage_68")
DES = ("des_dr2_gama_vipers/gama_train", "des_dr2_gama_vipers/vipers_train")
CUTS = {
    "dc2": (("rail_dc2_9816/training",), ("rail_dc2_9816/validation",), 24.0, 24.0),
    "des": (DES, DES, 21.0, 22.0),
}
"""Files to train on and to judge by; magnitude i up to which, and beyond which."""
MAX_TEST = 6000


def tables(folder: Path, name: str) -> tuple[Catalog, Catalog]:
    """Return the bright rows and the faint ones."""
    *parts, bright, faint = CUTS[name]
    read = (Catalog.concatenate([read_catalog(folder / f"{file}.parquet") for file in files]) for files in parts)
    usable = [table.take(table.floats("z_spec") > 0.002) for table in read]
    used, judged = usable[0], usable[1]
    return (
        measured(used.take(used.floats("mag_i") < bright), len(used)),
        measured(judged.take(judged.floats("mag_i") > faint), MAX_TEST),
    )


def predictions(training: Catalog, test: Catalog, seed: int) -> Iterator[tuple[str, Prediction]]:
    """Train each method and predict."""
    target = Catalog({name: np.asarray(test[name]) for name in test.names if name != "z_spec"})
    for method, options in (("gpzed", {}), ("gpzed, target", {"target": target})):
        yield method, train(training, seed=seed, **options).predict(target).prediction
    config = RunConfig()
    schema = resolve_schema(training.names, config.schema, {})
    photometry = [extract_photometry(table, schema, config.sentinels) for table in (training, test)]
    transformer = fit_transformer(photometry[0], FeatureConfig(errors="inputs"))
    X, X_test = rival_inputs(*(transformer.transform(part).X for part in photometry))
    for method, run in (("networks", networks), ("networks, target", resampled(networks))):
        yield method, run(X, training.floats("z_spec"), X_test, seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(os.environ.get("GPZED_DATA") or ROOT.parent / "shared/data")
    parser.add_argument("--data-dir", type=Path, default=default)
    parser.add_argument("--cut", choices=list(CUTS), required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    training, test = tables(options.data_dir, options.cut)
    for seed in options.seeds:
        for method, prediction in predictions(training, test, seed):
            scores = evaluate(test.floats("z_spec"), prediction)
            line = {"benchmark": "cuts", "cut": options.cut, "n": len(training), "method": method, "seed": seed}
            emit(line | {key: round(scores[key], 4) for key in KEYS})


if __name__ == "__main__":
    main()
