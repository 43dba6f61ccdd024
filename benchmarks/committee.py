"""Rate of prediction of committees in memory, with sums of squares and exact; what their scores lose.

    python benchmarks/committee.py [--other CHECKOUT] [--scores] > docs/results/committee.jsonl

One JSON line each: 100 basis functions, five members with eight heads, six inputs, with the networks of the default and
without; then with `--scores` every catalogue, the default model scored both ways (needs them: `--data-dir`, or
GPZED_DATA). Rates are rows per second of CPU time, one thread, quick and exact measured in turns, best of `--repeat`: a
busy machine disturbs these least. `--other` is a checkout of another version, compiled, that predicts the same rows
with a committee that it trained on the same rows, in turns too. The last line has `rows_per_second` and
`speedup_over_exact` of the committee without networks.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from common import emit, environment
from gpzed import GPzRegressor, load_model
from gpzed.config import RunConfig
from gpzed.evaluation import evaluate
from gpzed.workflows import predict_table, train
from mixtures import CATALOGUES, ROOT, tables

SCORES = ("rmse", "mll", "crps", "cde_loss")
SHAPE = {"n_basis": 100, "n_members": 5, "n_heads": 8, "random_state": 0}
OTHER = """
import sys, numpy as np
from gpzed import GPzRegressor, load_model
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
    """Emit a line for each committee; return that without networks."""
    X, y = make_rows(8000, 0)
    X_new = make_rows(n, 1)[0]
    lines = []
    for n_networks in (5, 0):
        model = GPzRegressor(**SHAPE, n_networks=n_networks, n_threads=1).fit(X, y)
        rates: dict[str, list[float]] = {"quick": [], "exact": [], "other": []}
        with tempfile.TemporaryDirectory() as folder:
            rows, path = Path(folder, "rows.npz"), Path(folder, "model.gpzed")
            np.savez(rows, X=X, y=y, X_new=X_new)
            if other is not None and n_networks == 0:
                run_other(other, path, rows, 0)
            for _ in range(repeat):
                rates["quick"].append(rate(model, X_new, exact=False))
                rates["exact"].append(rate(model, X_new[: n // 4], exact=True))
                if other is not None and n_networks == 0:
                    rates["other"].append(run_other(other, path, rows, 2))
        best = {name: max(values) for name, values in rates.items() if values}
        line = {
            "benchmark": "committee",
            "n": n,
            "d": X.shape[1],
            "components": model.n_components_,
            "networks": n_networks,
            "rows_per_second": best["quick"],
            "exact_rows_per_second": best["exact"],
            "speedup_over_exact": best["quick"] / best["exact"],
            "core_hours_of_1e10_rows": 1e10 / best["quick"] / 3600.0,
        }
        if "other" in best:
            line |= {"other_rows_per_second": best["other"], "speedup_over_other": best["quick"] / best["other"]}
        emit({**line, **environment()})
        lines.append(line)
    return lines[-1]


def measure_scores(folder: Path, name: str) -> None:
    """Emit the scores of the default model on a catalogue, and how sums of squares change them, relatively."""
    training, test = tables(folder, name)
    model = train(training, config=RunConfig())
    with tempfile.TemporaryDirectory() as place:
        model.save(Path(place, "model.gpzed"))
        model = load_model(Path(place, "model.gpzed"))
    z = test.floats("z_spec")
    quick, exact = (evaluate(z, predict_table(model, test, exact=way)[0]) for way in (False, True))
    members = [member for member in model.regressor.members_ if member.quick is not None]
    line: dict[str, Any] = {
        "benchmark": "committee scores",
        "catalogue": name,
        "n_test": len(z),
        "quick_members": len(members),
    }
    for score in SCORES:
        line |= {score: quick[score], f"{score}_change": quick[score] / exact[score] - 1.0}
    emit(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=100_000, help="rows to predict for")
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
    for name in CATALOGUES if options.scores else ():
        measure_scores(options.data_dir, name)
    print(json.dumps({key: last[key] for key in ("rows_per_second", "speedup_over_exact")}), flush=True)


if __name__ == "__main__":
    main()
