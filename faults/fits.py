"""Random fits: odd sizes, scales, weights, duplicates, constant columns, gaps and errors, with random options.

A fit must give finite predictions of positive variance, or be refused with an error of ours.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from faults.campaign import Case
from gpzed import GPzRegressor
from gpzed.errors import GPzError
from gpzed.model import Training

CASES = 250


class Rows(NamedTuple):
    """What is fitted."""

    X: np.ndarray
    y: np.ndarray
    X_std: np.ndarray | None
    weights: np.ndarray | None


def run(cases: int, rng: np.random.Generator, folder: Path) -> Iterator[Case]:
    """Fit and predict `cases` times; each case has a seed of its own, by which it can be repeated."""
    for seed in rng.integers(2**32, size=cases):
        yield fit(int(seed))


def fit(seed: int) -> Case:
    """Draw a case, fit it and predict."""
    rng = np.random.default_rng(seed)
    kind = str(rng.choice(["complete", "gaps", "errors", "gaps and errors"], p=[0.6, 0.15, 0.15, 0.1]))
    rows, options = draw_rows(kind, rng), draw_options(kind, rng)
    stage = "fit"
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            model = GPzRegressor(**options).fit(rows.X, rows.y, X_std=rows.X_std, sample_weight=rows.weights)
            stage = "prediction"
            problem = check(model, rows, rng)
    except Exception as error:  # whatever comes out
        clear = isinstance(error, GPzError) or (stage == "fit" and type(error) is ValueError and _is_ours(error))
        outcome = "refused with a clear error" if clear else f"foreign error in {stage}"
        return Case(kind, outcome, clear, f"seed {seed}: {type(error).__name__}: {error}")
    return Case(kind, problem or "finite predictions", not problem, f"seed {seed}")


def check(model: GPzRegressor, rows: Rows, rng: np.random.Generator) -> str:
    """Predict rows that were fitted, rows far away, and rows with gaps; return what is wrong with the predictions."""
    X = np.concatenate([rows.X, 10.0 * rows.X[:5], rows.X[:5]])
    X[-5:, rng.integers(X.shape[1])] = np.nan
    X_std = None if rows.X_std is None else np.concatenate([rows.X_std, rows.X_std[:5], rows.X_std[:5]])
    if not np.isnan(rows.X).any() and model.missing == "error":
        X, X_std = X[:-5], None if X_std is None else X_std[:-5]
    prediction = model.predict_distribution(X, X_std=X_std)
    scale = np.nanmax(np.abs(rows.y)) or 1.0
    if not np.isfinite(prediction.mean).all() or not np.isfinite(prediction.z_phot).all():
        return "predictions not finite"
    if not (prediction.variance > 0.0).all() or not np.isfinite(prediction.variance).all():
        return "variances not positive and finite" if scale > 1e-150 else ""
    low, high = prediction.quantile(0.16), prediction.quantile(0.84)
    if not (high - low >= -1e-13 * (np.abs(low) + prediction.std)).all():  # each is found to 1e-14 or so
        return "quantiles out of order"
    return ""


def draw_options(kind: str, rng: np.random.Generator) -> dict[str, Any]:
    """Draw the options of an estimator, its training short."""

    def one_of(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    training = Training(
        init=one_of("kmeans", "data", "random"),
        max_iter=int(rng.integers(1, 8)),
        n_epochs=int(rng.integers(1, 4)),
        density_components=one_of("auto", 1, 2, 3),
        noise_classes=one_of(1, 4, 16),
        coarse_to_fine=one_of(True, False),
    )
    coverage, weighting = one_of(True, False), one_of("likelihood", "precision")
    return {
        "n_basis": one_of("auto", int(rng.integers(1, 15))),
        "covariance": one_of("GL", "VL", "GD", "VD", "GC", "VC"),
        "noise": one_of("heteroscedastic", "homoscedastic"),
        "relevance": one_of("ard", "shared"),
        "mean_function": one_of("zero", "constant", "linear"),
        "n_heads": one_of(1, 1, 2, 3),
        "n_members": one_of(1, 1, 2),
        "n_networks": one_of("auto", 0) if "errors" in kind else one_of("auto", 0, 1, 2),
        "whitening": one_of("pca", "scale", "none"),
        "missing": "marginalise" if "gaps" in kind else one_of("marginalise", "error"),
        "weighting": weighting,
        "wrong_labels": one_of(0.0, 0.0, 0.1, "auto") if weighting == "likelihood" else 0.0,
        "shape_prior": one_of(0.0, 1.0, 30.0),
        "validation_fraction": one_of(0.0, 0.1, 0.5),
        "calibrate": one_of("global", "noise", "none", *["local"] * coverage),
        "coverage": coverage,
        "training": training,
        "n_threads": 1,
        "random_state": int(rng.integers(100)),
    }


def draw_rows(kind: str, rng: np.random.Generator) -> Rows:
    """Draw rows to fit, few of them, with something odd about most."""
    n, d = int(2 ** (1.0 + 6.5 * rng.random() ** 1.5)), int(rng.integers(1, 6))
    X = rng.standard_cauchy((n, d)) if rng.random() < 0.2 else rng.standard_normal((n, d))
    for column in range(d):
        odd = rng.random()
        if odd < 0.1:
            X[:, column] = rng.integers(0, 3)
        elif odd < 0.2:
            X[:, column] = X[:, rng.integers(d)]
        elif odd < 0.3:
            X[:, column] = np.round(X[:, column])
    spread = 50.0 if rng.random() < 0.05 else float(rng.choice([0.0, 3.0, 12.0]))
    X = X * 10.0 ** rng.uniform(-spread, spread, d) + rng.choice([0.0, 1.0, 1e6]) * rng.standard_normal(d)
    if rng.random() < 0.2:
        X = X[rng.integers(0, max(1, n // 4), n)]
    y = np.sin(rng.standard_normal(n)) + np.sum(np.tanh(X), axis=1) * rng.choice([0.0, 1.0])
    y = y * 10.0 ** rng.choice([0.0, 0.0, -8.0, 8.0, -100.0, 100.0]) + rng.choice([0.0, 1.0, 1e8])
    if rng.random() < 0.1:
        y = np.full(n, y[0])
    return Rows(X, y, *_errors_and_weights(X, kind, rng))._replace(X=_with_gaps(X, kind, rng))


def _errors_and_weights(X: np.ndarray, kind: str, rng: np.random.Generator) -> tuple[Any, Any]:
    X_std = weights = None
    if "errors" in kind:
        scale = np.abs(X).mean(axis=0) * 10.0 ** rng.uniform(-6.0, 2.0, X.shape[1])
        X_std = scale * np.exp(rng.standard_normal(X.shape))
        X_std[rng.random(X.shape) < rng.choice([0.0, 0.5])] = 0.0
    if rng.random() < 0.3:
        weights = 10.0 ** rng.uniform(-8.0, 8.0, len(X)) if rng.random() < 0.5 else rng.random(len(X)) + 0.1
    return X_std, weights


def _with_gaps(X: np.ndarray, kind: str, rng: np.random.Generator) -> np.ndarray:
    if "gaps" not in kind:
        return X
    X = np.where(rng.random(X.shape) < rng.choice([0.05, 0.3, 0.9]), np.nan, X)
    if rng.random() < 0.1:
        X[:, rng.integers(X.shape[1])] = np.nan
    return X


def _is_ours(error: Exception) -> bool:
    """Whether an error was raised, and worded, by gpzed or by scikit-learn's checks of arrays."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    file = "" if trace is None else trace.tb_frame.f_code.co_filename
    return any(part in file for part in ("/gpzed/", "/sklearn/utils/"))


if __name__ == "__main__":
    print(fit(int(sys.argv[1])))
