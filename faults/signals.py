"""Signals at random moments, two writers on one output, and runs resumed as something else."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median

import numpy as np

from faults.campaign import Case
from faults.children import Bench, Child, Ended, Job, content, warm_up_workers
from faults.children import run as run_command

CASES = 40
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PAIRED = (0, 1, 4, 6)
"""Jobs that are started twice, or resumed as something else: training, Parquet, HDF5, a folder."""
REST_SECONDS = 0.3
"""Time that workers of a cluster get to notice that their client is gone."""
FRESH_SHARE = 0.05
"""Commands that are interrupted in a process with imports of its own; the others are forked from this one."""
LESS_OFTEN = 4
"""Times less often that commands are interrupted which only read predictions and write something small."""
MORE_OFTEN = {"train": 3.0, "report": 3.0}
"""How much earlier their turn comes: of predictions there are eight kinds."""
MEASURED_EVERY = 200
"""Cases after which the time of an undisturbed run is taken again: other work on the machine comes and goes."""


def run(cases: int, rng: np.random.Generator, folder: Path) -> Iterator[Case]:
    """Interrupt and resume every kind of job in turn; every tenth case is about two writers or another run."""
    bench = Bench(folder)
    with contextlib.ExitStack() as stack:
        jobs = _jobs(bench, stack, cases > 7)
        known = _known(bench, jobs[: max(cases, 2)])
        smooth = [known[job.name] for job in jobs[: max(cases, 2)]]
        special = [_two_writers, _another_run]
        for number in range(cases):
            if number % 10 == 9:
                yield special[number // 10 % 2](bench, known[jobs[PAIRED[number // 20 % 4]].name], rng)
            else:
                target = smooth[number % len(smooth)]
                chosen = SIGNALS[int(rng.integers(len(SIGNALS)))]
                yield _interrupt_at_random(bench, target, chosen, rng)


def run_each(each: int, done: Mapping[str, int], rng: np.random.Generator, folder: Path) -> Iterator[Case]:
    """Interrupt commands `each` times, by all signals alike; two writers and other runs as often.

    What is `done` already, by fault, is left out: a campaign of many hours may be run in parts.
    """
    bench = Bench(folder)
    with contextlib.ExitStack() as stack:
        known = _known(bench, [*_jobs(bench, stack, True), *bench.others()])
        attempts: dict[str, Callable[[], Case]] = {}
        for smooth, chosen in product(known.values(), SIGNALS):
            attempts[fault_of(chosen, smooth.job)] = partial(_interrupt_at_random, bench, smooth, chosen, rng)
        for smooth in (list(known.values())[number] for number in PAIRED):
            attempts[f"two writers in {smooth.job.name}"] = partial(_two_writers, bench, smooth, rng)
            attempts[f"resumed as another run in {smooth.job.name}"] = partial(_another_run, bench, smooth, rng)
        for number, fault in enumerate(_in_turn(attempts, -(-each // len(SIGNALS)), bench, done)):
            if number % MEASURED_EVERY == MEASURED_EVERY - 1:
                for smooth in known.values():
                    smooth.measure(is_fresh=False)
            assert threading.active_count() == 1, "a fork would find locks of other threads held for ever"
            yield attempts[fault]()


def _in_turn(faults: Iterable[str], share: int, bench: Bench, done: Mapping[str, int]) -> list[str]:
    """Return what is to be done: `share` times each fault, so that a campaign cut short has enough of every command."""
    small = {job.name for job in bench.others()}
    listed = []
    for fault in faults:
        command = fault.partition(" in ")[2]
        often = 1.0 / LESS_OFTEN if command in small else MORE_OFTEN.get(command, 1.0)
        wanted = -(-share // LESS_OFTEN) if command in small else share
        listed += [((count + 1) / often, fault) for count in range(done.get(fault, 0), wanted)]
    return [fault for _, fault in sorted(listed, key=lambda place: place[0])]


def fault_of(chosen: signal.Signals, job: Job) -> str:
    """Return the name of a fault."""
    return f"{chosen.name} in {job.name}"


def _interrupt_at_random(bench: Bench, smooth: Smooth, chosen: signal.Signals, rng: np.random.Generator) -> Case:
    is_fresh = bool(rng.random() < FRESH_SHARE)
    delay = rng.uniform(0.0, 1.05) * smooth.seconds(is_fresh)
    return replace(_interrupt(bench, smooth, chosen, delay, is_fresh), is_fresh=is_fresh)


def _jobs(bench: Bench, stack: contextlib.ExitStack, with_clusters: bool) -> list[Job]:
    """Return the jobs that can be resumed, and reports; those of clusters where these are installed."""
    train, report = bench.train(), bench.report()
    predict = [bench.predict(suffix) for suffix in ("parquet", "csv", "hdf5", "fits")]
    jobs = [train, *predict[:2], report, *predict[2:], bench.predict("parquet", "many")]
    if with_clusters and importlib.util.find_spec("distributed"):
        jobs += [train, bench.predict("", "many", "--dask", stack.enter_context(_cluster()))]
        jobs += [report, bench.predict_locally()]
    if with_clusters and importlib.util.find_spec("lsdb"):
        jobs += [bench.predict_sky()]
    return jobs


class Smooth:
    """A job, what it gives when nothing happens, and how long that took the last few times."""

    def __init__(self, job: Job, bench: Bench) -> None:
        self.job, self._bench = job, bench
        self._seconds: dict[bool, deque[float]] = {False: deque(maxlen=3), True: deque(maxlen=3)}
        self.content = self._run(is_fresh=False)[0]  # its time is mostly that of imports

    def measure(self, is_fresh: bool) -> None:
        """Take the time of an undisturbed run, which has to give the same again."""
        found, seconds = self._run(is_fresh)
        assert found == self.content, f"{self.job.name} does not repeat itself"
        self.note(is_fresh, seconds)

    def note(self, is_fresh: bool, seconds: float) -> None:
        """Note how long it took in a process forked from this one, or in a fresh one."""
        self._seconds[is_fresh].append(seconds)

    def seconds(self, is_fresh: bool) -> float:
        """Return how long it takes."""
        if not self._seconds[is_fresh]:
            self.measure(is_fresh)
        return median(self._seconds[is_fresh])

    def _run(self, is_fresh: bool) -> tuple[object, float]:
        with self._bench.workspace() as work:
            ended = self._bench.must(self.job.to(work), is_fresh)
            return content(work / self.job.output), ended.seconds


def _known(bench: Bench, jobs: list[Job]) -> dict[str, Smooth]:
    """Run each job for the first time, after which all that they need is imported here."""
    known = {job.name: Smooth(job, bench) for job in {job.name: job for job in jobs}.values()}
    if any("local:2" in job.words for job in jobs):
        warm_up_workers()
    return known


@contextlib.contextmanager
def _cluster() -> Iterator[str]:
    """Give the address of a cluster of its own, whose client may come and go."""
    import subprocess
    import sys

    code = (
        "from gpzed.distributed.connection import local_cluster\n"
        "with local_cluster(2) as cluster:\n    print(cluster.scheduler_address, flush=True); input()"
    )
    command = [sys.executable, "-c", f"if __name__ == '__main__':\n    exec({code!r})"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.communicate("\n")


def _interrupt(bench: Bench, smooth: Smooth, chosen: signal.Signals, delay: float, is_fresh: bool) -> Case:
    """Send a signal after a while, then finish the job: the output has to be the one of an undisturbed run."""
    job, fault = smooth.job, fault_of(chosen, smooth.job)
    with bench.workspace() as work:
        child = Child(job.to(work), bench.log, fresh=is_fresh)
        time.sleep(delay)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, chosen)
        first = child.end()
        if not first.is_clear or first.code not in (0, 1, -chosen):
            return Case(fault, "unclear end", False, f"after {delay:.3f} s: {first}")
        half = _whole_or_absent(work, smooth)
        if half:
            return Case(fault, "half a file", False, f"after {delay:.3f} s: {half}")
        if first.code == 0:
            smooth.note(is_fresh, first.seconds)
            return _judge(work, smooth, fault, "finished first", first)
        if "--dask" in job.words:
            time.sleep(REST_SECONDS)
        resumed = run_command(job.resumed(work), bench.log)
        return _judge(work, smooth, fault, "identical after resume", resumed)


def _whole_or_absent(work: Path, smooth: Smooth) -> str:
    out = work / smooth.job.output
    if not out.exists():
        return ""
    if out.is_dir():
        expected = smooth.content
        assert isinstance(expected, dict)
        is_hats = any(name.endswith("properties") for name in expected)
        if is_hats and not (out / "collection.properties").exists():
            return ""  # not a catalogue yet
        wrong = [
            file.name for file in out.rglob("*.parquet")
            if not file.name.startswith(".") and file.read_bytes() != expected.get(str(file.relative_to(out)))
        ]  # fmt: skip
        return ", ".join(wrong)
    return "" if content(out) == smooth.content else out.name


def _judge(work: Path, smooth: Smooth, fault: str, outcome: str, ended: Ended) -> Case:
    """Compare the output with that of an undisturbed run, and look for what else was left."""
    if ended.code != 0 or not ended.is_clear:
        return Case(fault, "not resumed", False, str(ended))
    if not (work / smooth.job.output).exists() or content(work / smooth.job.output) != smooth.content:
        return Case(fault, "other output", False, str(ended))
    left = sorted(path.name for path in work.iterdir() if path.name != smooth.job.output)
    if left:
        return Case(fault, "files left", False, ", ".join(left))
    return Case(fault, outcome, True)


def _two_writers(bench: Bench, smooth: Smooth, rng: np.random.Generator) -> Case:
    """Start a job twice: one may be refused, but the output has to be whole."""
    job, fault = smooth.job, f"two writers in {smooth.job.name}"
    delay = rng.uniform(0.0, 0.5) * smooth.seconds(is_fresh=False)
    with bench.workspace() as work:
        first = Child(job.to(work), bench.log)
        time.sleep(delay)
        second = Child(job.to(work), bench.folder / "second.txt")
        ends = first.end(), second.end()
        for ended in ends:
            refused = ended.code == 2 and ("in use by" in ended.text or "interrupted run" in ended.text)
            if not ended.is_clear or not (ended.code == 0 or refused):
                return Case(fault, "unclear end", False, str(ended))
        if all(ended.code for ended in ends):
            return Case(fault, "both refused", False, str(ends))
        outcome = "both finished" if not any(ended.code for ended in ends) else "one refused"
        return _judge(work, smooth, fault, outcome, replace(ends[0], code=0))


def _another_run(bench: Bench, smooth: Smooth, rng: np.random.Generator) -> Case:
    """Kill a job, and resume it with other options or other data: that is refused, and the right one still works."""
    job = smooth.job
    fault = f"resumed as another run in {job.name}"
    others = {
        "train": [["--seed", "1"], ["--n-basis", "6"], ["--members", "2"]],
        "predict": [["--point", "mode"], ["--no-positive"], ["--quantiles", "0.5"], ["--chunk-rows", "90"]],
    }.get(job.words[0], [])
    inputs = [bench.file(name) for name in ("train", "survey", "many")]
    other = replace(job, words=tuple(bench.file("other") if word in inputs else word for word in job.words))
    with bench.workspace() as work:
        child = Child(job.to(work), bench.log)
        while not list(work.glob("*.parts/*.npy")) + list(work.glob("[!.]*.checkpoint*")):
            if child.poll():
                return _judge(work, smooth, fault, "finished first", child.end())
            time.sleep(0.001)
        os.kill(child.pid, signal.SIGKILL)
        if child.end().code == 0 or (work / job.output).exists():
            return Case(fault, "finished first", True)
        changes = [job.to(work, *more, "--resume") for more in others] + [other.resumed(work)]
        words = changes[int(rng.integers(len(changes)))]
        ended = run_command(words, bench.log)
        if ended.code not in (1, 2) or not ended.is_clear:
            return Case(fault, "not refused", False, f"{words}: {ended}")
        return _judge(work, smooth, fault, "refused", run_command(job.resumed(work), bench.log))
