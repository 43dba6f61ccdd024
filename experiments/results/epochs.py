"""When a record is older than what it measures: an epoch for each subject, which ends when the subject changes.

``docs/results/epochs.json`` holds the number of the present epoch of each subject and its fingerprint. Tests compute
the fingerprint anew; where it differs, the epoch is over, and ``make results RESULTS_ARGS=--new-epoch`` begins the
next: records of the last one are marked as stale on every page until they are measured again.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gpzed import train
from gpzed.config import RunConfig
from gpzed.errors import GPzWarning
from gpzed.evaluation import evaluate
from gpzed.simulate import simulate_survey

ROOT = Path(__file__).resolve().parents[2]
EPOCHS = ROOT / "docs" / "results" / "epochs.json"
SCORES = ("mll", "crps")
TOLERANCE = 0.02
"""Relative change of a score that ends an epoch; machines and libraries differ by less, but for medians of few rows."""
TARGET_TOLERANCE = 0.1
"""The same for training with a target, whose random draws and choices amplify rounding: versions of NumPy and SciPy
differ by 7 % there."""
N_TRAIN, N_TEST = 500, 500
N_BRIGHT, N_SURVEY = 600, 2000

Fingerprint = dict[str, Any]


def _model(config: RunConfig) -> Fingerprint:
    """Return the options of a model, and its scores on a small simulated survey."""
    sky = simulate_survey(N_TRAIN + N_TEST, survey="sdss", random_state=0, only_spectroscopic=True)
    columns = {name: np.asarray(values) for name, values in sky.columns().items() if name.startswith("mag_")}
    seen = {**{name: values[:N_TRAIN] for name, values in columns.items()}, "z_spec": sky.z_true[:N_TRAIN]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GPzWarning)
        model = train(seen, config=config.override("model", n_threads=1))
        unseen = model.predict({name: values[N_TRAIN:] for name, values in columns.items()})
    found = evaluate(sky.z_true[N_TRAIN:], unseen.prediction)
    return {"options": config.to_dict(), "scores": {name: float(f"{found[name]:.4g}") for name in SCORES}}


def _target() -> Fingerprint:
    """Return scores of one member on a small simulated survey, of which only bright galaxies have redshifts."""
    sky = simulate_survey(N_SURVEY, survey="lsst", random_state=0)
    columns = {name: np.asarray(values) for name, values in sky.columns().items() if name.startswith("mag_")}
    bright = np.argsort(columns["mag_i"])[:N_BRIGHT]
    seen = {**{name: values[bright] for name, values in columns.items()}, "z_spec": sky.z_true[bright]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GPzWarning)
        model = train(seen, target=columns, config=RunConfig().override("model", n_members=1, n_threads=1))
        found = evaluate(sky.z_true, model.predict(columns).prediction)
    return {"options": RunConfig().to_dict(), "scores": {name: float(f"{found[name]:.4g}") for name in SCORES}}


def _kernels() -> Fingerprint:
    files = sorted([*(ROOT / "src/gpzed/compiled").glob("*.[ch]"), ROOT / "src/gpzed/gp/evidence.py"])
    return {"sources": hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]}


SUBJECTS: dict[str, Callable[[], Fingerprint]] = {
    "defaults": lambda: _model(RunConfig()),
    "paper": lambda: _model(RunConfig.paper().override("model", n_basis=10)),
    "target": _target,
    "kernels": _kernels,
}
"""What is measured: `gpzed train` as it comes, the paper's model, `gpzed train --target`, the speed of the kernels."""


@cache
def stored() -> dict[str, dict[str, Any]]:
    """Return number and fingerprint of the present epoch of each subject."""
    found = json.loads(EPOCHS.read_text(encoding="utf-8")) if EPOCHS.exists() else {}
    return {subject: found.get(subject, {"epoch": 0, "fingerprint": {}}) for subject in SUBJECTS}


def current(subject: str | None) -> int:
    """Return the number of the present epoch; what measures no subject of ours is always at 1."""
    return 1 if subject is None else int(stored()[subject]["epoch"])


def changes(subject: str) -> list[str]:
    """Say in what a subject differs from the fingerprint of its epoch."""
    tolerance = TARGET_TOLERANCE if subject == "target" else TOLERANCE
    return _differences(stored()[subject]["fingerprint"], json.loads(json.dumps(SUBJECTS[subject]())), tolerance)


def _differences(old: Any, new: Any, tolerance: float, name: str = "") -> list[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return [
            line
            for key in dict.fromkeys([*old, *new])
            for line in _differences(old.get(key), new.get(key), tolerance, f"{name}.{key}".lstrip("."))
        ]
    if isinstance(old, float) and isinstance(new, float) and math.isclose(old, new, rel_tol=tolerance):
        return []
    return [] if old == new else [f"{name}: {old} is now {new}"]


def begin() -> list[str]:
    """Begin a new epoch of every subject that has changed; return their names."""
    over = [subject for subject in SUBJECTS if changes(subject)]
    found = {**stored()}
    for subject in over:
        found[subject] = {"epoch": found[subject]["epoch"] + 1, "fingerprint": SUBJECTS[subject]()}
    EPOCHS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    stored.cache_clear()
    return over
