"""Predictions written as a file of qp, row by row: mixtures, or densities on a grid, with points beside them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gpzed._types import AnyArray
from gpzed.catalog import Catalog, CatalogWriter, Writer
from gpzed.config import PredictConfig
from gpzed.errors import ConfigError
from gpzed.prediction import Prediction
from gpzed.prediction.reduce import Gaussians, above_cut
from gpzed.workflows.columns import GAUSSIANS, GRIDDED, PDF_COLUMNS

KIND = "qp"
"""Name of the format among those of catalogues."""
SUFFIXES = (".hdf5", ".h5")
ROWS_PER_BLOCK = 1 << 14
NAMES = {"z_mean": "zmean"}
"""Names that qp and RAIL have for columns of ours, which are written beside ours."""


def open_qp_writer(path: Path, options: PredictConfig, metadata: Mapping[str, Any], id: str | None) -> CatalogWriter:
    """Open a file of qp for writing in chunks of a catalogue with the columns of predictions."""
    if not path.name.lower().endswith(SUFFIXES):
        raise ConfigError(f"'{path}': files of qp are HDF5; give a name that ends in .hdf5")
    if options.pdf in ("quantiles", "none"):
        raise ConfigError(f"`pdf` is {options.pdf!r}, but a file of qp holds densities; choose 'mixture' or 'grid'")
    return CatalogWriter(path, lambda temporary, first: QpWriter(temporary, first, options, metadata, id))


class QpWriter(Writer):
    """Write an HDF5 file that `qp.read` reads: groups ``meta``, ``data`` and ``ancil``.

    qp has no cut mixtures: each Gaussian is replaced by one with the mean and variance of its part above the cut, so
    that those of the density are kept.
    """

    def __init__(
        self, path: Path, first: Catalog, options: PredictConfig, metadata: Mapping[str, Any], id: str | None
    ) -> None:
        import h5py

        self._options, self._id, self._n_rows = options, id, 0
        self._file = h5py.File(path, "w", libver=("earliest", "v110"))
        meta = self._file.create_group("meta", track_order=True)
        is_grid = options.pdf == "grid"
        meta["pdf_name"] = np.array([b"interp" if is_grid else b"mixmod"])
        meta["pdf_version"] = np.array([0])
        if is_grid:
            meta["xvals"] = options.grid[None]
        for key in ("gpzed_version", "gpzed_model", "gpzed_model_sha256"):
            self._file.attrs[key] = np.bytes_(str(metadata.get(key, "")).encode())
        self._columns = [
            name for name in first.names if name not in PDF_COLUMNS and isinstance(first[name], np.ndarray)
        ]
        self._columns = [name for name in self._columns if first[name].ndim == 1]

    def write(self, chunk: Catalog) -> None:
        """Append rows."""
        groups: dict[str, dict[str, AnyArray]] = {"data": {}, "ancil": {name: chunk[name] for name in self._columns}}
        if self._options.pdf == "grid":
            groups["data"]["yvals"] = chunk[GRIDDED]
            mode = self._options.grid[np.argmax(chunk[GRIDDED], axis=1)]
        else:
            few = Gaussians(*(np.asarray(chunk[name], dtype=np.float64) for name in GAUSSIANS))
            shown = uncut(few, 0.0 if self._options.positive else None)
            groups["data"] |= {name: values.astype(np.float32) for name, values in shown._asdict().items()}
            mode = Prediction(shown.weights, shown.means, shown.stds**2, np.zeros_like(shown.stds)).mode
        groups["ancil"]["zmode"] = mode.astype(np.float32)
        groups["ancil"] |= {ours: chunk[name] for name, ours in NAMES.items() if name in chunk}
        if self._id is not None and self._id in chunk:
            groups["ancil"]["object_id"] = chunk[self._id]
        for group, columns in groups.items():
            for name, values in columns.items():
                self._append(f"{group}/{name}", values)
        self._n_rows += len(chunk)

    def _append(self, name: str, values: AnyArray) -> None:
        import h5py

        if values.dtype.kind in "UM":
            values = np.datetime_as_string(values) if values.dtype.kind == "M" else values
            kind, values = h5py.string_dtype(), values.astype(object)
        else:
            kind = values.dtype
        if name not in self._file:
            shape = values.shape[1:]
            block = (ROWS_PER_BLOCK, *shape)
            limits: dict[str, Any] = {"shape": (0, *shape), "maxshape": (None, *shape), "chunks": block}
            self._file.create_dataset(name, dtype=kind, track_times=False, **limits)
        item = self._file[name]
        item.resize(self._n_rows + len(values), axis=0)
        item[self._n_rows :] = values

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def abort(self) -> None:
        """Close the file, which will be removed."""
        with contextlib.suppress(Exception):
            self._file.close()


def uncut(few: Gaussians, lower: float | None) -> Gaussians:
    """Return mixtures without a cut that have the mean and the variance of those cut at `lower`."""
    if lower is None:
        return few
    weights, means, variances = above_cut(few.weights, few.means, few.stds**2, lower)
    return Gaussians(weights, means, np.sqrt(variances))
