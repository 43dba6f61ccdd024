"""Model files garbled and sealed again: each is refused, or predicts sound numbers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import gpzed
from faults.campaign import Case
from faults.files import Parts, garbled
from gpzed import GPzRegressor, Prediction, Training
from gpzed.errors import ModelFormatError
from gpzed.workflows.model import PhotozModel

CASES = 4000
BANDS = ("g", "r", "i", "z")


def run(cases: int, rng: np.random.Generator, folder: Path) -> Iterator[Case]:
    """Garble small models of every make in turn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = [(Parts.of(path.read_bytes(), "model"), path) for path in make_models(folder)]
        for number in range(cases):
            parts, path = models[number % len(models)]
            fault, payload = garbled(parts, rng)
            target = folder / "garbled.gpzed"
            target.write_bytes(payload)
            yield judge(fault, target, f"case {number} of {path.name}")


def judge(fault: str, path: Path, where: str) -> Case:
    """Load a file and predict with it."""
    try:
        model = gpzed.load_model(path)
    except ModelFormatError as error:
        return Case(fault, "refused", len(str(error)) < 2000, where)
    except BaseException as error:
        return Case(fault, "foreign error at load", False, f"{where}: {type(error).__name__}: {str(error)[:200]}")
    try:
        prediction = predict(model)
    except BaseException as error:
        return Case(fault, "error at predict", False, f"{where}: {type(error).__name__}: {str(error)[:200]}")
    sound = is_sound(prediction)
    return Case(fault, "sound predictions" if sound else "unsound predictions", sound, where)


def is_sound(prediction: Prediction) -> bool:
    """Say whether densities are finite and normalised."""
    weights = prediction.weights
    numbers = (prediction.mean, prediction.std, prediction.median, weights)
    return (
        all(np.isfinite(values).all() for values in numbers)
        and bool(np.all(prediction.std > 0.0))
        and bool(np.all(np.abs(weights.sum(axis=1) - 1.0) < 1e-6))
        and bool(np.all(weights >= 0.0))
    )


def predict(model: Any) -> Prediction:
    """Predict a few rows such as the model was trained on, some with gaps."""
    if isinstance(model, PhotozModel):
        return model.predict(table(6, 1)).prediction
    inputs, _, errors = rows(6, 1)
    if model.missing == "marginalise":
        inputs[0, 0] = inputs[1, 1:] = np.nan
    has_errors = model.members_[0].standardisation.inputs.errors is not None
    made: Prediction = model.predict_distribution(inputs, X_std=errors if has_errors else None)
    return made


def make_models(folder: Path) -> list[Path]:
    """Train small models of every make, and return their files."""
    inputs, target, errors = rows(400, 0)
    gaps = np.where(np.random.default_rng(2).random(inputs.shape) < 0.1, np.nan, inputs)
    brief = Training(max_iter=4, n_epochs=2)
    common: dict[str, Any] = {"n_basis": 5, "random_state": 0, "training": brief, "n_threads": 1}
    makes = {
        "paper": (GPzRegressor.paper(**common), inputs, None),
        "committee": (GPzRegressor(n_heads=2, n_members=2, validation_fraction=0.6, **common), gaps, None),
        "noisy": (GPzRegressor(covariance="GD", n_heads=1, n_members=1, calibrate="local", **common), inputs, errors),
    }
    paths = []
    for name, (model, given, stds) in makes.items():
        paths.append(folder / f"{name}.gpzed")
        model.fit(given, target, X_std=stds).save(paths[-1])
    paths.append(folder / "photoz.gpzed")
    config = {"model": {"n_basis": 4, "n_members": 1, "n_heads": 1}, "training": {"max_iter": 4}}
    gpzed.train(table(300, 0), config=config).save(paths[-1])
    return paths


def rows(n: int, seed: int) -> tuple[Any, Any, Any]:
    """Return inputs, targets and errors of the inputs."""
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((n, 3))
    return inputs, 1.0 + 0.3 * np.sin(inputs[:, 0]) + 0.1 * rng.standard_normal(n), 0.1 * rng.random((n, 3))


def table(n: int, seed: int) -> dict[str, Any]:
    """Return a catalogue of magnitudes."""
    rng = np.random.default_rng(seed)
    z = rng.uniform(0.1, 1.5, n)
    columns = {f"mag_{band}": 22.0 + (i + 1) * z + 0.1 * rng.standard_normal(n) for i, band in enumerate(BANDS)}
    columns |= {f"mag_err_{band}": np.full(n, 0.05) for band in BANDS}
    return {**columns, "redshift": z}
