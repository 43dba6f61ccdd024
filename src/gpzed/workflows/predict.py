"""From a model file and a catalogue to a catalogue with redshifts: streaming, in constant memory, resumable."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import gpzed
from gpzed._types import AnyArray
from gpzed.catalog import (
    Catalog,
    CatalogInfo,
    PhotometrySchema,
    SentinelReport,
    Sentinels,
    catalog_info,
    format_of,
    iter_catalog,
    open_writer,
)
from gpzed.config import PredictConfig, SchemaConfig
from gpzed.errors import CatalogError, ConfigError
from gpzed.features import count_flags, flag_legend
from gpzed.prediction import Prediction
from gpzed.workflows.flow import WriteBehind, quick_handover, read_ahead
from gpzed.workflows.modelfile import TrainedPipeline, load_pipeline, model_hash, quoted
from gpzed.workflows.reporter import Reporter, Task
from gpzed.workflows.resume import Parts
from gpzed.workflows.source import file_identity, make_inputs, matching_schema, needed_columns, require_folder

#: Rows of a chunk at most, and bytes that its columns, and the mixtures predicted for it, may take in memory.
MAX_CHUNK_ROWS, CHUNK_BYTES = 131_072, 32 << 20
#: What z_phot may be, for the description of the column.
POINTS = {
    "best": "redshift of least expected loss",
    "mean": "mean",
    "median": "median",
    "mode": "highest point",
}
#: Columns that are always written.
BASE_COLUMNS = ("z_phot", "z_mean", "z_std", "z_var_model", "z_var_noise", "z_var_input", "z_coverage", "z_flags")


@dataclass(frozen=True)
class PredictReport:
    """What a prediction run did.

    Attributes
    ----------
    output : str
    n_rows : int
        Rows written.
    n_resumed : int
        Rows among them that an earlier run had computed.
    schema : PhotometrySchema
        As used.
    sentinels : SentinelReport or None
        Of the rows computed in this run.
    flags : dict of str to int
        Rows by flag.
    columns : tuple of str
        Columns added.
    seconds : float
    """

    output: str
    n_rows: int
    n_resumed: int
    schema: PhotometrySchema
    sentinels: SentinelReport | None
    flags: dict[str, int]
    columns: tuple[str, ...]
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
class PredictJob:
    """All that is settled before the first row is read."""

    trained: TrainedPipeline
    info: CatalogInfo
    schema: PhotometrySchema
    options: PredictConfig
    read: list[str]
    kept: list[str]
    chunk_rows: int
    output: Path
    format: str | None
    metadata: dict[str, Any]
    n_components: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the computed columns, in order."""
        return column_dtype(self.options, self.n_components)

    @property
    def added(self) -> list[str]:
        """Names of the computed columns."""
        return added_columns(self.options, self.n_components)


def quantile_name(level: float) -> str:
    """Return the column of a quantile: 0.16 gives z_q16, 0.975 gives z_q97.5."""
    return f"z_q{100.0 * level:.10g}" if level >= 0.1 else f"z_q0{100.0 * level:.10g}"


def added_columns(options: PredictConfig, n_components: int) -> list[str]:
    """Return the names of the columns that prediction adds."""
    names = [*BASE_COLUMNS[:-1], *(quantile_name(level) for level in options.quantiles)]
    if n_components > 1 if options.components is None else options.components:
        for k in range(1, n_components + 1):
            names += [f"z_weight_{k}", f"z_mean_{k}", f"z_std_{k}"]
    return [*names, BASE_COLUMNS[-1]]


