"""From a catalogue with redshifts to a model file."""

from __future__ import annotations

import datetime
import os
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import gpzed
from gpzed._files import Lock, check_output, discard_leftovers, file_hash, nothing_to_resume
from gpzed.catalog import Catalog, PhotometrySchema, address_of, identify, local_path
from gpzed.catalog.scale import BIN
from gpzed.config import RunConfig, as_config
from gpzed.errors import ConfigError, DataWarning, GPzWarning
from gpzed.evaluation import evaluate
from gpzed.model import HEADS_STAGE, NETWORK_STAGE, GPzRegressor, Run, StepInfo
from gpzed.progress import Progress
from gpzed.workflows.columns import quoted
from gpzed.workflows.model import PhotozModel
from gpzed.workflows.simulated import OWN
from gpzed.workflows.tables import IN_MEMORY, as_table, is_path
from gpzed.workflows.training_set import TrainingPlan, TrainingSet, prepare, prepare_table

MIN_HELD_OUT = 20
"""Rows below which scores say nothing."""
MAX_SCORED = 5000
"""Training rows that are scored, which says little."""
MIN_LOCAL = 5000
"""Galaxies with spectra, of which a tenth is held out, from which on widths are corrected by region."""


@dataclass(frozen=True)
class TrainReport:
    """What a training run did."""

    plan: TrainingPlan
    model_path: str  # of the model file; empty if none was written
    n_basis: int
    n_members: int
    seconds: float  # wall time of the training proper, of all members
    status: tuple[str, ...]  # why each member stopped
    validation_score: tuple[float | None, ...]  # mean log-likelihood of the held-out rows, for each member
    scores: dict[str, dict[str, float]] = field(default_factory=dict)
    """Metrics by part of the split (train, validation, test), where it has rows; of `held_out` rows, by members not
    trained on them, if there is neither validation nor test."""

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain JSON types."""
        stored = {k: v for k, v in asdict(self).items() if k != "plan"}
        return {**self.plan.to_dict(), **stored, "status": list(self.status)}


def train(
    data: Any,
    output: str | os.PathLike[str] | None = None,
    config: RunConfig | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    *,
    target: Any = None,
    run: Run | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    on_plan: Callable[[TrainingPlan], None] | None = None,
    **options: Any,
) -> PhotozModel:
    """Train a model on a catalogue with photometry and redshifts.

    Columns are recognised by their names; features, missing bands and options are those of ``gpzed train``.

    Parameters
    ----------
    data : path, data frame (pandas, polars, pyarrow), astropy table or dict of arrays
        With redshifts; rows without one are left out and counted. A path may be an address (s3://...), which is
        fetched.
    output : path, optional
        Model file to write.
    config : RunConfig, mapping or path of a TOML file, optional
    target : path or table, optional
        Catalogue of the survey that the model is for, where the training rows are not like it: further rows are made in
        its likeness, or rows are weighted (section [target] of the configuration).
    run : Run, optional
        Checkpoint (``OUTPUT.checkpoint`` by default, removed when the model file is written), cluster and callbacks. A
        folder of Parquet files, or a HATS catalogue, is read by the workers of the cluster; this process then fits the
        features to a random sample of the rows.
    resume : bool
        Resume from the checkpoint of an interrupted run, if there is one.
    progress : Progress, optional
    on_plan : callable, optional
        Told the plan before training begins.
    **options
        Keys of the configuration, whatever their section: ``seed=1``, ``bands=["g", "r", "i"]``, ``n_members=2``.

    Returns
    -------
    PhotozModel
        With the `report` of the training.

    Raises
    ------
    ConfigError
        An option is unknown or has a wrong value.
    TrainingInterruptedError
        `run.should_stop` said so.

    Examples
    --------
    >>> import gpzed
    >>> from gpzed.simulate import simulate_survey
    >>> table = simulate_survey(400, survey="sdss", random_state=0, only_spectroscopic=True).columns()
    >>> model = gpzed.train(table, n_members=1, n_heads=1, n_basis=5)  # small, to be quick
    >>> model
    <PhotozModel of 5 basis functions (VC), bands u, g, r, i, z>
    >>> out = model.predict(table)
    >>> out["z_phot"].shape
    (400,)
    """
    data, target = local_path(data), local_path(target)
    settled = as_config(config, options)
    if target is not None:
        name = os.fspath(target) if is_path(target) else IN_MEMORY
        settled = settled.override("target", catalogue=name)
    run, progress = run or Run(), progress or Progress()
    given = (data, target, config, settled.target.catalogue or None, _simulated_file(settled))
    inputs = [path for path in given if isinstance(path, str | os.PathLike)]
    if output is not None:
        state = run.checkpoint or Path(f"{os.fspath(output)}.checkpoint")
        run = replace(run, checkpoint=state, keep_checkpoint=True)
        check_output(output, "the model", inputs)
    if run.checkpoint is not None:
        check_output(run.checkpoint, "the checkpoint", [*inputs, output])
    with _held(output):
        _check_checkpoints(run, resume)
        if resume and output is not None and run.checkpoint is not None and not run.checkpoints():
            warnings.warn(nothing_to_resume(output, run.checkpoint), GPzWarning, stacklevel=2)
        return _train(data, output, settled, None if is_path(target) else target, run, progress, on_plan)


def _held(output: str | os.PathLike[str] | None) -> AbstractContextManager[object]:
    """Keep other processes from training to the same output, or resuming what is under way."""
    return nullcontext() if output is None else Lock(Path(f"{os.fspath(output)}.lock"), output)


def _train(
    data: Any,
    output: str | os.PathLike[str] | None,
    settled: RunConfig,
    target: Any,
    run: Run,
    progress: Progress,
    on_plan: Callable[[TrainingPlan], None] | None,
) -> PhotozModel:
    with run.client() as client:
        rows, parts = _prepare(data, settled, progress, target, client)
        if on_plan is not None:
            on_plan(rows.plan)
        provenance = _provenance(rows)  # as it is now, not when training ends
        start = time.perf_counter()
        regressor = _fit(rows, settled, replace(run, cluster=client), progress, parts)
        seconds = time.perf_counter() - start
    model = _photoz_model(regressor, rows, settled, provenance)
    if output is not None:
        model.save(output)
        for path in run.checkpoints():
            discard_leftovers(path)
        run.remove_checkpoints()
    return replace(model, report=_report(model, rows, output, seconds))


def _prepare(
    data: Any, config: RunConfig, progress: Progress, target: Any, client: Any
) -> tuple[TrainingSet, list[Any] | None]:
    """Return the training set, and the rows that workers of a cluster load themselves, if they do."""
    if client is not None and is_path(data) and Path(data).is_dir():
        from gpzed.distributed.train import prepare_on_cluster

        return prepare_on_cluster(client, data, config, progress)
    if not is_path(data):
        return prepare(data, config, progress, target), None
    identity = identify(data)
    rows = replace(prepare(data, config, progress, target), digest=file_hash(data))
    identity.check_unchanged()
    return rows, None


def train_table(
    table: Catalog, schema: PhotometrySchema, config: RunConfig | None = None, *, progress: Progress | None = None
) -> PhotozModel:
    """Train a model on a table in memory; for front ends that read catalogues themselves.

    Parameters
    ----------
    table : Catalog
        With redshifts; rows without one are left out and counted.
    schema : PhotometrySchema
        Which column is what; the section [schema] of the configuration is not looked at.
    config : RunConfig, optional

    Returns
    -------
    PhotozModel
        Its `save` writes the model file.

    Examples
    --------
    >>> from gpzed.catalog import Catalog, guess_schema
    >>> from gpzed.config import RunConfig
    >>> from gpzed.simulate import simulate_survey
    >>> from gpzed.workflows import train_table
    >>> table = Catalog(simulate_survey(400, survey="sdss", random_state=0, only_spectroscopic=True).columns())
    >>> config = RunConfig.from_dict({"model": {"n_members": 1, "n_heads": 1, "n_basis": 5}})
    >>> train_table(table, guess_schema(table.names), config)
    <PhotozModel of 5 basis functions (VC), bands u, g, r, i, z>
    """
    config, progress = config or RunConfig(), progress or Progress()
    rows = prepare_table(table, as_table(table).info(), schema, config)
    return _photoz_model(_fit(rows, config, Run(), progress), rows, config, _provenance(rows))


def _photoz_model(model: GPzRegressor, rows: TrainingSet, config: RunConfig, provenance: dict[str, Any]) -> PhotozModel:
    z = rows.z[rows.split.train]
    return PhotozModel(
        model,
        rows.plan.schema,
        rows.transformer,
        config,
        float(z.mean()),
        float(max(z.var(), 1e-12)),
        rows.scale,
        provenance,
    )


def _simulated_file(config: RunConfig) -> str | None:
    return config.target.simulated if config.target.simulated not in ("", *OWN) else None


def _check_checkpoints(run: Run, resume: bool) -> None:
    left = [] if resume else run.checkpoints()
    if left and run.keep_checkpoint:
        raise ConfigError(
            f"'{left[0]}' is left from an interrupted run; add --resume to resume it, or delete it to start afresh"
        )


def _fit(
    rows: TrainingSet, config: RunConfig, run: Run, progress: Progress, parts: list[Any] | None = None
) -> GPzRegressor:
    """Train on the rows of this process, or on `parts` that the workers of the run's cluster load."""
    options, training = config.model, config.training
    total = (training.max_iter + (training.n_epochs if options.n_heads > 1 else 0)) * options.n_members
    part, held = rows.split.train, rows.split.validation
    weights = np.ones(len(rows.z)) if rows.weights is None else rows.weights
    X_std = rows.X_std
    validation = None
    if len(held):
        own = rows.labels.take(held)
        validation = (rows.X[held], own.z, weights[held], None if X_std is None else X_std[held], own.std, own.wrong)
    model = regressor_for(rows, config)
    with progress.task("training", total, "steps") as task, warnings.catch_warnings():
        known = _constant_magnitudes(rows)
        if known:
            warnings.filterwarnings("ignore", rf"features? {known} \(counted from 0\) (is|are) constant", DataWarning)

        def on_step(step: StepInfo) -> bool | None:
            unit = {HEADS_STAGE: "epoch", NETWORK_STAGE: "network epoch"}.get(step.stage, "step")
            task.advance(1, f"member {step.member + 1}, {unit} {step.iteration}, best score {step.best_score:.4f}")
            return None if told is None else told(step)

        told = run.callback
        run = replace(run, callback=on_step)
        if parts is not None:
            return model.fit_stream(parts, validation_data=validation, run=run)
        labels = rows.labels.take(part)
        return model.fit(
            rows.X[part],
            labels.z,
            None if rows.weights is None else weights[part],
            X_std=None if X_std is None else X_std[part],
            y_std=labels.std,
            y_wrong=labels.wrong,
            validation_data=validation,
            assumed=rows.assumed if validation else None,
            run=run,
        )


def _constant_magnitudes(rows: TrainingSet) -> str:
    """Return the numbers of the inputs that are magnitudes of constant bands, of which the user was told by name."""
    scale = rows.scale
    constant = [band for band, levels in zip(scale.bands, scale.magnitudes, strict=True) if np.ptp(levels) < BIN]
    names = {stem + band for stem in ("asinh_", "mag_") for band in constant}
    return ", ".join(str(k) for k, name in enumerate(rows.transformer.names) if name in names)


def regressor_for(rows: TrainingSet, config: RunConfig) -> GPzRegressor:
    """Return the model to train: that of the configuration, with widths corrected by region if galaxies were dimmed.

    Bright rows with spectra and faint ones made of them err in opposite directions, which one factor for all cannot
    mend. Few galaxies with spectra cannot tell regions apart, however many rows are made of them. Rows made in the
    likeness of the target have the doubts that they were given: no others are looked for.
    """
    report = rows.plan.target
    changes: dict[str, Any] = {}
    if report is not None and report.adapted == "dim":
        if config.model.calibrate == "global" and rows.plan.counts["train"] >= MIN_LOCAL:
            changes["calibrate"] = "local"
        if config.model.wrong_labels == "auto":
            changes["wrong_labels"] = 0.0
    return config.override("model", **changes).regressor()


def _provenance(rows: TrainingSet) -> dict[str, Any]:
    return {
        "gpzed_version": gpzed.__version__,
        "catalogue": address_of(rows.plan.info.path),
        "catalogue_sha256": rows.digest,
        "rows": rows.plan.counts,
        "redshift_range": list(rows.plan.redshift_range),
        "errors": rows.plan.errors,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _report(
    trained: PhotozModel, rows: TrainingSet, output: str | os.PathLike[str] | None, seconds: float
) -> TrainReport:
    reports = trained.regressor.reports_
    return TrainReport(
        plan=rows.plan,
        model_path="" if output is None else os.fspath(output),
        n_basis=trained.regressor.n_basis_,
        n_members=trained.regressor.n_members,
        seconds=seconds,
        status=tuple(report.status for report in reports),
        validation_score=tuple(float(r.best_score) if np.isfinite(r.best_score) else None for r in reports),
        scores=_scores(trained, rows),
    )


def _scores(trained: PhotozModel, rows: TrainingSet) -> dict[str, dict[str, float]]:
    """Score the parts of the rows, as the densities that `predict` writes: integrals over few Gaussians are quick."""
    scores = {}
    held = trained.regressor.held_out_
    if held is not None and len(held.y) >= MIN_HELD_OUT and not len(rows.split.validation) + len(rows.split.test):
        scores["held_out"] = evaluate(held.y, quoted(held.prediction, trained.asked()).reduced())
    for name in ("train", "validation", "test"):
        part = getattr(rows.split, name)
        if rows.labels.column is not None:  # the best redshifts judge
            part = part[rows.labels.column[part] == 0]
        if name == "train":
            part = part[:: -(-len(part) // MAX_SCORED)] if len(part) else part
        if len(part):
            X_std = None if rows.X_std is None else rows.X_std[part]
            prediction = trained.predict_inputs(rows.X[part], rows.flags[part], X_std)
            scores[name] = evaluate(rows.z[part], prediction.reduced())
    return scores
