"""A training run: where its state is kept, who watches it, and where it runs; nothing about the model."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpzed.model.options import check_values

HEADS_STAGE = -1
"""The stage of a `StepInfo` in which heads are trained."""
NETWORK_STAGE = -2
"""The stage in which a network is trained."""


@dataclass(frozen=True)
class StepInfo:
    """What a progress callback is told after every step; in stages `HEADS_STAGE` and `NETWORK_STAGE` it is an epoch."""

    member: int
    stage: int
    iteration: int
    seconds: float
    objective: float
    score: float
    best_score: float


@dataclass(frozen=True)
class Run:
    """How and where training runs.

    Parameters
    ----------
    checkpoint : path or None
        File to keep the state of training in (one per member, numbered, if there are several). If it exists, training
        resumes from it; it is removed when training is complete.
    checkpoint_every : int
        Iterations between checkpoints; one is also written when training is stopped, or when another member of the
        committee fails.
    keep_checkpoint : bool
        Whether the checkpoint stays when training is complete, until the caller has saved the model and calls
        `remove_checkpoints`.
    callback : callable or None
        Called with a `StepInfo` after every iteration; returning True ends training with the best model so far.
    should_stop : callable or None
        Asked after every iteration; returning True ends training with a `TrainingInterruptedError`, after a checkpoint
        was written from which it can be resumed.
    cluster : str, distributed.Client or None
        Dask cluster to train on: "local:N" starts N processes on this machine, "tcp://HOST:PORT" names a scheduler,
        "dask" means the client that this process has; None trains in this process. Workers use the threads they have.
    """

    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_every: int = 20
    keep_checkpoint: bool = False
    callback: Callable[[StepInfo], bool | None] | None = None
    should_stop: Callable[[], bool] | None = None
    cluster: Any = None

    def __post_init__(self) -> None:
        check_values({"checkpoint_every": self.checkpoint_every})
        if self.cluster is not None:
            from gpzed.distributed import check_cluster

            check_cluster(self.cluster)

    def client(self) -> AbstractContextManager[Any]:
        """Connect to the cluster; None without one."""
        if self.cluster is None:
            return nullcontext()
        from gpzed.distributed import connect

        return connect(self.cluster)

    def checkpoint_of(self, member: int, n_members: int) -> Path | None:
        """Return the file that keeps the state of a member, if there is any."""
        if self.checkpoint is None:
            return None
        path = os.fspath(self.checkpoint)
        return Path(path if n_members == 1 else f"{path}.{member}")

    def checkpoints(self) -> list[Path]:
        """Return the checkpoint files that exist now."""
        if self.checkpoint is None:
            return []
        path = Path(self.checkpoint)
        numbered = [
            file for file in path.parent.glob(f"{glob.escape(path.name)}.*") if file.name.rpartition(".")[2].isdecimal()
        ]
        numbered.sort(key=lambda file: int(file.name.rpartition(".")[2]))
        return [file for file in (path, *numbered) if file.exists()]

    def remove_checkpoints(self) -> None:
        """Delete the checkpoint files that exist now."""
        for path in self.checkpoints():
            path.unlink(missing_ok=True)
