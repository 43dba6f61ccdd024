"""Commands run in child processes that may be killed, starved or lied to, and the files that they work on."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any

import numpy as np

from gpzed.catalog import Catalog, write_catalog
from gpzed.cli import main
from gpzed.cli.app import COMMANDS
from gpzed.simulate import simulate_survey
from gpzed.workflows import load_photoz_model

PATIENCE_SECONDS = 300.0
"""A command that takes longer than this hangs."""
HANGS = 99
NOT_STARTED = "Fatal Python error: init_"
"""What Python says when it is interrupted before it runs the first line of a program."""
TRAINING = """
[model]
n_basis = 5
[training]
max_iter = 6
n_epochs = 2
"""
"""The default committee, but small."""


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code (minus the signal that killed it), what it printed, and how long it took."""

    code: int
    text: str
    seconds: float

    @property
    def is_clear(self) -> bool:
        """Whether it told what it has to tell in its own words; if Python had not started yet, these are Python's."""
        if self.text.startswith(NOT_STARTED):
            return True
        return "Traceback" not in self.text and "leaked" not in self.text and self.code not in (-6, -11)


def _nothing() -> None: ...


class Child:
    """A command in a process forked from this one: what is imported here need not be imported there.

    A `fresh` one is a process as a shell starts it, with an interpreter and imports of its own.
    """

    def __init__(
        self,
        words: list[str],
        log: Path,
        prepare: Callable[[], None] = _nothing,
        finish: Callable[[], object] = _nothing,
        fresh: bool = False,
    ) -> None:
        self.log, self.started = log, time.monotonic()
        self.code: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        sys.stdout.flush()
        if fresh:
            with log.open("wb") as stream:
                command = [sys.executable, "-W", "ignore", "-m", "gpzed", *words]
                self._process = subprocess.Popen(
                    command, stdout=stream, stderr=stream, stdin=subprocess.DEVNULL, preexec_fn=_heed_signals
                )
            self.pid = self._process.pid
            return
        self.pid = os.fork()
        if not self.pid:
            code = 70
            try:
                code = _run(words, log, prepare)
                finish()
            finally:
                os._exit(code)

    def poll(self) -> bool:
        """Tell whether it has ended."""
        if self.code is None and self._process is not None:
            self.code = self._process.poll()
        elif self.code is None:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if done else None
        return self.code is not None

    def end(self) -> Ended:
        """Wait for the end; what hangs is killed."""
        while not self.poll() and time.monotonic() - self.started < PATIENCE_SECONDS:
            time.sleep(0.002)
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            while not self.poll():
                time.sleep(0.002)
            self.code = HANGS
        return Ended(self.code, self.log.read_text(errors="replace"), time.monotonic() - self.started)


