"""Rate of prediction of committees in memory and from file to file, and what sums of squares change in their scores.

    python benchmarks/committee.py [--other CHECKOUT] [--scores] > docs/results/committee.jsonl

One JSON line each: 100 basis functions, five members with eight heads, six inputs, with the networks of the default and
without; tables in memory, with the columns of the output and without, and from Parquet to Parquet with and without
densities, of made-up galaxies and of those of `--catalogues`, real ones with gaps; then with `--scores` every
catalogue, the default model scored both ways (needs them: `--data-dir`, or GPZED_DATA). Rates are rows per second of
CPU time, one thread, all measured in turns, best of `--repeat`: a busy machine disturbs these least, and every line has
its `load`. `--other` is another version, a commit or a compiled checkout, that predicts the same rows with a committee
that it trained on the same rows, in turns too. The last line has `rows_per_second`, `speedup_over_exact` and, if there
is another version, `speedup_over_other` of the default committee.
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
from common import OTHER_HELP, emit, environment, other_version
from gpzed import GPzRegressor, load_model
from gpzed.catalog import Catalog, write_catalog
from gpzed.config import RunConfig
from gpzed.evaluation import evaluate
from gpzed.workflows import predict_table, train

SCORES = ("rmse", "mll", "crps", "cde_loss")
FEW = 1000
"""Rows whose time is that of the start."""
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


TABLE = """
import sys
from time import process_time
try:
    from gpzed.workflows import load_photoz_model as load, predict_columns, predict_table
except ImportError:  # where they were once
    from gpzed.pipeline import load_pipeline as load, predict_columns, predict_table
from gpzed.catalog import read_catalog
model, table = load(sys.argv[1]), read_catalog(sys.argv[2])
best = [float("inf")] * 2
for _ in range(3):
    start = process_time()
    found = predict_table(model, table)[0]
    found.mean, found.model_variance, found.noise_variance
    best[0] = min(best[0], process_time() - start)
    if len(sys.argv) > 3:
        predict_columns(found)
        best[1] = min(best[1], process_time() - start)
print(*(len(table) / seconds for seconds in best))
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


def write_jittered(path: Path, table: Catalog, n: int, seed: int) -> None:
    """Write `n` rows drawn from a table, with magnitudes that differ a little."""
    rng = np.random.default_rng(seed)
    drawn = table.take(rng.integers(len(table), size=n))
    columns = {name: np.asarray(drawn[name]) for name in drawn.names}
    for name, values in columns.items():
        if name.startswith("mag_") and "err" not in name:
            columns[name] = (values + 0.01 * rng.standard_normal(n)).astype(np.float32)
    write_catalog(Catalog(columns), path)


