"""Files of qp, in which RAIL's codes write their predictions: read as a `Prediction`, whatever code wrote them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpzed._types import AnyArray, BoolArray, FloatArray
from gpzed.errors import CatalogError, MissingDependencyError
from gpzed.prediction import GriddedPrediction, Prediction

HDF5_SUFFIXES = (".hdf5", ".h5", ".hdf", ".he5")
#: Points of the grid on which densities are taken that neither are Gaussian nor have a grid of their own.
GRID_POINTS = 1001
#: Rows whose densities qp is asked for at once.
CHUNK_ROWS = 10_000


@dataclass(frozen=True)
class QPFile:
    """What a file of qp holds."""

    prediction: Prediction  # of the rows that have a usable density
    usable: BoolArray  # (n_rows,) which these are; a density may be zero everywhere, or not finite
    columns: dict[str, AnyArray]  # (n_rows,) the ancillary columns, of all rows
    kind: str  # qp's name of the representation


def is_qp_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is an HDF5 file of qp: with the groups ``meta`` and ``data``, and the kind of density."""
    if not os.fspath(path).lower().endswith(HDF5_SUFFIXES) or not os.path.isfile(path):
        return False
    try:
        import h5py
    except ImportError:
        return False  # the reader of catalogues says what is missing
    try:
        with h5py.File(path, "r") as stream:
            return "data" in stream and "pdf_name" in stream.get("meta", {})
    except OSError:
        return False


def read_qp(path: str | os.PathLike[str]) -> QPFile:
    """Read an ensemble of densities and its ancillary columns.

    Parameters
    ----------
    path : path
        HDF5 file that qp, or a stage of RAIL, wrote.

    Raises
    ------
    CatalogError
        No row has a usable density, or numbers of rows differ.
    MissingDependencyError
        The representation can only be read by the package qp.

    Notes
    -----
    Gaussians (norm, truncnorm), mixtures of them (mixmod) and densities on a common grid (interp) are read as they are.
    Any other representation is tabulated by qp on a fine grid over the range that holds its probability.
    """
    import h5py

    with h5py.File(path, "r") as stream:
        meta = {name: stream["meta"][name][()] for name in stream["meta"]}
        data = {name: stream["data"][name][()] for name in stream["data"]}
        ancil = {name: stream["ancil"][name][()] for name in stream.get("ancil", {})}
    kind = str(np.asarray(meta["pdf_name"]).ravel()[0].decode())
    reader = _READERS.get(kind)
    found = reader(meta, data) if reader else None
    prediction, usable = found or _tabulated(path, kind)
    if not usable.any():
        raise CatalogError(f"'{os.fspath(path)}': none of {len(usable)} densities is finite and above zero somewhere")
    columns = {name: _column(values) for name, values in ancil.items() if len(values) == len(usable)}
    if len(columns) < len(ancil):
        lost = next(name for name in ancil if name not in columns)
        raise CatalogError(
            f"'{os.fspath(path)}': column {lost!r} has {len(ancil[lost])} rows but there are {len(usable)} densities"
        )
    return QPFile(prediction, usable, columns, kind)


def _column(values: AnyArray) -> AnyArray:
    """Return (n,) from (n,) or (n, 1)."""
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def _finite(*arrays: FloatArray) -> BoolArray:
    return np.asarray(np.all([np.isfinite(a).reshape(len(a), -1).all(axis=1) for a in arrays], axis=0), dtype=bool)


Found = tuple[Prediction, BoolArray]


def _norm(meta: Mapping[str, Any], data: Mapping[str, Any]) -> Found | None:
    loc, scale = (np.asarray(data[name], dtype=np.float64).reshape(-1) for name in ("loc", "scale"))
    usable = _finite(loc, scale) & (scale > 0.0)
    return Prediction.gaussian(loc[usable], 0.0, scale[usable] ** 2), usable


def _truncnorm(meta: Mapping[str, Any], data: Mapping[str, Any]) -> Found | None:
    names = ("a", "b", "loc", "scale")
    a, b, loc, scale = (np.asarray(data[name], dtype=np.float64).reshape(-1) for name in names)
    usable = _finite(a, loc, scale) & (scale > 0.0)
    lower = loc + a * scale
    if not usable.any() or np.isfinite(b).any() or np.ptp(lower[usable]) > 1e-9 * (1.0 + np.ptp(loc[usable])):
        return None  # cut elsewhere too, or not all at the same place
    cut = float(np.median(lower[usable]))
    return Prediction.gaussian(loc[usable], 0.0, scale[usable] ** 2, lower=cut), usable


def _mixmod(meta: Mapping[str, Any], data: Mapping[str, Any]) -> Found | None:
    weights, means, stds = (np.asarray(data[name], dtype=np.float64) for name in ("weights", "means", "stds"))
    total = weights.sum(axis=1)
    usable = _finite(weights, means, stds) & (stds > 0.0).all(axis=1) & (total > 0.0) & (weights >= 0.0).all(axis=1)
    shares = weights[usable] / total[usable, None]
    return Prediction(shares, means[usable], np.zeros_like(shares), stds[usable] ** 2), usable


def _interp(meta: Mapping[str, Any], data: Mapping[str, Any]) -> Found | None:
    grid = np.asarray(meta["xvals"], dtype=np.float64).reshape(-1)
    return _on_grid(grid, np.asarray(data["yvals"], dtype=np.float64))


def _on_grid(grid: FloatArray, density: FloatArray) -> Found:
    usable = _finite(density) & (density >= 0.0).all(axis=1) & (density > 0.0).any(axis=1)
    return GriddedPrediction(grid, density[usable]), usable


def _tabulated(path: str | os.PathLike[str], kind: str) -> Found:
    try:
        import qp
    except ImportError as error:
        raise MissingDependencyError(
            f"'{os.fspath(path)}' holds densities of the kind {kind!r}, which only the package qp can read; install it "
            "with `pip install gpzed[qp]`"
        ) from error
    ensemble = qp.read(os.fspath(path))
    low, high = _support(ensemble)
    grid = np.linspace(low, max(high, low + 1e-6), GRID_POINTS)
    parts = [
        np.asarray(ensemble[start : start + CHUNK_ROWS].pdf(grid)).reshape(-1, GRID_POINTS)
        for start in range(0, ensemble.npdf, CHUNK_ROWS)
    ]
    return _on_grid(grid, np.maximum(np.concatenate(parts), 0.0))


def _support(ensemble: Any) -> tuple[float, float]:
    """Return redshifts between which nearly all probability of all densities lies."""
    try:
        ends = np.asarray(ensemble.ppf(np.array([1e-6, 1.0 - 1e-6])))
        ends = ends[np.isfinite(ends).all(axis=1)]
    except (TypeError, ValueError, NotImplementedError):  # not all of qp's representations have quantiles
        ends = np.empty((0, 2))
    if not len(ends):
        ends = np.asarray(ensemble.x_samples(), dtype=np.float64).reshape(1, -1)
    return float(ends.min()), float(ends.max())


_READERS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], Found | None]] = {
    "norm": _norm,
    "truncnorm": _truncnorm,
    "mixmod": _mixmod,
    "interp": _interp,
}
