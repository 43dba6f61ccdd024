"""Figure C1: one input, noise that varies and a gap in the data: a full Gaussian process against GPVL."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.paper.bench import Bench, Experiment, Table
from experiments.paper.drawing import legend_below, panels
from experiments.paper.methods import paper_model
from experiments.paper.store import Part, floats
from experiments.rivals.exact import ExactGPRegressor
from gpzed._types import FloatArray
from gpzed.errors import ConvergenceWarning

LIMITS, GAP = (-10.0, 10.0), (-6.0, -3.0)
N_BASIS, N_ROWS, N_FUNCTIONS, N_GRID = 200, 800, 5, 241
QUICK_BASIS, QUICK_ROWS = 30, 120
BLUE, ORANGE, INK, FAINT = "#0072B2", "#D55E00", "#222222", "#8a8a8a"
TITLES = {"exact GP": "full GP", "GPVL": "GPVL"}


def true_mean(x: FloatArray) -> FloatArray:
    """Return mu(x) = 10 sinc(2 x), sinc(t) = sin(pi t) / (pi t) as in MATLAB."""
    return np.asarray(10.0 * np.sinc(2.0 * x))


def true_std(x: FloatArray) -> FloatArray:
    """Return the absolute value of sigma(x) = 3 sin(x) / (1 + exp(-0.1 x)) + 0.01; the paper's may be negative."""
    return np.asarray(np.abs(3.0 * np.sin(x) / (1.0 + np.exp(-0.1 * x)) + 0.01))


def draw_rows(n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Draw n inputs outside the gap, and their targets."""
    x = np.empty(0)
    while len(x) < n:
        new = rng.uniform(*LIMITS, size=2 * n)
        x = np.concatenate([x, new[(new < GAP[0]) | (new > GAP[1])]])
    x = x[:n]
    return x[:, None], true_mean(x) + true_std(x) * rng.standard_normal(n)


def _parts(bench: Bench) -> Sequence[Part]:
    n, m = (QUICK_ROWS, QUICK_BASIS) if bench.quick else (N_ROWS, N_BASIS)
    seed = bench.effort.seed

    def compute() -> dict[str, Any]:
        X, y = draw_rows(n, np.random.default_rng(seed))
        # centres start all over the box, the gap included: functions that no row reaches keep their prior variance
        options = {"random_state": seed, "n_threads": bench.effort.n_threads}
        sparse = paper_model(m, "VL", training={"init": "random"}, **options)
        full = ExactGPRegressor(max_rows=None, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            models = {"exact GP": full.fit(X, y), "GPVL": sparse.fit(X, y)}
        return {"rows": n, "size": m} | _compare(X, y, models, seed)

    return [Part("sinc", {"rows": n, "size": m, "seed": seed}, compute)]


def _compare(X: FloatArray, y: FloatArray, models: dict[str, Any], seed: int) -> dict[str, Any]:
    grid = np.linspace(*LIMITS, N_GRID)
    X_new, y_new = draw_rows(5_000, np.random.default_rng(seed + 1))
    inside = (grid > GAP[0]) & (grid < GAP[1])
    found = {}
    for name, model in models.items():
        prediction = model.predict_distribution(grid[:, None])
        std = prediction.std
        found[name] = {
            "mean": prediction.mean,
            "std": std,
            "functions": model.sample_y(grid[:, None], N_FUNCTIONS, random_state=seed).T,
            "mll": float(np.mean(model.predict_distribution(X_new).log_pdf(y_new))),
            "rmse_of_mean": np.sqrt(np.mean((prediction.mean - true_mean(grid))[~inside] ** 2)),
            "log_std_error": np.mean(np.abs(np.log(std / np.maximum(true_std(grid), 0.01)))[~inside]),
            "model_std_in_gap": np.sqrt(prediction.model_variance[inside]).max(),
            "model_std_outside": np.median(np.sqrt(prediction.model_variance[~inside])),
        }
    best = -0.5 * np.mean(((y_new - true_mean(X_new[:, 0])) / true_std(X_new[:, 0])) ** 2) - np.mean(
        np.log(true_std(X_new[:, 0]))
    )
    some = slice(0, 600)
    return {
        "grid": grid,
        "true_mean": true_mean(grid),
        "true_std": true_std(grid),
        "x": X[some, 0],
        "y": y[some],
        "mll_of_truth": best - 0.5 * np.log(2.0 * np.pi),
        "methods": found,
    }


def _assemble(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return dict(parts[0]["result"])


def _draw(content: dict[str, Any]) -> Any:
    figure, axes = panels(2, 1, 7.0, 3.4, sharex=True, sharey=True)
    grid, truth, noise = (floats(content[key]) for key in ("grid", "true_mean", "true_std"))
    for ax, (name, model) in zip(axes.flat, content["methods"].items(), strict=True):
        mean, std = floats(model["mean"]), floats(model["std"])
        ax.plot(content["x"], content["y"], ".", ms=2.5, color=FAINT, label="training rows")
        ax.fill_between(grid, mean - 2 * std, mean + 2 * std, color=BLUE, alpha=0.2, lw=0, label=r"mean $\pm\,2\sigma$")
        for index, values in enumerate(model["functions"]):
            ax.plot(grid, values, lw=0.6, color=BLUE, label=None if index else "functions drawn")
        ax.plot(grid, mean, color=INK, lw=1.3, label="mean")
        for sign in (-2.0, 2.0):
            label = r"truth $\pm\,2\sigma$" if sign < 0 else None
            ax.plot(grid, truth + sign * noise, color=ORANGE, lw=1.0, ls="--", label=label)
        ax.set(title=TITLES[name], xlim=LIMITS, ylabel="y")
    axes[-1, 0].set_xlabel("x")
    legend_below(figure, axes)
    return figure


def _table(content: dict[str, Any]) -> Table:
    rows = [
        (
            TITLES[name],
            f"{model['mll']:.3f}",
            f"{model['rmse_of_mean']:.3f}",
            f"{model['log_std_error']:.3f}",
            f"{model['model_std_outside']:.3f}",
            f"{model['model_std_in_gap']:.3f}",
        )
        for name, model in content["methods"].items()
    ]
    rows.append(("the truth", f"{content['mll_of_truth']:.3f}", "0", "0", "", ""))
    headings = ("model", "MLL of new rows", "RMSE of the mean", "|ln std error|", "model std, data", "model std, gap")
    return Table(headings, tuple(rows))


SINC = Experiment(
    "sinc", "Figure C1, appendix C", "one input, varying noise: full GP and GPVL", _parts, _assemble, _draw, _table
)
