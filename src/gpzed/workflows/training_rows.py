"""From a catalogue with redshifts to the rows to train on: chosen, split and weighted, with their inputs."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
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
from gpzed.distributed.train import ClusterCatalogue, Source, raw_weights, sample_config
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
from gpzed.workflows.reporter import Reporter
from gpzed.workflows.source import (
    ebv_of,
    make_inputs,
    needed_columns,
    open_info,
    resolve_schema,
    target_access,
    target_schema,
    valid_redshifts,
    warn_of_lost_bands,
)


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
class TrainingRows:
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
    return prepare(catalogue, config or RunConfig(), reporter or Reporter()).plan


def prepare(catalogue: str | os.PathLike[str], config: RunConfig, reporter: Reporter) -> TrainingRows:
    """Read the catalogue, split its rows, fit the features."""
    info = open_info(catalogue, config.schema)
    schema = resolve_schema(info.names, config.schema)
    warn_of_lost_bands(info.names, schema, config.schema, reporter)
    columns = _used_columns(info, schema, config)
    reporter.say(f"reading {info.n_rows:,} rows, {len(columns)} columns of '{info.path}'")
    table = read_catalog(catalogue, columns=columns, format=config.schema.format, hdf5_group=config.schema.hdf5_group)
    return prepare_table(table, info, schema, config)


def prepare_on_cluster(
    client: Any, catalogue: str | os.PathLike[str], config: RunConfig, reporter: Reporter
) -> tuple[TrainingRows, str, list[Any]]:
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
    rows = prepare_table(sample, info, schema, plain)
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


def prepare_table(table: Catalog, info: CatalogInfo, schema: PhotometrySchema, config: RunConfig) -> TrainingRows:
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
    weights = _weights(table, schema, config, z, transformer.filled(X), split, transformer)
    return TrainingRows(plan, z, X, flags, split, weights, transformer, X_std)


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
