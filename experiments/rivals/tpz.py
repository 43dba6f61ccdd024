"""TPZ itself (Carrasco Kind & Brunner 2013), in the port of RAIL, where that is installed."""

from __future__ import annotations

import importlib
import importlib.util
import io
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from experiments.data import Sets
from experiments.rivals.base import Effort, Trained
from gpzed._types import FloatArray
from gpzed.errors import ConfigError, MissingDependencyError
from gpzed.prediction import Prediction

HOW_TO_GET_TPZ = "install RAIL's port with `pip install pz-rail-tpz` (it needs MPI) and run again"
MODULE = "rail.estimation.algos.tpz_lite"
N_RANDOM = 5
"""Realisations of the catalogue within its errors; the trees are spread over them."""
N_ATTRIBUTES, Z_BINS, MIN_VARIANCE = 4, 301, 1e-8
NO_ERROR = 5e-5
"""What TPZ itself puts in the place of an error that is not known."""


def has_tpz() -> bool:
    """Return whether RAIL's port of TPZ can be imported."""
    try:
        return importlib.util.find_spec(MODULE) is not None
    except ModuleNotFoundError:
        return False


def train_tpz(sets: Sets, n_trees: int, effort: Effort) -> Trained:
    """Train RAIL's TPZ on magnitudes, and on the logarithms of their errors if these are inputs.

    The trees are spread over `N_RANDOM` realisations of the catalogue and rounded to a multiple of their number.
    Predictions have the mean and variance of the density that TPZ gives.
    """
    if not has_tpz():
        raise MissingDependencyError(f"TPZ is not installed; {HOW_TO_GET_TPZ}")
    algos = importlib.import_module(MODULE)
    bands = [name for name in sets.names if name.startswith("mag_")]
    errors = [name.replace("mag_", "err_") for name in bands]
    if len(sets.names) not in (len(bands), 2 * len(bands)):
        raise ConfigError(f"TPZ needs magnitudes, with their errors or without, not {', '.join(sets.names)}")
    top = 1.2 * float(sets.train.z.max())
    columns: dict[str, Any] = {"bands": bands, "err_bands": errors, "redshift_col": "z_spec", "hdf5_groupname": ""}
    columns |= {"nondetect_val": 99.0, "mag_limits": dict.fromkeys(bands, 30.0)}  # no row has one: limits are put in
    forest = {"n_random": N_RANDOM, "n_trees": max(1, n_trees // N_RANDOM), "n_att": min(N_ATTRIBUTES, len(bands))}
    np.random.seed(effort.seed)  # noqa: NPY002 - the port draws its realisations from NumPy's global generator
    with _scratch_folder():
        informer = algos.TPZliteInformer.make_stage(
            name="inform_tpz", model="tpz.pkl", zmin=0.0, zmax=top, nzbins=Z_BINS, seed=effort.seed, **columns, **forest
        )
        informer.inform(_table(sets.train.X, bands, errors, sets.train.z))
        model = informer.model

    def predict(X: FloatArray) -> Prediction:
        with _scratch_folder():
            estimator = algos.TPZliteEstimator.make_stage(
                name="estimate_tpz", model=model, zmin=0.0, zmax=top, nzbins=Z_BINS, **columns
            )
            ensemble = estimator.estimate(_table(X, bands, errors, np.zeros(len(X)))).data
            grid = ensemble.metadata["xvals"].ravel()
            density = np.maximum(np.asarray(ensemble.objdata["yvals"]), 0.0)
        density /= density.sum(axis=1, keepdims=True)
        mean = density @ grid
        return Prediction.gaussian(mean, 0.0, np.maximum(density @ grid**2 - mean**2, MIN_VARIANCE))

    return Trained(predict, forest)


def _table(X: FloatArray, bands: list[str], errors: list[str], z: FloatArray) -> dict[str, FloatArray]:
    columns = {name: X[:, index].copy() for index, name in enumerate(bands)}
    for index, name in enumerate(errors):
        known = X.shape[1] > len(bands)
        columns[name] = np.exp(X[:, len(bands) + index]) if known else np.full(len(X), NO_ERROR)
    return columns | {"z_spec": z.copy()}


@contextmanager
def _scratch_folder() -> Iterator[None]:
    """Let the stages, which print a lot and write files of fixed names, do so where nobody sees it."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)
