"""Follows the training of one member: its checkpoint, who is told of its progress, and what may end it."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np

from gpzed.engine.lbfgs import Iteration
from gpzed.errors import CheckpointError, ClusterError, NumericalError, TrainingInterruptedError
from gpzed.model.checkpoint import fingerprint, load_checkpoint, save_checkpoint
from gpzed.model.data import TrainingData
from gpzed.model.run import HEADS_STAGE, Run, StepInfo
from gpzed.model.training import Session, Watch


class HaltedError(Exception):
    """Ends the training of a member because another one failed or was interrupted."""


class MemberWatch(Watch):
    """Follows the training of one member: keeps its checkpoint, tells the callback, and ends it when asked to."""

    def __init__(self, member: int, run: Run, path: Path | None, halt: threading.Event) -> None:
        self.member, self.run, self.path, self.halt = member, run, path, halt
        self.records = path is not None
        self.identity = ""
        self.is_resumed = False
        self.best_score = -np.inf

    def resume(self, options: object, data: TrainingData) -> None:
        """Read the checkpoint, if there is one; it must be of the same run."""
        if self.path is not None:
            self.identity = fingerprint(options, *data.identity())
            self.session = load_checkpoint(self.path, self.identity)
            self.is_resumed = self.session is not None

    def save(self) -> None:
        """Write a checkpoint, if one is wanted and there is something to keep."""
        if self.path is not None and self.session is not None:
            save_checkpoint(self.path, self.session, self.identity)

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        if kind is not None and issubclass(kind, ClusterError):
            self.save()  # what was computed since the last checkpoint is not lost
        if kind is not None and issubclass(kind, NumericalError) and self.is_resumed:
            raise CheckpointError(
                f'training cannot be resumed from checkpoint "{self.path}": {details[0]} Delete it to start afresh.'
            )

    def on_step(self, session: Session) -> bool | None:
        """Follow an iteration of the optimiser."""
        self.session = session
        progress, step = session.progress, session.progress.history[-1]
        if step.iteration % self.run.checkpoint_every == 0:
            self.save()
        return self._tell(session.stage, step, progress.best_score)

    def on_epoch(self, step: Iteration, stage: int = HEADS_STAGE) -> bool | None:
        """Follow a pass in which heads or a network are trained; resumed runs retrain these, to the same result."""
        if step.iteration == 1:
            self.save()
            self.best_score = -np.inf
        self.best_score = float(np.fmax(self.best_score, step.score))
        return self._tell(stage, step, self.best_score)

    def _tell(self, stage: int, step: Iteration, best_score: float) -> bool | None:
        if self.halt.is_set():
            self.save()
            raise HaltedError
        wants_end = None
        if self.run.callback is not None:
            info = StepInfo(self.member, stage, step.iteration, step.seconds, step.objective, step.score, best_score)
            wants_end = self.run.callback(info)
        if self.run.should_stop is not None and self.run.should_stop():
            self.save()
            raise TrainingInterruptedError
        return wants_end
