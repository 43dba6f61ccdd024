"""A cluster of two processes for all tests of this folder, and ways to lose one."""

from __future__ import annotations

import importlib.util
import os
import signal
import time

import pytest

from gpzed.distributed.connection import connect, local_cluster

if importlib.util.find_spec("distributed") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def client():
    with connect("local:2") as client:
        yield client


@pytest.fixture
def own_client():
    """A cluster whose workers may be killed."""
    import distributed

    with local_cluster(2) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client


def kill_a_worker(client) -> int:
    """Kill one worker by its process id, and return that."""
    address, pid = sorted(client.run(os.getpid).items())[0]
    os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + 20
    while address in client.nthreads() and time.monotonic() < end:
        time.sleep(0.02)
    return pid


def pytest_collection_modifyitems(items):
    """Let sockets be that Dask leaves to the garbage collector."""
    for item in items:
        if "/tests/scale/" in item.path.as_posix():
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
