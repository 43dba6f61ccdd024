"""Whether chosen spectra help more than others: few, biased spectra at first, then some more. One JSON line per choice.

    python benchmarks/survey.py --catalogue dc2 --bias bright --seed 0

A model is trained on `--start` objects: of the brightest 40 % ("bright"), of the bluest 60 % ("colour"), or of all
("none"). Then `--add` more of the rest get their redshift: chosen as a batch by `gpzed.model.survey`, at random (two
draws), or from the top of a list, the most uncertain ones or those of largest model variance. The model trained with
them is scored on objects that are none of these. Everything else is as `gpzed train` has it by default, but for the
number of members. Needs the catalogues (`--data-dir`, or GPZED_DATA).
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path

import numpy as np

from common import emit
from gpzed.catalog import Catalog, read_catalog
from gpzed.config import RunConfig, SchemaConfig
from gpzed.errors import ConvergenceWarning
from gpzed.evaluation import evaluate
from gpzed.model.survey import Survey
from gpzed.workflows import PhotozModel, predict_table, train_table
from gpzed.workflows.inputs import make_inputs
from gpzed.workflows.schema import resolve_schema

ROOT = Path(__file__).resolve().parents[1]
CATALOGUES = {
    "dc2": (["rail_dc2_9816/training"], "rail_dc2_9816/validation"),
    "des": (["des_dr2_gama_vipers/gama_train", "des_dr2_gama_vipers/vipers_train"], None),
    "deep": (["deep23_3dhst_ugrizy/half"], None),
}
BIASES = {"bright": 0.4, "colour": 0.6, "none": 1.0}
KEYS = ("rmse", "mll", "crps", "fr_0.15")


def tables(folder: Path, name: str) -> tuple[Catalog, Catalog]:
    """Objects that may get a spectrum, and objects to be judged by: measured in g, r and i."""

    def read(names: list[str]) -> Catalog:
        table = Catalog.concatenate([read_catalog(folder / f"{part}.parquet") for part in names])
        bands = np.stack([table.floats(f"mag_{band}") for band in "gri"])
        return table.take((table.floats("z_spec") > 0.002) & np.isfinite(bands).all(axis=0))

    training, test = CATALOGUES[name]
    table = read(training)
    if test is not None:
        return table, read([test])
    order = np.random.default_rng(0).permutation(len(table))
    return table.take(order[: len(table) // 2]), table.take(order[len(table) // 2 :])


def start(pool: Catalog, bias: str, size: int, rng: np.random.Generator) -> np.ndarray:
    """Objects with a spectrum at first."""
    colour = pool.floats("mag_g") - pool.floats("mag_i")
    values = colour if bias == "colour" else pool.floats("mag_i")
    return rng.permutation(np.flatnonzero(values <= np.quantile(values, BIASES[bias])))[:size]


def choices(trained: PhotozModel, pool: Catalog, size: int, rng: np.random.Generator) -> list[tuple[str, np.ndarray]]:
    """How rows of the pool were chosen, and which; two draws at random."""
    inputs = make_inputs(pool, trained.schema, trained.sentinels, trained.transformer)
    state = Survey(trained.regressor, inputs.X)
    p = state.prediction
    return [
        ("none", np.empty(0, dtype=int)),
        ("random", rng.permutation(len(pool))[:size]),
        ("random", rng.permutation(len(pool))[:size]),
        ("most uncertain", np.argsort(p.std)[-size:]),
        ("largest model variance", np.argsort(p.model_variance)[-size:]),
        ("survey", state.batch(size, rng=rng)[0]),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(os.environ.get("GPZED_DATA") or ROOT.parent / "shared/data")
    parser.add_argument("--data-dir", type=Path, default=default)
    parser.add_argument("--catalogue", choices=list(CATALOGUES), required=True)
    parser.add_argument("--bias", choices=list(BIASES), required=True)
    parser.add_argument("--start", type=int, default=1500)
    parser.add_argument("--add", type=int, default=300)
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    pool, test = tables(args.data_dir, args.catalogue)
    schema = resolve_schema(pool.names, SchemaConfig())
    config = RunConfig.from_dict({"seed": args.seed, "model": {"n_members": args.members}})
    rng = np.random.default_rng(args.seed)
    first = start(pool, args.bias, args.start, rng)
    rest = np.setdiff1d(np.arange(len(pool)), first)
    trained = train_table(pool.take(first), schema, config)
    for chosen, rows in choices(trained, pool.take(rest), args.add, rng):
        again = trained
        if rows.size:
            again = train_table(pool.take(np.concatenate([first, rest[rows]])), schema, config)
        scores = evaluate(test.floats("z_spec"), predict_table(again, test)[0])
        record = {"catalogue": args.catalogue, "bias": args.bias, "seed": args.seed, "chosen": chosen}
        record |= {"n": len(first) + len(rows), "members": args.members}
        emit(record | {key: round(scores[key], 4) for key in KEYS})


if __name__ == "__main__":
    main()
