"""From catalogue files to tables of photometry, and back: reading, writing, column conventions, sentinels."""

from __future__ import annotations

from gpzed.catalog._format import CatalogInfo
from gpzed.catalog._parquet import parquet_files
from gpzed.catalog.conventions import CONVENTIONS, Convention
from gpzed.catalog.guess import guess_schema
from gpzed.catalog.identity import Identity, identify
from gpzed.catalog.io import (
    CHUNK_ROWS,
    FORMATS,
    WRITABLE,
    CatalogWriter,
    catalog_info,
    format_of,
    iter_catalog,
    open_writer,
    read_catalog,
    write_catalog,
)
from gpzed.catalog.photometry import Photometry, SentinelReport, Sentinels, Status, extract_photometry
from gpzed.catalog.schema import PhotometrySchema
from gpzed.catalog.sdss import casjobs_query
from gpzed.catalog.table import Catalog, Provenance

__all__ = [
    "CHUNK_ROWS",
    "CONVENTIONS",
    "FORMATS",
    "WRITABLE",
    "Catalog",
    "CatalogInfo",
    "CatalogWriter",
    "Convention",
    "Identity",
    "Photometry",
    "PhotometrySchema",
    "Provenance",
    "SentinelReport",
    "Sentinels",
    "Status",
    "casjobs_query",
    "catalog_info",
    "extract_photometry",
    "format_of",
    "guess_schema",
    "identify",
    "iter_catalog",
    "open_writer",
    "parquet_files",
    "read_catalog",
    "write_catalog",
]
