"""Checkpoints garbled and sealed again: training refuses them, or ends with a sound model."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from faults.campaign import Case
from faults.files import Parts, garbled
from faults.models import is_sound, rows
from gpzed import GPzRegressor, Run, Training
from gpzed.errors import CheckpointError
from gpzed.model import StepInfo

CASES = 1000
MAX_ITER = 6


def run(cases: int, rng: np.random.Generator, folder: Path) -> Iterator[Case]:
    """Garble checkpoints of runs with one stage and with several in turn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = [_Interrupted.make(folder / "state", steps, gaps) for steps, gaps in ((3, False), (4, True), (0, False))]
        for number in range(cases):
            interrupted = runs[number % len(runs)]
            fault, payload = garbled(interrupted.parts, rng)
            (folder / "state").write_bytes(payload)
            yield _judge(fault, interrupted, folder / "state", f"case {number}")


@dataclass(frozen=True)
class _Interrupted:
    """A training run that was interrupted: its inputs, its checkpoint, and what it would have predicted."""

    inputs: np.ndarray
    target: np.ndarray
    parts: Parts
    expected: np.ndarray

    @classmethod
    def make(cls, path: Path, steps: int, gaps: bool) -> _Interrupted:
        inputs, target, _ = rows(60, 0)
        if gaps:  # with several stages
            inputs[::7, 0] = np.nan

        left = iter(range(steps))

        def stop(_: StepInfo) -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt

        with contextlib.suppress(KeyboardInterrupt):
            _model().fit(inputs, target, run=Run(checkpoint=path, checkpoint_every=1, callback=stop))
        parts = Parts.of(path.read_bytes(), "checkpoint")
        path.unlink()
        return cls(inputs, target, parts, _model().fit(inputs, target).predict_distribution(inputs).mean)


def _model() -> GPzRegressor:
    training = Training(max_iter=MAX_ITER)
    return GPzRegressor(3, n_heads=1, n_members=1, coverage=False, training=training, n_threads=1, random_state=0)


def _judge(fault: str, interrupted: _Interrupted, path: Path, where: str) -> Case:
    try:
        model = _model().fit(interrupted.inputs, interrupted.target, run=Run(checkpoint=path))
        prediction = model.predict_distribution(interrupted.inputs)
    except CheckpointError as error:
        return Case(fault, "refused", len(str(error)) < 2000, where)
    except BaseException as error:
        return Case(fault, "foreign error", False, f"{where}: {type(error).__name__}: {str(error)[:200]}")
    if not is_sound(prediction):
        return Case(fault, "unsound predictions", False, where)
    is_same = np.array_equal(prediction.mean, interrupted.expected)
    return Case(fault, "identical after resume" if is_same else "sound predictions", True, where)
