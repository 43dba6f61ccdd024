"""What a prediction is asked for, and all that is settled before the first row is read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import gpzed
from gpzed._files import check_output
from gpzed.catalog import (
    CatalogInfo,
    Identity,
    PhotometrySchema,
    SentinelReport,
    catalog_info,
    format_of,
    identify,
    open_writer,
)
from gpzed.config import PredictConfig, SchemaConfig
from gpzed.errors import CatalogError, ConfigError
from gpzed.progress import Progress
from gpzed.workflows.cautions import Seen, cautions, strange_units, units_are_stated, warn_all, without_unit
from gpzed.workflows.columns import added_columns, column_dtype, settled
from gpzed.workflows.inputs import needed_columns
from gpzed.workflows.model import PhotozModel
from gpzed.workflows.outputs import open_output, output_kind
from gpzed.workflows.qpwriter import KIND
from gpzed.workflows.schema import absent_bands_text, looking_further, matching_schema

MAX_CHUNK_ROWS, CHUNK_BYTES = 131_072, 32 << 20
"""Rows of a chunk at most, and bytes that its columns, and the mixtures predicted for it, may take in memory."""


@dataclass(frozen=True)
class PredictionRequest:
    """What to predict, with what, and where it goes; see `gpzed.predict` for the meaning of each."""

    model: PhotozModel
    catalogue: Path
    output: Path
    options: PredictConfig
    schema: SchemaConfig = field(default_factory=SchemaConfig)
    format: str | None = None
    resume: bool = False
    n_threads: int | None = None
    cluster: Any = None
    progress: Progress = field(default_factory=Progress)
    on_plan: Callable[[PhotometrySchema, dict[str, str]], None] | None = None
    pdf_file: Path | None = None

    def matching_schema(self, names: Any, units: Mapping[str, str] | None = None) -> PhotometrySchema:
        """Return which of the columns is what."""
        return matching_schema(names, self.model.schema, self.schema, self.model.needs_ebv, units)

    def announce(self, schema: PhotometrySchema, units: Mapping[str, str]) -> None:
        """Tell which column is taken for what, and of which the unit is not known; `units` are the catalogue's own."""
        warn_all(strange_units(schema, self.schema, units))
        if self.on_plan is not None:
            self.on_plan(schema, without_unit(schema, self.schema, units))


@dataclass(frozen=True)
class PredictReport:
    """What a prediction run did."""

    output: str
    n_rows: int  # rows written
    n_resumed: int  # rows among them that an earlier run had computed
    schema: PhotometrySchema  # as used
    sentinels: SentinelReport | None  # of the rows computed in this run
    flags: dict[str, int]  # rows by flag
    columns: tuple[str, ...]  # columns added
    seconds: float
    warnings: tuple[str, ...] = ()  # what is worth a second look in the catalogue

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain JSON types."""
        return {
            "output": self.output,
            "rows": self.n_rows,
            "rows_resumed": self.n_resumed,
            "schema": self.schema.to_dict(),
            "sentinels": None if self.sentinels is None else self.sentinels.to_dict(),
            "flags": self.flags,
            "columns": list(self.columns),
            "seconds": self.seconds,
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True)
class PredictionPlan:
    """All that is settled before the first row is read."""

    model: PhotozModel
    info: CatalogInfo
    identity: Identity
    schema: PhotometrySchema
    options: PredictConfig
    read: list[str]
    kept: list[str]
    chunk_rows: int
    output: Path
    format: str | None
    kind: str
    access: dict[str, Any]
    metadata: dict[str, Any]
    units_are_stated: bool  # by the catalogue or by the user
    pdf_file: Path | None = None  # for the densities, if they are to be apart

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the computed columns, in order."""
        return column_dtype(self.options, self.model.n_components)

    @property
    def added(self) -> list[str]:
        """Names of the computed columns."""
        return added_columns(self.options, self.model.n_components)

    def cautions(self, seen: Seen | None) -> list[str]:
        """Return what to say about a catalogue, now that its rows have been seen."""
        if seen is None:
            return []
        absent = absent_bands_text(self.schema, self.model.schema, self.info.names)
        return cautions(self.model.scale, seen, self.info.path, absent)

    def manifest(self) -> dict[str, Any]:
        """Return everything that decides a byte of the output, as plain JSON types: by it a run is recognised."""
        return {
            **manifest(self.model, self.identity, self.schema, self.options),
            "rows": self.info.n_rows,
            "copied": self.kept,
            "output_format": self.kind,
            "pdf_file": None if self.pdf_file is None else self.pdf_file.name,
            "chunk_rows": self.chunk_rows,
        }


