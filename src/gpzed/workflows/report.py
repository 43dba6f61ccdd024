"""From files of predictions to one page that shows how good they are."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpzed._files import check_output, write_atomically
from gpzed._types import FloatArray
from gpzed.catalog import PhotometrySchema, catalog_info, guess_schema
from gpzed.errors import ConfigError, GPzError
from gpzed.features import FLAG_MEANINGS
from gpzed.progress import Progress
from gpzed.report import PointTable, ReportData, prepare, render
from gpzed.workflows.magnitudes import file_magnitudes, table_magnitudes
from gpzed.workflows.predictions import PredictionFile, PredictionSource, read_predictions, recorded

SENTINEL = 90.0
"""Values beyond this are no magnitude or error of one: they stand for no measurement."""
COVERAGE, FLAGS = "z_coverage", "z_flags"


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
    training: str | os.PathLike[str] | None = None,
    objects: Collection[str] = (),
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
    training : path, optional
        Training catalogue, to compare with the objects in the space of colours.
    objects : collection of str
        Identifiers of objects that the page must tell everything about; of large files it does so for a sample.
    progress : Progress, optional

    Examples
    --------
    >>> import gpzed
    >>> from gpzed.simulate import simulate_survey
    >>> table = simulate_survey(400, survey="sdss", random_state=0, only_spectroscopic=True).columns()
    >>> model = gpzed.train(table, n_members=1, n_heads=1, n_basis=5)  # small, to be quick
    >>> gpzed.predict(model, table).write("redshifts.parquet")
    >>> from gpzed.workflows import write_report
    >>> report = write_report(["redshifts.parquet"], "report.html")
    """
    progress = progress or Progress()
    target = Path(output)
    if target.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"`output` is '{target}'; expected a name that ends in .html")
    given = [source if isinstance(source, PredictionSource) else PredictionSource(source) for source in sources]
    inputs = [file for source in given for file in source.files]
    check_output(output, "the page", inputs if training is None else [*inputs, training])
    names = _short_names([source.name for source in given])
    sets = []
    for source, name in zip(given, names, strict=True):
        columns, schema = _photometry(source)
        file = read_predictions(source, need_truth=False, columns=columns)
        known = file.has_truth
        progress.say(_what(file, int(known.sum())))
        learned = {} if training is None else _training(training, schema)
        sets.append(_prepare(name, file, known, schema, learned, objects))
    _check_found(objects, sets)
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
    return f"{file.path}: {n_truth:,} of {file.n_rows:,} rows, true redshift in '{file.redshift}', {file.found}"


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
    wanted = dict.fromkeys([*schema.photometry_columns, COVERAGE, FLAGS])
    return [name for name in wanted if name in info.names], schema


def _training(path: str | os.PathLike[str], schema: PhotometrySchema | None) -> Mapping[str, FloatArray]:
    """Return the magnitudes of the training catalogue in the bands of the predictions."""
    if schema is None:
        raise ConfigError("the predictions have no photometry to compare with `training`; predict with all columns")
    return file_magnitudes(path, schema)


def _check_found(objects: Collection[str], sets: Sequence[ReportData]) -> None:
    """Refuse identifiers that no file has."""
    told = {identifier for one in sets for identifier in one.content["objects"]["id"]}
    lost = [identifier for identifier in objects if identifier not in told]
    if lost:
        like = next(iter(told), "")
        raise ConfigError(
            f"no object is called '{lost[0]}'; expected identifiers like '{like}', of the column for --id"
        )


def _prepare(
    name: str,
    file: PredictionFile,
    known: Any,
    schema: PhotometrySchema | None,
    training: Mapping[str, FloatArray],
    wanted: Collection[str],
) -> ReportData:
    rows = known if known.any() else np.ones(len(known), dtype=bool)
    z = file.z_spec[rows] if known.any() and file.z_spec is not None else None
    columns, errors = _point_columns(file, rows, schema)
    there = set(file.table.names)
    table = PointTable(
        file.ids[rows],
        columns,
        errors,
        {} if schema is None else {band: m[rows] for band, m in table_magnitudes(file.table, schema).items()},
        training,
        file.table.floats(COVERAGE)[rows] if COVERAGE in there else None,
        np.asarray(file.table[FLAGS])[rows] if FLAGS in there else None,
        tuple((int(flag), str(flag.name), text) for flag, text in FLAG_MEANINGS.items()),
        wanted,
    )
    about = {"file": Path(file.path).name, "facts": _facts(file)}
    return prepare(name, file.prediction[rows], z, table, about)


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
    columns = {band: measured(schema.values[band]) for band in schema.observed if schema.values[band] in there}
    errors = {band: measured(schema.errors[band]) for band in columns if schema.errors.get(band) in there}
    if COVERAGE in there:
        columns["coverage"] = file.table.floats(COVERAGE)[rows]
    return columns, errors


def _facts(file: PredictionFile) -> list[str]:
    facts = []
    if file.redshift is not None and file.has_truth.any():
        facts.append(f"true redshift: {file.redshift}, {file.found}")
    model = file.metadata.get("gpzed_model")
    if model:
        facts.append(f"model: {model}")
    if file.prediction.n_components > 1:
        facts.append(f"mixtures of up to {file.prediction.n_components} Gaussians")
    return facts
