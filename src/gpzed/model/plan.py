"""The options of an estimator as its training sees them: a recipe for one member, a plan for the committee."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from gpzed.errors import DataWarning
from gpzed.gp.covariance import get_structure
from gpzed.gp.parameters import Layout, MeanFunction
from gpzed.gp.whitening import WhiteningMethod
from gpzed.model.options import Training, choose_n_basis

if TYPE_CHECKING:
    from gpzed.model.estimator import GPzRegressor


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


@dataclass(frozen=True)
class Plan:
    """How a committee is trained.

    Attributes
    ----------
    recipe : Recipe
        Of each member.
    n_members : int
    coverage : bool
        Whether to learn the density of the training inputs.
    recalibration : {"global", "local"} or None
    n_threads : int or None
    random_state : int, numpy.random.Generator or None
    """

    recipe: Recipe
    n_members: int
    coverage: bool
    recalibration: Literal["global", "local"] | None
    n_threads: int | None
    random_state: int | np.random.Generator | None


def make_plan(model: GPzRegressor, n: int) -> Plan:
    """Return the plan for n training rows, what "auto" means settled."""
    n_basis = model.n_basis
    if n_basis == "auto":
        n_basis = choose_n_basis(n, model.n_features_in_, get_structure(model.covariance))
    elif n_basis > n:
        warnings.warn(
            f"`n_basis` is {n_basis}, but there are {n} rows to train on; {n} basis functions are used.",
            DataWarning,
            stacklevel=3,
        )
    recipe = Recipe(
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
    recalibration = model.calibrate if model.calibrate in ("global", "local") else None
    return Plan(recipe, model.n_members, bool(model.coverage), recalibration, model.n_threads, model.random_state)
