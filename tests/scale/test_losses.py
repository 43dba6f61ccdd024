"""Workers killed in mid-training, and a scheduler that goes away."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from gpzed import Run
from gpzed.distributed import data as partitioned
from gpzed.errors import ClusterError
from helpers import one_model
from scale.conftest import kill_a_worker
from scale.parts import reads, store, wave

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning"),
]
OPTIONS = {"n_basis": 6, "max_iter": 6, "n_threads": 1, "random_state": 0, "tol": 0.0, "patience": 100}


@pytest.fixture(autouse=True)
def spread_few_rows(monkeypatch):
    monkeypatch.setattr(partitioned, "MIN_SPREAD_ROWS", 0)


def both(model, X):
    return np.stack(model.predict(X, return_std=True))


def once(action, step=3):
    """Callback that does something after a step, once."""
    done = []

    def callback(info):
        if info.iteration == step and not done:
            done.append(action())

    callback.done = done
    return callback


@pytest.mark.parametrize("source", ["arrays", "partitions"])
def test_a_worker_killed_in_mid_training_changes_nothing(own_client, source, tmp_path):
    X, y = wave()

    def fit(folder, callback=None):
        model, run = one_model(**OPTIONS), Run(cluster=own_client, callback=callback)
        if source == "arrays":
            return model.fit(X, y, run=run)
        folder.mkdir()
        return model.fit_stream(store(folder, X, y, [0, 150, 300, 450, 600]), run=run)

    expected = fit(tmp_path / "smooth")
    if source == "partitions":
        assert len(reads(tmp_path / "smooth")) == 5
    callback = once(lambda: kill_a_worker(own_client))
    model = fit(tmp_path / "killed", callback=callback)
    assert len(callback.done) == 1
    assert model.n_iter_ == expected.n_iter_
    np.testing.assert_array_equal(both(model, X), both(expected, X))
    if source == "partitions":  # those of the worker that died, and no others, were read again
        again = sorted(reads(tmp_path / "killed")[5:])
        assert again in ([0, 1], [2, 3])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Scheduler:
    """A scheduler and a worker in processes of their own."""

    def __init__(self, port):
        self.address = f"tcp://127.0.0.1:{port}"
        python = [sys.executable, "-W", "ignore", "-m"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        scheduler = [*python, "distributed.cli.dask_scheduler", "--port", str(port), "--no-dashboard"]
        worker = [*python, "distributed.cli.dask_worker", self.address, "--nthreads", "1"]
        self.processes = [subprocess.Popen(scheduler, **quiet)]
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.1)
        self.processes.append(subprocess.Popen([*worker, "--no-dashboard"], **quiet))

    def kill(self):
        for process in self.processes:
            process.kill()
            process.wait()


def test_scheduler_lost_then_gone_on_with(tmp_path):
    X, y = wave()
    expected = one_model(**OPTIONS).fit(X, y)
    state = tmp_path / "run.checkpoint"
    first = Scheduler(free_port())
    try:
        run = Run(checkpoint=state, callback=once(first.kill, 4), cluster=first.address)
        with pytest.raises(ClusterError, match=f"scheduler at {re.escape(first.address)} was lost.*--resume"):
            one_model(**OPTIONS).fit(X, y, run=run)
    finally:
        first.kill()
    assert state.exists()
    second = Scheduler(free_port())
    try:
        steps = []
        run = Run(checkpoint=state, callback=steps.append, cluster=second.address)
        resumed = one_model(**OPTIONS).fit(X, y, run=run)
    finally:
        second.kill()
    assert [step.iteration for step in steps] == [5, 6]
    assert not state.exists()
    np.testing.assert_allclose(both(resumed, X), both(expected, X), rtol=1e-6)
