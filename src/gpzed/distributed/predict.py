"""Prediction for a folder of Parquet files on a Dask cluster: one output file for every input file."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpzed.catalog import SentinelReport, catalog_info, iter_catalog, parquet_files
from gpzed.distributed.connection import connect, require_dask, wait_for_workers
from gpzed.distributed.engine import attempt
from gpzed.errors import ConfigError
from gpzed.features import count_flags
from gpzed.progress import Task
from gpzed.workflows.cautions import Seen, warn_all
from gpzed.workflows.predict import PredictionRun, undone_if_changed
from gpzed.workflows.prediction_plan import PredictionPlan, PredictionRequest, PredictReport, plan_prediction
from gpzed.workflows.resume import FinishedChunks

STAMP = "gpzed_run"
"""Metadata of an output file that tells which run it belongs to."""


@dataclass(frozen=True)
class _FileReport:
    """What became of one input file."""

    n_rows: int
    is_new: bool
    flags: Counter[str]
    sentinels: SentinelReport | None
    seen: Seen | None  # what its rows are like, if they were computed now


def predict_folder(request: PredictionRequest) -> PredictReport:
    """Predict for all files of a folder on a Dask cluster; rows keep their order and their file.

    Each output file appears under its name when it is whole; a run that is repeated or resumed computes only those that
    are not there. Workers must be able to read the catalogue and to write to the output.
    """
    start, root, target = time.perf_counter(), request.catalogue, request.output
    if not root.is_dir():
        raise ConfigError(
            f"'{root}' is not a folder, and a cluster works on folders of Parquet files, one file at a time; give one, "
            "or leave out --dask"
        )
    files = parquet_files(root)
    plan = plan_prediction(request, to_folder=True)
    request.announce(plan.schema, plan.info.units)
    manifest = plan.manifest()
    stamp = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    plan = dataclasses.replace(plan, access={}, metadata={**plan.metadata, STAMP: stamp})
    chunks = FinishedChunks(target, manifest, request.resume, request.progress.warn)
    try:
        with undone_if_changed(
            plan.identity, lambda: _remove(chunks, target, [file.relative_to(root) for file in files])
        ):
            reports = _run(request, plan, files)
            plan.identity.check_unchanged()
        for left in target.rglob(".*.part"):  # of workers that were killed
            left.unlink(missing_ok=True)
        chunks.remove()
    finally:
        chunks.release()
    return _report(plan, reports, time.perf_counter() - start)


def _run(request: PredictionRequest, plan: PredictionPlan, files: list[Path]) -> list[_FileReport]:
    done: dict[Path, _FileReport] = {}
    with (
        connect(request.cluster) as client,
        client.as_current(),  # as_completed asks for it
        request.progress.task("predicting", plan.info.n_rows, "rows") as task,
    ):
        wait_for_workers(client)
        threads = max(1, sum(client.nthreads().values()) // len(files))
        attempt(
            client, lambda: _predict_files(client, plan, request.catalogue, files, threads, done, task), lambda: None
        )
    return [done[file] for file in files]


def _predict_files(
    client: Any,
    plan: PredictionPlan,
    root: Path,
    files: list[Path],
    threads: int,
    done: dict[Path, _FileReport],
    task: Task,
) -> None:
    """Start what is not done, and take in what is; work of a worker that died is done by another one."""
    (sent,) = client.scatter([plan], broadcast=True, hash=False)  # to every worker, once
    futures = {
        client.submit(predict_file, sent, file, plan.output / file.relative_to(root), threads, pure=False): file
        for file in files
        if file not in done
    }
    try:
        for future in require_dask().as_completed(list(futures)):
            report = future.result()
            done[futures[future]] = report
            task.advance(report.n_rows)
    except BaseException as error:
        keys = {future.key for future in futures}
        client.cancel(list(futures))
        while isinstance(error, Exception) and any(client.run(_still_runs, keys, on_error="ignore").values()):
            time.sleep(0.05)  # cancelled tasks run to their end, and would write after what is wrong was removed
        raise


def _still_runs(keys: set[str], dask_worker: Any) -> bool:
    return not keys.isdisjoint(list(dask_worker.active_threads.values()))


def predict_file(plan: PredictionPlan, source: Path, target: Path, n_threads: int) -> _FileReport:
    """Task: predict for one file, unless that is done already."""
    info = catalog_info(source)
    if target.exists():
        found = catalog_info(target)
        if found.metadata.get(STAMP) != plan.metadata[STAMP] or found.n_rows != info.n_rows:
            raise ConfigError(
                f"'{target}' is there already, from another model, catalogue or other options; write to another "
                "folder, or delete it"
            )
        flags: Counter[str] = Counter()
        for table in iter_catalog(target, columns=["z_flags"]):
            flags.update(count_flags(table["z_flags"]))
        return _FileReport(info.n_rows, False, flags, None, None)
    target.parent.mkdir(parents=True, exist_ok=True)
    metadata = {**plan.metadata, "gpzed_input": source.name, "gpzed_input_rows": info.n_rows}
    identity = plan.identity.of_file(source)
    plan = dataclasses.replace(plan, info=info, identity=identity, output=target, metadata=metadata)
    run = PredictionRun(plan, None, n_threads)
    run.execute(Task())
    return _FileReport(run.n_rows, True, run.flags, run.sentinels, run.seen)


def _remove(chunks: FinishedChunks, target: Path, names: list[Path]) -> None:
    chunks.remove()
    of_killed_workers = target.rglob(".*.part")
    for path in (*(target / name for name in names), *of_killed_workers):
        path.unlink(missing_ok=True)


def _report(plan: PredictionPlan, reports: list[_FileReport], seconds: float) -> PredictReport:
    flags: Counter[str] = Counter()
    sentinels: SentinelReport | None = None
    seen: Seen | None = None
    for report in reports:
        flags.update(report.flags)
        if report.sentinels is not None:
            sentinels = report.sentinels if sentinels is None else sentinels + report.sentinels
        if report.seen is not None:
            seen = report.seen if seen is None else seen + report.seen
    n_rows = sum(report.n_rows for report in reports)
    n_resumed = sum(report.n_rows for report in reports if not report.is_new)
    said = warn_all(plan.cautions(seen))
    return PredictReport(
        str(plan.output), n_rows, n_resumed, plan.schema, sentinels, flags, tuple(plan.added), seconds, said
    )
