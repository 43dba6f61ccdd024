"""From a catalogue with redshifts to a model file."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import gpzed
from gpzed._types import FloatArray
from gpzed.catalog import (
    Catalog,
    CatalogInfo,
    PhotometrySchema,
    SentinelReport,
    catalog_info,
    extract_photometry,
    iter_catalog,
    read_catalog,
)
from gpzed.cluster import connect
from gpzed.config import RunConfig
from gpzed.errors import CatalogError, ConfigError, GPzError
from gpzed.evaluation import evaluate
from gpzed.features import (
    MAX_TARGET_ROWS,
    FeatureTransformer,
    Flag,
    Split,
    WeightConfig,
    balanced_weights,
    count_flags,
    fit_transformer,
    normalised,
    photometry_rows,
    random_split,
    redshift_weights,
    split_by_column,
    target_weights,
)
from gpzed.model import GPzRegressor, StepInfo
from gpzed.model.regressor import HEADS_STAGE
from gpzed.pipeline.modelfile import TrainedPipeline
from gpzed.pipeline.reporter import Reporter
from gpzed.pipeline.source import (
    ebv_of,
    file_hash,
    make_inputs,
    needed_columns,
    open_info,
    require_folder,
    resolve_schema,
    table_hash,
    target_access,
    target_schema,
    valid_redshifts,
    warn_of_lost_bands,
)
from gpzed.pipeline.train_cluster import ClusterCatalogue, Source, is_folder, raw_weights, sample_config


class TrainingInterruptedError(GPzError):
    """Training was stopped on request; the checkpoint allows to go on."""


@dataclass(frozen=True)
class TrainingPlan:
    """What a training run will do, found out without training.

    Attributes
    ----------
    info : CatalogInfo
    schema : PhotometrySchema
    counts : dict of str to int
        Rows read, left out by reason, and by part of the split.
    sentinels : SentinelReport
        Of the rows with a redshift.
    features : tuple of str
        Inputs of the model.
    flags : dict of str to int
        Training rows by flag.
    redshift_range : tuple of float
        Lowest and highest redshift of the rows used.
    no_redshift : dict of str to int
        Rows without a redshift, by what stands in its place.
    """

    info: CatalogInfo
    schema: PhotometrySchema
    counts: dict[str, int]
    sentinels: SentinelReport
    features: tuple[str, ...]
    flags: dict[str, int]
    redshift_range: tuple[float, float]
    no_redshift: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain JSON types."""
        return {
            "catalogue": self.info.path,
            "schema": self.schema.to_dict(),
            "rows": self.counts,
            "sentinels": self.sentinels.to_dict(),
            "features": list(self.features),
            "flags": self.flags,
            "redshift_range": list(self.redshift_range),
            "no_redshift": self.no_redshift,
        }


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


@dataclass(frozen=True)
class _Rows:
    """The rows with a redshift, split, with their inputs."""

    plan: TrainingPlan
    z: FloatArray
    X: FloatArray
    flags: Any
    split: Split
    weights: FloatArray | None
    transformer: FeatureTransformer
    X_std: FloatArray | None


def plan_training(
    catalogue: str | os.PathLike[str], config: RunConfig | None = None, reporter: Reporter | None = None
) -> TrainingPlan:
    """Find out what `train` would do, short of training.

    Parameters
    ----------
    catalogue : path
    config : RunConfig, optional
    reporter : Reporter, optional

    Returns
    -------
    TrainingPlan
    """
    return _prepare(catalogue, config or RunConfig(), reporter or Reporter()).plan


