"""What a Dask cluster costs beside the thread engine, and what each way to use it costs per evaluation.

One JSON line per measurement:

    python benchmarks/dask_cluster.py --n 4000000 --workers 2           # evaluation on a cluster against threads
    python benchmarks/dask_cluster.py --patterns --m 100 --workers 2    # overhead of patterns, on next to no rows
    python benchmarks/dask_cluster.py --predict --n 400000              # Parquet to Parquet

Rows are made by the workers themselves; evaluations of both engines are taken in turns.
"""

from __future__ import annotations

import pickle
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from common import arguments, emit, environment, make_parameters, make_rows
from gpzed import workflows
from gpzed.catalog import Catalog, write_catalog
from gpzed.config import RunConfig
from gpzed.distributed import DaskEngine, connect, make_shard
from gpzed.distributed.connection import workers
from gpzed.distributed.engine import Call, Shard, add_all
from gpzed.engine.threads import ThreadEngine
from gpzed.gp.evidence import backward, evaluate, fit_posterior, forward
from gpzed.gp.parameters import Layout
from gpzed.workflows import train

CHUNK = 100_000


def rows_of(start: int, stop: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows `start` to `stop` of the benchmark, the same for any division into multiples of `CHUNK`."""
    parts = [make_rows(min(CHUNK, stop - i), d, seed + i) for i in range(start, stop, CHUNK)]
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def build(start: int, stop: int, d: int, seed: int, width: int, n_threads: int, keep_bytes: int) -> ThreadEngine:
    X, y = rows_of(start, stop, d, seed)
    return ThreadEngine(X, y, width=width, n_threads=n_threads, keep_bytes=keep_bytes)


def cut(n: int, n_parts: int) -> list[tuple[int, int]]:
    """Cut n rows into parts of about the same size that begin at multiples of `CHUNK`."""
    inner = [CHUNK * round(n * i / n_parts / CHUNK) for i in range(1, n_parts)]
    return list(pairwise([0, *inner, n]))


def cluster_engine(client: Any, options: Any, width: int, shards: int, keep_bytes: int) -> DaskEngine:
    threads = max(1, min(client.nthreads().values()))
    recipes = []
    for (start, stop), home in zip(cut(options.n, shards), homes(client, shards), strict=True):
        given = (start, stop, options.d, options.seed, width, threads, keep_bytes)
        where = {"workers": [home], "allow_other_workers": True}
        recipes.append(partial(client.submit, make_shard, build, *given, pure=False, **where))
    return DaskEngine(client, recipes)


def homes(client: Any, shards: int) -> Iterator[str]:
    addresses = workers(client)
    return (addresses[i % len(addresses)] for i in range(shards))


def seconds(job: Callable[[], Any]) -> float:
    started = time.perf_counter()
    job()
    return time.perf_counter() - started


def compare(client: Any, options: Any, layout: Layout) -> None:
    width = layout.n_weights
    parameters = make_parameters(rows_of(0, CHUNK, options.d, options.seed)[0], layout, options.seed)
    keep = int(options.keep * 1e9)
    spread = cluster_engine(client, options, width, options.shards or options.workers, keep // options.workers)
    X, y = rows_of(0, options.n, options.d, options.seed)
    local = ThreadEngine(X, y, width=width, n_threads=options.threads, keep_bytes=keep)
    jobs = {
        "threads": lambda: evaluate(local, parameters, layout),
        "dask": lambda: evaluate(spread, parameters, layout),
    }
    first = {name: job() for name, job in jobs.items()}
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(options.repeat):
        for name, job in jobs.items():
            times[name].append(seconds(job))
    a, b = (first[name].evidence.total for name in ("threads", "dask"))
    ga, gb = (layout.pack(first[name].gradient) for name in ("threads", "dask"))
    best = {name: min(values) for name, values in times.items()}
    emit(
        {
            "benchmark": "dask",
            "n": options.n,
            "d": options.d,
            "m": options.m,
            "structure": options.structure,
            "workers": options.workers,
            "shards": options.shards or options.workers,
            "kept_gigabytes": options.keep,
            "threads_seconds": best["threads"],
            "dask_seconds": best["dask"],
            "ratio": best["dask"] / best["threads"],
            "median_ratio": float(np.median(times["dask"]) / np.median(times["threads"])),
            "evidence_difference": abs(a - b) / abs(a),
            "gradient_difference": float(np.abs(ga - gb).max() / np.abs(ga).max()),
            **environment(),
        }
    )


# ------------------------------------------------------------- patterns


class Holder:
    """A shard as an actor: nothing goes through the scheduler, and nothing survives the worker."""

    def __init__(self, *given: Any) -> None:
        self.shard = Shard(build(*given))

    def run(self, call: Call) -> Any:
        """Run one pass."""
        return self.shard.run(call)


def _run(shard: Shard, call: Call) -> Any:
    return shard.run(call)


def patterns(client: Any, options: Any, layout: Layout) -> None:
    """Overhead of two passes over next to no rows: all that is measured is the way there and back."""
    width, shards = layout.n_weights, options.shards or options.workers
    X, y = rows_of(0, 1000, options.d, options.seed)
    local = ThreadEngine(X, y, width=width, n_threads=1)
    parameters = make_parameters(X, layout, options.seed)
    state, posterior, _ = fit_posterior(local, parameters, layout)
    calls = [Call(forward, (state,), 1, True), Call(backward, (state, posterior), 1, False)]
    given = (0, 1000 // shards, options.d, options.seed, width, 1, 10**9)
    futures = [
        client.submit(make_shard, build, *given, pure=False, workers=[home], allow_other_workers=True)
        for home in homes(client, shards)
    ]
    actors = [client.submit(Holder, *given, actor=True, workers=[home]).result() for home in homes(client, shards)]

    def embedded(call: Call) -> Any:
        parts = [client.submit(_run, shard, call, pure=False) for shard in futures]
        return add_all(client.gather(parts))

    def mapped(call: Call) -> Any:
        (sent,) = client.scatter([call], broadcast=True, hash=False)
        return add_all(client.gather(client.map(_run, futures, [sent] * shards, pure=False)))

    def tree(call: Call) -> Any:
        (sent,) = client.scatter([call], broadcast=True, hash=False)
        parts = client.map(_run, futures, [sent] * shards, pure=False)
        while len(parts) > 1:
            parts = [client.submit(add_all, parts[i : i + 4], pure=False) for i in range(0, len(parts), 4)]
        return client.gather(parts)[0]

    def acted(call: Call) -> Any:
        return add_all([future.result() for future in [actor.run(call) for actor in actors]])

    pure = min(seconds(lambda: [Shard(local).run(call) for call in calls]) for _ in range(10))
    for name, pattern in (
        ("arguments in each task", embedded),
        ("arguments broadcast", mapped),
        ("arguments broadcast, sums by a tree", tree),
        ("actors", acted),
    ):
        times = [seconds(lambda p=pattern: [p(call) for call in calls]) for _ in range(options.repeat + 2)][2:]
        emit(
            {
                "benchmark": "dask patterns",
                "pattern": name,
                "m": options.m,
                "d": options.d,
                "workers": options.workers,
                "shards": shards,
                "bytes_sent": sum(len(pickle.dumps(call)) for call in calls),
                "overhead_ms": 1e3 * min(times),
                "median_ms": 1e3 * float(np.median(times)),
                "compute_ms": 1e3 * pure,
                **environment(),
            }
        )


# ------------------------------------------------------------- prediction


def predict(client: Any, options: Any, layout: Layout) -> None:
    """Rate of prediction from Parquet to Parquet, and what a file costs beside its rows."""
    from pipeline import galaxies

    rng = np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_catalog(Catalog(galaxies(5000, rng)), folder / "train.parquet")
        config = RunConfig.from_dict({"model": {"n_basis": options.m}, "training": {"max_iter": 1}})
        train(folder / "train.parquet", folder / "model.gpzed", config)
        times, sizes = {}, {}
        for kind, (files, rows) in {"tiny": (40, 1), "full": (options.n // CHUNK, CHUNK)}.items():
            (folder / kind).mkdir()
            columns = {k: v for k, v in galaxies(rows, rng).items() if k != "z_spec"}
            for index in range(files):
                write_catalog(Catalog(columns), folder / kind / f"{index:04d}.parquet")
            target = folder / f"{kind}.out"
            arguments_ = (folder / "model.gpzed", folder / kind, target)
            times[kind] = seconds(lambda given=arguments_: workflows.predict(*given, cluster=client))
            sizes[kind] = [sum(f.stat().st_size for f in path.rglob("*.parquet")) for path in (folder / kind, target)]
        n = options.n // CHUNK * CHUNK
        overhead = times["tiny"] / 40
        emit(
            {
                "benchmark": "dask predict",
                "n": n,
                "m": options.m,
                "workers": options.workers,
                "seconds": times["full"],
                "rows_per_core_second": n / (times["full"] - overhead * n / CHUNK) / sum(client.nthreads().values()),
                "overhead_seconds_per_file": overhead,
                "bytes_in_per_row": sizes["full"][0] / n,
                "bytes_out_per_row": sizes["full"][1] / n,
                "model_bytes": (folder / "model.gpzed").stat().st_size,
                **environment(),
            }
        )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--workers", type=int, default=2, help="processes of the local cluster")
    parser.add_argument("--shards", type=int, default=None, help="one per worker by default")
    parser.add_argument("--keep", type=float, default=1.5, help="gigabytes that may be kept between passes, in all")
    parser.add_argument("--patterns", action="store_true", help="overhead of several patterns instead")
    parser.add_argument("--predict", action="store_true", help="rate of prediction from files to files instead")
    options = parser.parse_args()
    layout = Layout.of(options.m, options.d, options.structure)
    with connect(f"local:{options.workers}") as client, client.as_current():
        (patterns if options.patterns else predict if options.predict else compare)(client, options, layout)


if __name__ == "__main__":
    main()
