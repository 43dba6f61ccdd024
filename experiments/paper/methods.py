"""The methods that the paper compares, behind one interface: train on the sets, predict distributions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.data import Sets
from experiments.rivals.base import Effort, Trained
from experiments.rivals.exact import ExactGPRegressor
from experiments.rivals.forest import train_forest
from experiments.rivals.mlp import train_mlp
from experiments.rivals.network import NETWORK
from experiments.rivals.randomised import train_randomised
from experiments.rivals.spgp import SPGPRegressor
from experiments.rivals.tpz import HOW_TO_GET_TPZ, has_tpz, train_tpz
from gpzed import GPzRegressor
from gpzed.engine.lbfgs import OptimizeReport
from gpzed.errors import ConvergenceWarning, DataWarning
from gpzed.model import Training, TrainingReport

EXACT_ROWS = 2_000
"""Rows of the exact Gaussian process, whose time grows with their cube."""
TPZ_TEST_ROWS = 2_000
"""Rows predicted by RAIL's TPZ, which goes over objects and trees in a Python loop."""


@dataclass(frozen=True)
class Method:
    """One row of the tables."""

    name: str
    counted: str  # what its size counts: basis functions, trees, ...
    train: Callable[[Sets, int, Effort], Trained]  # of sets, a size and an effort
    max_test: int | None = None  # most rows it predicts in reasonable time
    available: Callable[[], bool] = lambda: True
    how_to_get: str = ""  # what to do where it is not available


def _details(report: TrainingReport | OptimizeReport) -> dict[str, Any]:
    return {
        "status": report.status,
        "iterations": len(report.history),
        "best_iteration": report.best_iteration,
        "evaluations": report.n_evaluations,
        "validation_score": report.best_score,
    }


def paper_model(
    size: int, covariance: str, *, training: Mapping[str, Any] | None = None, **options: Any
) -> GPzRegressor:
    """Return `GPzRegressor.paper` with some options changed, those of its training by name."""
    changed = Training(**{"coarse_to_fine": False, **(training or {})})
    return GPzRegressor.paper(size, covariance, training=changed, **options)


def _gpz(covariance: str) -> Callable[[Sets, int, Effort], Trained]:
    def train(sets: Sets, size: int, effort: Effort) -> Trained:
        options = {"random_state": effort.seed, "n_threads": effort.n_threads}
        model = paper_model(size, covariance, training=effort.iterations, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # recorded as the status
            model.fit(sets.train.X, sets.train.z, validation_data=sets.validation_data)
        return Trained(model.predict_distribution, _details(model.report_))

    return train


def _spgp(sets: Sets, size: int, effort: Effort) -> Trained:
    model = SPGPRegressor(size, random_state=effort.seed, n_threads=effort.n_threads, **effort.iterations)
    model.fit(sets.train.X, sets.train.z, validation_data=sets.validation_data)
    return Trained(model.predict_distribution, _details(model.report_))


def _exact(sets: Sets, size: int, effort: Effort) -> Trained:
    model = ExactGPRegressor(max_rows=size, random_state=effort.seed)
    with warnings.catch_warnings():
        for expected in (ConvergenceWarning, DataWarning):  # it is meant to take a subset, which is recorded
            warnings.simplefilter("ignore", expected)
        model.fit(sets.train.X, sets.train.z)
    return Trained(model.predict_distribution, {"rows": model.n_rows_})


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("TPZ", "trees", train_tpz, TPZ_TEST_ROWS, has_tpz, HOW_TO_GET_TPZ),
        Method("forest", "trees", train_forest),
        Method("randomised", "learners", train_randomised),
        Method("exact GP", "training rows", _exact),
        Method("SPGP", "pseudo-inputs", _spgp),
        *(Method(f"GP{code}", "basis functions", _gpz(code)) for code in ("GL", "VL", "GD", "VD", "GC", "VC")),
    )
}
"""All methods of the tables by name, in their order."""

NETWORKS: dict[str, Method] = {
    "ANN": Method("ANN", "neurons", _gpz(NETWORK.code)),
    "MLP": Method("MLP", "neurons", train_mlp),
}
"""The networks of appendix B: the sigmoid basis trained by the evidence, and by least squares."""
