"""From files of predictions to one page that shows how good they are."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpzed._files import check_output, write_atomically
from gpzed._types import FloatArray
from gpzed.catalog import PhotometrySchema, catalog_info, guess_schema
from gpzed.errors import ConfigError, GPzError
from gpzed.progress import Progress
from gpzed.report import PointTable, ReportData, prepare, render
from gpzed.workflows.predictions import PredictionFile, PredictionSource, read_predictions, recorded

SENTINEL = 90.0
"""Values beyond this are no magnitude or error of one: they stand for no measurement."""
COVERAGE = "z_coverage"


@dataclass(frozen=True)
class PageReport:
    """What was written."""

    output: str
    size: int  # bytes of the page
    sets: tuple[tuple[str, int, bool], ...]
    """Name, number of objects, and whether they have true redshifts, for each file."""

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain JSON types."""
        sets = [{"name": name, "objects": n, "has_truth": truth} for name, n, truth in self.sets]
        return {"output": self.output, "bytes": self.size, "sets": sets}


def write_report(
    sources: Sequence[PredictionSource | str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    title: str | None = None,
    progress: Progress | None = None,
) -> PageReport:
    """Write one self-contained HTML page about one or several files of predictions.

    Parameters
    ----------
    sources : sequence of PredictionSource or path
        Rows with a true redshift are shown; all rows, without scores, if there are none.
    output : path
        Page to write, ending in ``.html``.
    title : str, optional
        Of the page.
    progress : Progress, optional
    """
    progress = progress or Progress()
    target = Path(output)
    if target.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"`output` is '{target}'; expected a name that ends in .html")
    given = [source if isinstance(source, PredictionSource) else PredictionSource(source) for source in sources]
    check_output(target, "the page", [file for source in given for file in source.files])
    names = _short_names([source.name for source in given])
    sets = []
    for source, name in zip(given, names, strict=True):
        columns, schema = _photometry(source)
        file = read_predictions(source, need_truth=False, columns=columns)
        known = file.has_truth
        progress.say(_what(file, int(known.sum())))
        sets.append(_prepare(name, file, known, schema))
    payload = render(sets, title or f"gpzed: {', '.join(names)}").encode("utf-8")
    write_atomically(target, payload)
    facts = tuple((one.content["name"], one.content["n"], one.content["truth"]) for one in sets)
    return PageReport(os.fspath(output), len(payload), facts)


def _short_names(paths: Sequence[str]) -> list[str]:
    """Return the names of the files, with folders where names alone do not tell them apart."""
    names = [Path(path).stem for path in paths]
    return names if len(set(names)) == len(names) else list(paths)


def _what(file: PredictionFile, n_truth: int) -> str:
    n = len(file.rows)
    if not n_truth:
        return f"{file.path}: {n:,} of {file.n_rows:,} rows; no true redshifts, so no scores"
    return f"{file.path}: {n_truth:,} of {file.n_rows:,} rows, true redshift in '{file.redshift}'"


def _photometry(source: PredictionSource) -> tuple[list[str], PhotometrySchema | None]:
    """Return the columns of the photometry, by what the file says or by their names; none if neither helps."""
    if source.is_qp:
        return [], None
    info = catalog_info(source.name, format=source.format)
    try:
        stored = recorded(info.metadata, "gpzed_schema")
        schema = PhotometrySchema.from_dict(dict(stored)) if stored else guess_schema(info.names)
    except (GPzError, KeyError, TypeError, ValueError):
        return [], None
    wanted = [*schema.values.values(), *schema.errors.values(), COVERAGE]
    return [name for name in wanted if name in info.names], schema


def _prepare(name: str, file: PredictionFile, known: Any, schema: PhotometrySchema | None) -> ReportData:
    rows = known if known.any() else np.ones(len(known), dtype=bool)
    z = file.z_spec[rows] if known.any() and file.z_spec is not None else None
    columns, errors = _point_columns(file, rows, schema)
    about = {"file": Path(file.path).name, "facts": _facts(file)}
    return prepare(name, file.prediction[rows], z, PointTable(file.ids[rows], columns, errors), about)


def _point_columns(
    file: PredictionFile, rows: Any, schema: PhotometrySchema | None
) -> tuple[Mapping[str, FloatArray], Mapping[str, FloatArray]]:
    """Return photometry and its errors by band; what stands for no measurement becomes NaN."""
    if schema is None:
        return {}, {}

    def measured(column: str) -> FloatArray:
        values = file.table.floats(column)[rows]
        return np.where(np.abs(values) < SENTINEL, values, np.nan) if schema.kind == "magnitude" else values

    there = set(file.table.names)
    columns = {band: measured(schema.values[band]) for band in schema.bands if schema.values[band] in there}
    errors = {band: measured(schema.errors[band]) for band in columns if schema.errors.get(band) in there}
    if COVERAGE in there:
        columns["coverage"] = file.table.floats(COVERAGE)[rows]
    return columns, errors


def _facts(file: PredictionFile) -> list[str]:
    facts = []
    if file.redshift is not None and file.has_truth.any():
        facts.append(f"true redshift: {file.redshift}")
    model = file.metadata.get("gpzed_model")
    if model:
        facts.append(f"model: {model}")
    if file.prediction.n_components > 1:
        facts.append(f"mixtures of {file.prediction.n_components} Gaussians")
    return facts
