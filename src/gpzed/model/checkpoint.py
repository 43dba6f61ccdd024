"""Checkpoints of training: everything needed to resume as if nothing had happened, in one file.

A checkpoint holds the evaluations of the current stage (values and gradients) and the history of steps. Resuming
replays them (see `gpzed.engine.lbfgs`), so the resumed run takes the very same steps as one that was never
interrupted, provided that seed, data, options and number of threads are the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpzed._files import write_atomically
from gpzed._types import AnyArray
from gpzed.engine.lbfgs import OptimizeReport, Progress
from gpzed.errors import CheckpointError
from gpzed.model.container import pack_record, read_bytes, unpack_record
from gpzed.model.records import may_be_infinite
from gpzed.model.training import Session

KIND, VERSION = "checkpoint", 1

may_be_infinite(Progress, "best_score")
may_be_infinite(OptimizeReport, "best_score")


def fingerprint(options: Any, *arrays: AnyArray) -> str:
    """Return a hash of the options and data of a run, by which its checkpoint is recognised."""
    digest = hashlib.sha256(repr(options).encode())
    for array in arrays:
        digest.update(f"{array.shape} {array.dtype}".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint file holds: the fingerprint of the run, and how far it is."""

    run: str
    session: Session

    def __post_init__(self) -> None:
        if not np.isfinite([*self.session.progress.values, *self.session.progress.norms]).all():
            raise ValueError("evaluations that are not finite")


def save_checkpoint(path: str | Path, session: Session, run: str) -> None:
    """Write a session, and the fingerprint of its run, atomically."""
    write_atomically(path, pack_record(KIND, VERSION, Checkpoint(run, session)))


def load_checkpoint(path: str | Path, run: str) -> Session | None:
    """Read a session, or None if there is no such file.

    Raises
    ------
    CheckpointError
        If the file is damaged, or belongs to a run with other data, options or seed.
    """
    if not Path(path).exists():
        return None
    payload = read_bytes(path, CheckpointError)
    stored = unpack_record(payload, KIND, VERSION, Checkpoint, source=str(path), error=CheckpointError)
    if stored.run != run:
        raise _of_another_run(path)
    return stored.session


def refuse_strays(found: Sequence[Path], expected: Sequence[Path | None]) -> None:
    """Refuse checkpoints of members that this run does not have: they are of a run with more of them."""
    for path in found:
        if path not in expected:
            raise _of_another_run(path)


def _of_another_run(path: str | Path) -> CheckpointError:
    return CheckpointError(
        f'checkpoint "{path}" was made with other data, options or seed than this run; expected the same. '
        "Use them again, or delete the file to start afresh."
    )
