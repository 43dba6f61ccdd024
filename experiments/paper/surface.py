"""Figures C2 and C3: a surface of three basis functions, learned by each structure with three of them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.paper import published
from experiments.paper.bench import Bench, Experiment, Table
from experiments.paper.drawing import panels
from experiments.paper.methods import paper_model
from experiments.paper.store import Part, floats
from gpzed._types import FloatArray
from gpzed.errors import ConvergenceWarning
from gpzed.model import GPzRegressor
from gpzed.plots import plot_basis_ellipses

CODES = ("VC", "VD", "VL", "GC", "GD", "GL")
N_BASIS, N_ROWS, N_GRID = 3, 1_000, 41
LIMIT = 3.0
NOISE = 0.0589
"""Noise of the targets: what the one structure that can represent the surface is left with, the paper's GPVC."""
N_STARTS = 8
"""Trainings of each structure, the best of which by its held-out rows is shown: three functions have local optima."""
WEIGHTS = (1.0, 1.0, -1.0)
"""The paper shows its surface as a figure only. These are ours, chosen so that the six structures differ as there:
weights, centres, and half-axes and angles (degrees) of functions that share a direction more or less."""
CENTRES = ((-1.0, 1.0), (1.2, 0.9), (0.0, -1.0))
AXES = ((1.0, 0.5), (0.7, 0.4), (1.2, 0.45))
ANGLES = (75.0, 25.0, 45.0)


def covariances() -> list[FloatArray]:
    """Return the covariances (2, 2) of the three basis functions of the surface."""
    found = []
    for (long, short), angle in zip(AXES, np.radians(ANGLES), strict=True):
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        found.append(turn @ np.diag([long**2, short**2]) @ turn.T)
    return found


def surface(X: FloatArray) -> FloatArray:
    """Return f = phi_1 + phi_2 - phi_3 at points (n, 2)."""
    total = np.zeros(len(X))
    for weight, centre, covariance in zip(WEIGHTS, CENTRES, covariances(), strict=True):
        offset = X - np.array(centre)
        total += weight * np.exp(-0.5 * np.einsum("nd,nd->n", offset @ np.linalg.inv(covariance), offset))
    return total


def _rows(n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    X = rng.uniform(-LIMIT, LIMIT, size=(n, 2))
    return X, surface(X) + NOISE * rng.standard_normal(n)


def _grid() -> FloatArray:
    line = np.linspace(-LIMIT, LIMIT, N_GRID)
    return np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)


def train_best(X: FloatArray, y: FloatArray, code: str, n_starts: int, seed: int, **options: Any) -> GPzRegressor:
    """Train from several starts and return the model that predicts its held-out rows best."""
    models = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for start in range(n_starts):
            settings = {"noise": "homoscedastic", "whitening": "none", "random_state": seed + start, **options}
            models.append(paper_model(N_BASIS, code, **settings).fit(X, y))
    return max(models, key=lambda model: model.report_.best_score)


def _parts(bench: Bench) -> Sequence[Part]:
    n, n_starts = (300, 3) if bench.quick else (N_ROWS, N_STARTS)
    seed = bench.effort.seed

    def part(code: str) -> Part:
        def compute() -> dict[str, Any]:
            rng = np.random.default_rng(seed)
            X, y = _rows(n, rng)
            X_test, y_test = _rows(n, rng)
            model = train_best(X, y, code, n_starts, seed, n_threads=bench.effort.n_threads)
            mean = model.predict_distribution(X_test).mean
            return {
                "method": f"GP{code}",
                "rmse": np.sqrt(np.mean((mean - y_test) ** 2)),
                "rmse_of_surface": np.sqrt(np.mean((mean - surface(X_test)) ** 2)),
                "surface": model.predict_distribution(_grid()).mean,
                "centres": model.basis_centers_,
                "factors": model.basis_factors_,
                "weights": model.weights_[:N_BASIS],
            }

        return Part(f"surface-{code.lower()}", {"rows": n, "starts": n_starts, "seed": seed, "code": code}, compute)

    return [part(code) for code in CODES]


def _assemble(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "noise": NOISE,
        "target": {
            "surface": surface(_grid()),
            "centres": CENTRES,
            "factors": [np.linalg.cholesky(np.linalg.inv(covariance)).T for covariance in covariances()],
            "weights": WEIGHTS,
        },
        "methods": {part["result"]["method"]: part["result"] for part in parts},
    }


def _draw_one(ax: Any, model: dict[str, Any], title: str) -> Any:
    """Draw a surface from above with the ellipses of its basis functions; return what the colours mean."""
    line = np.linspace(-LIMIT, LIMIT, N_GRID)
    values = floats(model["surface"]).reshape(N_GRID, N_GRID)
    colours = ax.contourf(line, line, values, np.linspace(-1.3, 1.3, 27), cmap="RdBu_r", extend="both")
    plot_basis_ellipses(
        floats(model["centres"]), floats(model["factors"]), ax, weights=floats(model["weights"]), names=("x", "y")
    )
    ax.set(title=title, xlim=(-LIMIT, LIMIT), ylim=(-LIMIT, LIMIT), aspect="equal")
    return colours


def _draw(content: dict[str, Any]) -> Any:
    figure, axes = panels(2, 4, 2.9, 3.1, sharex=True, sharey=True)
    colours = _draw_one(axes[0, 0], content["target"], "target")
    axes[1, 0].axis("off")
    places = [axes[row, column] for row in range(2) for column in range(1, 4)]
    for ax, code in zip(places, CODES, strict=True):
        model = content["methods"][f"GP{code}"]
        _draw_one(ax, model, f"GP{code} (RMSE {model['rmse']:.4f})")
        ax.label_outer()
    axes[0, 0].tick_params(labelbottom=True)
    for ax in (axes[0, 0], axes[1, 1]):
        ax.tick_params(labelleft=True)
        ax.set_ylabel("y")
    figure.colorbar(colours, ax=axes, label="f(x, y)", ticks=[-1.0, 0.0, 1.0], shrink=0.6, pad=0.01)
    return figure


def _table(content: dict[str, Any]) -> Table:
    rows = tuple(
        (name, f"{model['rmse']:.4f}", f"{published.SURFACE[name]:.4f}", f"{model['rmse_of_surface']:.4f}")
        for name, model in content["methods"].items()
    )
    return Table(("structure", "RMSE", "paper", "RMSE without the noise"), rows)


SURFACE = Experiment(
    "surface",
    "Figures C2 and C3, appendix C",
    "two inputs, six structures of three basis functions",
    _parts,
    _assemble,
    _draw,
    _table,
)
