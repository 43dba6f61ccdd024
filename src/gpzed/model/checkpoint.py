"""Checkpoints of training: everything needed to go on as if nothing had happened, in one file.

A checkpoint holds the evaluations of the current stage (values and gradients) and the history of steps. Going on
means to replay them (see `gpzed.engine.lbfgs`), so the continued run takes the very same steps as one that was
never interrupted, provided that seed, data, options and number of threads are the same.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

import numpy as np

from gpzed._types import AnyArray
from gpzed.engine.lbfgs import Iteration, OptimizeReport, Progress
from gpzed.errors import CheckpointError
from gpzed.model.container import pack, read_bytes, unpack, write_atomically
from gpzed.model.training import Session

KIND, VERSION = "checkpoint", 1


def fingerprint(options: Any, *arrays: AnyArray) -> str:
    """Hash of the options and data of a run, by which a checkpoint knows its own."""
    digest = hashlib.sha256(repr(options).encode())
    for array in arrays:
        digest.update(f"{array.shape} {array.dtype}".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()


def _table(history: tuple[Iteration, ...] | list[Iteration]) -> AnyArray:
    return np.array([astuple(entry) for entry in history], dtype=np.float64).reshape(len(history), 6)


def _history(table: AnyArray) -> list[Iteration]:
    return [Iteration(int(row[0]), int(row[1]), *map(float, row[2:])) for row in table]


def save_checkpoint(path: str | Path, session: Session, run: str) -> None:
    """Write a session atomically.

    Parameters
    ----------
    path : path
    session : Session
    run : str
        Fingerprint of the run.
    """
    progress = session.progress
    arrays: dict[str, AnyArray] = {
        "theta_start": progress.theta_start,
        "values": np.array(progress.values),
        "gradients": np.array(progress.gradients).reshape(len(progress.values), len(progress.theta_start)),
        "norms": np.array(progress.norms),
        "history": _table(progress.history),
        "best_theta": progress.best_theta,
    }
    finished = []
    for index, report in enumerate(session.finished):
        arrays[f"theta_{index}"] = report.theta
        arrays[f"history_{index}"] = _table(report.history)
        finished.append({k: v for k, v in asdict(report).items() if k not in ("theta", "history")})
    header = {
        "run": run,
        "stage": session.stage,
        "best_score": progress.best_score if np.isfinite(progress.best_score) else None,
        "best_iteration": progress.best_iteration,
        "n_rejected": progress.n_rejected,
        "finished": finished,
    }
    write_atomically(path, pack(KIND, VERSION, header, arrays))


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
    header, arrays = unpack(payload, KIND, VERSION, source=str(path), error=CheckpointError)
    if header["run"] != run:
        raise CheckpointError(
            f'checkpoint "{path}" was made with other data, options or seed than this run; expected the same. '
            "Use them again, or delete the file to start afresh."
        )
    best_score = header["best_score"]
    progress = Progress(
        arrays["theta_start"],
        [float(value) for value in arrays["values"]],
        list(arrays["gradients"]),
        [float(norm) for norm in arrays["norms"]],
        _history(arrays["history"]),
        arrays["best_theta"],
        -np.inf if best_score is None else best_score,
        header["best_iteration"],
        header["n_rejected"],
    )
    finished = [
        OptimizeReport(theta=arrays[f"theta_{i}"], history=tuple(_history(arrays[f"history_{i}"])), **report)
        for i, report in enumerate(header["finished"])
    ]
    return Session(header["stage"], progress, finished)
