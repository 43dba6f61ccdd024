"""Run what is not current, some tasks side by side, and store each as soon as it is done."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from experiments.results import epochs
from experiments.results.epochs import ROOT
from experiments.results.listing import EXPERIMENTS, Experiment
from experiments.results.records import Record, epoch_of, origin, read_records, write_records

PAUSE = 0.2
Say = Callable[[str], None]


@dataclass(frozen=True)
class Task:
    """One run of the script of an experiment."""

    experiment: Experiment
    arguments: str
    done: tuple[Record, ...]  # its records so far
    typical: float  # seconds of other runs of the experiment, or what is listed

    @property
    def command(self) -> str:
        """The command, as records name it."""
        return self.experiment.command(self.arguments)

    @property
    def python(self) -> Path:
        """The interpreter of its environment."""
        return ROOT / self.experiment.environment / "bin" / "python"

    @property
    def state(self) -> str:
        """Whether its records are current, stale, or missing."""
        if not self.done:
            return "missing"
        return "current" if epoch_of(self.done[0]) == epochs.current(self.experiment.subject) else "stale"

    @property
    def seconds(self) -> float:
        """Seconds of processor time that it will take, by what it took last time."""
        return float(self.done[0]["made"]["seconds"]) if self.done else self.typical


def all_tasks(names: Sequence[str] = ()) -> list[Task]:
    """Return the tasks of some experiments, of all without names, in the order in which they run."""
    found = []
    for name in names or EXPERIMENTS:
        experiment, records = EXPERIMENTS[name], read_records(name)
        taken = [record["made"]["seconds"] for record in records if "seconds" in record["made"]]
        for arguments in experiment.tasks:
            command = experiment.command(arguments)
            done = tuple(record for record in records if record["made"]["task"] == command)
            typical = sum(taken) / len(taken) if taken and not experiment.costs else experiment.cost(arguments)
            found.append(Task(experiment, arguments, done, typical))
    return found


class Running:
    """A task that is under way; all but those that take times have one core of their own."""

    def __init__(self, task: Task, slot: int) -> None:
        self.task, self.slot = task, slot
        self.made: Record = {"task": task.command, "epoch": epochs.current(task.experiment.subject), **origin()}
        self._output: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 (open while it runs)
        self._errors: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115
        threads = {} if task.experiment.alone else {"OMP_NUM_THREADS": "1"}
        # whatever version an environment has: what is measured is this checkout
        paths = os.pathsep.join(filter(None, [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]))
        command = [str(task.python), *task.command.split()]
        if not task.experiment.alone and hasattr(os, "sched_getaffinity") and shutil.which("taskset"):
            cores = sorted(os.sched_getaffinity(0))
            command = ["taskset", "--cpu-list", str(cores[slot % len(cores)]), *command]
        variables = {**os.environ, **threads, "PYTHONPATH": paths}
        self._process = subprocess.Popen(command, cwd=ROOT, env=variables, stdout=self._output, stderr=self._errors)

    def has_ended(self) -> bool:
        """Say whether it has ended, and note what it took."""
        pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
        if not pid:
            return False
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self.made["seconds"] = round(usage.ru_utime + usage.ru_stime, 1)
        return True

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()
        self._output.close()
        self._errors.close()

    def records(self) -> list[Record]:
        """Return what it printed, each line with how it was made; raises ChildProcessError with its complaint.

        A line may know better how it was made: by another commit, if it is of a campaign of many days.
        """
        texts = []
        for stream in (self._output, self._errors):
            with stream:
                stream.seek(0)
                texts.append(stream.read())
        lines = [line for line in texts[0].splitlines() if line.startswith("{")]
        if self._process.returncode or not lines:
            raise ChildProcessError((texts[1].strip() or "it printed no record").splitlines()[-1])
        records = [json.loads(line) for line in lines]
        return [{**record, "made": {**self.made, **record.get("made", {})}} for record in records]


def store(task: Task, records: Sequence[Record]) -> None:
    """Put the records of a task in the place of its last ones; stale ones of others go when all are current."""
    order = [task.experiment.command(arguments) for arguments in task.experiment.tasks]
    rest = [record for record in read_records(task.experiment.name) if record["made"]["task"] != task.command]
    found = [*rest, *records]
    epoch = epochs.current(task.experiment.subject)
    if set(order) <= {record["made"]["task"] for record in found if epoch_of(record) == epoch}:
        found = [record for record in found if record["made"]["task"] in order and epoch_of(record) == epoch]
    place: dict[str, int] = {command: index for index, command in enumerate(order)}
    write_records(task.experiment.name, sorted(found, key=lambda record: place.get(record["made"]["task"], -1)))


def run(tasks: Sequence[Task], jobs: int, budget: float, say: Say) -> list[str]:
    """Run tasks in order, `jobs` at a time, starting none that would end after `budget` seconds; return failures."""
    queue, running, failed = list(tasks), [], []  # type: list[Task], list[Running], list[str]
    end = time.monotonic() + budget
    try:
        while queue or running:
            for each in [one for one in running if one.has_ended()]:
                running.remove(each)
                failed += _finish(each, say)
            queue = [task for task in queue if time.monotonic() + task.seconds <= end]
            alone = any(one.task.experiment.alone for one in running)
            while queue and not alone and len(running) < jobs and not (queue[0].experiment.alone and running):
                free = next(slot for slot in range(jobs) if slot not in {one.slot for one in running})
                task = queue.pop(0)
                say(f"{task.command}: about {task.seconds:.0f} s")
                running.append(Running(task, free))
                alone = task.experiment.alone
            time.sleep(PAUSE)
    finally:
        for each in running:
            each.stop()
    return failed


def _finish(ended: Running, say: Say) -> list[str]:
    """Store what a task gave, or return why it gave nothing."""
    try:
        store(ended.task, ended.records())
    except ChildProcessError as reason:
        say(f"{ended.task.command} failed: {reason}")
        return [f"{ended.task.command}: {reason}"]
    say(f"{ended.task.command}: done, {ended.made['seconds']:.0f} s")
    return []


def summary(tasks: Sequence[Task]) -> list[dict[str, Any]]:
    """Return for each experiment how many of its tasks are current, stale and missing, and the minutes left."""
    rows = []
    for experiment in dict.fromkeys(task.experiment for task in tasks):
        own = [task for task in tasks if task.experiment == experiment]
        counts = {state: sum(task.state == state for task in own) for state in ("current", "stale", "missing")}
        left = sum(task.seconds for task in own if task.state != "current") / 60
        rows.append({"experiment": experiment.name, **counts, "minutes": round(left, 1), "python": own[0].python})
    return rows
