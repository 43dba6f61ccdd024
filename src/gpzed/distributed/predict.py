"""Prediction for a folder of Parquet files on a Dask cluster: one output file for every input file."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpzed._types import AnyArray
from gpzed.catalog import PhotometrySchema, SentinelReport, catalog_info, iter_catalog, parquet_files
from gpzed.config import PredictConfig, SchemaConfig
from gpzed.distributed.connection import connect, require_dask, wait_for_workers
from gpzed.distributed.engine import attempt
from gpzed.errors import CatalogError, ConfigError
from gpzed.features import count_flags
from gpzed.workflows.predict import PredictJob, PredictReport, PredictRun, plan_prediction
from gpzed.workflows.reporter import Reporter, Task
from gpzed.workflows.resume import Parts
from gpzed.workflows.source import file_identity

STAMP = "gpzed_run"
"""Metadata of an output file that tells which run it belongs to."""


@dataclass(frozen=True)
class _FileReport:
    """What became of one input file."""

    n_rows: int
    is_new: bool
    flags: dict[str, int]
    sentinels: SentinelReport | None


class _NoParts:
    """A file is written in one go or not at all: nothing is kept of it in between."""

    def load(self, index: int) -> AnyArray | None:
        return None

    def store(self, index: int, values: AnyArray) -> None:
        return None


def predict_partitions(
    model: str | os.PathLike[str],
    catalogue: str | os.PathLike[str],
    output: str | os.PathLike[str],
    options: PredictConfig | None = None,
    *,
    dask: Any,
    schema: SchemaConfig | None = None,
    resume: bool = False,
    reporter: Reporter | None = None,
    on_plan: Callable[[PhotometrySchema], None] | None = None,
) -> PredictReport:
    """Predict for all files of a folder on a Dask cluster; rows keep their order and their file.

    Parameters
    ----------
    model : path
        Model file of `train`; sent to every worker once.
    catalogue : path
        Folder of Parquet files, which the workers can read.
    output : path
        Folder to write, which the workers can write to: a file of the same name for every input file. Each appears
        under its name when it is whole; a run that is repeated or resumed computes only those that are not there.
    options : PredictConfig, optional
        Columns, quantiles, chunk size; those stored in the model file by default.
    dask : str, distributed.Client or cluster
        As `cluster` of `gpzed.Run`: "local:N", "tcp://HOST:PORT", ...
    schema : SchemaConfig, optional
        Which column is what, if neither as in training nor to be guessed.
    resume : bool
        Go on with what an interrupted run left.
    reporter : Reporter, optional
    on_plan : callable, optional
        Told which column is taken for what, before the first row is read.

    Returns
    -------
    PredictReport
    """
    start = time.perf_counter()
    reporter, root, target = reporter or Reporter(), Path(catalogue), Path(output)
    if not root.is_dir():
        raise ConfigError(
            f"'{root}' is not a folder, and a cluster works on folders of Parquet files, one file at a time; give one, "
            "or leave out --dask"
        )
    files = parquet_files(root)
    job = plan_prediction(model, catalogue, target, options, schema or SchemaConfig(), None, reporter, to_folder=True)
    if on_plan is not None:
        on_plan(job.schema)
    manifest = _manifest(job, files)
    run = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    job = dataclasses.replace(job, metadata={**job.metadata, STAMP: run})
    parts = Parts(target, manifest, resume)
    try:
        reports = _run(dask, job, root, files, reporter)
        for left in target.rglob(".*.part"):  # of workers that were killed
            left.unlink(missing_ok=True)
        parts.remove()
    finally:
        parts.release()
    return _report(job, reports, time.perf_counter() - start)


def _manifest(job: PredictJob, files: list[Path]) -> dict[str, Any]:
    return {
        "gpzed_version": job.metadata["gpzed_version"],
        "model": job.metadata["gpzed_model_sha256"],
        "files": [file_identity(file)[0] for file in files],
        "schema": job.schema.to_dict(),
        "columns": job.kept,
        "computed": job.added,
        "chunk_rows": job.chunk_rows,
    }


def _run(dask: Any, job: PredictJob, root: Path, files: list[Path], reporter: Reporter) -> list[_FileReport]:
    done: dict[Path, _FileReport] = {}
    with (
        connect(dask) as client,
        client.as_current(),  # as_completed asks for it
        reporter.task("predicting", job.info.n_rows, "rows") as task,
    ):
        wait_for_workers(client)
        threads = max(1, sum(client.nthreads().values()) // len(files))
        attempt(client, lambda: _predict_files(client, job, root, files, threads, done, task), lambda: None)
    return [done[file] for file in files]


def _predict_files(
    client: Any, job: PredictJob, root: Path, files: list[Path], threads: int, done: dict[Path, _FileReport], task: Task
) -> None:
    """Start what is not done, and take in what is; work of a worker that died is done by another one."""
    (sent,) = client.scatter([job], broadcast=True, hash=False)  # to every worker, once
    futures = {
        client.submit(predict_file, sent, file, job.output / file.relative_to(root), threads, pure=False): file
        for file in files
        if file not in done
    }
    try:
        for future in require_dask().as_completed(list(futures)):
            report = future.result()
            done[futures[future]] = report
            task.advance(report.n_rows)
    except BaseException:
        client.cancel(list(futures))
        raise


def predict_file(job: PredictJob, source: Path, target: Path, n_threads: int) -> _FileReport:
    """Task: predict for one file, unless that is done already."""
    info = catalog_info(source)
    if target.exists():
        found = catalog_info(target)
        if found.metadata.get(STAMP) != job.metadata[STAMP] or found.n_rows != info.n_rows:
            raise ConfigError(
                f"'{target}' is there already, from another model, catalogue or other options; write to another "
                "folder, or delete it"
            )
        return _FileReport(info.n_rows, False, _flags_of(target), None)
    target.parent.mkdir(parents=True, exist_ok=True)
    metadata = {**job.metadata, "gpzed_input": source.name, "gpzed_input_rows": info.n_rows}
    job.trained.model.n_threads = n_threads
    run = PredictRun(dataclasses.replace(job, info=info, output=target, metadata=metadata), _NoParts())
    run.execute(SchemaConfig(), Task())
    return _FileReport(run.n_rows, True, run.flags, run.sentinels)


def _flags_of(file: Path) -> dict[str, int]:
    total: dict[str, int] = {}
    for table in iter_catalog(file, columns=["z_flags"]):
        for name, count in count_flags(table["z_flags"]).items():
            total[name] = total.get(name, 0) + count
    return total


def _report(job: PredictJob, reports: list[_FileReport], seconds: float) -> PredictReport:
    flags: dict[str, int] = {}
    sentinels: SentinelReport | None = None
    for report in reports:
        for name, count in report.flags.items():
            flags[name] = flags.get(name, 0) + count
        if report.sentinels is not None:
            sentinels = report.sentinels if sentinels is None else sentinels + report.sentinels
    n_rows = sum(report.n_rows for report in reports)
    if n_rows != job.info.n_rows:
        raise CatalogError(f"'{job.info.path}' gave {n_rows} rows but has {job.info.n_rows}; it changed meanwhile")
    n_resumed = sum(report.n_rows for report in reports if not report.is_new)
    return PredictReport(str(job.output), n_rows, n_resumed, job.schema, sentinels, flags, tuple(job.added), seconds)
