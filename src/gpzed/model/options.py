"""The options of the estimators: what is allowed, in one table, and the choices behind "auto"."""

from __future__ import annotations

from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

from gpzed.gp.covariance import BASES, Structure

CHOICES: dict[str, tuple[str, ...]] = {
    "covariance": tuple(BASES),
    "noise": ("heteroscedastic", "homoscedastic"),
    "relevance": ("ard", "shared"),
    "mean_function": ("zero", "constant", "linear"),
    "whitening": ("pca", "scale", "none"),
    "weighting": ("likelihood", "precision"),
    "recalibrate": ("none", "global", "local"),
    "init": ("kmeans", "data", "random"),
    "missing": ("marginalise", "error"),
    "length_scale": ("shared", "per_feature"),
}
COUNTS = ("n_heads", "n_epochs", "n_members", "max_iter", "patience", "memory", "checkpoint_every", "noise_classes")
OPTIONAL_COUNTS = ("n_threads", "max_evaluations")
ROWS_PER_NUMBER = 5.0
"""Training rows per free number of the basis functions (centre and shape) with n_basis="auto"; measured."""
MIN_BASIS, MAX_BASIS = 5, 100


def choose_n_basis(n: int, d: int, structure: Structure) -> int:
    """Choose the number of basis functions for n training rows with d features."""
    numbers = d + {"L": 1, "D": d, "C": d * (d + 1) // 2, "N": 1}[structure.code[1]] * (not structure.is_global)
    return int(min(max(n / (ROWS_PER_NUMBER * numbers), MIN_BASIS), MAX_BASIS))


def check_options(estimator: Any) -> None:
    """Check every option of an estimator that it has.

    Raises
    ------
    ValueError, TypeError
        Naming the option, its value and what is allowed.
    """
    options = estimator.get_params(deep=False)
    for name, allowed in CHOICES.items():
        value = options.get(name, allowed[0])
        if not isinstance(value, str) or value not in allowed:
            near = get_close_matches(str(value), allowed, 1, cutoff=0.4)
            hint = f' Did you mean "{near[0]}"?' if near else ""
            listed = ", ".join(f'"{choice}"' for choice in allowed)
            raise ValueError(f"`{name}` is {value!r}; expected one of {listed}.{hint}")
    for name in COUNTS:
        if name in options:
            _check_count(name, options[name])
    for name in OPTIONAL_COUNTS:
        if options.get(name) is not None:
            _check_count(name, options[name])
    for name in ("n_basis", "density_components"):
        value = options.get(name, "auto")
        if not isinstance(value, str) or value != "auto":
            _check_count(name, value, 'a whole number >= 1 or "auto"')
    _check_range(options, "validation_fraction", 0.0, 0.9)
    _check_range(options, "shape_prior", 0.0, 1e6)
    _check_range(options, "tol", 0.0, 1.0)
    if options.get("covariance") == "ANN" and options.get("n_heads", 1) > 1:
        raise ValueError(
            f'`covariance` is "ANN" but `n_heads` is {options["n_heads"]}; expected 1, since mixtures are for the '
            'covariances alone. Set `n_heads` to 1, or `covariance` to one such as "VC".'
        )
    if options.get("recalibrate") == "local" and not options.get("coverage", True):
        raise ValueError(
            '`recalibrate` is "local" but `coverage` is False; expected True, since regions are those of its density. '
            'Set `coverage` to True, or `recalibrate` to "global".'
        )
    if options.get("max_time") is not None:
        _check_range(options, "max_time", 0.0, 1e9)


def _check_count(name: str, value: Any, expected: str = "a whole number >= 1") -> None:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"`{name}` is {value!r}; expected {expected}.")
    if value < 1:
        raise ValueError(f"`{name}` is {value}; expected {expected}.")


def _check_range(options: dict[str, Any], name: str, low: float, high: float) -> None:
    value = options.get(name, low)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"`{name}` is {value!r}; expected a number from {low:g} to {high:g}.")
    if not low <= float(value) <= high:
        raise ValueError(f"`{name}` is {value}; expected a number from {low:g} to {high:g}.")
