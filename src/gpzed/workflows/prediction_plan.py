"""What a prediction is asked for, and all that is settled before the first row is read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import gpzed
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
from gpzed.workflows.columns import added_columns, column_dtype
from gpzed.workflows.inputs import needed_columns
from gpzed.workflows.model import PhotozModel
from gpzed.workflows.schema import matching_schema

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
    on_plan: Callable[[PhotometrySchema], None] | None = None

    def matching_schema(self, names: Any) -> PhotometrySchema:
        """Return which of the columns is what."""
        return matching_schema(names, self.model.schema, self.schema, self.model.needs_ebv)

    def announce(self, schema: PhotometrySchema) -> None:
        """Tell which column is taken for what."""
        if self.on_plan is not None:
            self.on_plan(schema)


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

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the computed columns, in order."""
        return column_dtype(self.options, self.model.n_components)

    @property
    def added(self) -> list[str]:
        """Names of the computed columns."""
        return added_columns(self.options, self.model.n_components)

    def manifest(self) -> dict[str, Any]:
        """Return everything that decides a byte of the output, as plain JSON types: by it a run is recognised."""
        return {
            **manifest(self.model, self.identity, self.schema, self.options),
            "rows": self.info.n_rows,
            "copied": self.kept,
            "computed": self.added,
            "format": self.kind,
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
    model, options, output = request.model, request.options, request.output
    identity = identify(request.catalogue)
    info = catalog_info(request.catalogue, **request.schema.access)
    schema = request.matching_schema(info.names)
    if model.needs_ebv and not schema.ebv:
        raise ConfigError(f"the model corrects for extinction but '{info.path}' has no E(B-V) column that is known")
    if not to_folder:
        open_writer(output, request.format)  # checks name and format
    added = added_columns(options, model.n_components)
    wanted = list(info.names) if options.columns is None else list(options.columns)
    lost = [name for name in wanted if name not in info.names]
    if lost:
        raise CatalogError(f"'{info.path}' has no column {lost[0]!r} to copy; it has {', '.join(info.names)}")
    replaced = [name for name in wanted if name in added]
    if replaced:
        request.progress.warn(f"columns {', '.join(replaced)} of the catalogue are replaced by new predictions")
    kept = [name for name in wanted if name not in added]
    read = list(dict.fromkeys([*kept, *needed_columns(schema)]))
    return PredictionPlan(
        model,
        info,
        identity,
        schema,
        options,
        read,
        kept,
        options.chunk_rows or _chunk_rows(info, read, model.n_components),
        output,
        request.format,
        "folder" if to_folder else format_of(output, request.format),
        request.schema.access,
        model.metadata(info, schema, options),
    )


def _chunk_rows(info: CatalogInfo, names: list[str], n_components: int) -> int:
    kinds = [info.dtypes.get(name, "float64") for name in names]
    read = sum(64 if kind == "str" else np.dtype(kind).itemsize for kind in kinds)
    predicted = 5 * 8 * n_components  # weights, means and three parts of the variance
    return int(np.clip(CHUNK_BYTES // max(read, predicted), 1024, MAX_CHUNK_ROWS))
