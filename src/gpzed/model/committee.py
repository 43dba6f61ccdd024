"""Training of several members side by side (end of section 5 of the paper)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed

from gpzed.model.member import Member


class HaltedError(Exception):
    """Ends the training of a member because another one failed or was interrupted."""


def run_in_parallel(
    train: Callable[[int], Member], n_members: int, n_parallel: int, halt: threading.Event
) -> list[Member]:
    """Train all members; an error or interrupt in one halts the others at their next step."""
    if n_parallel == 1:
        return [train(index) for index in range(n_members)]
    with ThreadPoolExecutor(n_parallel) as pool:
        futures = [pool.submit(train, index) for index in range(n_members)]
        try:
            for future in as_completed(futures):
                future.result()
        except BaseException:
            halt.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return [future.result() for future in futures]
