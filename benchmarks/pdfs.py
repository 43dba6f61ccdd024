"""What it costs to store densities as few Gaussians: bytes, scores, means of n(z), and time.

    python benchmarks/pdfs.py > docs/results/pdfs.jsonl

A default committee is trained on each real catalogue (`--data-dir`, or GPZED_DATA) and predicts its test rows, at most
`--rows` of them. The densities that `gpzed predict` writes to Parquet by default are read back and scored against the
full mixtures in memory. A line for each catalogue; the last one has the worst of all: bytes of all columns that are
added, changes of scores (`delta_crps` and `delta_cde` relative) and of the mean redshift in five tomographic bins, and
the least rate of merging, in rows per second of CPU on one core.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from catalogues import CATALOGUES, ROOT, tables
from common import emit
from gpzed.catalog import Catalog
from gpzed.config import PredictConfig, RunConfig
from gpzed.evaluation import evaluate
from gpzed.prediction import Prediction
from gpzed.prediction.reduce import count, reduced
from gpzed.workflows import read_predictions, train

SCORES = ("mll", "crps", "cde_loss")
BINS = 5


def as_dict(table: Catalog) -> dict[str, Any]:
    return {name: np.ma.MaskedArray(table[name], table.mask(name)) for name in table.names}


def merging_rate(prediction: Prediction, repeat: int = 3) -> float:
    """Rows per second of CPU, one thread."""
    seconds = []
    for _ in range(repeat):
        components = prediction.components.take(slice(None))  # which remembers nothing
        started = time.process_time()
        reduced(components, prediction.lower)
        seconds.append(time.process_time() - started)
    return len(prediction) / min(seconds)


def shift_of_means(one: Prediction, other: Prediction) -> float:
    """Largest change of the mean of n(z) in bins of equal numbers by the redshift quoted."""
    edges = np.quantile(one.z_phot, np.linspace(0.0, 1.0, BINS + 1)[1:-1])
    where = np.searchsorted(edges, one.z_phot)
    moved = other.components.moments(other.lower).mean - one.mean  # of the density itself, not of the column z_mean
    return max(abs(float(moved[where == k].mean())) for k in range(BINS))


def stored_bytes(path: Path) -> dict[str, float]:
    """Bytes per row of each column of a Parquet file."""
    about = pq.read_metadata(path)
    sizes: dict[str, float] = {}
    for g in range(about.num_row_groups):
        for c in range(about.num_columns):
            column = about.row_group(g).column(c)
            name = column.path_in_schema.partition(".")[0]
            sizes[name] = sizes.get(name, 0.0) + column.total_compressed_size / about.num_rows
    return sizes


def measure(name: str, training: Catalog, test: Catalog, seed: int) -> dict[str, Any]:
    model = train(as_dict(training), config=replace(RunConfig(), seed=seed))
    result = model.predict(as_dict(test), PredictConfig(columns=("z_spec",)))
    z, full = test.floats("z_spec"), result.prediction
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out.parquet"
        result.write(path)
        sizes = stored_bytes(path)
        few = read_predictions(path).prediction
    before, after = (evaluate(z, p) for p in (full, few))
    added = {column: size for column, size in sizes.items() if column.startswith("z_") and column != "z_spec"}
    return {
        "benchmark": "pdfs",
        "catalogue": name,
        "n_train": len(training),
        "n_test": len(test),
        "seed": seed,
        "gaussians_before": full.n_components,
        "gaussians": float(count(few.weights).mean()),
        "bytes_per_object": sum(added.values()),
        "bytes_of_densities": sum(size for column, size in added.items() if column.startswith("z_pdf")),
        **{key: before[key] for key in SCORES},
        "delta_mll": after["mll"] - before["mll"],
        "delta_crps": after["crps"] / before["crps"] - 1.0,
        "delta_cde": (after["cde_loss"] - before["cde_loss"]) / abs(before["cde_loss"]),
        "delta_nz_mean": shift_of_means(full, few),
        "rows_per_second": merging_rate(full),
    }


def worst(lines: list[dict[str, Any]]) -> dict[str, float]:
    deltas = {key: max((line[key] for line in lines), key=abs) for key in lines[0] if key.startswith("delta_")}
    rate = min(line["rows_per_second"] for line in lines)
    return {"bytes_per_object": max(line["bytes_per_object"] for line in lines), **deltas, "rows_per_second": rate}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(os.environ.get("GPZED_DATA") or ROOT.parent / "shared/data")
    parser.add_argument("--data-dir", type=Path, default=default)
    parser.add_argument("--catalogues", nargs="+", choices=list(CATALOGUES), default=list(CATALOGUES))
    parser.add_argument("--rows", type=int, default=6000, help="rows of the test at most, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    lines = []
    for name in args.catalogues:
        training, test = tables(args.data_dir, name)
        chosen = np.random.default_rng(args.seed).permutation(len(test))[: args.rows]
        lines.append(measure(name, training, test.take(np.sort(chosen)), args.seed))
        emit(lines[-1])
    emit(worst(lines))


if __name__ == "__main__":
    main()
