"""Time and score RAIL's GPz (`pz-rail-gpz-v1` from PyPI) on given arrays.

Run in the benchmark-only environment that `benchmarks/rivals/setup.sh` makes:

    .venv-bench/bin/python benchmarks/rivals/rail_gpz.py evidence --npz build/bench/random.npz --m 100
    .venv-bench/bin/python benchmarks/rivals/rail_gpz.py train --npz build/bench/dc2.npz --m 50

The last line printed is JSON. Only the numerical core of the package is loaded, by file path, so that neither
RAIL nor its dependencies have to be there; the package's stage adds nothing to it but reading columns and
making a qp ensemble. The settings are the stage's own defaults: heteroscedastic, joint linear mean, PCA
whitening (in `train`), no cost weights, 200 iterations, at most 100 without progress on the validation set,
prediction from the best validated iterate. Only the seed and the split come from outside: the stage's own
split cannot be seeded.
"""

import argparse
import contextlib
import importlib.metadata
import importlib.util
import io
import json
import os
import platform
import resource
import sys
import time
import types
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

DISTRIBUTION = "pz-rail-gpz-v1"
CORE = "rail/estimation/algos/_gpz_util.py"
STRUCTURES = ["GL", "VL", "GD", "VD", "GC", "VC"]
MAX_ATTEMPTS = 100  # default of the package's stage


def load_core() -> types.ModuleType:
    """Load the package's numerical core by file path, without importing `rail`."""
    try:
        path = Path(importlib.metadata.distribution(DISTRIBUTION).locate_file(CORE))
    except importlib.metadata.PackageNotFoundError:
        sys.exit(f"{DISTRIBUTION} is missing: run benchmarks/rivals/setup.sh and use .venv-bench/bin/python")
    if importlib.util.find_spec("matplotlib") is None:
        # The core imports pyplot for the histogram of "balanced" cost weights, which are not used here.
        sys.modules["matplotlib"] = types.ModuleType("matplotlib")
        sys.modules["matplotlib.pyplot"] = types.ModuleType("matplotlib.pyplot")
    spec = importlib.util.spec_from_file_location("rail_gpz_core", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def environment() -> dict:
    """Versions, threads and load: what a time cannot be read without."""
    return {
        "rival": DISTRIBUTION,
        "version": importlib.metadata.version(DISTRIBUTION),
        "python": platform.python_version(),
        "numpy": importlib.metadata.version("numpy"),
        "scipy": importlib.metadata.version("scipy"),
        "cpus": os.cpu_count(),
        "blas_threads": sorted({lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}),
        "load_average_1min": round(os.getloadavg()[0], 2),
    }


def peak_memory_mb() -> float:
    """Peak resident memory of this process."""
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kilobytes here
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6, 1)


def run_evidence(args: argparse.Namespace) -> dict:
    """Time the objective with its gradient at the rival's own starting values."""
    with np.load(args.npz) as file:
        X, y, omega = (np.ascontiguousarray(file[name], dtype=float) for name in ("X", "y", "omega"))
    Y, omega = y.reshape(-1, 1), omega.reshape(-1, 1)
    model = load_core().GP(
        args.m, method=args.structure, joint=True, heteroscedastic=True, decorrelate=False, seed=args.seed
    )
    model.init(X, Y, omega)
    target = Y - model.muY - X @ model.wL  # as its train() does
    training = np.ones(len(y), dtype=bool)
    wall, cpu = [], []
    for _ in range(args.repeat + 1):
        wall_start, cpu_start = time.perf_counter(), time.process_time()
        objective, gradient = model.GPz(model.theta, X, target, omega, training, None)
        wall.append(time.perf_counter() - wall_start)
        cpu.append(time.process_time() - cpu_start)
    wall, cpu = wall[1:], cpu[1:]  # the first one warms up
    return {
        "n": X.shape[0],
        "d": X.shape[1],
        "m": args.m,
        "structure": args.structure,
        "parameters": int(model.theta.size),
        "repeat": args.repeat,
        "seconds_per_evaluation": min(wall),
        "seconds_median": float(np.median(wall)),
        "seconds_all": [round(seconds, 4) for seconds in wall],
        "cpu_seconds_per_evaluation": min(cpu),
        "objective": float(objective),
        "gradient_norm": float(np.linalg.norm(gradient)),
    }


def scores(mean: np.ndarray, variance: np.ndarray, y: np.ndarray) -> dict:
    """RMSE, MLL, FR0.15 and FR0.05 of the paper (Eq. 6.1-6.3); FR in per cent."""
    mean, variance = mean.ravel(), variance.ravel()
    relative = (y - mean) / (1.0 + y)
    return {
        "rmse": float(np.sqrt(np.mean(relative**2))),
        "mll": mean_log_likelihood(mean, variance, y),
        "fr15": float(100.0 * np.mean(np.abs(relative) < 0.15)),
        "fr05": float(100.0 * np.mean(np.abs(relative) < 0.05)),
    }


