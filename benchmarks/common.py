"""What the benchmarks share: arrays, the machine's own dgemm rate, peak memory, and JSON lines."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import threadpoolctl

from gpzed import __version__
from gpzed.compiled.binding import is_compiled
from gpzed.engine.threads import available_threads
from gpzed.gp.covariance import get_structure
from gpzed.gp.parameters import Layout, Parameters

DGEMM_SIZE = 1500
OTHER_HELP = "another version: a commit, or a checkout that is compiled"


def arguments(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--n", type=int, default=100_000, help="rows")
    parser.add_argument("--d", type=int, default=10, help="features")
    parser.add_argument("--m", type=int, default=100, help="basis functions")
    parser.add_argument("--structure", default="VC", help="GL, VL, GD, VD, GC or VC")
    parser.add_argument("--threads", type=int, default=None, help="all cores by default")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--seed", type=int, default=0)
    return parser


@contextmanager
def other_version(name: str | None) -> Iterator[Path | None]:
    """Give the checkout of another version: the folder of that name, or one made of the commit of that name."""
    if name is None or Path(name).is_dir():
        yield None if name is None else Path(name).resolve()
        return
    git = ["git", "-C", str(Path(__file__).parent), "worktree"]
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder, "other")
        subprocess.run([*git, "add", "--quiet", "--detach", str(checkout), name], check=True)
        try:
            _compile(checkout)
            yield checkout
        finally:
            subprocess.run([*git, "remove", "--force", str(checkout)], check=True)


def _compile(checkout: Path) -> None:
    """Compile the kernels of a checkout, as its build would."""
    (source,) = (checkout / "src" / "gpzed").rglob("_kernels.c")
    if "compile_kernels" in (checkout / "hatch_build.py").read_text(encoding="utf-8"):
        subprocess.run([sys.executable, "hatch_build.py"], check=True, cwd=checkout)
        return
    flags = ["-O3", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC"]  # before it could be asked to
    compiler = shutil.which(os.environ.get("CC", "cc")) or "gcc"
    subprocess.run([compiler, *flags, "-o", str(source.with_suffix(".so")), str(source), "-lm"], check=True)


def make_rows(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Whitened inputs and a smooth target with input-dependent noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    noise = 0.05 + 0.1 / (1.0 + np.exp(-X[:, 0]))
    return X, np.sin(X[:, 0]) + 0.3 * X[:, 1 % d] ** 2 + noise * rng.standard_normal(n)


def make_parameters(X: np.ndarray, layout: Layout, seed: int = 0) -> Parameters:
    """Make a point in the middle of training: overlapping basis functions, noise that varies."""
    rng = np.random.default_rng(seed)
    m, d = layout.m, layout.d
    Lambda = np.eye(d) / 16.0 * rng.uniform(0.5, 2.0, (1 if layout.structure.is_global else m, 1, 1))
    return Parameters(
        P=X[rng.choice(len(X), m, replace=len(X) < m)].copy(),
        Gamma=get_structure(layout.structure.code).factor(Lambda),
        u=0.1 * rng.standard_normal(m),
        b=3.0,
        log_alpha=np.zeros(layout.n_weights),
        log_eta=np.zeros(m),
    )


def n_coefficients(layout: Layout) -> int:
    """Return the length of the quadratic feature map."""
    d = layout.d
    return 1 + d + (d * (d + 1) // 2 if layout.structure.is_full else d)


def time_dgemm() -> float:
    """Seconds of one square matrix product with all threads that BLAS is allowed."""
    A = np.ones((DGEMM_SIZE, DGEMM_SIZE))
    started = time.perf_counter()
    A @ A
    return time.perf_counter() - started


def side_by_side(job: Callable[[], Any], repeat: int, threads: int | None) -> tuple[float, float, float]:
    """Best and median seconds of a job, and the dgemm rate (GFlop/s), measured in turns in one run.

    The rate is that of as many threads as the job uses; both are best of `repeat`, so that a burst of other load
    on the machine disturbs neither.
    """
    threads = threads or available_threads()
    job()
    with threadpoolctl.threadpool_limits(threads, user_api="blas"):
        time_dgemm()
    seconds, dgemm = [], []
    for _ in range(repeat):
        with threadpoolctl.threadpool_limits(threads, user_api="blas"):
            dgemm += [time_dgemm(), time_dgemm()]
        time.sleep(0.1)  # idle BLAS threads spin for a while and would take a core from the job
        for _ in range(3):
            started = time.perf_counter()
            job()
            seconds.append(time.perf_counter() - started)
    rate = 2.0 * DGEMM_SIZE**3 / min(dgemm) / 1e9
    return min(seconds), float(np.median(seconds)), rate


def peak_megabytes() -> float:
    """Largest resident memory of this process so far (`getrusage` on Linux counts the one that started it, too)."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def environment() -> dict[str, Any]:
    """Say what a figure depends on beside the code."""
    return {
        "gpzed": __version__,
        "compiled_kernels": is_compiled(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": available_threads(),
        "load": round(os.getloadavg()[0], 2),
    }


def emit(record: dict[str, Any]) -> None:
    """Print one JSON line."""
    print(json.dumps(record), flush=True)