def _heed_signals() -> None:
    """Ignore none of the signals that nohup, or a shell in the background, has this process ignore."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _run(words: list[str], log: Path, prepare: Callable[[], None]) -> int:
    descriptor = os.open(log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    sys.argv = ["gpzed", *words]
    _heed_signals()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        prepare()
        _use_warm_workers()
        return main(words)
    except BaseException:
        import traceback

        traceback.print_exc()
        return 70
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def run(words: list[str], log: Path, prepare: Callable[[], None] = _nothing, fresh: bool = False) -> Ended:
    """Run a command to its end."""
    return Child(words, log, prepare, fresh=fresh).end()


def warm_up(words: list[str], log: Path) -> Ended:
    """Run a command to its end, and import here whatever it had to import: the next one forked finds all of it."""
    names = log.with_suffix(".modules")
    ended = Child(words, log, finish=lambda: names.write_text("\n".join(sys.modules))).end()
    for name in names.read_text().splitlines():
        with contextlib.suppress(ImportError):  # of a module that another one makes up
            importlib.import_module(name)
    return ended


def warm_up_workers() -> None:
    """Start a server from which clusters of forked commands fork their workers; it imports what is imported here."""
    forkserver.set_forkserver_preload([name for name in sys.modules if not name.startswith(("_", "faults"))])
    forkserver.ensure_running()


def _use_warm_workers() -> None:
    """Let this process, a fork, use that server, but have semaphores tracked for itself: they must not leak."""
    server: Any = forkserver._forkserver
    tracker: Any = resource_tracker._resource_tracker
    if server._forkserver_pid is not None:
        import dask

        server.ensure_running = _nothing  # it is no child of this process, which cannot wait for it
        tracker._fd = tracker._pid = None
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})


@dataclass(frozen=True)
class Job:
    """A command that writes one output; `{out}` stands for it among the words."""

    name: str
    words: tuple[str, ...]
    output: str
    can_resume: bool = True

    def to(self, folder: Path, *more: str) -> list[str]:
        """Return the words, with an output in a folder."""
        return [word.replace("{out}", str(folder / self.output)) for word in (*self.words, *more)]

    def resumed(self, folder: Path) -> list[str]:
        """Return the words that finish what was interrupted."""
        return self.to(folder, *(["--resume"] if self.can_resume else []))


class Bench:
    """Inputs, jobs, and the outputs that these give when nobody disturbs them."""

    def __init__(self, folder: Path, rows: int = 300) -> None:
        for module in ("astropy.io.fits", "h5py", "pyarrow.parquet", *(module for module, _, _ in COMMANDS.values())):
            importlib.import_module(module)  # once, for all children
        self.folder = folder
        self.log = folder / "log.txt"
        (folder / "many").mkdir()
        (folder / "run.toml").write_text(TRAINING)
        self._simulate("train", 200, 0)
        self._simulate("other", 200, 1)
        self._simulate("survey", rows, 2)
        for k in range(4):
            self._simulate(f"many/{k}", rows // 4, 3 + k)
        self.model, self.predictions = folder / "model.gpzed", folder / "predictions.parquet"
        self.must(["train", self.file("train"), "--config", self.file("run.toml"), "-o", str(self.model)])
        self.must(["predict", str(self.model), self.file("survey"), "-o", str(self.predictions)])

    def _simulate(self, name: str, rows: int, seed: int) -> None:
        table = Catalog(simulate_survey(rows, random_state=seed, only_spectroscopic=True).columns())
        write_catalog(table, self.folder / f"{name}.parquet")

    @contextlib.contextmanager
    def workspace(self) -> Iterator[Path]:
        """Make a folder for the outputs of one case."""
        work = self.folder / "work"
        shutil.rmtree(work, ignore_errors=True)  # what a worker has written that outlived its client
        work.mkdir()
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def file(self, name: str) -> str:
        """Return the path of an input; Parquet if it has no suffix."""
        return str(self.folder / (name if "." in name or name in ("many", "sky") else f"{name}.parquet"))

    def must(self, words: list[str], fresh: bool = False) -> Ended:
        """Run a command that has to succeed."""
        ended = run(words, self.log, fresh=True) if fresh else warm_up(words, self.log)
        assert ended.code == 0, ended.text
        return ended

    def train(self) -> Job:
        """Return a training job that leaves a checkpoint after every step."""
        options = ("--config", self.file("run.toml"), "--checkpoint-every", "1")
        return Job("train", ("train", self.file("train"), *options, "-o", "{out}"), "model.gpzed")

    def predict(self, suffix: str, source: str = "survey", *options: str) -> Job:
        """Return a prediction job of many chunks."""
        words = ("predict", str(self.model), self.file(source), "--chunk-rows", "25", *options, "-o", "{out}")
        return Job(f"predict {source} {suffix}".strip(), words, f"out.{suffix}" if suffix else "out")

    def predict_locally(self) -> Job:
        """Return a prediction job that starts a Dask cluster of its own."""
        return replace(self.predict("", "many", "--dask", "local:2"), name="predict --dask local:2")

    def predict_sky(self) -> Job:
        """Return a prediction job from one HATS catalogue to another."""
        words = ("predict", str(self.model), self._sky(), "-o", "{out}")
        return Job("predict HATS", words, "sky")

    def _sky(self) -> str:
        """Write the survey as a HATS catalogue; in a process of its own, since LSDB leaves threads behind."""
        path = self.file("sky")
        command = [sys.executable, "-W", "ignore", "-c", _WRITE_SKY, self.file("survey"), path]
        subprocess.run(command, check=True, capture_output=True)
        return path

    def report(self) -> Job:
        """Return a job that writes a page."""
        return Job("report", ("report", str(self.predictions), "-o", "{out}"), "page.html", can_resume=False)

    def others(self) -> list[Job]:
        """Return jobs of the other commands that write."""
        predictions, model, survey = str(self.predictions), str(self.model), self.file("survey")
        return [
            Job("select", ("select", predictions, "--keep", "0.5", "-o", "{out}"), "kept.csv", can_resume=False),
            Job("nz", ("nz", predictions, "-o", "{out}"), "nz.parquet", can_resume=False),
            Job("nz figure", ("nz", predictions, "--figure", "{out}"), "nz.png", can_resume=False),
            Job("survey", ("survey", model, survey, "--n-spectra", "5", "-o", "{out}"), "cells.fits", can_resume=False),
        ]


_WRITE_SKY = """
import sys, lsdb, numpy as np, pandas as pd
frame, rng = pd.read_parquet(sys.argv[1]), np.random.default_rng(0)
frame["ra"], frame["dec"] = rng.uniform(10.0, 60.0, len(frame)), rng.uniform(-30.0, 30.0, len(frame))
sky = lsdb.from_dataframe(frame, ra_column="ra", dec_column="dec", partition_rows=100, catalog_name="sky")
sky.write_catalog(sys.argv[2], catalog_name="sky", progress_bar=False)
"""
DATED = ("creation_date", "hats_estsize")
"""Properties of a HATS catalogue that no second run repeats: when it was written, and the size with that date."""


def content(path: Path) -> object:
    """Return what has to be the same: the bytes of a file or folder, the predictions of a model."""
    if path.suffix == ".gpzed":
        model = load_photoz_model(path).regressor
        inputs = np.random.default_rng(0).normal(20.0, 1.0, (50, model.n_features_in_))
        prediction = model.predict_distribution(inputs)
        return prediction.means.tobytes(), prediction.std.tobytes()
    if path.is_dir():
        return {str(file.relative_to(path)): undated(file) for file in sorted(path.rglob("*")) if file.is_file()}
    return path.read_bytes()


def undated(file: Path) -> bytes:
    """Return the bytes of a file, without the dates that a HATS catalogue has."""
    if not file.name.endswith("properties"):
        return file.read_bytes()
    lines = file.read_text().splitlines()
    return "\n".join(line for line in lines if not any(word in line for word in DATED) and line[:1] != "#").encode()
