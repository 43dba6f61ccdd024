"""A cluster of this machine: who can reach it, and what is left of it after Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial

import psutil
import pytest

from gpzed.distributed.connection import address
from workflows.galaxy_files import galaxies, quick_config, write


def test_a_local_cluster_listens_on_loopback_only(client):
    mine = psutil.Process()
    listening = [
        connection.laddr.ip
        for process in (mine, *mine.children(recursive=True))
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert len(listening) >= 3  # scheduler, dashboard, workers
    assert set(listening) == {"127.0.0.1"}


def test_the_address_of_a_lost_scheduler_is_remembered():
    class Scheduler:
        address = "tcp://127.0.0.1:1"

    class Client:
        scheduler: object = Scheduler()

    lost = Client()
    assert address(lost) == "tcp://127.0.0.1:1"
    lost.scheduler = None
    assert address(lost) == "tcp://127.0.0.1:1"
    assert address(Client()) == "tcp://127.0.0.1:1"


def test_ctrl_c_leaves_neither_processes_nor_semaphores(tmp_path):
    from gpzed.workflows import train

    train(write(galaxies(300), tmp_path / "in.parquet"), tmp_path / "model.gpzed", quick_config())
    (tmp_path / "many").mkdir()
    for k in range(4):
        write(galaxies(5000, seed=k), tmp_path / "many" / f"{k}.parquet")
    words = ["predict", "model.gpzed", "many", "-o", "out", "--dask", "local:2", "--chunk-rows", "50"]
    process = subprocess.Popen(
        [sys.executable, "-m", "gpzed", *words],
        cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    end = time.monotonic() + 120
    while not list(tmp_path.glob("out/*")) and time.monotonic() < end:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all processes of the group
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert "resume with" in err
    assert "Traceback" not in err
    assert "leaked" not in err
    assert _vanishes(process.pid), "processes are left behind"


def test_an_interrupt_before_a_call_of_dask_has_begun_leaves_no_words(client, caplog, monkeypatch):
    class Interrupted(threading.Event):
        def wait(self, timeout=None):
            raise KeyboardInterrupt

    def fail():
        raise ValueError("something else")

    for callback in (fail, partial(time.sleep, 0.2)):
        client.loop.add_callback(callback)
    with monkeypatch.context() as patch:
        patch.setattr(threading, "Event", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            client.sync(client.scheduler.identity)
    client.scheduler_info()  # after which the callbacks have been called
    assert [record.exc_info[0] for record in caplog.records if record.name.startswith("tornado")] == [ValueError]


def _vanishes(group: int, seconds: float = 20.0) -> bool:
    """Whether the processes of a group are gone, if not at once."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        members = [p.info for p in psutil.process_iter(["pid", "status", "cmdline"]) if _group(p.info["pid"]) == group]
        if all(member["status"] == psutil.STATUS_ZOMBIE for member in members):
            return True
        time.sleep(0.1)
    return False


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None
