"""Table 3 and section 7.6: measured time of a step against n, d and m, with fitted exponents beside the theory."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning as SklearnConvergenceWarning
from sklearn.neural_network import MLPRegressor
from threadpoolctl import threadpool_limits

from experiments.data import Rows, Sets
from experiments.paper import published
from experiments.paper.bench import Bench, Experiment, Table
from experiments.paper.drawing import LOOKS, dress, panels
from experiments.paper.methods import METHODS, paper_model
from experiments.paper.store import Part
from experiments.rivals.base import Effort
from experiments.rivals.spgp import SPGPRegressor
from gpzed._types import FloatArray
from gpzed.errors import ConvergenceWarning
from gpzed.plots import plot_complexity

NAMES = ("ANN", "TPZ", "forest", "SPGP", "GPGL", "GPVL", "GPGD", "GPVD", "GPGC", "GPVC")
TREES = ("TPZ", "forest")
CENTRE = {"n": 20_000, "d": 10, "m": 100}
GRIDS = {"n": (5_000, 10_000, 20_000, 40_000), "d": (5, 10, 20, 40), "m": (25, 50, 100, 200, 400)}
PAPER_RUN = {"n": 100_000, "d": 10, "m": 5}
"""The paper's own measurement: 100,000 rows, 5 basis functions and 500 iterations, or 5 trees."""
PAPER_ITERATIONS = 500
QUICK_CENTRE, QUICK_GRIDS = {"n": 500, "d": 4, "m": 10}, {"n": (250, 500), "d": (2, 4), "m": (5, 10)}
STEPS = 6
"""Steps of a run that is timed, less those of a run of one step."""
LEAST = 1e-6
"""Seconds at least that these take: on a busy machine the difference of two short runs may be none."""

Formula = tuple[str, Callable[[float, float, float], float]]
LINEAR: Formula = ("n m d + n m²", lambda n, d, m: n * m * d + n * m**2)
THEORY: dict[str, Formula] = {
    "ANN": ("n m d", lambda n, d, m: n * m * d),
    **dict.fromkeys(("SPGP", "GPGL", "GPVL", "GPGD", "GPVD"), LINEAR),
    **dict.fromkeys(("GPGC", "GPVC"), ("n m d² + n m²", lambda n, d, m: n * m * d**2 + n * m**2)),
    **dict.fromkeys(TREES, ("n m d ln n", lambda n, d, m: n * m * d * np.log(n))),
}
"""Operations of one step (of the whole forest) by Table 3 of the paper."""