def manifest(
    model: PhotozModel, identity: Identity, schema: PhotometrySchema, options: PredictConfig
) -> dict[str, Any]:
    """Return what decides the values of a prediction, wherever it runs."""
    return {
        "gpzed_version": gpzed.__version__,
        "model": model.sha256,
        "catalogue": identity.to_list(),
        "schema": schema.to_dict(),
        **dataclasses.asdict(options),
    }


def plan_prediction(request: PredictionRequest, *, to_folder: bool = False) -> PredictionPlan:
    """Settle everything; all that can be wrong with the arguments is found here.

    With `to_folder` the output is a folder of files, else one file.
    """
    model, output = request.model, request.output
    kind = "folder" if to_folder else output_kind(output, request.format)
    options = settled(request.options, model.n_components, kind)
    if request.pdf_file is not None:
        _check_pdf_file(request, options, to_folder)
    identity = identify(request.catalogue)
    info = catalog_info(request.catalogue, **request.schema.access)
    with looking_further(info):
        schema = request.matching_schema(info.names, info.units)
    if model.needs_ebv and not schema.ebv:
        raise ConfigError(f"the model corrects for extinction but '{info.path}' has no E(B-V) column that is known")
    metadata = model.metadata(info, schema, options)
    if not to_folder:
        open_output(output, request.format, options, metadata, schema.id)  # checks name and format
    added = added_columns(options, model.n_components)
    wanted = list(info.names) if options.columns is None else list(options.columns)
    lost = [name for name in wanted if name not in info.names]
    if lost:
        raise CatalogError(f"'{info.path}' has no column {lost[0]!r} to copy; it has {', '.join(info.names)}")
    replaced = [name for name in wanted if name in added]
    if replaced:
        request.progress.warn(f"columns {', '.join(replaced)} of the catalogue are replaced by new predictions")
    kept = [name for name in wanted if name not in added]
    lists = [name for name in kept if name in info.lists and kind not in ("folder", "parquet", "hdf5")]
    if lists:
        request.progress.warn(f"{kind} files hold no lists: {', '.join(lists)} of the catalogue left out")
        kept = [name for name in kept if name not in lists]
    read = list(dict.fromkeys([*kept, *needed_columns(schema)]))
    return PredictionPlan(
        model,
        info,
        identity,
        schema,
        options,
        read,
        kept,
        options.chunk_rows or _chunk_rows(info, read, column_dtype(options, model.n_components).itemsize),
        output,
        request.format,
        kind,
        request.schema.access,
        metadata if request.pdf_file is None else _pointing(metadata, request.pdf_file),
        units_are_stated(schema, request.schema, info.units),
        request.pdf_file,
    )


def _check_pdf_file(request: PredictionRequest, options: PredictConfig, to_folder: bool) -> None:
    """Refuse a file for densities that cannot be."""
    assert request.pdf_file is not None
    if to_folder or request.format == KIND:
        raise ConfigError("`pdf_file` is for one catalogue; leave it out for folders of files and for files of qp")
    check_pdf_output(request, options)
    settled(options, request.model.n_components, format_of(request.pdf_file, writing=True))
    open_writer(request.pdf_file)  # checks name and format


def check_pdf_output(request: PredictionRequest, options: PredictConfig) -> None:
    """Refuse a place for densities that cannot be, file or folder."""
    assert request.pdf_file is not None
    if options.pdf not in ("mixture", "full", "grid"):
        raise ConfigError(f"`pdf_file` is given but `pdf` is {options.pdf!r}; choose 'mixture', 'full' or 'grid'")
    is_folder = request.catalogue.is_dir()
    used = (request.catalogue, request.output, request.model.path or None)
    check_output(request.pdf_file, "the densities", used, is_folder=is_folder)
    if request.pdf_file.resolve().parent != request.output.resolve().parent:
        raise ConfigError(
            f"'{request.pdf_file}' is not in the folder of '{request.output}'; put both there: they are read together"
        )


def _pointing(metadata: dict[str, Any], pdf_file: Path) -> dict[str, Any]:
    return {**metadata, "gpzed_pdf": {**metadata["gpzed_pdf"], "file": pdf_file.name}}


def _chunk_rows(info: CatalogInfo, names: list[str], added: int) -> int:
    """Return how many rows to read at once, each with so many bytes of predictions."""
    kinds = [info.dtypes.get(name, "float64") for name in names]
    read = sum(64 if kind == "str" else np.dtype(kind).itemsize for kind in kinds)
    return int(np.clip(CHUNK_BYTES // (read + added), 1024, MAX_CHUNK_ROWS))