def predict(
    model: str | os.PathLike[str],
    catalogue: str | os.PathLike[str],
    output: str | os.PathLike[str],
    options: PredictConfig | None = None,
    *,
    schema: SchemaConfig | None = None,
    format: str | None = None,
    resume: bool = False,
    n_threads: int | None = None,
    reporter: Reporter | None = None,
    on_plan: Callable[[PhotometrySchema], None] | None = None,
) -> PredictReport:
    """Predict redshifts for every row of a catalogue and write them, with the columns it had, to another.

    Parameters
    ----------
    model : path
        Model file of `train`.
    catalogue : path
        Read in chunks, whatever its size.
    output : path
        Appears under this name only when whole; until then ``OUTPUT.parts`` holds what is finished.
    options : PredictConfig, optional
        Columns, quantiles, chunk size; those stored in the model file by default.
    schema : SchemaConfig, optional
        Which column is what, if neither as in training nor to be guessed.
    format : str, optional
        Format of the output, if its suffix does not tell.
    resume : bool
        Go on with what an interrupted run left; the result is the same byte for byte.
    n_threads : int or None
        Threads of the computation; all cores if None.
    reporter : Reporter, optional
    on_plan : callable, optional
        Told which column is taken for what, before the first row is read.

    Returns
    -------
    PredictReport
    """
    start = time.perf_counter()
    reporter = reporter or Reporter()
    job = plan_prediction(model, catalogue, Path(output), options, schema or SchemaConfig(), format, reporter)
    if on_plan is not None:
        on_plan(job.schema)
    job.trained.model.n_threads = n_threads
    parts = Parts(job.output, _manifest(job, model, catalogue), resume)
    run = PredictRun(job, parts)
    try:
        if resume:
            _discard_leftovers(job.output)
        if resume and parts.n_done:
            reporter.say(f"going on with {parts.n_done} finished chunks in '{parts.folder}'")
        with quick_handover(), reporter.task("predicting", job.info.n_rows, "rows") as task:
            run.execute(schema or SchemaConfig(), task)
        parts.remove()
    finally:
        parts.release()
    return PredictReport(
        str(job.output), run.n_rows, run.n_resumed, job.schema, run.sentinels, run.flags, tuple(job.added),
        time.perf_counter() - start,
    )  # fmt: skip


def _discard_leftovers(output: Path) -> None:
    """Remove unfinished output files that a killed run could not."""
    for file in output.parent.iterdir():
        if file.name.startswith(f".{output.name}.") and file.suffix == ".part":
            file.unlink(missing_ok=True)


def plan_prediction(
    model: str | os.PathLike[str],
    catalogue: str | os.PathLike[str],
    output: Path,
    options: PredictConfig | None,
    schema_config: SchemaConfig,
    format: str | None,
    reporter: Reporter,
    *,
    to_folder: bool = False,
) -> PredictJob:
    """Settle everything; all that can be wrong with the arguments is found here.

    With `to_folder` the output is a folder of files, else one file of the given format.
    """
    trained = load_pipeline(model)
    options = options or trained.config.predict
    info = catalog_info(catalogue, format=schema_config.format, hdf5_group=schema_config.hdf5_group)
    needs_ebv = bool(trained.transformer.config.extinction)
    schema = matching_schema(info.names, trained.schema, schema_config, needs_ebv)
    if needs_ebv and not schema.ebv:
        raise ConfigError(f"the model corrects for extinction but '{info.path}' has no E(B-V) column that is known")
    if output.exists() and Path(catalogue).exists() and output.samefile(catalogue):
        raise ConfigError(f"'{output}' is the catalogue itself; write the predictions to another file")
    require_folder(output, "the predictions")
    if to_folder:
        _check_folder(output)
    else:
        open_writer(output, format)  # checks name, format and folder
    n_components = trained.n_components
    added = added_columns(options, n_components)
    wanted = list(info.names) if options.columns is None else list(options.columns)
    lost = [name for name in wanted if name not in info.names]
    if lost:
        raise CatalogError(f"'{info.path}' has no column {lost[0]!r} to copy; it has {', '.join(info.names)}")
    replaced = [name for name in wanted if name in added]
    if replaced:
        reporter.warn(f"columns {', '.join(replaced)} of the catalogue are replaced by new predictions")
    kept = [name for name in wanted if name not in added]
    read = list(dict.fromkeys([*kept, *needed_columns(schema)]))
    metadata = _metadata(trained, model, info, schema, options)
    chunk_rows = options.chunk_rows or _chunk_rows(info, read, n_components)
    return PredictJob(trained, info, schema, options, read, kept, chunk_rows, output, format, metadata, n_components)


def _check_folder(output: Path) -> None:
    if output.exists() and not output.is_dir():
        raise ConfigError(f"'{output}' is a file; give the name of a folder to write a file for every input file into")
    if not output.parent.is_dir():
        raise ConfigError(f"'{output}' cannot be written: folder '{output.parent}' does not exist; create it first")


