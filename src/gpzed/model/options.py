"""The options of the estimator: `Training`, what is allowed, and the `Recipe` that they make for one member."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from difflib import get_close_matches
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gpzed.engine.lbfgs import Budget
from gpzed.errors import DataWarning
from gpzed.gp.covariance import STRUCTURES, Structure, get_structure
from gpzed.gp.initialize import InitMethod
from gpzed.gp.parameters import Layout, MeanFunction
from gpzed.gp.whitening import WhiteningMethod

if TYPE_CHECKING:
    from gpzed.model.estimator import GPzRegressor

Calibration = Literal["global", "local", "noise", "none"]

ROWS_PER_NUMBER = 5.0
"""Training rows per free number of the basis functions (centre and shape) with n_basis="auto"; measured."""
FEW_BASIS, ROWS_PER_BASIS = 50, 6.0
"""So many basis functions at least, where there are so many rows for each: priors on shapes and weights tame them."""
MIN_BASIS, MAX_BASIS = 5, 100
N_NETWORKS, MIN_NETWORK_ROWS = 5, 100
"""Networks of a committee with n_networks="auto", and rows from which on there are any."""


@dataclass(frozen=True)
class Training:
    """How a model is trained: where it starts, when it stops, and how finely rows are sorted.

    Parameters
    ----------
    init : {"kmeans", "data", "random"}
        Where basis functions start: cluster centres, training rows, or uniformly in the box that holds the data.
    max_iter : int
        Limit on iterations of L-BFGS, per member.
    max_time : float or None
        Limit on wall time in seconds, per member.
    max_evaluations : int or None
        Limit on evaluations of the evidence, per member.
    patience : int
        Iterations without a better validation score after which training stops; 15 at most where heads follow.
    tol : float
        Relative change of the objective at which training counts as converged.
    memory : int
        Length of the memory of L-BFGS.
    coarse_to_fine : bool
        Whether to train on growing random subsets first when there are many rows. The last stage uses all rows.
    n_epochs : int
        Passes over the training rows in which heads are trained, if `n_heads` is greater than 1.
    density_components : int or "auto"
        Gaussians that make up the density of the inputs, used for rows with missing or noisy inputs. "auto" chooses 1
        to 6 by held-out likelihood if training rows are such, and takes one otherwise.
    noise_classes : int
        Classes into which the errors of inputs (`X_std`) are sorted for training; rows of one class share their mean
        error variances. Predictions take the errors of every row as they are.

    Raises
    ------
    ValueError, TypeError
        Naming the option, its value and what is allowed.
    """

    init: InitMethod = "kmeans"
    max_iter: int = 500
    max_time: float | None = None
    max_evaluations: int | None = None
    patience: int = 40
    tol: float = 1e-9
    memory: int = 20
    coarse_to_fine: bool = True
    n_epochs: int = 80
    density_components: int | Literal["auto"] = "auto"
    noise_classes: int = 16

    def __post_init__(self) -> None:
        check_values({field.name: getattr(self, field.name) for field in fields(self)})

    @property
    def budget(self) -> Budget:
        """The limits of the optimiser."""
        return Budget(
            max_iter=self.max_iter,
            max_evaluations=self.max_evaluations,
            max_time=self.max_time,
            patience=self.patience,
            tolerance=self.tol,
        )


def check_options(estimator: Any) -> None:
    """Check every option of an estimator, and that they go together; errors name option, value and what is allowed."""
    options = estimator.get_params(deep=False)
    check_values(options)
    if options.get("wrong_labels") not in (None, "auto", 0.0) and options.get("weighting") == "precision":
        raise ValueError(
            f'`wrong_labels` is {options["wrong_labels"]!r} but `weighting` is "precision"; expected "likelihood", '
            "since doubts are weights of the likelihood of a row."
        )
    if options.get("calibrate") == "local" and not options.get("coverage", True):
        raise ValueError(
            '`calibrate` is "local" but `coverage` is False; expected True, since regions are those of its density. '
            'Set `coverage` to True, or `calibrate` to "global".'
        )


def check_values(options: dict[str, Any]) -> None:
    """Check values by the names of their options; those that the table does not have are not looked at."""
    for name, value in options.items():
        if name in CONSTRAINTS:
            CONSTRAINTS[name](name, value)


@dataclass(frozen=True)
class Recipe:
    """All that decides how one member is trained; see `gpzed.GPzRegressor` for the meaning of each."""

    n_basis: int
    covariance: str
    heteroscedastic: bool
    relevance: bool
    mean_function: MeanFunction
    whitening: WhiteningMethod
    weighted_precision: bool
    shape_prior: float
    calibrate_noise: bool
    n_heads: int
    is_alone: bool  # a mixture of several members is wider than each: none needs more noise
    training: Training

    def layout(self, d: int) -> Layout:
        """Return the layout of the parameters for d inputs."""
        return Layout.of(
            self.n_basis,
            d,
            self.covariance,
            heteroscedastic=self.heteroscedastic,
            relevance=self.relevance,
            mean_function=self.mean_function,
        )


def make_recipe(model: GPzRegressor, n: int) -> Recipe:
    """Return how an estimator trains a member on n rows, what "auto" means settled."""
    n_basis = model.n_basis
    usual = min(choose_n_basis(n, model.n_features_in_, get_structure(model.covariance)), n)
    if n_basis == "auto":
        n_basis = usual
    elif n_basis > n:
        warnings.warn(
            f"`n_basis` is {n_basis}, but there are {n} rows to train on; {n} basis functions are used, one per row, "
            f'which takes long. "auto" would take {usual}.',
            DataWarning,
            stacklevel=4,
        )
    return Recipe(
        n_basis=int(min(n_basis, n)),
        covariance=model.covariance,
        heteroscedastic=model.noise == "heteroscedastic",
        relevance=model.relevance == "ard",
        mean_function=model.mean_function,
        whitening=model.whitening,
        weighted_precision=model.weighting == "precision",
        shape_prior=model.shape_prior,
        calibrate_noise=model.calibrate != "none",
        n_heads=model.n_heads,
        is_alone=model.n_members == 1,
        training=model.training or Training(),
    )


def choose_n_networks(model: GPzRegressor, n: int) -> int:
    """Return how many networks a committee has, for n training rows: none beside the paper's model, or for few rows."""
    if model.n_networks != "auto":
        return int(model.n_networks)
    is_plain = model.n_members == 1 or model.n_heads == 1
    return 0 if is_plain or n < MIN_NETWORK_ROWS else min(model.n_members, N_NETWORKS)


