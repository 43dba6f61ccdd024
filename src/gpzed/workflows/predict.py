"""From a model and a catalogue to a catalogue with redshifts: streaming, in constant memory, resumable."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpzed._files import check_output
from gpzed._types import AnyArray
from gpzed.catalog import (
    Catalog,
    Identity,
    PhotometrySchema,
    SentinelReport,
    is_address,
    iter_catalog,
    local_path,
    sent_to,
)
from gpzed.config import PredictConfig, SchemaConfig
from gpzed.errors import CatalogError, ConfigError
from gpzed.features import count_flags
from gpzed.progress import Progress, Task
from gpzed.workflows.background import quick_handover, read_ahead, write_behind
from gpzed.workflows.cautions import Seen, refuse_other_units, warn_all
from gpzed.workflows.model import PhotozModel, load_photoz_model
from gpzed.workflows.outputs import open_outputs
from gpzed.workflows.photoz_catalog import PhotozCatalog
from gpzed.workflows.prediction_plan import PredictionPlan, PredictionRequest, PredictReport, plan_prediction
from gpzed.workflows.resume import FinishedChunks
from gpzed.workflows.rows import tabulate_rows
from gpzed.workflows.tables import is_path


def predict(
    model: PhotozModel | str | os.PathLike[str],
    data: Any,
    output: str | os.PathLike[str] | None = None,
    options: PredictConfig | None = None,
    *,
    schema: SchemaConfig | None = None,
    format: str | None = None,
    resume: bool = False,
    n_threads: int | None = None,
    cluster: Any = None,
    progress: Progress | None = None,
    on_plan: Callable[[PhotometrySchema, dict[str, str]], None] | None = None,
    pdf_file: str | os.PathLike[str] | None = None,
) -> PhotozCatalog | PredictReport:
    """Predict redshifts for every row of a catalogue, in memory or from file to file.

    Parameters
    ----------
    model : PhotozModel or path
        Model, or model file, of `train`.
    data : path, data frame (pandas, polars, pyarrow), astropy table or dict of arrays
        A file is read in chunks, whatever its size. It may be a HATS catalogue, or with `cluster` a folder of Parquet
        files.
    output : path, optional
        File to write: the columns of `data`, and the redshifts. It appears under this name only when whole; until then
        ``OUTPUT.parts`` holds what is finished. A folder if `data` is a HATS catalogue, or with `cluster`: a file of
        the same name for every input file. An address (s3://...) gets it when it is whole.
    options : PredictConfig, optional
        Columns, quantiles, chunk size; those stored in the model by default.
    schema : SchemaConfig, optional
        Which column is what, if neither as in training nor to be guessed.
    format : str, optional
        Format of the output, if its suffix does not tell; "qp" for an HDF5 file of qp.
    resume : bool
        Resume what an interrupted run left; the result is the same byte for byte.
    n_threads : int or None
        Threads of the computation; all cores if None. Workers of a cluster have their own.
    cluster : str, distributed.Client or cluster, optional
        Dask cluster to predict on: "local:N", "tcp://HOST:PORT", ...
    progress : Progress, optional
    pdf_file : path, optional
        File, or HATS catalogue, for the densities, in the folder of `output`, which then has the points only. What
        reads predictions finds them there.
    on_plan : callable, optional
        Told which column is taken for what, and the columns without a known unit, with what the catalogue says
        instead, before the first row is read.

    Returns
    -------
    PhotozCatalog
        The predictions, if `data` is a table or there is no `output`.
    PredictReport
        What was done, from file to file.

    Examples
    --------
    >>> import gpzed
    >>> from gpzed.simulate import simulate_survey
    >>> table = simulate_survey(400, survey="sdss", random_state=0, only_spectroscopic=True).columns()
    >>> model = gpzed.train(table, n_members=1, n_heads=1, n_basis=5)  # small, to be quick
    >>> out = gpzed.predict(model, table)
    >>> out
    <PhotozCatalog of 400 rows: z_phot, z_mean, z_std, z_var_model, z_var_noise, z_var_input, z_coverage, z_pdf_weight>
    """
    if is_address(output):
        if resume:
            raise ConfigError(
                f"'{output}' is an address, to which no run can be resumed; write a file here, and copy it"
            )
        if pdf_file is not None:
            raise ConfigError(
                f"`pdf_file` needs an output here, not at an address as '{output}'; copy both files there"
            )
        with sent_to(str(output), "the predictions") as file:
            made = predict(
                model, data, file, options, schema=schema, format=format, n_threads=n_threads, cluster=cluster,
                progress=progress, on_plan=on_plan,
            )  # fmt: skip
        return replace(made, output=str(output)) if isinstance(made, PredictReport) else made
    data = local_path(data)
    to_folder = is_path(data) and (cluster is not None or is_hats(Path(data)))
    if output is not None:
        used = model.path or None if isinstance(model, PhotozModel) else model
        check_output(output, "the predictions", (used, data if is_path(data) else None), is_folder=to_folder)
    if not isinstance(model, PhotozModel):
        model = load_photoz_model(model)
    if output is None or not is_path(data):
        result = model.with_threads(n_threads).predict(data, options, schema=schema)
        if pdf_file is not None:
            raise ConfigError("`pdf_file` needs files; write the table to one first, and give its path")
        if output is not None:
            result.write(output, format)
        return result
    request = PredictionRequest(
        model,
        Path(data),
        Path(output),
        model.asked(options),
        schema or SchemaConfig(),
        format,
        resume,
        n_threads,
        cluster,
        progress or Progress(),
        on_plan,
        None if pdf_file is None else Path(pdf_file),
    )
    if is_hats(request.catalogue):
        from gpzed.distributed.lsdb import predict_hats

        return predict_hats(request)
    if cluster is not None:
        from gpzed.distributed.predict import predict_folder

        return predict_folder(request)
    return predict_file(request)


def is_hats(path: Path) -> bool:
    """Tell whether a folder is a HATS catalogue, or a collection of one and its margins."""
    return any((path / name).is_file() for name in ("hats.properties", "collection.properties", "properties"))


def predict_file(request: PredictionRequest) -> PredictReport:
    """Predict for one file, in this process."""
    start, progress = time.perf_counter(), request.progress
    plan = plan_prediction(request)
    request.announce(plan.schema, plan.info.units)
    chunks = FinishedChunks(plan.output, plan.manifest(), request.resume, progress.warn)
    run = PredictionRun(plan, chunks, request.n_threads)
    try:
        if chunks.n_done:
            progress.say(f"resuming: {chunks.n_done} finished chunks in '{chunks.folder}'")
        with (
            undone_if_changed(plan.identity, chunks.remove),
            quick_handover(),
            progress.task("predicting", plan.info.n_rows, "rows") as task,
        ):
            run.execute(task)
        chunks.remove()
    except CatalogError as error:
        if not run.n_written and not chunks.is_resumed:  # a later run would come no further
            chunks.remove()
        if not chunks.n_done:
            raise
        raise CatalogError(f"{error}; finished chunks are kept: add --resume") from error
    finally:
        chunks.release()
    return PredictReport(
        str(plan.output), run.n_rows, run.n_resumed, plan.schema, run.sentinels, run.flags, tuple(plan.added),
        time.perf_counter() - start, warn_all(plan.cautions(run.seen)),
    )  # fmt: skip


@contextmanager
def undone_if_changed(identity: Identity, undo: Callable[[], None]) -> Iterator[None]:
    """Say so if a catalogue has changed, whatever error that led to, and undo what was made from it."""
    try:
        yield
    except CatalogError as error:
        try:
            identity.check_unchanged()
        except CatalogError as changed:
            undo()
            raise CatalogError(f"{changed} (what was made from it is removed)") from error
        raise


class PredictionRun:
    """One pass over a file; finished chunks are kept, if there is a place for them."""

    def __init__(self, plan: PredictionPlan, chunks: FinishedChunks | None, n_threads: int | None) -> None:
        self.plan, self.chunks = plan, chunks
        self.model = plan.model.with_threads(n_threads)
        self.n_rows = self.n_resumed = self.n_written = 0
        self.sentinels: SentinelReport | None = None
        self.seen: Seen | None = None  # what the rows computed in this run are like
        self.flags: Counter[str] = Counter()

    def execute(self, task: Task) -> None:
        """Read, compute and write; the output appears when all is done."""
        plan = self.plan
        tables = iter_catalog(plan.info.path, chunk_rows=plan.chunk_rows, columns=plan.read, **plan.access)
        with open_outputs(plan) as write_rows:

            def write(item: tuple[int, Catalog, AnyArray, bool]) -> None:
                index, table, values, is_new = item
                if is_new and self.chunks is not None:
                    self.chunks.store(index, values)
                write_rows(table, values)
                self.n_written += len(table)
                task.advance(len(table))

            with write_behind(write) as put:
                for item in self._computed(read_ahead(tables)):
                    put(item)
            plan.identity.check_unchanged()  # before the writer gives the file its name
            if self.n_rows != plan.info.n_rows:
                raise CatalogError(f"'{plan.info.path}' gave {self.n_rows} rows but has {plan.info.n_rows}")

    def _computed(self, tables: Iterator[Catalog]) -> Iterator[tuple[int, Catalog, AnyArray, bool]]:
        for index, table in enumerate(tables):
            self.plan.identity.check_unchanged(sample=False)
            values = None if self.chunks is None else self.chunks.load(index)
            is_new = values is None or len(values) != len(table) or values.dtype != self.plan.dtype
            if is_new:
                values = self._compute(table)
            else:
                self.n_resumed += len(table)
            assert values is not None
            self.n_rows += len(table)
            self.flags.update(count_flags(values["z_flags"]))
            yield index, table, values, is_new

    def _compute(self, table: Catalog) -> AnyArray:
        values, report, seen = tabulate_rows(self.model, table, self.plan.schema, self.plan.options)
        self.sentinels = report if self.sentinels is None else self.sentinels + report
        if self.seen is None:
            refuse_other_units(self.model.scale, seen.scale, self.plan.info.path, self.plan.units_are_stated)
        self.seen = seen if self.seen is None else self.seen + seen
        return values
