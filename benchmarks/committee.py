"""Rate of prediction of committees in memory and from file to file, and what sums of squares change in their scores.

    python benchmarks/committee.py [--other CHECKOUT] [--scores] > docs/results/committee.jsonl

One JSON line each: 100 basis functions, five members with eight heads, six inputs, with the networks of the default and
without; from Parquet to Parquet with and without densities; then with `--scores` every catalogue, the default model
scored both ways (needs them: `--data-dir`, or GPZED_DATA). Rates are rows per second of CPU time, one thread, all
measured in turns, best of `--repeat`: a busy machine disturbs these least, and every line has its `load`. `--other` is
a checkout of another version, compiled, that predicts the same rows with a committee that it trained on the same rows,
in turns too. The last line has `rows_per_second`, `speedup_over_exact` and, if there is another version,
`speedup_over_other` of the default committee.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from catalogues import CATALOGUES, ROOT, tables
from common import emit, environment
from gpzed import GPzRegressor, load_model
from gpzed.catalog import Catalog, write_catalog
from gpzed.config import RunConfig
from gpzed.evaluation import evaluate
from gpzed.workflows import predict_table, train

SCORES = ("rmse", "mll", "crps", "cde_loss")
WARM = 6
"""Predictions of another version in each of its processes: the first ones pay for new memory."""
BANDS = "ugrizy"
SHAPE = {"n_basis": 100, "n_members": 5, "n_heads": 8, "random_state": 0}
OTHER = """
import sys, numpy as np
from gpzed import GPzRegressor, load_model
from gpzed.catalog import Catalog, write_catalog
from time import process_time
path, rows, repeat = sys.argv[1], np.load(sys.argv[2]), int(sys.argv[3])
if not repeat:
    GPzRegressor(n_basis=100, n_members=5, n_heads=8, random_state=0).fit(rows["X"], rows["y"]).save(path)
model = load_model(path)
model.n_threads = 1
best = 0.0
for _ in range(repeat):
    start = process_time()
    found = model.predict_distribution(rows["X_new"])
    found.mean, found.model_variance, found.noise_variance
    best = max(best, len(found) / (process_time() - start))
print(best)
"""


COMMAND = """
import sys
try:
    from gpzed.cli import main
except ImportError:  # where it was once
    from gpzed.adapters.cli import main
sys.exit(main())
"""


def make_rows(n: int, seed: int, d: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Magnitudes of a redshift in which colours repeat, so that densities need several heads."""
    rng = np.random.default_rng(seed)
    z, bright = rng.gamma(4.0, 0.25, n), 18.0 + 4.0 * rng.random(n)
    phases = 3.5 * z[:, None] + 0.9 * np.arange(d)
    noise = 0.05 + 0.1 * (bright - 18.0)[:, None] / 4.0
    return bright[:, None] + 1.5 * np.sin(phases) + noise * rng.standard_normal((n, d)), z


def rate(model: GPzRegressor, X: np.ndarray, exact: bool) -> float:
    """Rows per second of CPU time of mean and variances."""
    start = time.process_time()
    found = model.predict_distribution(X, exact=exact)
    assert found.mean.size == found.model_variance.size == found.noise_variance.size
    return len(X) / (time.process_time() - start)


def run_other(checkout: Path, *arguments: Any) -> float:
    """Run another version; it must have been compiled."""
    command = [sys.executable, "-c", OTHER, *map(str, arguments)]
    variables = {**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=variables)
    return float(done.stdout.splitlines()[-1])


