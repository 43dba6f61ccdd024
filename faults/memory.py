"""Too little memory: every command on files that are larger than what it may take."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import scipy.linalg

from faults.campaign import Case
from faults.children import Bench, Job, content
from faults.children import run as run_command
from gpzed import load_model
from gpzed.catalog import Catalog, read_catalog, write_catalog
from gpzed.errors import GPzError

CASES = 20
COPIES = 60
"""Times that the rows of the survey are repeated: some 10 MB."""
MEGABYTES = (1, 60)
"""Memory that a command may take beyond what the process has at its start; drawn evenly in the logarithm."""

ONE = ("--threads", "1")
"""OpenBLAS waits for ever for a buffer that it does not get, and wants one for every thread."""
ABORTS, LAST_WORDS = (127, -6, 1), ("cannot allocate memory for thread-local data", "libgcc_s.so.1 must be installed")
"""How the C library ends a process that has no memory for a thread."""


def run(cases: int, rng: np.random.Generator, folder: Path) -> Iterator[Case]:
    """Let every command run out of memory at some point, or get by."""
    bench = Bench(folder, rows=1200)
    large = {suffix: _large(bench, suffix) for suffix in ("parquet", "csv", "hdf5", "fits")}
    jobs = [_on(large[suffix], bench, suffix) for suffix in large]
    options = ("--config", bench.file("run.toml"), *ONE, "-o", "{out}")
    jobs.append(Job("train", ("train", str(large["fits"]), *options), "model.gpzed"))
    jobs += [bench.report(), *bench.others()]
    expected: dict[str, object] = {}
    for number in range(cases):
        job = jobs[number % len(jobs)]
        low, high = np.log(MEGABYTES)
        megabytes = float(np.exp(rng.uniform(low, high)))
        yield _starve(bench, job, expected, megabytes)


def _large(bench: Bench, suffix: str) -> Path:
    small = read_catalog(bench.file("survey"))
    path = bench.folder / f"large.{suffix}"
    write_catalog(Catalog({name: np.tile(small[name], COPIES) for name in small.names}), path)
    return path


def _on(file: Path, bench: Bench, suffix: str) -> Job:
    words = ("predict", str(bench.model), str(file), "--columns", "id", "--chunk-rows", "20000", *ONE, "-o", "{out}")
    return Job(f"predict {suffix}", words, f"out.{suffix}")


def _starve(bench: Bench, job: Job, expected: dict[str, object], megabytes: float) -> Case:
    def prepare() -> None:
        with ThreadPoolExecutor(4) as threads:  # the buffers that it has it keeps
            for inverse in (np.linalg.inv, scipy.linalg.inv):
                list(threads.map(inverse, [np.eye(700)] * 8))
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + int(megabytes * 2**20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    with bench.workspace() as work:
        ended = run_command(job.to(work), bench.log, prepare)
        output, detail = work / job.output, f"{megabytes:.1f} MB: {ended}"
        is_aborted = ended.code in ABORTS and any(words in ended.text for words in LAST_WORDS)
        if not is_aborted and (ended.code not in (0, 1) or not ended.is_clear):
            return Case(job.name, "unclear end", False, detail)
        left = [path.name for path in work.iterdir() if path.name.startswith(".")]
        if left and not is_aborted:
            return Case(job.name, "files left", False, f"{left}; {detail}")
        if ended.code and output.exists():
            is_whole = job.name == "train" and _loads(output)  # scores of the training rows come after the model
            return Case(job.name, "clear error after the model" if is_whole else "half a file", is_whole, detail)
        if ended.code:
            return Case(job.name, "ended by the C library" if is_aborted else "clear error", True)
        if job.name not in expected and job.name != "train":
            output.rename(work / "first")
            bench.must(job.to(work))
            expected[job.name] = content(output)
            (work / "first").replace(output)
        if job.name in expected and content(output) != expected[job.name]:
            return Case(job.name, "other output", False, detail)
        return Case(job.name, "success", True)


def _loads(model: Path) -> bool:
    try:
        load_model(model)
    except GPzError:
        return False
    return True