def _chunk_rows(info: CatalogInfo, names: list[str], n_components: int) -> int:
    kinds = [info.dtypes.get(name, "float64") for name in names]
    read = sum(64 if kind == "str" else np.dtype(kind).itemsize for kind in kinds)
    predicted = 5 * 8 * n_components  # weights, means and three parts of the variance
    return int(np.clip(CHUNK_BYTES // max(read, predicted), 1024, MAX_CHUNK_ROWS))


def _metadata(
    trained: TrainedPipeline,
    model: str | os.PathLike[str],
    info: CatalogInfo,
    schema: PhotometrySchema,
    options: PredictConfig,
) -> dict[str, Any]:
    """Return what the output says about itself; no times, so that equal runs give equal files."""
    return {
        **info.metadata,
        "gpzed_version": gpzed.__version__,
        "gpzed_model": Path(model).name,
        "gpzed_model_sha256": model_hash(model),
        "gpzed_input": Path(info.path).name,
        "gpzed_input_rows": info.n_rows,
        "gpzed_schema": schema.to_dict(),
        "gpzed_features": list(trained.transformer.names),
        "gpzed_config": trained.config.to_dict(),
        "gpzed_point": options.point,
        "gpzed_quantiles": list(options.quantiles),
        "gpzed_mixture": {**trained.model.run_, "lower": 0.0 if options.positive else None},
        "gpzed_flags": flag_legend(),
        "gpzed_columns": {
            "z_phot": f"{POINTS[options.point]} of the predictive distribution",
            "z_mean": "mean of the predictive distribution",
            "z_std": "its standard deviation, square root of z_var_model + z_var_noise + z_var_input",
            "z_var_model": "variance for want of training data (Eq. 3.13), and from members that disagree",
            "z_var_noise": "variance for want of information in the photometry (Eq. 5.10), and from heads that differ",
            "z_var_input": "variance because bands are missing or, where errors are noise of the inputs, noisy",
            "z_coverage": "share of the training rows that lie in emptier places; NaN if the model did not learn it",
            "z_flags": "sum of the bits of gpzed_flags that apply",
        },
    }


def _manifest(job: PredictJob, model: str | os.PathLike[str], catalogue: str | os.PathLike[str]) -> dict[str, Any]:
    return {
        "gpzed_version": gpzed.__version__,
        "model": job.metadata["gpzed_model_sha256"],
        "catalogue": file_identity(catalogue),
        "rows": job.info.n_rows,
        "schema": job.schema.to_dict(),
        "columns": job.kept,
        "computed": job.added,
        "quantiles": list(job.options.quantiles),
        "chunk_rows": job.chunk_rows,
        "format": format_of(job.output, job.format),
    }


class ChunkStore(Protocol):
    """Where finished chunks are kept, if anywhere."""

    def load(self, index: int) -> AnyArray | None:
        """Return a finished chunk."""

    def store(self, index: int, values: AnyArray) -> None:
        """Keep a finished chunk."""


class PredictRun:
    """One pass over the catalogue."""

    def __init__(self, job: PredictJob, parts: ChunkStore) -> None:
        self.job, self.parts = job, parts
        self.n_rows = self.n_resumed = 0
        self.sentinels: SentinelReport | None = None
        self.flags: dict[str, int] = {}

    def execute(self, schema: SchemaConfig, task: Task) -> None:
        """Read, compute and write; the output appears when all is done."""
        job = self.job
        chunks = iter_catalog(
            job.info.path,
            chunk_rows=job.chunk_rows,
            columns=job.read,
            format=schema.format,
            hdf5_group=schema.hdf5_group,
        )
        with open_writer(job.output, job.format, job.metadata) as writer:

            def write(item: tuple[int, Catalog, AnyArray, bool]) -> None:
                index, table, values, is_new = item
                if is_new:
                    self.parts.store(index, values)
                columns = {name: np.ascontiguousarray(values[name]) for name in job.added}
                writer.write(table.select(job.kept).with_columns(columns))
                task.advance(len(table))

            with WriteBehind(write) as behind:
                for item in self._computed(read_ahead(chunks)):
                    behind.put(item)
            if self.n_rows != job.info.n_rows:  # before the writer gives the file its name
                raise CatalogError(
                    f"'{job.info.path}' gave {self.n_rows} rows but has {job.info.n_rows}; it changed meanwhile"
                )

    def _computed(self, chunks: Iterator[Catalog]) -> Iterator[tuple[int, Catalog, AnyArray, bool]]:
        for index, table in enumerate(chunks):
            values = self.parts.load(index)
            is_new = values is None or len(values) != len(table) or values.dtype != self.job.dtype
            if is_new:
                values = self._compute(table)
            else:
                self.n_resumed += len(table)
            assert values is not None
            self.n_rows += len(table)
            for name, count in count_flags(values["z_flags"]).items():
                self.flags[name] = self.flags.get(name, 0) + count
            yield index, table, values, is_new

    def _compute(self, table: Catalog) -> AnyArray:
        prediction, report = predict_table(self.job.trained, table, self.job.schema)
        self.sentinels = report if self.sentinels is None else self.sentinels + report
        return tabulate(prediction, self.job.options, self.job.dtype)


def predict_table(
    trained: TrainedPipeline, table: Catalog, schema: PhotometrySchema | None = None, sentinels: Sentinels | None = None
) -> tuple[Prediction, SentinelReport]:
    """Predict for the rows of a table in memory, each as if it were alone.

    Parameters
    ----------
    trained : TrainedPipeline
    table : Catalog
    schema : PhotometrySchema, optional
        Which column is what, of the bands of training; as in training by default.
    sentinels : Sentinels, optional
        The numbers that are no measurements; as in training by default.

    Returns
    -------
    prediction : Prediction
        With `flags`.
    report : SentinelReport
        What was measured and what was not.
    """
    inputs = make_inputs(table, schema or trained.schema, sentinels or trained.sentinels, trained.transformer)
    return trained.predict(inputs.X, inputs.flags, inputs.X_std), inputs.photometry.report


def predict_columns(prediction: Prediction, options: PredictConfig | None = None) -> dict[str, AnyArray]:
    """Return the columns that `predict` adds to a catalogue, by name.

    Parameters
    ----------
    prediction : Prediction
    options : PredictConfig, optional
        Quantiles and components; neither `columns` nor `chunk_rows` matter.

    Returns
    -------
    dict of str to ndarray of shape (n,)
    """
    options = options or PredictConfig()
    dtype = column_dtype(options, prediction.n_components)
    values = tabulate(prediction, options, dtype)
    return {name: np.ascontiguousarray(values[name]) for name in dtype.names or ()}


def column_dtype(options: PredictConfig, n_components: int) -> np.dtype[Any]:
    """Return names and types of the columns that prediction adds, in order."""
    return np.dtype([(name, "<u4" if name == "z_flags" else "<f8") for name in added_columns(options, n_components)])


def tabulate(prediction: Prediction, options: PredictConfig, dtype: np.dtype[Any]) -> AnyArray:
    """Return the columns of a prediction as a structured array.

    Parameters
    ----------
    prediction : Prediction
        With `flags`.
    options : PredictConfig
    dtype : dtype
        Names and types of the columns.

    Returns
    -------
    structured ndarray of shape (n,)
    """
    values = np.empty(len(prediction), dtype=dtype)
    prediction = quoted(prediction, options)
    values["z_phot"] = prediction.z_phot
    values["z_mean"] = prediction.mean
    values["z_var_model"] = prediction.model_variance
    values["z_var_noise"] = prediction.noise_variance
    values["z_var_input"] = prediction.input_variance
    values["z_std"] = prediction.std
    values["z_coverage"] = np.nan if prediction.coverage is None else prediction.coverage
    values["z_flags"] = 0 if prediction.flags is None else prediction.flags
    for level in options.quantiles:
        values[quantile_name(level)] = prediction.quantile(level)
    if "z_weight_1" in (dtype.names or ()):
        for k in range(prediction.n_components):
            values[f"z_weight_{k + 1}"] = prediction.weights[:, k]
            values[f"z_mean_{k + 1}"] = prediction.means[:, k]
            values[f"z_std_{k + 1}"] = prediction.component_stds[:, k]
    return values
