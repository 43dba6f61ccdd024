"""Predictions as an ensemble of qp, straight from their columns: in memory, or of a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpzed._types import AnyArray
from gpzed.catalog import Lists, catalog_info, read_catalog
from gpzed.prediction import GriddedPrediction
from gpzed.prediction.qpform import load_qp
from gpzed.prediction.reduce import Gaussians
from gpzed.workflows.columns import GAUSSIANS
from gpzed.workflows.densities import NESTED, density_columns
from gpzed.workflows.predictions import densities_apart, read_predictions, recorded
from gpzed.workflows.qpfile import is_qp_file
from gpzed.workflows.qpwriter import uncut

POINTS = ("z_phot", "z_mean", "z_std")
"""Columns that an ensemble has beside its densities."""


def read_ensemble(path: str | os.PathLike[str]) -> Any:
    """Read a file of predictions as a qp ensemble: a mixture of few Gaussians for each row, in the order of the file.

    qp has no cut mixtures: each Gaussian is replaced by one with the mean and variance of its part above the cut.
    Densities on a grid, quantiles or none at all are read as `read_predictions` does, rows without a prediction left
    out.

    Examples
    --------
    >>> import gpzed
    >>> from gpzed.simulate import simulate_survey
    >>> table = simulate_survey(400, survey="sdss", random_state=0, only_spectroscopic=True).columns()
    >>> model = gpzed.train(table, n_members=1, n_heads=1, n_basis=5)  # small, to be quick
    >>> gpzed.predict(model, table).write("redshifts.parquet")
    >>> from gpzed.workflows import read_ensemble
    >>> read_ensemble("redshifts.parquet").npdf  # doctest: +SKIP
    400
    """
    if is_qp_file(path):
        return load_qp().read(os.fspath(path))
    info = catalog_info(path)
    about = recorded(info.metadata, "gpzed_pdf") or {}
    stored = density_columns(info)
    points = [name for name in POINTS if name in info.names]
    table = read_catalog(path, columns=[*points, *stored])
    densities = table.select(stored) if stored else densities_apart(info, about.get("file"))
    names = next((names for names in (GAUSSIANS, NESTED) if names[0] in densities), None)
    if names is None:
        found = read_predictions(path, need_truth=False).prediction
        shown = found if isinstance(found, GriddedPrediction) else found.reduced(without_cut=True)
        return with_points(shown.to_qp(), {"z_phot": found.z_phot})
    fills = zip(names, (0.0, 0.0, 1.0), strict=True)
    few = Gaussians(*(_padded(densities[name], fill) for name, fill in fills))
    return with_points(make_ensemble(few, about.get("lower")), {name: table[name] for name in points})


def make_ensemble(few: Gaussians, lower: float | None) -> Any:
    """Return a qp ensemble of mixtures (n, K) that are cut at `lower`."""
    qp = load_qp()
    shown = uncut(Gaussians(*(np.asarray(values, dtype=np.float64) for values in few)), lower)
    return qp.Ensemble(qp.mixmod, data=shown._asdict())


def with_points(ensemble: Any, points: Mapping[str, AnyArray]) -> Any:
    """Give an ensemble ancillary columns, and return it."""
    ensemble.set_ancil({name: np.array(values) for name, values in points.items()})
    return ensemble


def _padded(values: Any, fill: float) -> AnyArray:
    return np.asarray(values.padded(fill) if isinstance(values, Lists) else values)
