"""Disks that are full, or that fail to read, write, flush or rename, under every command that writes."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np

from faults.campaign import Case
from faults.children import Bench, Ended, Job, content
from faults.children import run as run_command

CASES = 60
KINDS = {"write": 1, "read": 2, "fsync": 4, "rename": 8}
"""Calls that fail, as `disk.c` numbers them."""
ERRORS = {"write": (errno.ENOSPC, errno.EIO, 0), "read": (errno.EIO, 0), "fsync": (errno.EIO,), "rename": (errno.EIO,)}
"""What they answer; 0 stands for half of the bytes, which is no failure at all."""
UNCLEAR = ("error: [Errno", "Errno 28", ": None")
"""What no message may hold."""
SMALL_DISKS = (4, 16, 64, 256, 1024)
"""Sizes, in kilobytes, of disks that fill up."""


def run(cases: int, rng: np.random.Generator, folder: Path) -> Iterator[Case]:
    """Run the campaign in a process that has the failing layer before it."""
    layer = folder / "disk.so"
    source = Path(__file__).with_name("disk.c")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", str(source), "-o", str(layer), "-ldl"], check=True)
    command = [sys.executable, "-m", "faults.disks", str(folder), str(cases), str(rng.integers(2**31))]
    environment = {**os.environ, "LD_PRELOAD": str(layer)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield Case(**json.loads(line))
    assert process.returncode == 0, f"the campaign itself ended with {process.returncode}"


def _campaign(folder: Path, cases: int, seed: int) -> Iterator[Case]:
    rng, bench = np.random.default_rng(seed), Bench(folder, rows=600)
    jobs = [
        bench.train(),
        *(bench.predict(suffix) for suffix in ("parquet", "csv", "hdf5", "fits")),
        bench.predict("parquet", "many"),
        bench.report(),
        *bench.others(),
    ]
    layer = ctypes.CDLL(str(folder / "disk.so"))
    smooth: dict[str, object] = {}
    for number in range(cases):
        job = jobs[number % len(jobs)]
        if job.name not in smooth:
            with bench.workspace() as work:
                bench.must(job.to(work))
                smooth[job.name] = content(work / job.output)
        if number // len(jobs) % 3 == 2:
            yield _small_disk(bench, job, smooth[job.name], int(rng.choice(SMALL_DISKS)))
        else:
            yield _failing_call(bench, job, smooth[job.name], layer, rng)


def _failing_call(bench: Bench, job: Job, expected: object, layer: ctypes.CDLL, rng: np.random.Generator) -> Case:
    kind = str(rng.choice(list(KINDS)))
    error = int(rng.choice(ERRORS[kind]))
    first, count = int(rng.integers(0, 40) ** 2 // 40), int(rng.choice([1, 1 << 30]))
    place = bench.folder if kind == "read" else bench.folder / "work"

    def prepare() -> None:
        layer.arm(str(place).encode(), KINDS[kind], first, count, error)

    what = os.strerror(error).lower() if error else "half of it"
    with bench.workspace() as work:
        detail = f"call {first}, {'once' if count == 1 else 'from then on'}"
        return _try(bench, job, expected, work, f"{kind}: {what}", prepare, detail)


def _small_disk(bench: Bench, job: Job, expected: object, kilobytes: int) -> Case:
    """Let the output go to a disk of a few kilobytes; without the right to mount one, limit the size of files."""
    import resource
    import signal

    def prepare() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (kilobytes << 10, kilobytes << 10))

    with bench.workspace() as work:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(work)]
        is_mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
        try:
            fault = "full disk" if is_mounted else "file too large"
            nothing: Callable[[], None] = lambda: None  # noqa: E731
            grow = ["mount", "-o", "remount,size=1g", str(work)] if is_mounted else ["true"]
            return _try(bench, job, expected, work, fault, nothing if is_mounted else prepare, f"{kilobytes} kB", grow)
        finally:
            if is_mounted:
                subprocess.run(["umount", str(work)], check=True)


def _try(
    bench: Bench,
    job: Job,
    expected: object,
    work: Path,
    fault: str,
    prepare: Callable[[], None],
    detail: str,
    repair: list[str] | None = None,
) -> Case:
    """Run a job with a fault, then without: a clear error or success, no half file, nothing left, the same output."""
    fault, detail = f"{fault} in {job.name}", f"{detail}: "
    first = run_command(job.to(work), bench.log, prepare)
    problem = _problem(job, expected, work, first, (0, 1, 2))
    if problem:
        return Case(fault, problem, False, detail + str(first))
    if first.code == 0:
        return Case(fault, "success", True)
    if repair:
        subprocess.run(repair, check=True)
    second = run_command(job.resumed(work), bench.log)
    problem = _problem(job, expected, work, second, (0,))
    if problem:
        return Case(fault, f"{problem} afterwards", False, f"{detail}{first} THEN {second}")
    return Case(fault, "clear error, then identical", True)


def _problem(job: Job, expected: object, work: Path, ended: Ended, codes: tuple[int, ...]) -> str:
    """Say what is wrong with the end of a job; empty if nothing is."""
    output = work / job.output
    if ended.code not in codes or not ended.is_clear or any(words in ended.text for words in UNCLEAR):
        return "unclear end"
    if output.exists() and content(output) != expected:
        return "other output"
    if ended.code == 0 and not output.exists():
        return "no output"
    allowed = () if ended.code == 0 else (f"{job.output}.parts", f"{job.output}.checkpoint")
    left = [path.name for path in work.iterdir() if path != output and not path.name.startswith(allowed or ("\0",))]
    return f"left {', '.join(left)}" if left else ""


if __name__ == "__main__":
    for case in _campaign(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])):
        sys.stdout.write(json.dumps(asdict(case)) + "\n")
        sys.stdout.flush()
