"""Several predictions made into one: members of a committee, or parts of a catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from gpzed._types import BoolArray, FloatArray, IntArray
from gpzed.prediction._mixture import log_sum_exp
from gpzed.prediction._validation import as_float, require

if TYPE_CHECKING:
    from gpzed.prediction.distribution import Prediction

COMPONENT_FIELDS = ("weights", "means", "model_variances", "noise_variances", "input_variances")


def _common_lower(predictions: Sequence[Prediction]) -> float | None:
    """Return the truncation that all predictions share."""
    if not predictions:
        msg = "`predictions` is empty; give at least one Prediction."
        raise ValueError(msg)
    bounds = [p.lower for p in predictions]
    if any(b != bounds[0] for b in bounds):
        msg = f"`predictions` have different `lower` {bounds}; truncate them alike first with truncate(lower)."
        raise ValueError(msg)
    return bounds[0]


def committee_fields(predictions: Sequence[Prediction], weights: npt.ArrayLike | None) -> dict[str, Any]:
    """Return the fields of the mixture of several predictions for the same n objects.

    With truncation the mixture is that of the truncated densities: members' weights are divided by their
    probability above the cut, which the renormalisation of the whole restores.
    """
    lower = _common_lower(predictions)
    sizes = [len(p) for p in predictions]
    if len(set(sizes)) != 1:
        msg = f"`predictions` have {sizes} objects; members of a mixture must describe the same objects."
        raise ValueError(msg)
    shares = _member_shares(weights, sizes[0], len(predictions))  # (n, M)
    n_inputs = max(p.n_inputs for p in predictions)
    n_heads = n_inputs * max(p.n_heads // p.n_inputs for p in predictions)
    whole = (n_heads, n_inputs)
    if any(p.n_heads != p.n_components and (p.n_heads, p.n_inputs) != whole for p in predictions):
        n_heads, n_inputs = 1, 1  # committees of different make: all disagreement counts as model variance
    aligned = [_aligned(p, n_heads, n_inputs) for p in predictions]
    fields: dict[str, Any] = {
        name: np.concatenate(
            [getattr(p, name)[:, index] for p, (index, _) in zip(predictions, aligned, strict=True)], 1
        )
        for name in COMPONENT_FIELDS
    }
    with np.errstate(divide="ignore"):
        logs = [
            np.log(shares[:, [i]]) + np.where(used, _log_weights(p)[:, index], -np.inf)
            for i, (p, (index, used)) in enumerate(zip(predictions, aligned, strict=True))
        ]
    stacked = np.concatenate(logs, axis=1).T  # (sum K, n)
    fields["weights"] = np.exp(stacked - log_sum_exp(stacked)).T
    coverages = [p.coverage for p in predictions if p.coverage is not None]
    if len(coverages) == len(predictions):
        fields["coverage"] = np.clip((shares * np.column_stack(coverages)).sum(axis=1), 0.0, 1.0)
    flags = [p.flags for p in predictions if p.flags is not None]
    if flags:
        fields["flags"] = np.bitwise_or.reduce(flags)
    names = {p.point for p in predictions if isinstance(p.point, str)}
    point = names.pop() if len(names) == 1 else "mean"
    return {**fields, "lower": lower, "n_heads": n_heads, "n_inputs": n_inputs, "point": point}


def _aligned(prediction: Prediction, n_heads: int, n_inputs: int) -> tuple[IntArray, BoolArray]:
    """Return columns that make the one model of a prediction a run of `n_heads` in `n_inputs` parts, and which count.

    The first column stands, with weight zero, where the model has fewer parts or components in them.
    """
    if prediction.n_heads != prediction.n_components or n_heads < prediction.n_heads:
        index = np.arange(prediction.n_components)
        return index, np.ones(len(index), dtype=bool)
    index = np.full((n_inputs, n_heads // n_inputs), -1)
    own = np.arange(prediction.n_heads).reshape(prediction.n_inputs, -1)
    index[: own.shape[0], : own.shape[1]] = own
    return np.maximum(index, 0).ravel(), (index >= 0).ravel()


def _log_weights(prediction: Prediction) -> FloatArray:
    """Return log weights (n, K), less the log probability above the cut."""
    log_w: FloatArray = np.log(prediction.weights)
    if prediction.lower is None:
        return log_w
    above = log_ndtr((prediction.means - prediction.lower) / prediction.component_stds)
    return log_w - log_sum_exp((log_w + above).T)[:, None]


def _member_shares(weights: npt.ArrayLike | None, n: int, n_members: int) -> FloatArray:
    """Return the members' weights as (n, M) rows that sum to 1."""
    if weights is None:
        return np.full((n, n_members), 1 / n_members)
    shares = as_float("weights", weights)
    if shares.shape not in ((n_members,), (n, n_members)):
        msg = f"`weights` has shape {shares.shape}; expected ({n_members},) or ({n}, {n_members})."
        raise ValueError(msg)
    ok = np.isfinite(shares) & (shares >= 0)
    require(ok, shares, "weights", "is negative or not finite", "give non-negative member weights")
    total = shares.sum(axis=-1, keepdims=True)
    require(total > 0, total, "weights", "sums to zero", "give at least one member a positive weight")
    return np.array(np.broadcast_to(shares / total, (n, n_members)))


def concatenated_fields(predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Return the fields of one prediction for the objects of all; missing components get weight zero."""
    lower = _common_lower(predictions)
    n_components = max(p.n_components for p in predictions)
    alike = len({(p.n_components, p.n_heads, p.n_inputs) for p in predictions}) == 1
    fields: dict[str, Any] = {"lower": lower}
    if alike:
        fields |= {"n_heads": predictions[0].n_heads, "n_inputs": predictions[0].n_inputs}
    point = predictions[0].point
    same = isinstance(point, str) and all(isinstance(p.point, str) and p.point == point for p in predictions)
    fields["point"] = point if same else np.concatenate([p.z_phot for p in predictions])
    for name in COMPONENT_FIELDS:
        fields[name] = np.concatenate([_padded(p, name, n_components) for p in predictions])
    for name in ("coverage", "flags"):
        values = [getattr(p, name) for p in predictions]
        given = [v is not None for v in values]
        if any(given) and not all(given):
            msg = f"`{name}` is given in {sum(given)} of {len(given)} predictions; give it in all or none."
            raise ValueError(msg)
        fields[name] = np.concatenate(values) if all(given) else None
    return fields


def _padded(prediction: Prediction, name: str, n_components: int) -> FloatArray:
    """Repeat the first component, with weight zero, up to `n_components` columns."""
    values: FloatArray = getattr(prediction, name)
    extra = n_components - prediction.n_components
    filler = np.repeat(values[:, :1], extra, axis=1)
    return np.concatenate([values, 0 * filler if name == "weights" else filler], axis=1)