def choose_n_basis(n: int, d: int, structure: Structure) -> int:
    """Choose the number of basis functions for n training rows with d features."""
    few = min(n / ROWS_PER_BASIS, FEW_BASIS)
    return int(min(max(n / (ROWS_PER_NUMBER * (d + structure.n_shape(d))), few, MIN_BASIS), MAX_BASIS))


Check = Callable[[str, Any], None]
"""Raises if the option of a name cannot have a value."""


def _one_of(*allowed: str) -> Check:
    def check(name: str, value: Any) -> None:
        if not isinstance(value, str) or value not in allowed:
            near = get_close_matches(str(value), allowed, 1, cutoff=0.4)
            hint = f' Did you mean "{near[0]}"?' if near else ""
            listed = ", ".join(f'"{choice}"' for choice in allowed)
            raise ValueError(f"`{name}` is {value!r}; expected one of {listed}.{hint}")

    return check


def _structure(name: str, value: Any) -> None:
    _one_of(*STRUCTURES)(name, value)  # a table that may grow


def _count(most: int = 10**9, *, least: int = 1, auto: bool = False, optional: bool = False) -> Check:
    others = ' or "auto"' if auto else " or None" if optional else ""
    expected = f"a whole number >= {least}{others}, at most {most}"

    def check(name: str, value: Any) -> None:
        if (auto and isinstance(value, str) and value == "auto") or (optional and value is None):
            return
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise TypeError(f"`{name}` is {value!r}; expected {expected}.")
        if not least <= int(value) <= most:
            raise ValueError(f"`{name}` is {value}; expected {expected}.")

    return check


def _number(low: float, high: float, *, auto: bool = False, optional: bool = False) -> Check:
    expected = f"a number from {low:g} to {high:g}" + (' or "auto"' if auto else " or None" if optional else "")

    def check(name: str, value: Any) -> None:
        if (auto and isinstance(value, str) and value == "auto") or (optional and value is None):
            return
        if isinstance(value, bool) or not isinstance(value, Real):
            raise TypeError(f"`{name}` is {value!r}; expected {expected}.")
        if not low <= float(value) <= high:
            raise ValueError(f"`{name}` is {value}; expected {expected}.")

    return check


def _switch(name: str, value: Any) -> None:
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"`{name}` is {value!r}; expected True or False.")


def _training(name: str, value: Any) -> None:
    if not isinstance(value, Training | None):
        raise TypeError(f"`{name}` is {value!r}; expected a record such as gpzed.Training(max_iter=200), or None.")


CONSTRAINTS: dict[str, Check] = {
    "n_basis": _count(100_000, auto=True),
    "covariance": _structure,
    "noise": _one_of("heteroscedastic", "homoscedastic"),
    "relevance": _one_of("ard", "shared"),
    "mean_function": _one_of("zero", "constant", "linear"),
    "n_heads": _count(1000),
    "n_members": _count(1000),
    "n_networks": _count(1000, least=0, auto=True),
    "whitening": _one_of("pca", "scale", "none"),
    "missing": _one_of("marginalise", "error"),
    "weighting": _one_of("likelihood", "precision"),
    "shape_prior": _number(0.0, 1e6),
    "validation_fraction": _number(0.0, 0.9),
    "calibrate": _one_of("global", "local", "noise", "none"),
    "coverage": _switch,
    "wrong_labels": _number(0.0, 0.5, auto=True),
    "training": _training,
    "n_threads": _count(4096, optional=True),
    "init": _one_of("kmeans", "data", "random"),
    "max_iter": _count(),
    "max_time": _number(0.0, 1e9, optional=True),
    "max_evaluations": _count(optional=True),
    "patience": _count(),
    "tol": _number(0.0, 1.0),
    "memory": _count(10_000),
    "coarse_to_fine": _switch,
    "n_epochs": _count(1_000_000),
    "density_components": _count(1000, auto=True),
    "noise_classes": _count(10_000),
    "checkpoint_every": _count(),
}
"""What every option may be: of the estimators, of `Training`, and of `gpzed.model.run.Run`."""
