"""Training and target of different depth: what errors as noise of the inputs are good for.

    python benchmarks/depth.py --catalogues dc2 --max-train 3000 --max-test 3000 --seed 0

A committee is trained by `gpzed train --errors ...` on a real catalogue, then predicts, by `gpzed predict`, the test
rows as they are ("deep"), and the same rows with noise added to their fluxes and errors that say so, as a shallower
survey would have seen them: errors 2 and 4 times as large. "bright" and "faint" are the two halves of the test rows as
that survey sees them: given what is not observed, no interval needs to have its coverage. Each line has the coverage of
the 68 and 95 % intervals, the bias and the slope of true redshifts on predicted ones (1: predictions are unbiased,
whatever is predicted).
Needs the catalogues (`--data-dir`, or GPZED_DATA).
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from common import emit
from gpzed.catalog import Catalog, read_catalog, write_catalog
from gpzed.cli import main as gpzed
from gpzed.errors import ConvergenceWarning
from gpzed.evaluation import evaluate
from gpzed.workflows import read_predictions

CATALOGUES = {
    "boss": (["sdss_boss_dr10/boss_dr10_0", "sdss_boss_dr10/boss_dr10_3"], "sdss_boss_dr10/boss_dr10_1", "r"),
    "dc2": (["rail_dc2_9816/training"], "rail_dc2_9816/validation", "i"),
}
POGSON = 2.5 / np.log(10.0)
KEYS = ("rmse", "bias", "mll", "crps", "pit_ks", "coverage_68", "coverage_95")


def read(folder: Path, names: list[str], max_rows: int | None = None) -> Catalog:
    parts = [read_catalog(folder / f"{name}.parquet") for name in names]
    table = Catalog({c: np.concatenate([np.asarray(p[c]) for p in parts]) for c in parts[0].names})
    table = table.take(table.floats("z_spec") > 0.002)
    if max_rows is None or len(table) <= max_rows:
        return table
    return table.take(np.sort(np.random.default_rng(1).permutation(len(table))[:max_rows]))


def degraded(table: Catalog, factor: float) -> Catalog:
    """Add noise to fluxes such that their errors are `factor` times as large; what falls below zero is not detected."""
    rng = np.random.default_rng(5)
    columns = {name: np.array(table[name]) for name in table.names}
    for band in (name.removeprefix("mag_") for name in table.names if name.startswith("mag_") and "err" not in name):
        mag, error = table.floats(f"mag_{band}"), table.floats(f"mag_err_{band}")
        flux = np.exp(-mag / POGSON)
        sigma = flux * error / POGSON
        flux = flux + np.sqrt(factor**2 - 1.0) * sigma * rng.standard_normal(len(flux))
        seen = flux > 0.0
        safe = np.where(seen, flux, 1.0)
        columns[f"mag_{band}"] = np.where(seen, -POGSON * np.log(safe), np.where(np.isfinite(mag), 99.0, mag))
        columns[f"mag_err_{band}"] = np.where(
            seen, POGSON * factor * sigma / safe, np.where(np.isfinite(mag), 99.0, error)
        )
        if f"flag_{band}" in columns:
            columns[f"flag_{band}"] = np.where(np.isfinite(mag) & ~seen, 1, columns[f"flag_{band}"])
    return Catalog(columns)


def run(*arguments: object) -> None:
    code = gpzed([str(argument) for argument in arguments])
    if code:
        raise SystemExit(code)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("GPZED_DATA", "../shared/data")))
    parser.add_argument("--catalogues", default=",".join(CATALOGUES))
    parser.add_argument("--errors", default="none,inputs,noise", help="treatments of the errors")
    parser.add_argument("--factors", default="2,4", help="by which errors grow")
    parser.add_argument("--max-train", type=int, default=None, help="training rows at most, drawn at random")
    parser.add_argument("--max-test", type=int, default=None, help="test rows at most, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--train-options", default="", help="more options of `gpzed train`, like '--members 1'")
    options = parser.parse_args()
    if not options.data_dir.is_dir():
        parser.exit(2, f'no folder "{options.data_dir}"; give the catalogues with --data-dir or GPZED_DATA.\n')
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in options.catalogues.split(","):
        files, test_file, band = CATALOGUES[name]
        train = read(options.data_dir, files, options.max_train)
        test = read(options.data_dir, [test_file], options.max_test)
        depths = {"deep": test} | {f"errors x {f}": degraded(test, float(f)) for f in options.factors.split(",")}
        for errors in options.errors.split(","):
            with tempfile.TemporaryDirectory() as folder:
                paths = [Path(folder) / file for file in ("train.parquet", "m.gpzed", "test.parquet", "out.parquet")]
                write_catalog(train, paths[0])
                started = time.perf_counter()
                run(
                    "train",
                    paths[0],
                    "-o",
                    paths[1],
                    "--errors",
                    errors,
                    "--seed",
                    options.seed,
                    "--quiet",
                    *options.train_options.split(),
                )
                seconds = round(time.perf_counter() - started, 1)
                for depth, table in depths.items():
                    write_catalog(table, paths[2])
                    started = time.perf_counter()
                    run("predict", paths[1], paths[2], "-o", paths[3], "--quiet")
                    predicted = round(time.perf_counter() - started, 1)
                    file = read_predictions(paths[3])
                    z, prediction = file.z_spec, file.prediction
                    magnitude = table.floats(f"mag_{band}")
                    bright = magnitude < np.nanmedian(magnitude)
                    for rows, which in ((slice(None), "all"), (bright, "bright"), (~bright, "faint")):
                        scores, mean = evaluate(z[rows], prediction[rows]), prediction[rows].mean
                        emit(
                            {
                                "catalogue": name,
                                "seed": options.seed,
                                "errors": errors,
                                "depth": depth,
                                "rows": which,
                                "n": len(mean),
                            }
                            | {"slope": round(float(np.polyfit(mean, z[rows], 1)[0]), 4)}
                            | {"std": round(float(np.median(prediction[rows].std)), 4)}
                            | {key: round(scores[key], 4) for key in KEYS}
                            | {"n_train": len(train), "train_seconds": seconds, "predict_seconds": predicted}
                        )


if __name__ == "__main__":
    main()
