"""From catalogue files to tables of photometry, and back: reading, writing, column conventions, sentinels."""

from __future__ import annotations

from gpzed.catalog._format import CatalogInfo, Writer
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
from gpzed.catalog.lists import Lists
from gpzed.catalog.photometry import Photometry, SentinelReport, Sentinels, Status, extract_photometry
from gpzed.catalog.remote import address_of, is_address, local_path, sent_to
from gpzed.catalog.scale import Scale, ScaleSummary
from gpzed.catalog.schema import PhotometrySchema
from gpzed.catalog.sdss import casjobs_query, download_sdss
from gpzed.catalog.table import Catalog, Note, Provenance

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
    "Lists",
    "Note",
    "Photometry",
    "PhotometrySchema",
    "Provenance",
    "Scale",
    "ScaleSummary",
    "SentinelReport",
    "Sentinels",
    "Status",
    "Writer",
    "address_of",
    "casjobs_query",
    "catalog_info",
    "download_sdss",
    "extract_photometry",
    "format_of",
    "guess_schema",
    "identify",
    "is_address",
    "iter_catalog",
    "local_path",
    "open_writer",
    "parquet_files",
    "read_catalog",
    "sent_to",
    "write_catalog",
]
