"""Magnitudes by band, whatever a catalogue holds: for figures, cells and trends."""

from __future__ import annotations

import os

import numpy as np

from gpzed._types import FloatArray
from gpzed.catalog import Catalog, Photometry, PhotometrySchema, catalog_info, extract_photometry, read_catalog
from gpzed.catalog.photometry import Status
from gpzed.config import SchemaConfig
from gpzed.workflows.schema import matching_schema


def magnitudes_of(photometry: Photometry) -> dict[str, FloatArray]:
    """Return magnitudes (n,) by band, NaN where nothing was measured or a flux is not positive."""
    measured = np.asarray(photometry.status) == Status.MEASURED
    values = np.where(measured, photometry.values, np.nan)
    if photometry.kind == "flux":
        with np.errstate(divide="ignore", invalid="ignore"):
            values = (photometry.zero_point or 0.0) - 2.5 * np.log10(np.where(values > 0.0, values, np.nan))
    return {band: values[:, j] for j, band in enumerate(photometry.bands)}


def table_magnitudes(table: Catalog, schema: PhotometrySchema) -> dict[str, FloatArray]:
    """Return the magnitudes of a table that has all columns of a schema; nothing if it has not."""
    if not set(schema.photometry_columns) <= set(table.names):
        return {}
    return magnitudes_of(extract_photometry(table, schema))


def file_magnitudes(path: str | os.PathLike[str], like: PhotometrySchema) -> dict[str, FloatArray]:
    """Return the magnitudes of a catalogue, in the bands of a schema that another one has."""
    info = catalog_info(path)
    schema = matching_schema(info.names, like, SchemaConfig(), False, info.units)
    return table_magnitudes(read_catalog(path, columns=list(schema.photometry_columns)), schema)