def mean_log_likelihood(mean: np.ndarray, variance: np.ndarray, y: np.ndarray) -> float:
    mean, variance = mean.ravel(), variance.ravel()
    return float(np.mean(-0.5 * (y - mean) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance)))


def run_train(args: argparse.Namespace) -> dict:
    """Train with the stage's defaults on given train and validation rows; score the test rows."""
    with np.load(args.npz) as file:
        data = {name: np.asarray(file[name], dtype=float) for name in file.files if name != "features"}
    n_train = len(data["y_train"])
    X = np.concatenate([data["X_train"], data["X_valid"]])
    y = np.concatenate([data["y_train"], data["y_valid"]])
    training = np.arange(len(y)) < n_train
    core = load_core()

    class Recorder(core.GP):
        """The rival with a clock: its numbers are untouched."""

        def GPz(self, *positional, **named):  # noqa: N802
            self.evaluations += len(positional) == 6  # as its optimiser calls it; other uses pass more or less
            return super().GPz(*positional, **named)

        def callbackF(self, theta):  # noqa: N802
            self.trace.append([round(time.perf_counter() - self.start, 4), float(self.validLL)])
            super().callbackF(theta)

    model = Recorder(args.m, method=args.structure, joint=True, heteroscedastic=True, decorrelate=True, seed=args.seed)
    model.trace, model.evaluations = [], 0
    model.start, cpu_start = time.perf_counter(), time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        model.train(
            X,
            y.reshape(-1, 1),
            omega=core.getOmega(y.reshape(-1, 1), method="normal"),
            training=training,
            validation=~training,
            maxIter=args.iterations,
            maxAttempts=args.max_attempts,
        )
    seconds, cpu_seconds = time.perf_counter() - model.start, time.process_time() - cpu_start

    trace = model.trace
    best = int(np.argmax([mll for _, mll in trace]))
    best_mean, best_variance, *_ = model.predict(data["X_valid"])
    last_mean, last_variance, *_ = model.predict(data["X_valid"], model="last")
    predict_start = time.perf_counter()
    mean, variance, *_ = model.predict(data["X_test"])
    predict_seconds = time.perf_counter() - predict_start
    test = scores(mean, variance, data["y_test"])
    last = scores(*model.predict(data["X_test"], model="last")[:2], data["y_test"])
    return {
        "n_train": n_train,
        "n_valid": len(data["y_valid"]),
        "n_test": len(data["y_test"]),
        "d": X.shape[1],
        "m": args.m,
        "structure": args.structure,
        "seed": args.seed,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "iterations": len(trace),
        "evaluations": model.evaluations,
        "seconds_per_iteration": seconds / len(trace),
        "predict_rows_per_second": len(data["y_test"]) / predict_seconds,
        "valid_mll_final": trace[-1][1],
        "valid_mll_best": trace[best][1],
        "best_iteration": best + 1,
        "seconds_to_best": trace[best][0],
        "valid_mll_best_by_predict": mean_log_likelihood(best_mean, best_variance, data["y_valid"]),
        "valid_mll_final_by_predict": mean_log_likelihood(last_mean, last_variance, data["y_valid"]),
        "test_rmse": test["rmse"],
        "test_mll": test["mll"],
        "test_fr15": test["fr15"],
        "test_fr05": test["fr05"],
        "test_last_iterate": last,
        "trace": trace,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("version", help="check that the rival loads")
    evidence = commands.add_parser("evidence", help="time one objective with gradient")
    evidence.add_argument("--repeat", type=int, default=5)
    train = commands.add_parser("train", help="train, and score on the test rows")
    train.add_argument("--iterations", type=int, default=200)
    train.add_argument("--max-attempts", type=int, default=MAX_ATTEMPTS)
    for command in (evidence, train):
        command.add_argument("--npz", type=Path, required=True)
        command.add_argument("--m", type=int, default=100)
        command.add_argument("--structure", choices=STRUCTURES, default="VC")
        command.add_argument("--seed", type=int, default=0)
        command.add_argument("--threads", type=int, help="limit BLAS threads (default: as the library likes)")
    args = parser.parse_args()

    if args.command == "version":
        load_core()
        result = environment()
    else:
        run = {"evidence": run_evidence, "train": run_train}[args.command]
        with threadpool_limits(args.threads, user_api="blas"):
            before = environment()
            result = run(args)
            after = round(os.getloadavg()[0], 2)
        result = {**before, "load_average_1min_after": after, "peak_memory_mb": peak_memory_mb(), **result}
    print(json.dumps({"command": args.command, **result}))


if __name__ == "__main__":
    main()
