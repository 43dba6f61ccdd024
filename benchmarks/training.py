"""Time that `gpzed train` takes with the default committee, against rows, bands, basis functions and gap patterns.

    python benchmarks/training.py [--n 10000] [--d 6] [--m auto] [--patterns 1] [--catalogue dc2] [--other VERSION]

Each combination of the numbers given is one JSON line: `cpu_seconds` and `seconds` of the whole command, start-up and
scores included, best of `--repeat`. Rows are simulated, half of them with bands missing in one of so many patterns; or
they are random rows of training files (`--catalogue`, from `--data-dir` or GPZED_DATA). `--other` is another version, a
commit or a compiled checkout, that trains on the same file in turns; `speedup_over_other` is the ratio of CPU times.
One thread is used unless `--threads` says otherwise, for wall times.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from itertools import product
from pathlib import Path

import numpy as np

from catalogues import CATALOGUES, ROOT, tables
from committee import COMMAND, make_rows, run_script
from common import OTHER_HELP, emit, environment, other_version
from gpzed.catalog import Catalog, write_catalog

BANDS = "ugrizyjhkabcdeflmnopqstv"


def simulated(n: int, d: int, patterns: int, seed: int) -> Catalog:
    """Magnitudes in d bands with errors; half of the rows have gaps, in one of `patterns` - 1 sets of bands."""
    X, z = make_rows(n, seed, d)
    rng = np.random.default_rng(seed + 1)
    errors = np.full(X.shape, 0.1) * rng.uniform(0.5, 2.0, X.shape)
    sets = np.unique(rng.random((8 * patterns, d)) < rng.uniform(0.1, 0.5, (8 * patterns, 1)), axis=0)
    sets = sets[sets.any(axis=1) & ~sets.all(axis=1)]
    if len(sets) < patterns - 1:
        raise SystemExit(f"{d} bands do not have {patterns} patterns")
    which = rng.integers(0, patterns - 1, n) if patterns > 1 else np.zeros(n, dtype=int)
    lost = rng.permutation(sets)[: max(patterns - 1, 1)][which] & (rng.random((n, 1)) < 0.5) & (patterns > 1)
    X, errors = np.where(lost, np.nan, X), np.where(lost, np.nan, errors)
    columns = {f"{name}_{BANDS[k]}": array[:, k] for name, array in (("mag", X), ("err", errors)) for k in range(d)}
    return Catalog({**columns, "z_spec": z})


def real(folder: Path, name: str, n: int, seed: int) -> Catalog:
    """Random rows of a training file."""
    table, _ = tables(folder, name)
    return table.take(np.random.default_rng(seed).permutation(len(table))[:n])


def measure(
    table: Catalog, options: argparse.Namespace, other: Path | None, m: str, columns: tuple[str, ...]
) -> dict[str, float]:
    """Train on a table with all versions in turns; return the least CPU and wall times."""
    checkouts = {"": ROOT} | ({} if other is None else {"other_": other})
    best: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        rows, model = Path(folder, "rows.parquet"), Path(folder, "model.gpzed")
        write_catalog(table, rows)
        for _ in range(options.repeat):
            for prefix, checkout in checkouts.items():
                start = time.perf_counter()
                command = "train", rows, "-o", model, "--seed", options.seed, "--n-basis", m, *columns
                cpu, _ = run_script(checkout, COMMAND, *command, "--threads", options.threads)
                model.unlink()
                for key, value in (("cpu_seconds", cpu), ("seconds", time.perf_counter() - start)):
                    best[prefix + key] = min(value, best.get(prefix + key, np.inf))
    if other is not None:
        best["speedup_over_other"] = best["other_cpu_seconds"] / best["cpu_seconds"]
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, nargs="+", default=[10_000], help="training rows")
    parser.add_argument("--d", type=int, nargs="+", default=[6], help="bands")
    parser.add_argument("--m", nargs="+", default=["auto"], help="basis functions of a member")
    parser.add_argument(
        "--patterns", type=int, nargs="+", default=[1], help="patterns of gaps, that without one included"
    )
    parser.add_argument("--catalogue", choices=list(CATALOGUES), help="rows of training files instead")
    parser.add_argument("--other", help=OTHER_HELP)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--data-dir", type=Path, default=Path(os.environ.get("GPZED_DATA") or ROOT.parent / "shared/data")
    )
    options = parser.parse_args()
    with other_version(options.other) as other:
        measure_all(options, other)


def measure_all(options: argparse.Namespace, other: Path | None) -> None:
    """Emit a line for each combination of what is asked for."""
    shared = {"benchmark": "training", "threads": options.threads, "seed": options.seed}
    if options.catalogue is not None:
        for n in options.n:
            table = real(options.data_dir, options.catalogue, n, options.seed)
            bands = [name for name in table.names if name.startswith("mag_") and "err" not in name]
            gaps = np.isnan(np.stack([table.floats(name) for name in bands], axis=1))
            line = {"rows": options.catalogue, "n": len(table), "d": len(bands), "m": "auto"}
            line |= {"patterns": len(np.unique(gaps, axis=0))}
            emit({**shared, **line, **measure(table, options, other, "auto", ()), **environment()})
        return
    for n, d, m, patterns in product(options.n, options.d, options.m, options.patterns):
        columns = "--bands", ",".join(BANDS[:d]), "--mag", "mag_{band}", "--err", "err_{band}", "--redshift", "z_spec"
        found = measure(simulated(n, d, patterns, options.seed), options, other, m, columns)
        line = {"rows": "simulated", "n": n, "d": d, "m": m, "patterns": patterns}
        emit({**shared, **line, **found, **environment()})


if __name__ == "__main__":
    main()