def measure_rates(n: int, repeat: int, other: Path | None) -> dict[str, Any]:
    """Emit a line for each committee; return that of the default."""
    X, y = make_rows(8000, 0)
    X_new = make_rows(n, 1)[0]
    models = {k: GPzRegressor(**SHAPE, n_networks=k, n_threads=1).fit(X, y) for k in (5, 0)}
    rates: dict[tuple[str, int], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        rows, path = Path(folder, "rows.npz"), Path(folder, "model.gpzed")
        np.savez(rows, X=X, y=y, X_new=X_new)
        if other is not None:
            run_other(other, path, rows, 0)
        for _ in range(repeat):
            for k, model in models.items():
                rates.setdefault(("quick", k), []).append(rate(model, X_new, exact=False))
                rates.setdefault(("exact", k), []).append(rate(model, X_new[: n // 4], exact=True))
            if other is not None:
                rates.setdefault(("other", 0), []).append(run_other(other, path, rows, WARM))
    best = {key: max(values) for key, values in rates.items()}
    lines = []
    for k, model in models.items():
        line = {
            "benchmark": "committee",
            "n": n,
            "d": X.shape[1],
            "components": model.n_components_,
            "networks": k,
            "rows_per_second": best["quick", k],
            "exact_rows_per_second": best["exact", k],
            "speedup_over_exact": best["quick", k] / best["exact", k],
            "core_hours_of_1e10_rows": 1e10 / best["quick", k] / 3600.0,
        }
        if other is not None:
            speedup = best["quick", k] / best["other", 0]
            line |= {"other_rows_per_second": best["other", 0], "speedup_over_other": speedup}
        emit({**line, **environment()})
        lines.append(line)
    return lines[0]


def write_rows(path: Path, n: int, seed: int) -> None:
    """Write a catalogue of the rows of `make_rows`."""
    X, z = make_rows(n, seed)
    magnitudes = {f"mag_{band}": X[:, k].astype(np.float32) for k, band in enumerate(BANDS)}
    write_catalog(Catalog({"id": np.arange(n), **magnitudes, "z_spec": z}), path)


def run_command(checkout: Path, *arguments: Any) -> float:
    """Run the command of a version, and return the CPU time that it took."""
    variables = {**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", COMMAND, *map(str, arguments)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env=variables)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_files(n: int, repeat: int, other: Path | None) -> None:
    """Emit the rates from Parquet to Parquet, start-up taken off: the time for n rows less that for a few."""
    few = 1000
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name, rows, seed in (("train", 8000, 0), ("few", few, 1), ("many", n, 1)):
            write_rows(place / f"{name}.parquet", rows, seed)
        config = place / "config.toml"
        config.write_text("[model]\nn_basis = 100\n")
        runs = {"densities": (ROOT, ()), "points": (ROOT, ("--pdf", "none"))}
        if other is not None:
            runs["other"] = other, ()
        for checkout in {run[0] for run in runs.values()}:
            columns = ("--bands", ",".join(BANDS), "--mag", "mag_{band}", "--redshift", "z_spec")
            model = place / f"{checkout.name}.gpzed"
            run_command(checkout, "train", place / "train.parquet", "-o", model, "--config", config, *columns)
        seconds: dict[str, list[list[float]]] = {name: [] for name in runs}
        for _ in range(repeat):
            for name, (checkout, options) in runs.items():
                times = []
                for size in ("few", "many"):
                    output = place / f"{name}.parquet"
                    output.unlink(missing_ok=True)
                    model = place / f"{checkout.name}.gpzed"
                    files = model, place / f"{size}.parquet", "-o", output
                    times.append(run_command(checkout, "predict", *files, "--threads", 1, *options))
                seconds[name].append(times)
        sizes = {name: (place / f"{name}.parquet").stat().st_size for name in (*runs, "many")}
    rates = {name: (n - few) / -np.subtract(*np.min(values, axis=0)) for name, values in seconds.items()}
    for name in ("densities", "points"):
        line = {"benchmark": "committee files", "n": n, "written": name, "rows_per_second": rates[name]}
        line |= {"bytes_added_per_row": (sizes[name] - sizes["many"]) / n}
        line |= {"core_hours_of_1e10_rows": 1e10 / rates[name] / 3600.0}
        if other is not None:
            line |= {"other_rows_per_second": rates["other"], "speedup_over_other": rates[name] / rates["other"]}
        emit({**line, **environment()})


def measure_scores(folder: Path, name: str) -> None:
    """Emit the scores of the default model on a catalogue, and how sums of squares change them, relatively."""
    training, test = tables(folder, name)
    model = train(training, config=RunConfig())
    with tempfile.TemporaryDirectory() as place:
        model.save(Path(place, "model.gpzed"))
        model = load_model(Path(place, "model.gpzed"))
    z = test.floats("z_spec")
    found = [predict_table(model, test, exact=way)[0] for way in (False, True)]
    off = np.abs(found[0].model_variance / found[1].model_variance - 1.0)
    quick, exact = (evaluate(z, prediction) for prediction in found)
    members = [member for member in model.regressor.members_ if member.quick is not None]
    line: dict[str, Any] = {
        "benchmark": "committee scores",
        "catalogue": name,
        "n_test": len(z),
        "quick_members": len(members),
        "model_variance_off": float(np.median(off)),
    }
    for score in SCORES:
        line |= {score: quick[score], f"{score}_change": quick[score] / exact[score] - 1.0}
    emit({**line, **environment()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=100_000, help="rows to predict for")
    parser.add_argument("--files", type=int, default=200_000, help="rows to predict for from file to file")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--other", type=Path, help="checkout of another version, compiled")
    parser.add_argument("--scores", action="store_true", help="score all catalogues both ways, too")
    parser.add_argument(
        "--data-dir", type=Path, default=Path(os.environ.get("GPZED_DATA") or ROOT.parent / "shared/data")
    )
    options = parser.parse_args()
    if options.scores and not options.data_dir.is_dir():
        parser.exit(2, f'no folder "{options.data_dir}"; give the catalogues with --data-dir or GPZED_DATA.\n')
    last = measure_rates(options.n, options.repeat, options.other)
    measure_files(options.files, options.repeat, None if options.other is None else options.other.resolve())
    for name in CATALOGUES if options.scores else ():
        measure_scores(options.data_dir, name)
    keys = "rows_per_second", "speedup_over_exact", "speedup_over_other"
    print(json.dumps({key: last[key] for key in keys if key in last}), flush=True)


if __name__ == "__main__":
    main()
