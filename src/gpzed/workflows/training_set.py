"""From a catalogue with redshifts to the rows to train on: chosen, split and weighted, with their inputs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

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
from gpzed.config import RunConfig
from gpzed.errors import CatalogError, ConfigError
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
from gpzed.progress import Progress
from gpzed.workflows.inputs import ebv_of, make_inputs, needed_columns, valid_redshifts
from gpzed.workflows.schema import open_info, resolve_schema, target_access, target_schema, warn_of_lost_bands
from gpzed.workflows.tables import as_table, is_path


@dataclass(frozen=True)
class TrainingPlan:
    """What a training run will do, found out without training."""

    info: CatalogInfo
    schema: PhotometrySchema
    counts: dict[str, int]  # rows read, left out by reason, and by part of the split
    sentinels: SentinelReport  # of the rows with a redshift
    features: tuple[str, ...]  # inputs of the model
    flags: dict[str, int]  # training rows by flag
    redshift_range: tuple[float, float]  # lowest and highest redshift of the rows used
    no_redshift: dict[str, int]  # rows without a redshift, by what stands in its place

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
class TrainingSet:
    """The rows with a redshift, split, with their inputs."""

    plan: TrainingPlan
    z: FloatArray
    X: FloatArray
    flags: Any
    split: Split
    weights: FloatArray | None
    transformer: FeatureTransformer
    X_std: FloatArray | None
    digest: str


def plan_training(data: Any, config: RunConfig | None = None, progress: Progress | None = None) -> TrainingPlan:
    """Find out what `train` would do, short of training."""
    return prepare(data, config or RunConfig(), progress or Progress()).plan


def prepare(data: Any, config: RunConfig, progress: Progress, target: Any = None) -> TrainingSet:
    """Read the catalogue, split its rows, fit the features; `target` is a table to weight them by, if not a file."""
    given = None if is_path(data) else as_table(data)
    info = open_info(data, config.schema) if given is None else given.info()
    schema = resolve_schema(info.names, config.schema)
    warn_of_lost_bands(info.names, schema, config.schema, progress)
    columns = used_columns(info, schema, config)
    if given is not None:
        return prepare_table(given.catalog(columns), info, schema, config, target)
    progress.say(f"reading {info.n_rows:,} rows, {len(columns)} columns of '{info.path}'")
    table = read_catalog(data, columns=columns, **config.schema.access)
    return prepare_table(table, info, schema, config, target)


def used_columns(info: CatalogInfo, schema: PhotometrySchema, config: RunConfig) -> list[str]:
    """Return the columns that training reads, after checking that they are there."""
    schema.require(info.names, redshift=True)
    weight = schema.weight if config.weights.method == "column" else None
    if config.weights.method == "column" and weight is None:
        raise ConfigError('`method` in [weights] is "column" but no weight column is known; name it under [schema]')
    return needed_columns(schema, schema.redshift, weight, config.split.column)


def prepare_table(
    table: Catalog, info: CatalogInfo, schema: PhotometrySchema, config: RunConfig, target: Any = None
) -> TrainingSet:
    """Split the rows of a table and fit the features."""
    digest = table_hash(table)
    used_columns(info, schema, config)
    table, counts, causes = usable_rows(table, schema, config)
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
    X, flags, X_std = transformer.transform(photometry, ebv)
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
    wanted = None
    if config.weights.method == "target":
        wanted = _target_inputs(config, schema, transformer, target)
    weights = _weights(table, schema, config.weights, z, transformer.filled(X), split, wanted)
    return TrainingSet(plan, z, X, flags, split, weights, transformer, X_std, digest)


def usable_rows(
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
    options: WeightConfig,
    z: FloatArray,
    X: FloatArray,
    split: Split,
    wanted: FloatArray | None,
) -> FloatArray | None:
    """Return cost weights of all rows, or None; those of training and of validation rows have mean 1 each."""
    if options.method == "none":
        return None
    weights = np.ones(len(z))
    column = table.floats(str(schema.weight)) if options.method == "column" else None
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


def _target_inputs(
    config: RunConfig, trained: PhotometrySchema, transformer: FeatureTransformer, target: Any
) -> FloatArray:
    """Return inputs of at most `MAX_TARGET_ROWS` rows of the target catalogue, drawn at random."""
    path = config.weights.target
    given = None if target is None else as_table(target)
    access = {} if given is not None else target_access(path, config.schema)
    info = catalog_info(path, **access) if given is None else given.info()
    needs_ebv = bool(transformer.config.extinction)
    schema = target_schema(info.names, trained, config.schema, needs_ebv)
    if needs_ebv and not schema.ebv:
        raise ConfigError(f"inputs are corrected for extinction but '{path}' has no E(B-V) column that is known")
    share = min(1.0, MAX_TARGET_ROWS / max(info.n_rows, 1))
    rng = np.random.default_rng(config.seed)
    columns = needed_columns(schema)
    parts = []
    for chunk in [given.catalog(columns)] if given is not None else iter_catalog(path, columns=columns, **access):
        picked = chunk if share == 1.0 else chunk.take(rng.random(len(chunk)) < share)
        inputs = make_inputs(picked, schema, config.sentinels, transformer)
        parts.append(transformer.filled(inputs.X[(inputs.flags & np.uint32(Flag.NO_MEASUREMENT)) == 0]))
    return np.concatenate(parts)


def table_hash(table: Catalog) -> str:
    """Return the SHA-256 of names and values of the columns of a table."""
    digest = hashlib.sha256()
    for name in table.names:
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(table[name]).tobytes())
    return digest.hexdigest()
