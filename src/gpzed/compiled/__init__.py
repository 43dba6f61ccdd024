"""Compiled twins of functions in NumPy: the same arguments and results, faster.

What a function does is said in NumPy, where its name is. `substitute` looks up the twin where it is called; without a
compiled library every function is its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

from gpzed.compiled.binding import is_compiled
from gpzed.errors import SpeedWarning

Function = TypeVar("Function", bound=Callable[..., Any])

TWINS = {
    "gpzed.gp.predictive.moments": "gpzed.compiled.passes.moments",
    "gpzed.gp.prior.common_shape": "gpzed.compiled.shapes.common_shape",
    "gpzed.incomplete.blur.blurred_coefficients": "gpzed.compiled.shapes.blurred_coefficients",
    "gpzed.incomplete.blur.blurred_pull_back": "gpzed.compiled.shapes.blurred_pull_back",
    "gpzed.incomplete.spread.pair_sums": "gpzed.compiled.pairs.pair_sums",
    "gpzed.incomplete.spread.row_sums": "gpzed.compiled.pairs.row_sums",
    "gpzed.mixture.likelihood.likelihood": "gpzed.compiled.heads.likelihood",
    "gpzed.mixture.likelihood.moments": "gpzed.compiled.heads.moments",
    "gpzed.mixture.quick.fill_columns": "gpzed.compiled.quick.fill_columns",
    "gpzed.mixture.network.moments": "gpzed.compiled.network.moments",
    "gpzed.mixture.network.mean_log_likelihood": "gpzed.compiled.network.mean_log_likelihood",
    "gpzed.mixture.network_training.descend": "gpzed.compiled.network.descend",
    "gpzed.mixture.likelihood.batch_posterior": "gpzed.compiled.heads.batch_posterior",
    "gpzed.mixture.training.descend": "gpzed.compiled.heads.descend",
    "gpzed.model.coverage.read_density": "gpzed.compiled.coverage.read_density",
    "gpzed.prediction.compact.compact": "gpzed.compiled.points.compact",
    "gpzed.prediction.reduce.merge": "gpzed.compiled.points.merge",
    "gpzed.prediction.reduce.stored": "gpzed.compiled.points.stored",
}

OVER_BLOCKS = {
    "gpzed.gp.evidence.forward": "gpzed.compiled.passes.forward",
    "gpzed.gp.evidence.backward": "gpzed.compiled.passes.backward",
    "gpzed.gp.predictive.score": "gpzed.compiled.passes.score",
    "gpzed.mixture.likelihood.held_out_likelihood": "gpzed.compiled.heads.held_out_likelihood",
}
"""Twins of kernels that add up over blocks in one call."""

SLOWER = "training takes about three times as long, prediction ten times or more"
"""What NumPy alone costs (`python benchmarks/kernels.py --size 8000`, one thread): 2.8 and 12 times the CPU time."""


def warn_if_missing() -> None:
    """Say that nothing was compiled, and what that costs."""
    if not is_compiled():
        warnings.warn(
            f"gpzed runs without its compiled kernels: {SLOWER}; results are nearly the same. Install a wheel for this "
            "platform, or a C compiler and then gpzed again.",
            SpeedWarning,
            stacklevel=2,
        )


def substitute(function: Function) -> Function:
    """Return the compiled twin of a function, or the function itself where there is none."""
    twin = TWINS.get(f"{function.__module__}.{function.__qualname__}") if is_compiled() else None
    return function if twin is None else _load(twin)


def over_blocks(kernel: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return the compiled sum of a kernel over blocks, ``(list of (block, scratch), *arguments)``; None without one.

    It gives None where it cannot do the work.
    """
    twin = OVER_BLOCKS.get(f"{kernel.__module__}.{kernel.__qualname__}") if is_compiled() else None
    return None if twin is None else _load(twin)


@cache
def _load(path: str) -> Any:
    module, name = path.rsplit(".", 1)
    return getattr(import_module(module), name)
