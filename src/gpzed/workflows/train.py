"""From a catalogue with redshifts to a model file."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import gpzed
from gpzed.catalog import Catalog, CatalogInfo, PhotometrySchema
from gpzed.config import RunConfig
from gpzed.distributed.train import is_folder
from gpzed.errors import ConfigError
from gpzed.evaluation import evaluate
from gpzed.model import HEADS_STAGE, GPzRegressor, Run, StepInfo
from gpzed.workflows.modelfile import TrainedPipeline
from gpzed.workflows.reporter import Reporter
from gpzed.workflows.source import file_hash, needed_columns, require_folder, table_hash
from gpzed.workflows.training_rows import TrainingPlan, TrainingRows, prepare, prepare_on_cluster, prepare_table


@dataclass(frozen=True)
class TrainReport:
    """What a training run did.

    Attributes
    ----------
    plan : TrainingPlan
    model_path : str
    n_basis, n_members : int
    seconds : float
        Wall time of the training proper, of the slowest member.
    status : tuple of str
        Why each member stopped.
    validation_score : tuple of float
        Mean log-likelihood of the rows held out, for each member.
    scores : dict of str to dict
        Metrics by part of the split (train, validation, test), where it has rows.
    """

    plan: TrainingPlan
    model_path: str
    n_basis: int
    n_members: int
    seconds: float
    status: tuple[str, ...]
    validation_score: tuple[float | None, ...]
    scores: dict[str, dict[str, float]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain JSON types."""
        stored = {k: v for k, v in asdict(self).items() if k != "plan"}
        return {**self.plan.to_dict(), **stored, "status": list(self.status)}


def train(
    catalogue: str | os.PathLike[str],
    output: str | os.PathLike[str],
    config: RunConfig | None = None,
    *,
    run: Run | None = None,
    resume: bool = False,
    reporter: Reporter | None = None,
    on_plan: Callable[[TrainingPlan], None] | None = None,
) -> TrainReport:
    """Train a model on a catalogue and write the model file.

    Parameters
    ----------
    catalogue : path
        With redshifts; rows without one are left out and counted.
    output : path
        Model file to write.
    config : RunConfig, optional
    run : Run, optional
        Checkpoint (``OUTPUT.checkpoint`` by default, removed when the model file is written), cluster and callbacks. A
        folder of Parquet files, or a HATS catalogue, is read by the workers of the cluster; this process then fits the
        features to a sample of `train_cluster.SAMPLE_ROWS` rows.
    resume : bool
        Resume from the checkpoint of an interrupted run, if there is one.
    reporter : Reporter, optional
    on_plan : callable, optional
        Told the plan before training begins.

    Returns
    -------
    TrainReport

    Raises
    ------
    TrainingInterruptedError
        `run.should_stop` said so.
    """
    config, reporter = config or RunConfig(), reporter or Reporter()
    target = Path(output)
    run = run or Run()
    state = run.checkpoint or target.with_name(target.name + ".checkpoint")
    run = replace(run, checkpoint=state, keep_checkpoint=True)
    _check_output(target, run, resume)
    with run.client() as client:
        if client is not None and is_folder(catalogue):
            rows, digest, parts = prepare_on_cluster(client, catalogue, config, reporter)
        else:
            rows, parts = prepare(catalogue, config, reporter), None
            digest = file_hash(rows.plan.info.path)
        if on_plan is not None:
            on_plan(rows.plan)
        provenance = _provenance(rows.plan, digest)  # as it is now, not when training ends
        model = _fit(rows, config, replace(run, cluster=client), reporter, parts)
    trained = _trained(model, rows, config, provenance)
    trained.save(target)
    run.remove_checkpoints()
    return _report(trained, rows, target)


