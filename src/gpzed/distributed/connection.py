"""A Dask cluster to compute on: one that is there, or processes of this machine; and what becomes of its errors."""

from __future__ import annotations

import gc
import logging
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from gpzed.engine.threads import available_threads
from gpzed.errors import ClusterError, ConfigError, MissingDependencyError

CONNECT_SECONDS = 20.0
_addresses: WeakKeyDictionary[Any, str] = WeakKeyDictionary()  # of schedulers, by their clients: lost ones have none
QUIET = logging.CRITICAL + 1
"""Level of logs of a cluster of this machine: what goes wrong in it comes back as an error, which says it once."""
LOOPBACK = "127.0.0.1"
"""Where a cluster of this machine listens: nobody else can reach it."""
_LOCAL = re.compile(r"local:(\d+)")
_FORMS = '"local:N" (N processes of this machine), "tcp://HOST:PORT", "dask" (the current client) or a Client'
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Environment of local workers: one BLAS thread each, as Dask sets it, but without its MALLOC_TRIM_THRESHOLD_, which
gives memory back to the system after every block and costs half as much time again."""


def require_dask() -> Any:
    """Return the package `distributed`, or say how to install it."""
    try:
        import distributed
    except ImportError:
        raise MissingDependencyError(
            "computing on a Dask cluster needs dask and distributed; install them with `pip install 'gpzed[dask]'`"
        ) from None
    logging.getLogger("tornado.application").addFilter(_is_worth_a_line)  # once: the next time it is there
    return distributed


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    """Tell other errors from that of Dask at an interrupt: it cannot cancel a call that has not begun yet."""
    return "sync.<locals>.cancel" not in record.getMessage()


def check_cluster(cluster: Any) -> None:
    """Check what is given as `cluster`, short of connecting to it."""
    if cluster is None or hasattr(cluster, "scheduler_info") or hasattr(cluster, "scheduler_address"):
        return
    if not isinstance(cluster, str):
        raise TypeError(f"`cluster` is a {type(cluster).__name__}; expected None, {_FORMS}.")
    local = _LOCAL.fullmatch(cluster)
    if not ((local and int(local[1]) > 0) or "://" in cluster or cluster == "dask"):
        raise ConfigError(f"`cluster` is {cluster!r}; expected None, {_FORMS}.")


@contextmanager
def connect(cluster: Any) -> Iterator[Any]:
    """Give a client of the cluster that `cluster` names (see `_FORMS`); what was opened for it is closed at the end."""
    check_cluster(cluster)
    distributed = require_dask()
    if isinstance(cluster, distributed.Client):
        yield cluster
        return
    if cluster == "dask":
        yield _current(distributed)
        return
    local = _LOCAL.fullmatch(cluster) if isinstance(cluster, str) else None
    if local is not None:
        with local_cluster(int(local[1])) as started, distributed.Client(started, set_as_default=False) as client:
            yield client
        return
    try:
        client = distributed.Client(cluster, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"no Dask scheduler answers at {cluster} ({error}); start one with `dask scheduler`, or check the address"
        ) from error
    with client:
        yield client


def _current(distributed: Any) -> Any:
    try:
        return distributed.get_client()
    except ValueError:
        raise ClusterError(
            '`cluster` is "dask" but this process has no Dask client; make one first: distributed.Client("tcp://...")'
        ) from None


@contextmanager
def local_cluster(n_workers: int) -> Iterator[Any]:
    """Start processes of this machine that share its cores."""
    distributed = require_dask()
    import dask

    settings = {
        "distributed.nanny.pre-spawn-environ": _ENVIRONMENT,
        "distributed.worker.memory.target": False,  # rows stay in memory: they would be read again at once
        "distributed.worker.memory.spill": False,
        "distributed.worker.memory.pause": False,
    }
    threads = max(1, available_threads() // n_workers)
    place = {"processes": True, "host": LOOPBACK, "dashboard_address": f"{LOOPBACK}:0", "silence_logs": QUIET}
    with dask.config.set(settings):
        with _undisturbed():
            cluster = distributed.LocalCluster(n_workers=n_workers, threads_per_worker=threads, **place)
        try:
            yield cluster
        finally:
            with _undisturbed(), _hushed("asyncio"):
                cluster.close()


@contextmanager
def _hushed(name: str) -> Iterator[None]:
    """Keep a logger quiet: tasks that a closing cluster abandons end with errors that mean nothing."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(QUIET)
    try:
        yield
    finally:
        gc.collect()  # abandoned tasks complain when they are collected
        logger.setLevel(level)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Hold signals that ask to stop back until the end, and ignore Ctrl-C, as processes started meanwhile then do, too.

    A cluster that is stopped while it starts or closes leaves processes and semaphores behind.
    """
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    asked = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]
    before: dict[int, Any] = {signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN)}
    before |= {number: signal.signal(number, lambda given, _: held.append(given)) for number in asked}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if held:
            signal.raise_signal(held[0])


def wait_for_workers(client: Any) -> list[str]:
    """Return the addresses of the workers, as soon as there is one."""
    address(client)
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError:
        raise ClusterError(
            f"the Dask scheduler at {address(client)} has no workers; start some with `dask worker {address(client)}`"
        ) from None
    return workers(client)


def workers(client: Any) -> list[str]:
    """Return the addresses of the workers that are there now."""
    return sorted(client.nthreads())


def address(client: Any) -> str:
    """Return the address of the scheduler, for messages; that of a lost one, too, if it was asked for before."""
    found = getattr(getattr(client, "scheduler", None), "address", None)
    if found is not None:
        _addresses[client] = str(found)
    return _addresses.get(client, "an unknown address")


def is_lost(client: Any, error: BaseException) -> bool:
    """Tell whether the scheduler is gone, and not only some work that can be done again."""
    return "scheduler-connection-lost" in str(error) or client.status != "running"


def lost_error(client: Any, error: BaseException) -> ClusterError:
    """Return what to raise when the scheduler is gone."""
    return ClusterError(
        f"the Dask scheduler at {address(client)} was lost in mid-computation ({type(error).__name__}); start it "
        "again, then add --resume, or repeat the call: what is in a checkpoint or an output is kept"
    )
