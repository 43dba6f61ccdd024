"""The files that a prediction run writes: the catalogue with its redshifts, and densities apart if asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gpzed.catalog import Catalog, CatalogWriter, format_of, open_writer
from gpzed.config import PredictConfig
from gpzed.workflows.columns import PDF_COLUMNS, as_lists, column_notes
from gpzed.workflows.qpwriter import KIND, open_qp_writer

WITH_LISTS = ("parquet",)
"""Formats in which Gaussians are lists, no longer than each object needs; in others they are arrays of one length."""
ROW = "row"
"""Column that says which row of the catalogue a density belongs to, where objects have no identifier."""


def output_kind(path: Path, format: str | None) -> str:
    """Return the name of the output's format."""
    return KIND if format == KIND else format_of(path, format, writing=True)


def file_columns(columns: Mapping[str, Any], options: PredictConfig, kind: str) -> Catalog:
    """Return the columns of predictions as a file of this kind holds them, with their descriptions."""
    ready = as_lists(columns, options) if kind in WITH_LISTS else dict(columns)
    return Catalog(ready, notes=column_notes(options))


def open_output(
    path: Path, format: str | None, options: PredictConfig, metadata: Mapping[str, Any], id: str | None
) -> CatalogWriter:
    """Open the file of the predictions; all that can be wrong with its name and format is found here."""
    if format == KIND:
        return open_qp_writer(path, options, metadata, id)
    return open_writer(path, format, metadata)


@contextmanager
def open_outputs(plan: Any) -> Iterator[Callable[[Catalog, Any], None]]:
    """Give a function that writes the copied columns of some rows, and the computed ones, a structured array."""
    with ExitStack() as files:
        main = files.enter_context(open_output(plan.output, plan.format, plan.options, plan.metadata, plan.schema.id))
        apart = None if plan.pdf_file is None else files.enter_context(open_writer(plan.pdf_file, None, plan.metadata))
        n_rows = 0

        def write(table: Catalog, values: Any) -> None:
            nonlocal n_rows
            columns = {name: np.ascontiguousarray(values[name]) for name in plan.added}
            points = {name: column for name, column in columns.items() if apart is None or name not in PDF_COLUMNS}
            main.write(joined(table.select(plan.kept), file_columns(points, plan.options, plan.kind)))
            if apart is not None:
                named = {ROW: np.arange(n_rows, n_rows + len(table))}
                owner = table.select([plan.schema.id]) if plan.schema.id in table else Catalog(named)
                densities = {name: column for name, column in columns.items() if name in PDF_COLUMNS}
                apart.write(joined(owner, file_columns(densities, plan.options, format_of(plan.pdf_file))))
            n_rows += len(table)

        yield write


def joined(table: Catalog, more: Catalog) -> Catalog:
    """Return a table with the columns of another, and their descriptions."""
    return table.with_columns({name: more[name] for name in more.names}, notes=more.notes)
