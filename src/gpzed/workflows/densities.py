"""Densities made from the columns of a file of predictions: Gaussians, tables on a grid, or mean and variance alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpzed._types import BoolArray, FloatArray
from gpzed.catalog import Catalog, CatalogInfo, Lists
from gpzed.errors import CatalogError
from gpzed.prediction import GriddedPrediction, Prediction
from gpzed.prediction.mixture import Moments
from gpzed.workflows.columns import GAUSSIANS, GRIDDED

NESTED = ("z_pdf.weight", "z_pdf.mean", "z_pdf.std")
"""The Gaussians in HATS catalogues: fields of one nested column."""
EARLIER = "z_weight_1"
"""Densities were written in single columns of that name before there were lists."""
PARTS = ("z_var_model", "z_var_noise", "z_var_input")
TINY = float(np.finfo(float).tiny)


def density_columns(info: CatalogInfo) -> list[str]:
    """Return the columns of a file that hold densities; refuse parts of them, which would pass for single Gaussians."""
    for names in (GAUSSIANS, NESTED):
        lost = [name for name in names if name not in info.names]
        if not lost:
            return list(names)
        if len(lost) < len(names):
            raise CatalogError(
                f"'{info.path}' has some columns of its densities but not {lost[0]!r}; keep {', '.join(names)} "
                "together, or leave all of them out to have each density taken for a Gaussian"
            )
    if EARLIER in info.names:
        raise CatalogError(
            f"'{info.path}' has densities in columns like {EARLIER!r}, as a development version of gpzed wrote them; "
            "predict again"
        )
    return [GRIDDED] if GRIDDED in info.names else []


def make_prediction(points: dict[str, FloatArray], densities: Catalog, usable: BoolArray, about: Any) -> Prediction:
    """Return the densities of the usable rows.

    Parameters
    ----------
    points : dict of str to ndarray of shape (n,)
        Mean, standard deviation and parts of the variance of the usable rows, by column.
    densities : Catalog
        All rows of the columns that hold densities; it may have none.
    usable : ndarray of bool
        Which of its rows are meant.
    about : mapping
        What the file says of its densities: ``lower``, where they are cut; ``member`` and ``input``, whose each
        Gaussian is; ``grid``, its ends and number of points.
    """
    about = about if isinstance(about, Mapping) else {}
    if GRIDDED in densities:
        return _gridded(densities, usable, about)
    lower = about.get("lower")
    names = next((names for names in (GAUSSIANS, NESTED) if names[0] in densities), None)
    if names is not None:
        fills = zip(names, (0.0, 0.0, 1.0), strict=True)
        weights, means, stds = (_rows(densities, name, usable, fill) for name, fill in fills)
        return _mixture(points, weights, means, stds, about)
    mean = points.get("z_mean", points["z_phot"])
    made = _parts(points) or (np.zeros_like(mean), points["z_std"] ** 2, np.zeros_like(mean))
    return Prediction.gaussian(mean, *made) if lower is None else Prediction.from_cut(mean, *made, lower=lower)


def _rows(densities: Catalog, name: str, usable: BoolArray, fill: float) -> FloatArray:
    values = densities[name]
    padded = values.padded(fill) if isinstance(values, Lists) else values
    if padded.ndim != 2 or not padded.shape[1]:
        where = densities.provenance.where()
        raise CatalogError(
            f"{where}: column {name!r} holds no densities; expected lists, as `gpzed predict` writes them"
        )
    return np.asarray(padded[usable], dtype=np.float64)


def _parts(points: dict[str, FloatArray]) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Return the three parts of the variance, if the file has them."""
    parts = {name: np.maximum(points[name], 0.0) for name in PARTS if name in points}
    if not {"z_var_model", "z_var_noise"} <= set(parts):
        return None
    return parts["z_var_model"], parts["z_var_noise"], parts.get("z_var_input", np.zeros_like(parts["z_var_model"]))


def _mixture(
    points: dict[str, FloatArray], weights: FloatArray, means: FloatArray, stds: FloatArray, about: Mapping[str, Any]
) -> Prediction:
    """Return mixtures with mean and parts of the variance as the file has them.

    What is not between Gaussians of the variance, all of these get in the same proportion.
    """
    total = weights.sum(axis=1, keepdims=True)
    weights = weights / np.where(np.abs(total - 1.0) < 1e-3, total, 1.0)
    make: dict[str, Any] = {"input": about.get("input"), "lower": about.get("lower")}
    make["member"] = [0] * weights.shape[1] if about.get("form") == "mixture" else about.get("member")
    parts = _parts(points)
    if parts is None:
        return Prediction(weights, means, np.zeros_like(stds), stds**2, **make)
    between = Prediction(weights, means, stds**2, np.zeros_like(stds), **make)
    disagreement = Prediction(weights, means, np.zeros_like(stds), stds**2, **make).model_variance
    within = np.maximum(between.model_variance - disagreement, TINY)
    noise = np.clip((parts[1] - between.noise_variance) / within, 0.0, 1.0)
    extra = np.clip((parts[2] - between.input_variance) / within, 0.0, 1.0 - noise)
    model, noise, extra = (stds**2 * share[:, None] for share in (1.0 - noise - extra, noise, extra))
    made = Prediction(weights, means, model, noise, extra, **make)
    return made.changed(known=Moments(points["z_mean"], *parts)) if "z_mean" in points else made


def _gridded(densities: Catalog, usable: BoolArray, about: Mapping[str, Any]) -> Prediction:
    values = _rows(densities, GRIDDED, usable, 0.0)
    ends = about.get("grid")
    if not isinstance(ends, list) or len(ends) != 3 or int(ends[2]) != values.shape[1]:
        where = densities.provenance.where()
        raise CatalogError(
            f"{where}: column {GRIDDED!r} holds {values.shape[1]} numbers per row, and the file does not say at which "
            "redshifts; expected a file of `gpzed predict --pdf grid`"
        )
    grid = np.linspace(float(ends[0]), float(ends[1]), int(ends[2]))
    outside = values.sum(axis=1) <= 0.0
    if outside.any():
        where = densities.provenance.where(int(np.flatnonzero(usable)[outside.argmax()]))
        raise CatalogError(
            f"{where}: the density is zero on the whole grid, {ends[0]:g} to {ends[1]:g}, as that of {outside.sum()} "
            "rows; predict again with a wider --pdf-grid"
        )
    return GriddedPrediction(grid, values)
