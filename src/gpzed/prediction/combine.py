"""Several predictions made into one: members of a committee, or parts of a catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from gpzed._types import AnyArray, FloatArray
from gpzed.prediction import checks
from gpzed.prediction.components import ARRAYS, OF_ALL, Components
from gpzed.prediction.mixture import log_sum_exp

if TYPE_CHECKING:
    from gpzed.prediction.distribution import Prediction


def mixed(predictions: Sequence[Prediction], weights: ArrayLike | None) -> dict[str, Any]:
    """Return the attributes of the mixture of several predictions for the same n objects."""
    lower = _common_lower(predictions)
    sizes = [len(p) for p in predictions]
    if len(set(sizes)) != 1:
        raise ValueError(f"`predictions` have {sizes} objects; members of a mixture must describe the same objects.")
    shares = checks.member_shares(weights, sizes[0], len(predictions))  # (n, M)
    coverages = [p.coverage for p in predictions if p.coverage is not None]
    coverage = None
    if len(coverages) == len(predictions):
        coverage = np.clip((shares * np.column_stack(coverages)).sum(axis=1), 0.0, 1.0)
    flags = [p.flags for p in predictions if p.flags is not None]
    names = {p.point for p in predictions if isinstance(p.point, str)}
    return {
        "components": mix([p.components for p in predictions], shares, lower),
        "lower": lower,
        "coverage": coverage,
        "flags": np.bitwise_or.reduce(flags) if flags else None,
        "point": names.pop() if len(names) == 1 else "mean",
    }


def joined(predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Return the attributes of one prediction for the objects of all."""
    return {
        "lower": _common_lower(predictions),
        "components": join([p.components for p in predictions]),
        "coverage": joined_values("coverage", predictions),
        "flags": joined_values("flags", predictions),
        "point": joined_point(predictions),
    }


def mix(parts: Sequence[Components], shares: FloatArray, lower: float | None) -> Components:
    """Return the mixture of several densities of the same n objects, each cut at `lower`, with weights (n, M).

    Members' weights are divided by their probability above the cut, which the renormalisation of the whole restores.
    """
    with np.errstate(divide="ignore"):
        logs = [np.log(shares[:, [i]]) + part.log_weights(lower) for i, part in enumerate(parts)]
    stacked = np.concatenate(logs, axis=1).T  # (sum K, n)
    arrays = {name: np.concatenate([getattr(part, name) for part in parts], axis=1) for name in ARRAYS[1:]}
    arrays["weights"] = np.exp(stacked - log_sum_exp(stacked)).T
    member, taken = [], 0
    for part in parts:
        _, own = np.unique(part.member, return_inverse=True)
        member.append(np.where(part.member == OF_ALL, OF_ALL, taken + own))
        taken += int(own.max()) + 1
    return Components(**arrays, member=np.concatenate(member), input=np.concatenate([part.input for part in parts]))


def join(parts: Sequence[Components]) -> Components:
    """Return the components of the objects of all; where some have fewer, the first is repeated with weight zero."""
    longest = max(parts, key=lambda part: part.n_components)
    arrays = {name: np.concatenate([_padded(part, name, longest.n_components) for part in parts]) for name in ARRAYS}
    alike = all(
        np.array_equal(part.member, longest.member) and np.array_equal(part.input, longest.input) for part in parts
    )
    if alike:
        return Components(**arrays, member=longest.member, input=longest.input)
    K = longest.n_components  # of different make: all disagreement counts as that of models
    return Components(**arrays, member=np.arange(K), input=np.zeros(K, dtype=np.intp))


def _padded(part: Components, name: str, n_components: int) -> FloatArray:
    values: FloatArray = getattr(part, name)
    filler = np.repeat(values[:, :1], n_components - part.n_components, axis=1)
    return np.concatenate([values, 0 * filler if name == "weights" else filler], axis=1)


def _common_lower(predictions: Sequence[Prediction]) -> float | None:
    """Return the truncation that all predictions share."""
    if not predictions:
        raise ValueError("`predictions` is empty; give at least one Prediction.")
    bounds = [p.lower for p in predictions]
    if any(b != bounds[0] for b in bounds):
        raise ValueError(
            f"`predictions` have different `lower` {bounds}; truncate them alike first with truncate(lower)."
        )
    return bounds[0]


def joined_point(predictions: Sequence[Prediction]) -> str | FloatArray:
    """Return the point estimate that all quote, or the numbers quoted."""
    point = predictions[0].point
    if isinstance(point, str) and all(isinstance(p.point, str) and p.point == point for p in predictions):
        return point
    return np.concatenate([p.z_phot for p in predictions])


def joined_values(name: str, predictions: Sequence[Prediction]) -> AnyArray | None:
    """Return the coverage or flags of the objects of all; given in all or none."""
    values = [getattr(p, name) for p in predictions]
    given = [v is not None for v in values]
    if any(given) and not all(given):
        raise ValueError(f"`{name}` is given in {sum(given)} of {len(given)} predictions; give it in all or none.")
    return np.concatenate(values) if all(given) else None