def run_script(checkout: Path, script: str, *arguments: Any) -> tuple[float, str]:
    """Run a script by a version; return the CPU time that it took, and what it printed."""
    variables = {**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=variables)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def measure_tables(name: str, place: Path, columns: tuple[str, ...], n: int, repeat: int, other: Path | None) -> None:
    """Emit the rates of the rows of many.parquet in memory, and from Parquet to Parquet.

    Start-up is taken off from the latter: the time for n rows less that for the few of few.parquet.
    """
    config = place / "config.toml"
    config.write_text("[model]\nn_basis = 100\n")
    checkouts = {"ours": ROOT} if other is None else {"ours": ROOT, "other": other}
    runs = {"densities": ("ours", ()), "points": ("ours", ("--pdf", "none"))}
    if other is not None:
        runs["other"] = "other", ()
    for version, checkout in checkouts.items():
        model = place / f"{version}.gpzed"
        run_script(checkout, COMMAND, "train", place / "train.parquet", "-o", model, "--config", config, *columns)
    rates: dict[str, float] = {}
    seconds: dict[str, list[list[float]]] = {run: [] for run in runs}
    more = n - FEW
    for _ in range(repeat):
        for version, checkout in checkouts.items():
            what = () if version == "other" else ("columns",)
            found = run_script(checkout, TABLE, place / f"{version}.gpzed", place / "memory.parquet", *what)[1].split()
            for key, rate in zip((f"{version} in memory", f"{version} columns"), map(float, found), strict=True):
                rates[key] = max(rates.get(key, 0.0), rate)
        for run, (version, options) in runs.items():
            times = []
            for size in ("few", "many"):
                output = place / f"{run}_out.parquet"
                output.unlink(missing_ok=True)
                files = place / f"{version}.gpzed", place / f"{size}.parquet", "-o", output
                times.append(run_script(checkouts[version], COMMAND, "predict", *files, "--threads", 1, *options)[0])
            seconds[run].append(times)
    rates |= {run: more / -np.subtract(*np.min(values, axis=0)) for run, values in seconds.items()}
    size = (place / "many.parquet").stat().st_size
    lines: dict[str, tuple[str, str, float | None]] = {
        "nothing, moments in memory": ("ours in memory", "other in memory", None),
        "nothing, columns in memory": ("ours columns", "", None),
        "densities": ("densities", "other", ((place / "densities_out.parquet").stat().st_size - size) / n),
        "points": ("points", "other", ((place / "points_out.parquet").stat().st_size - size) / n),
    }
    for written, (ours, others, added) in lines.items():
        line = {
            "benchmark": "committee files",
            "rows": name,
            "n": n,
            "written": written,
            "rows_per_second": rates[ours],
        }
        line |= {"core_hours_of_1e10_rows": 1e10 / rates[ours] / 3600.0}
        if added is not None:
            line |= {"bytes_added_per_row": added, "over_columns_in_memory": rates[ours] / rates["ours columns"]}
        if others in rates:
            line |= {"other_rows_per_second": rates[others], "speedup_over_other": rates[ours] / rates[others]}
        emit({**line, **environment()})


def measure_files(n: int, in_memory: int, repeat: int, other: Path | None, folder: Path, catalogues: list[str]) -> None:
    """Emit the rates of tables of made-up galaxies, and of those of some catalogues."""
    columns = ("--bands", ",".join(BANDS), "--mag", "mag_{band}", "--redshift", "z_spec")
    sizes = {"few": FEW, "memory": in_memory, "many": n}
    with tempfile.TemporaryDirectory() as place:
        write_rows(Path(place, "train.parquet"), 8000, 0)
        for size, rows in sizes.items():
            write_rows(Path(place, f"{size}.parquet"), rows, 1)
        measure_tables("made up", Path(place), columns, n, repeat, other)
    for name in catalogues:
        training, test = tables(folder, name)
        with tempfile.TemporaryDirectory() as place:
            write_catalog(training, Path(place, "train.parquet"))
            for size, rows in sizes.items():
                write_jittered(Path(place, f"{size}.parquet"), test, rows, 1)
            measure_tables(name, Path(place), (), n, repeat, other)


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
    parser.add_argument("--other", help=OTHER_HELP)
    parser.add_argument("--catalogues", nargs="*", choices=list(CATALOGUES), default=[], help="real rows, too")
    parser.add_argument("--scores", action="store_true", help="score all catalogues both ways, too")
    parser.add_argument(
        "--data-dir", type=Path, default=Path(os.environ.get("GPZED_DATA") or ROOT.parent / "shared/data")
    )
    options = parser.parse_args()
    if (options.scores or options.catalogues) and not options.data_dir.is_dir():
        parser.exit(2, f'no folder "{options.data_dir}"; give the catalogues with --data-dir or GPZED_DATA.\n')
    with other_version(options.other) as other:
        last = measure_rates(options.n, options.repeat, other)
        measure_files(options.files, options.n, options.repeat, other, options.data_dir, options.catalogues)
    for name in CATALOGUES if options.scores else ():
        measure_scores(options.data_dir, name)
    keys = "rows_per_second", "speedup_over_exact", "speedup_over_other"
    print(json.dumps({key: last[key] for key in keys if key in last}), flush=True)


if __name__ == "__main__":
    main()