def train(
    catalogue: str | os.PathLike[str],
    output: str | os.PathLike[str],
    config: RunConfig | None = None,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    dask: Any = None,
    reporter: Reporter | None = None,
    on_plan: Callable[[TrainingPlan], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> TrainReport:
    """Train a model on a catalogue and write the model file.

    Parameters
    ----------
    catalogue : path
        With redshifts; rows without one are left out and counted.
    output : path
        Model file to write.
    config : RunConfig, optional
    checkpoint : path, optional
        Where to keep the state of training; ``OUTPUT.checkpoint`` by default. Removed when the model file is written.
    resume : bool
        Go on from the checkpoint of an interrupted run, if there is one.
    dask : str, distributed.Client or cluster, optional
        Cluster to train on, as `engine` of `gpzed.GPzRegressor`. A folder of Parquet files, or a HATS catalogue, is
        read by its workers; this process then fits the features to a sample of `train_cluster.SAMPLE_ROWS` rows.
    reporter : Reporter, optional
    on_plan : callable, optional
        Told the plan before training begins.
    should_stop : callable, optional
        Asked after every step; True stops the run with a checkpoint that `resume` goes on from.

    Returns
    -------
    TrainReport

    Raises
    ------
    TrainingInterruptedError
        `should_stop` said so.
    """
    config, reporter = config or RunConfig(), reporter or Reporter()
    target = Path(output)
    state = Path(checkpoint) if checkpoint is not None else target.with_name(target.name + ".checkpoint")
    _check_output(target, state, resume, config.model.n_members)
    with nullcontext() if dask is None else connect(dask) as client:
        if client is not None and is_folder(catalogue):
            rows, digest, parts = _prepare_on_cluster(client, catalogue, config, reporter)
        else:
            rows, parts = _prepare(catalogue, config, reporter), None
            digest = file_hash(rows.plan.info.path)
        if on_plan is not None:
            on_plan(rows.plan)
        provenance = _provenance(rows.plan, digest)  # as it is now, not when training ends
        model = _fit(rows, config, state, reporter, should_stop, engine=client, parts=parts)
    trained = _trained(model, rows, config, provenance)
    trained.save(target)
    for path in _states(state, config.model.n_members):
        path.unlink(missing_ok=True)
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
    rows = _prepare_table(table, info, schema, config)
    provenance = _provenance(rows.plan, table_hash(table.select(needed_columns(schema, schema.redshift))))
    return _trained(_fit(rows, config, None, reporter, None), rows, config, provenance)


def _trained(model: GPzRegressor, rows: _Rows, config: RunConfig, provenance: dict[str, Any]) -> TrainedPipeline:
    model.keep_checkpoint = False  # no fact about the model
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


def _check_output(target: Path, state: Path, resume: bool, n_members: int) -> None:
    require_folder(target, "the model")
    left = [path for path in _states(state, n_members) if path.exists()]
    if left and not resume:
        raise ConfigError(
            f"'{left[0]}' is left from an interrupted run; add --resume to go on with it, or delete it to start afresh"
        )


def _prepare(catalogue: str | os.PathLike[str], config: RunConfig, reporter: Reporter) -> _Rows:
    """Read the catalogue, split its rows, fit the features."""
    info = open_info(catalogue, config.schema)
    schema = resolve_schema(info.names, config.schema)
    warn_of_lost_bands(info.names, schema, config.schema, reporter)
    columns = _used_columns(info, schema, config)
    reporter.say(f"reading {info.n_rows:,} rows, {len(columns)} columns of '{info.path}'")
    table = read_catalog(catalogue, columns=columns, format=config.schema.format, hdf5_group=config.schema.hdf5_group)
    return _prepare_table(table, info, schema, config)


def _prepare_on_cluster(
    client: Any, catalogue: str | os.PathLike[str], config: RunConfig, reporter: Reporter
) -> tuple[_Rows, str, list[Any]]:
    """Let the workers read: a sample for this process, the hash of all files, and the rows to train on."""
    info = open_info(catalogue, config.schema)
    schema = resolve_schema(info.names, config.schema)
    warn_of_lost_bands(info.names, schema, config.schema, reporter)
    source = Source(tuple(_used_columns(info, schema, config)), schema, config)
    files = ClusterCatalogue(client, info, source)
    sample = files.sample()
    reporter.say(
        f"{len(files.files)} files with {info.n_rows:,} rows; features are fitted to, and scores taken from, "
        f"{len(sample):,} of them"
    )
    plain = replace(sample_config(config), weights=WeightConfig())
    rows = _prepare_table(sample, info, schema, plain)
    used = _usable(sample, schema, config)[0]
    weights = raw_weights(used, schema, config)
    mean = float(weights[rows.split.train].mean())
    if config.weights.method != "none":
        rows = replace(rows, weights=weights / mean)
    return rows, files.digest(), files.delayed(rows.transformer, mean)


def _used_columns(info: CatalogInfo, schema: PhotometrySchema, config: RunConfig) -> list[str]:
    """Return the columns that training reads, after checking that they are there."""
    schema.require(info.names, redshift=True)
    weight = schema.weight if config.weights.method == "column" else None
    if config.weights.method == "column" and weight is None:
        raise ConfigError('`method` in [weights] is "column" but no weight column is known; name it under [schema]')
    return needed_columns(schema, schema.redshift, weight, config.split.column)


def _prepare_table(table: Catalog, info: CatalogInfo, schema: PhotometrySchema, config: RunConfig) -> _Rows:
    """Split the rows of a table and fit the features."""
    _used_columns(info, schema, config)
    table, counts, causes = _usable(table, schema, config)
    z = table.floats(str(schema.redshift))
    photometry = extract_photometry(table, schema, config.sentinels)
    split = _split(table, config)
    if len(split.train) < 10:
        raise CatalogError(
            f"'{info.path}': only {len(split.train)} rows are left to train on, of {info.n_rows} read ({counts}); "
            "give more galaxies with redshifts"
        )
    counts |= {"train": len(split.train), "validation": len(split.validation), "test": len(split.test)}
    ebv = ebv_of(table, schema, bool(config.features.extinction))
    train_ebv = None if ebv is None else ebv[split.train]
    transformer = fit_transformer(photometry_rows(photometry, split.train), config.features, train_ebv)
    X, flags = transformer.transform(photometry, ebv)
    plan = TrainingPlan(
        info,
        schema,
        counts,
        photometry.report,
        transformer.names,
        count_flags(flags[split.train]),
        (float(z.min()), float(z.max())),
        causes,
    )
    weights = _weights(table, schema, config, z, transformer.filled(X), split, transformer)
    return _Rows(plan, z, X, flags, split, weights, transformer, transformer.input_errors(photometry, ebv))


def _usable(
    table: Catalog, schema: PhotometrySchema, config: RunConfig
) -> tuple[Catalog, dict[str, int], dict[str, int]]:
    """Return the rows with a redshift in range and at least one measured band, and how many were left out."""
    z, limits = table.floats(str(schema.redshift)), config.split
    found = valid_redshifts(z, limits.min_redshift, limits.max_redshift, config.sentinels)
    counts = {"read": len(table), "no redshift": found.n_missing, "redshift out of range": found.n_outside}
    kept = table.take(found.keep)
    measured = extract_photometry(kept, schema, config.sentinels).measured.any(axis=1)
    counts["no band measured"] = int((~measured).sum())
    return kept if measured.all() else kept.take(measured), counts, found.causes


def _split(table: Catalog, config: RunConfig) -> Split:
    if config.split.column:
        return split_by_column(table[config.split.column], config.split.column)
    return random_split(len(table), config.split.validation, config.split.test, config.seed)


def _weights(
    table: Catalog,
    schema: PhotometrySchema,
    config: RunConfig,
    z: FloatArray,
    X: FloatArray,
    split: Split,
    transformer: FeatureTransformer,
) -> FloatArray | None:
    """Return cost weights of all rows, or None; those of training and of validation rows have mean 1 each."""
    options = config.weights
    if options.method == "none":
        return None
    weights = np.ones(len(z))
    column = table.floats(str(schema.weight)) if options.method == "column" else None
    wanted = _target_inputs(config, schema, transformer) if options.method == "target" else None
    for rows in (split.train, split.validation):
        if not len(rows):
            continue
        if options.method == "redshift":
            weights[rows] = redshift_weights(z[rows])
        elif options.method == "balanced":
            weights[rows] = balanced_weights(z[rows], options.bin_width, options.max_weight)
        elif column is not None:
            weights[rows] = normalised(column[rows])
        elif wanted is not None:
            weights[rows] = target_weights(X[rows], wanted, options.n_neighbours, options.max_weight)
    return weights


def _target_inputs(config: RunConfig, trained: PhotometrySchema, transformer: FeatureTransformer) -> FloatArray:
    """Return inputs of at most `MAX_TARGET_ROWS` rows of the target catalogue, drawn at random."""
    path = config.weights.target
    access = target_access(path, config.schema)
    info = catalog_info(path, **access)
    needs_ebv = bool(transformer.config.extinction)
    schema = target_schema(info.names, trained, config.schema, needs_ebv)
    if needs_ebv and not schema.ebv:
        raise ConfigError(f"inputs are corrected for extinction but '{path}' has no E(B-V) column that is known")
    share = min(1.0, MAX_TARGET_ROWS / max(info.n_rows, 1))
    rng = np.random.default_rng(config.seed)
    parts = []
    for chunk in iter_catalog(path, columns=needed_columns(schema), **access):
        picked = chunk if share == 1.0 else chunk.take(rng.random(len(chunk)) < share)
        inputs = make_inputs(picked, schema, config.sentinels, transformer)
        parts.append(transformer.filled(inputs.X[(inputs.flags & np.uint32(Flag.NO_MEASUREMENT)) == 0]))
    return np.concatenate(parts)


def _fit(
    rows: _Rows,
    config: RunConfig,
    state: Path | None,
    reporter: Reporter,
    should_stop: Callable[[], bool] | None,
    *,
    engine: Any = None,
    parts: list[Any] | None = None,
) -> GPzRegressor:
    """Train on the rows of this process, or on `parts` that the workers of `engine` load."""
    options = asdict(config.model)
    total = (options["max_iter"] + (options["n_epochs"] if options["n_heads"] > 1 else 0)) * options["n_members"]
    asked: set[int] = set()  # members that were asked to stop
    with reporter.task("training", total, "steps") as task:

        def on_step(step: StepInfo) -> None:
            unit = "epoch" if step.stage == HEADS_STAGE else "step"
            task.advance(1, f"member {step.member + 1}, {unit} {step.iteration}, best score {step.best_score:.4f}")
            if should_stop is None or not should_stop():
                return
            if step.member in asked:
                raise TrainingInterruptedError
            asked.add(step.member)
            model.checkpoint_every = 1  # the next step of this member writes a checkpoint before it comes here

        options |= {"checkpoint": state, "keep_checkpoint": True, "callback": on_step, "random_state": config.seed}
        model = GPzRegressor(**options, engine=engine)
        part, held = rows.split.train, rows.split.validation
        weights = np.ones(len(rows.z)) if rows.weights is None else rows.weights
        X_std = rows.X_std
        validation = None
        if len(held):
            validation = (rows.X[held], rows.z[held], weights[held], None if X_std is None else X_std[held])
        try:
            if parts is not None:
                model.fit_stream(parts, validation_data=validation)
            else:
                model.fit(
                    rows.X[part],
                    rows.z[part],
                    None if rows.weights is None else weights[part],
                    X_std=None if X_std is None else X_std[part],
                    validation_data=validation,
                )
        except TrainingInterruptedError:
            states = [] if state is None else _states(state, config.model.n_members)
            left = [f"'{path}'" for path in states if path.exists()]
            what = f"its state is kept in {', '.join(left)}" if left else "there was no state to keep yet"
            raise TrainingInterruptedError(f"training was stopped; {what}") from None
    model.checkpoint_every = options["checkpoint_every"]
    model.engine = None  # where it was trained is no fact about the model
    return model


def _states(state: Path, n_members: int) -> list[Path]:
    """Return the files that may hold the state of training: one, or one for each member."""
    return [state, *(Path(f"{state}.{index}") for index in range(n_members))]


def _provenance(plan: TrainingPlan, digest: str) -> dict[str, Any]:
    return {
        "gpzed_version": gpzed.__version__,
        "catalogue": plan.info.path,
        "catalogue_sha256": digest,
        "rows": plan.counts,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _report(trained: TrainedPipeline, rows: _Rows, target: Path) -> TrainReport:
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