def train_table(
    table: Catalog,
    schema: PhotometrySchema,
    config: RunConfig | None = None,
    *,
    reporter: Reporter | None = None,
) -> TrainedPipeline:
    """Train a model on a table in memory; for front ends that read catalogues themselves.

    Parameters
    ----------
    table : Catalog
        With redshifts; rows without one are left out and counted.
    schema : PhotometrySchema
        Which column is what; the section [schema] of the configuration is not looked at.
    config : RunConfig, optional
    reporter : Reporter, optional

    Returns
    -------
    TrainedPipeline
        Its `save` writes the model file.
    """
    config, reporter = config or RunConfig(), reporter or Reporter()
    origin, dtypes = table.provenance, {name: str(table[name].dtype) for name in table.names}
    info = CatalogInfo(
        origin.path or "a table in memory", origin.format or "memory", table.names, dtypes, {}, len(table), {}
    )
    rows = prepare_table(table, info, schema, config)
    provenance = _provenance(rows.plan, table_hash(table.select(needed_columns(schema, schema.redshift))))
    return _trained(_fit(rows, config, Run(), reporter), rows, config, provenance)


def _trained(model: GPzRegressor, rows: TrainingRows, config: RunConfig, provenance: dict[str, Any]) -> TrainedPipeline:
    z = rows.z[rows.split.train]
    return TrainedPipeline(
        model,
        rows.plan.schema,
        rows.transformer,
        config,
        float(z.mean()),
        float(max(z.var(), 1e-12)),
        provenance,
    )


def _check_output(target: Path, run: Run, resume: bool) -> None:
    require_folder(target, "the model")
    left = run.checkpoints()
    if left and not resume:
        raise ConfigError(
            f"'{left[0]}' is left from an interrupted run; add --resume to go on with it, or delete it to start afresh"
        )


def _fit(
    rows: TrainingRows, config: RunConfig, run: Run, reporter: Reporter, parts: list[Any] | None = None
) -> GPzRegressor:
    """Train on the rows of this process, or on `parts` that the workers of the run's cluster load."""
    options, training = config.model, config.training
    total = (training.max_iter + (training.n_epochs if options.n_heads > 1 else 0)) * options.n_members
    part, held = rows.split.train, rows.split.validation
    weights = np.ones(len(rows.z)) if rows.weights is None else rows.weights
    X_std = rows.X_std
    validation = None
    if len(held):
        validation = (rows.X[held], rows.z[held], weights[held], None if X_std is None else X_std[held])
    model = config.regressor()
    with reporter.task("training", total, "steps") as task:

        def on_step(step: StepInfo) -> bool | None:
            unit = "epoch" if step.stage == HEADS_STAGE else "step"
            task.advance(1, f"member {step.member + 1}, {unit} {step.iteration}, best score {step.best_score:.4f}")
            return None if told is None else told(step)

        told = run.callback
        run = replace(run, callback=on_step)
        if parts is not None:
            return model.fit_stream(parts, validation_data=validation, run=run)
        return model.fit(
            rows.X[part],
            rows.z[part],
            None if rows.weights is None else weights[part],
            X_std=None if X_std is None else X_std[part],
            validation_data=validation,
            run=run,
        )


def _provenance(plan: TrainingPlan, digest: str) -> dict[str, Any]:
    return {
        "gpzed_version": gpzed.__version__,
        "catalogue": plan.info.path,
        "catalogue_sha256": digest,
        "rows": plan.counts,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _report(trained: TrainedPipeline, rows: TrainingRows, target: Path) -> TrainReport:
    scores = {}
    for name in ("train", "validation", "test"):
        part = getattr(rows.split, name)
        if len(part):
            X_std = None if rows.X_std is None else rows.X_std[part]
            scores[name] = evaluate(rows.z[part], trained.predict(rows.X[part], rows.flags[part], X_std))
    reports = trained.model.reports_
    return TrainReport(
        plan=rows.plan,
        model_path=str(target),
        n_basis=trained.model.n_basis_,
        n_members=trained.model.n_members,
        seconds=max((report.seconds for report in reports), default=0.0),
        status=tuple(report.status for report in reports),
        validation_score=tuple(float(r.best_score) if np.isfinite(r.best_score) else None for r in reports),
        scores=scores,
    )
