"""Predictions as ensembles of qp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpzed.errors import MissingDependencyError
from gpzed.prediction import checks as check

if TYPE_CHECKING:
    from gpzed.prediction.distribution import Prediction


def load_qp() -> Any:
    """Return the package qp, or say how to get it."""
    try:
        import qp
    except ImportError as error:
        raise MissingDependencyError(
            "exporting to qp needs the package qp; install it with `pip install gpzed[qp]`."
        ) from error
    return qp


def to_qp(prediction: Prediction, grid: ArrayLike | None, kind: Literal["mixmod", "norm"]) -> Any:
    """Return a qp ensemble; see `Prediction.to_qp`."""
    qp = load_qp()
    if grid is not None:
        at = check.grid("grid", grid)
        return qp.Ensemble(qp.interp, data={"xvals": at, "yvals": prediction.pdf_grid(at)})
    if kind == "norm":
        return _to_norm(qp, prediction)
    if prediction.lower is not None:
        raise ValueError(
            f"`lower` is {prediction.lower} but qp.mixmod has no truncation; give a `grid` or truncate(None)."
        )
    parts = prediction.components
    data = {"means": parts.means, "stds": parts.stds, "weights": parts.weights}
    return qp.Ensemble(qp.mixmod, data={name: np.array(values) for name, values in data.items()})


def _to_norm(qp: Any, prediction: Prediction) -> Any:
    several, lower = prediction.n_components > 1, prediction.lower
    if several and lower is not None:
        raise ValueError("a truncated mixture is no truncated Gaussian; give a `grid`, or truncate a single Gaussian.")
    loc = np.array(prediction.mean if several else prediction.means[:, 0])[:, None]
    scale = np.array(prediction.std if several else prediction.component_stds[:, 0])[:, None]
    if lower is None:
        return qp.Ensemble(qp.stats.norm, data={"loc": loc, "scale": scale})
    ends = {"a": (lower - loc) / scale, "b": np.full_like(loc, np.inf)}
    return qp.Ensemble(qp.stats.truncnorm, data={**ends, "loc": loc, "scale": scale})