def _make_rows(n: int, d: int, seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    noise = 0.05 + 0.1 / (1.0 + np.exp(-X[:, 0]))
    return Rows(X, np.sin(X[:, 0]) + 0.3 * X[:, 1] ** 2 + noise * rng.standard_normal(n))


def measure(name: str, size: Mapping[str, int], seed: int) -> float:
    """Return seconds of the processor for one evaluation of objective and gradient; for trees, for the training.

    Those of an evaluation are what a run of some steps takes longer than a run of one step: starts and ends cancel. All
    on one thread, so that other programs change them little.
    """
    rows, m = _make_rows(size["n"], size["d"], seed), size["m"]
    if name in TREES:
        sets = Sets(rows, rows.head(0), rows.head(0), tuple(f"mag_{band}" for band in range(size["d"])))
        started = time.process_time()
        METHODS[name].train(sets, m, Effort(seed, n_threads=1))
        return time.process_time() - started
    (few, first), (many, last) = (_timed(name, rows, m, steps, seed) for steps in (1, 1 + STEPS))
    return max(last - first, LEAST) / max(many - few, 1)


def _timed(name: str, rows: Rows, m: int, steps: int, seed: int) -> tuple[int, float]:
    """Return evaluations (iterations, of the network) of a run of some steps, and its seconds of the processor."""
    common: dict[str, Any] = {"validation_fraction": 0.0, "n_threads": 1, "random_state": seed}
    if name == "ANN":
        model: Any = MLPRegressor(
            hidden_layer_sizes=(m,), activation="logistic", solver="lbfgs", max_iter=steps, random_state=seed
        )
    elif name == "SPGP":
        model = SPGPRegressor(m, init="data", max_iter=steps, **common)
    else:
        model = paper_model(m, name[2:], training={"init": "data", "max_iter": steps}, **common)
    with warnings.catch_warnings(), threadpool_limits(1):
        for expected in (ConvergenceWarning, SklearnConvergenceWarning):
            warnings.simplefilter("ignore", expected)
        started = time.process_time()
        model.fit(rows.X, rows.z)
        seconds = time.process_time() - started
    return model.n_iter_ if name == "ANN" else model.report_.history[-1].evaluations, seconds


def _parts(bench: Bench) -> Sequence[Part]:
    centre, grids = (QUICK_CENTRE, QUICK_GRIDS) if bench.quick else (CENTRE, GRIDS)
    paper_run = {**PAPER_RUN, "n": QUICK_CENTRE["n"]} if bench.quick else PAPER_RUN
    seed = bench.effort.seed

    def part(name: str) -> Part:
        def compute() -> dict[str, Any]:
            times: dict[str, list[float]] = {}
            for letter, values in grids.items():
                times[letter] = [measure(name, {**centre, letter: value}, seed) for value in values]
            once = measure(name, paper_run, seed)
            return {
                "method": name,
                "grid": grids,
                "centre": centre,
                "seconds": times,
                "paper_run": {**paper_run, "seconds": once * (1 if name in TREES else PAPER_ITERATIONS)},
            }

        return Part(f"time-{name.lower()}", {"grid": grids, "centre": centre, "seed": seed, "method": name}, compute)

    return [part(name) for name in NAMES if name == "ANN" or METHODS[name].available()]


def exponent(values: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the slope of ln seconds against ln values, by least squares."""
    return float(np.polyfit(np.log(values), np.log(seconds), 1)[0])


def _theory(name: str, letter: str, centre: dict[str, float], values: Sequence[float]) -> FloatArray:
    sizes = [{**centre, letter: value} for value in values]
    return np.array([THEORY[name][1](size["n"], size["d"], size["m"]) for size in sizes])


def _assemble(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    methods = {}
    for run in (part["result"] for part in parts):
        name = run["method"]
        fitted = {letter: exponent(run["grid"][letter], run["seconds"][letter]) for letter in run["grid"]}
        expected = {
            letter: exponent(values, list(_theory(name, letter, run["centre"], values)))
            for letter, values in run["grid"].items()
        }
        methods[name] = {**run, "exponent": fitted, "theory": expected}
    return {"methods": methods}


def _draw(content: dict[str, Any]) -> Any:
    """Draw measured times, and thin lines that rise as the theory says through the middle of them."""
    from matplotlib.ticker import LogLocator, NullFormatter

    figure, axes = panels(1, 3, 3.6, 3.6)
    words = {"n": "training rows n", "d": "inputs d", "m": "basis functions or trees m"}
    for ax, (letter, label) in zip(axes.flat, words.items(), strict=True):
        curves = {}
        for name, run in content["methods"].items():
            label_of_line = f"{name}: {run['exponent'][letter]:.2f} ({run['theory'][letter]:.2f})"
            curves[label_of_line] = (run["grid"][letter], run["seconds"][letter])
        plot_complexity(curves, ax)
        dress(ax)
        for name, run in content["methods"].items():
            theory = _theory(name, letter, run["centre"], run["grid"][letter])
            scale = np.exp(np.mean(np.log(run["seconds"][letter])) - np.mean(np.log(theory)))
            ax.plot(run["grid"][letter], scale * theory, color=LOOKS[name]["color"], lw=0.6, alpha=0.7)
        ax.set(yscale="log", xlabel=label, ylabel="seconds")
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        ax.yaxis.set_minor_formatter(NullFormatter())
        low, high = ax.get_ylim()
        ax.set_ylim(low, high * (high / low) ** 0.35)  # room for the legend
        ax.legend(fontsize=7.5, title=f"exponent of {letter}, and of the theory", title_fontsize=7.5, loc="upper left")
    return figure


def _table(content: dict[str, Any]) -> Table:
    rows = []
    for name, run in content["methods"].items():
        pairs = [f"{run['exponent'][letter]:.2f} ({run['theory'][letter]:.2f})" for letter in ("n", "d", "m")]
        theirs = published.SECONDS.get(name)
        seconds = f"{run['paper_run']['seconds']:.1f}"
        rows.append((name, THEORY[name][0], *pairs, seconds, "" if theirs is None else f"{theirs:g}"))
    headings = ("method", "theory", "n", "d", "m", "seconds of the paper's run", "paper")
    return Table(headings, tuple(rows))


TIME = Experiment(
    "time", "Table 3, section 7.6", "time against n, d and m beside the theory", _parts, _assemble, _draw, _table
)
