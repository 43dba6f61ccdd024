"""Predictions of one model from many threads, forked and spawned processes, in chunks and by both routes."""

from __future__ import annotations

import functools
import multiprocessing
import pickle
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from faults.campaign import Case
from gpzed import GPzRegressor
from gpzed.compiled import binding
from gpzed.model import Training

CASES = 60
CLOSE, SINGLE = 1e-9, 5e-6
"""Relative differences that count as rounding; of networks the compiled kernels compute in single precision."""
TIMEOUT = 120.0
"""Seconds after which a process counts as hung."""


def run(cases: int, rng: np.random.Generator, folder: Path) -> Iterator[Case]:
    """Predict new rows with gaps, and some with errors, by a committee of heads that has learned from such rows."""
    models: dict[bool, GPzRegressor] = {}
    for number in range(cases):
        fault = list(FAULTS)[number % len(FAULTS)]
        has_errors = bool(rng.integers(2))
        if has_errors not in models:
            models[has_errors] = train(has_errors)
        X, _, X_std = draw(int(rng.integers(2, 400)), rng, has_errors)
        predict = functools.partial(values, models[has_errors], X, X_std)
        try:
            yield FAULTS[fault](predict, rng)
        except Exception as error:  # whatever comes out
            yield Case(fault, "error", False, f"{type(error).__name__}: {error}")


def train(has_errors: bool) -> GPzRegressor:
    """Train a small committee with the defaults otherwise."""
    X, y, X_std = draw(300, np.random.default_rng(0), has_errors)
    training = Training(max_iter=10, n_epochs=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GPzRegressor(12, n_members=2, training=training, n_threads=2, random_state=0)
        return model.fit(X, y, X_std=X_std)


def draw(n: int, rng: np.random.Generator, has_errors: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Draw inputs with gaps, targets, and errors of the inputs."""
    X = rng.standard_normal((n, 4))
    y = 1.0 + 0.3 * np.sin(2.0 * X[:, 0]) + 0.1 * X[:, 1] + 0.05 * rng.standard_normal(n)
    X[rng.random(X.shape) < 0.15] = np.nan
    return X, y, 0.1 * np.exp(rng.standard_normal(X.shape)) if has_errors else None


def values(
    model: GPzRegressor, X: np.ndarray, X_std: np.ndarray | None, rows: slice = slice(None), n_threads: int = 2
) -> np.ndarray:
    """Return all that is predicted of some rows, (n, numbers)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = pickle.loads(pickle.dumps(model)).set_params(n_threads=n_threads)
        prediction = model.predict_distribution(X[rows], X_std=None if X_std is None else X_std[rows])
        edges = [prediction.quantile(share) for share in (0.16, 0.84)]
        return np.column_stack([prediction.mean, prediction.variance, prediction.z_phot, *edges])


Predict = Callable[..., np.ndarray]


def _compare(fault: str, expected: np.ndarray, found: list[np.ndarray], rtol: float = 0.0) -> Case:
    """Compare predictions, which must be identical, or agree within a relative tolerance."""
    if all(np.array_equal(expected, one) for one in found):
        return Case(fault, "identical", True)
    worst = max(float(np.max(np.abs(one - expected) / np.abs(expected))) for one in found)
    held = worst <= rtol
    return Case(
        fault, "the same but for rounding" if held else "different", held, f"{worst:.1e} apart, {len(expected)} rows"
    )


def _threads(predict: Predict, rng: np.random.Generator) -> Case:
    model, X, X_std = predict.args  # type: ignore[attr-defined]
    expected = predict()

    def job(_: int) -> np.ndarray:
        prediction = model.predict_distribution(X, X_std=X_std)
        edges = [prediction.quantile(share) for share in (0.16, 0.84)]
        return np.column_stack([prediction.mean, prediction.variance, prediction.z_phot, *edges])

    with ThreadPoolExecutor(8) as pool:
        return _compare("8 threads on one model", expected, list(pool.map(job, range(16))))


def _fork(predict: Predict, rng: np.random.Generator) -> Case:
    expected = predict()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of forking beside threads: that is the point
        with multiprocessing.get_context("fork").Pool(2) as pool:
            jobs = [pool.apply_async(predict) for _ in range(2)]
            return _compare("fork after import", expected, [job.get(TIMEOUT) for job in jobs])


def _loky(predict: Predict, rng: np.random.Generator) -> Case:
    jobs = [joblib.delayed(predict)() for _ in range(2)]
    found = joblib.Parallel(n_jobs=2, backend="loky", timeout=TIMEOUT)(jobs)
    return _compare("processes of loky", predict(), list(found))


def _chunks(predict: Predict, rng: np.random.Generator) -> Case:
    expected = predict()
    n, size = len(expected), int(rng.choice([1, 7, 1000, 1_000_000]))
    n_threads = int(rng.choice([1, 2, 4]))
    starts = range(0, min(n, 60) if size == 1 else n, size)
    found = np.concatenate([predict(slice(start, start + size), n_threads) for start in starts])
    return _compare(f"chunks of {size:,}, {n_threads} threads", expected[: len(found)], [found], CLOSE)


def _routes(predict: Predict, rng: np.random.Generator) -> Case:
    expected, library = predict(), binding._library
    binding._library = None
    try:
        return _compare("NumPy instead of compiled kernels", expected, [predict()], SINGLE)
    finally:
        binding._library = library


FAULTS: dict[str, Callable[[Predict, np.random.Generator], Any]] = {
    "8 threads on one model": _threads,
    "fork after import": _fork,
    "processes of loky": _loky,
    "chunks": _chunks,
    "NumPy instead of compiled kernels": _routes,
}
