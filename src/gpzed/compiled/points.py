"""Moments, points of least loss and merged mixtures, each in one call; `gpzed.prediction` has the same in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpzed._types import FloatArray, IntArray
from gpzed.compiled.binding import call

SERIES_FROM = 30.0
"""Cut, in standard deviations, beyond which the moments of the tail come from their asymptotic series, whose first
neglected term is then below 1e-9 of the value, as is the cancellation of the closed form."""


def least_loss_points(
    weights: FloatArray,
    means: FloatArray,
    stds: FloatArray,
    nodes: tuple[FloatArray, FloatArray, FloatArray],
    *,
    n_light: int = 0,
    lower: float | None,
    cuts: tuple[float, float, FloatArray, FloatArray] | None = None,
    **constants: Any,
) -> FloatArray:
    """Return points (n,) of least expected loss of Gaussian mixtures (n, K), given before the cut at `lower`.

    The nodes are those of a quadrature for the standard normal, with the probability above each and its weight, the
    last `n_light` for components that are light; `cuts` has the same beyond a cut, as a table. The constants are those
    of `gpzed.prediction.point`.
    """
    n, K = weights.shape
    t, above, share = nodes
    points = np.empty(n)
    bound = -np.inf if lower is None else lower
    arrays: dict[str, Any] = {"weights": weights, "means": means, "stds": stds, "t": t, "above": above, "share": share}
    if cuts is not None:
        first, per_unit, excess, log_tails = cuts
        arrays |= {"first_cut": first, "cuts_per_unit": per_unit, "excess": excess, "log_tails": log_tails}
        arrays["n_cuts"] = len(log_tails)
    call("points", n=n, K=K, G=len(t) - n_light, g=n_light, lower=bound, **constants, **arrays, points=points)
    return points


def compact(
    weights: FloatArray,
    means: FloatArray,
    model_variances: FloatArray,
    noise_variances: FloatArray,
    input_variances: FloatArray | None,
    *,
    slots: int,
    light: float,
    at_once: float,
    reach: float,
) -> FloatArray:
    """Merge components that say nearly the same; see `gpzed.prediction.compact`."""
    n, K = weights.shape
    compacted = np.empty((3, n, slots))
    arrays: dict[str, Any] = {"weights": weights, "means": means, "input_variances": input_variances}
    arrays |= {"model_variances": model_variances, "noise_variances": noise_variances}
    call("compact", n=n, K=K, slots=slots, light=light, at_once=at_once, reach=reach, **arrays, compacted=compacted)
    return compacted


def merge(
    weights: FloatArray,
    means: FloatArray,
    variances: FloatArray,
    *,
    most: int,
    light: float,
    tolerance: float,
    lower: float | None = None,
    uncut: float = 0.0,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Merge the components of each mixture to at most `most`; see `gpzed.prediction.reduce`."""
    n, K = weights.shape
    merged = np.empty((3, n, most))
    mixtures: dict[str, Any] = {"weights": weights, "means": means, "variances": variances}
    assert most >= 2, "light components need a place of their own"
    limits: dict[str, Any] = {"light": light, "tolerance": tolerance, "series_from": SERIES_FROM}
    limits |= {"lower": -np.inf if lower is None else lower, "uncut": uncut}
    call("merge", n=n, K=K, most=most, **limits, **mixtures, merged=merged)
    return merged[0], merged[1], merged[2]


def stored(
    weights: FloatArray,
    means: FloatArray,
    variances: FloatArray,
    *,
    lower: float | None,
    uncut: float,
    cuts: tuple[FloatArray, FloatArray],
    digits: tuple[float, int, int],
) -> FloatArray:
    """Return merged mixtures as they are stored; see `gpzed.prediction.reduce`."""
    n, most = weights.shape
    mixtures = np.stack([weights, means, variances])
    step, std_digits, mean_digits = digits
    steps: dict[str, Any] = {
        "weight_step": step,
        "per_std": 2.0 ** (std_digits - 1),
        "per_mean": 2.0 ** (mean_digits - 1),
    }
    bound: dict[str, Any] = {"lower": -np.inf if lower is None else lower, "uncut": uncut}
    table: dict[str, Any] = {"n_cuts": len(cuts[0]), "cuts": cuts[0], "ratios": cuts[1]}
    call("stored", n=n, most=most, **bound, **steps, **table, mixtures=mixtures)
    return mixtures


def mixture_moments(
    arrays: dict[str, FloatArray], members: IntArray, parts: IntArray, *, lower: float | None, **constants: Any
) -> FloatArray:
    """Return mean and parts of the variance, (4, n), of Gaussian mixtures (n, K), given before the cut at `lower`.

    Members and parts say where runs of components begin, as in `gpzed.prediction.mixture.moments`.
    """
    n, K = arrays["weights"].shape
    fields: dict[str, Any] = {"n": n, "K": K, "n_members": len(members), "n_parts": len(parts), **arrays}
    fields |= {"members": np.append(members[1:], K), "parts": np.append(parts[1:], K)}
    moments = np.empty((4, n))
    call(
        "moments",
        lower=-np.inf if lower is None else lower,
        series_from=SERIES_FROM,
        **constants,
        **fields,
        moments=moments,
    )
    return moments
