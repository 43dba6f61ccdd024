"""From a catalogue with redshifts to the rows to train on: chosen, split and weighted, with their inputs."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gpzed._types import BoolArray, FloatArray
from gpzed.catalog import (
    Catalog,
    CatalogInfo,
    PhotometrySchema,
    Scale,
    ScaleSummary,
    SentinelReport,
    address_of,
    extract_photometry,
    is_address,
    local_path,
    read_catalog,
)
from gpzed.config import RunConfig
from gpzed.errors import CatalogError, ConfigError
from gpzed.features import (
    FeatureTransformer,
    Split,
    WeightConfig,
    balanced_weights,
    count_flags,
    normalised,
    photometry_rows,
    random_split,
    redshift_weights,
    split_by_column,
)
from gpzed.features.labels import Labels
from gpzed.progress import Progress
from gpzed.workflows.cautions import refuse_fluxes, training_cautions, units_are_stated, warn_all
from gpzed.workflows.fit_features import fit_features
from gpzed.workflows.inputs import ebv_of, needed_columns
from gpzed.workflows.labels import doubt_by_quality, label_columns, labels_of, with_labels
from gpzed.workflows.redshifts import (
    Limits,
    Redshifts,
    refuse_velocities,
    repeated_objects,
    repeats_text,
    valid_redshifts,
)
from gpzed.workflows.schema import looking_further, open_info, refuse_zero_point, resolve_schema, warn_of_lost_bands
from gpzed.workflows.simulated import OWN
from gpzed.workflows.tables import as_table, is_path
from gpzed.workflows.target import Rows, TargetReport, adapt


@dataclass(frozen=True)
class TrainingPlan:
    """What a training run will do, found out without training."""

    info: CatalogInfo
    schema: PhotometrySchema
    counts: dict[str, int]  # rows read, left out by reason, and by part of the split
    sentinels: SentinelReport  # of the rows with a redshift
    features: tuple[str, ...]  # inputs of the model
    errors: str  # how the errors of the magnitudes are used, and why
    flags: dict[str, int]  # training rows by flag
    redshift_range: tuple[float, float]  # lowest and highest redshift of the rows used
    no_redshift: dict[str, int]  # rows without a redshift, by what stands in its place
    out_of_range: dict[str, int]  # rows with a redshift that is not used, by which
    labels: dict[str, Any] = field(default_factory=dict)  # what was learned of redshift columns, by column
    target: TargetReport | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain JSON types."""
        return {
            "catalogue": self.info.path,
            "schema": self.schema.to_dict(),
            "rows": self.counts,
            "sentinels": self.sentinels.to_dict(),
            "features": list(self.features),
            "errors": self.errors,
            "flags": self.flags,
            "redshift_range": list(self.redshift_range),
            "no_redshift": self.no_redshift,
            "out_of_range": self.out_of_range,
            "labels": self.labels,
            **({} if self.target is None else {"target": asdict(self.target)}),
        }


@dataclass(frozen=True)
class TrainingSet:
    """The rows with a redshift, split, with their inputs."""

    plan: TrainingPlan
    labels: Labels
    X: FloatArray
    flags: Any
    split: Split
    weights: FloatArray | None
    transformer: FeatureTransformer
    X_std: FloatArray | None
    digest: str
    scale: ScaleSummary  # of the training rows

    @property
    def z(self) -> FloatArray:
        """Redshifts."""
        return self.labels.z

    @property
    def assumed(self) -> BoolArray | None:
        """Which rows to train on are dimmed galaxies, if nothing tells whether these are right."""
        report = self.plan.target
        if report is None or not report.is_hedged or not report.n_dimmed:
            return None
        return self.split.train >= len(self.z) - report.n_dimmed


def plan_training(data: Any, config: RunConfig | None = None, progress: Progress | None = None) -> TrainingPlan:
    """Find out what `train` would do, short of training.

    Examples
    --------
    >>> import gpzed
    >>> from gpzed.simulate import simulate_survey
    >>> table = simulate_survey(400, survey="sdss", random_state=0, only_spectroscopic=True).columns()
    >>> from gpzed.workflows import plan_training
    >>> plan_training(table).schema.bands
    ('u', 'g', 'r', 'i', 'z')
    """
    return prepare(data, config or RunConfig(), progress or Progress(), is_plan=True).plan


def prepare(
    data: Any, config: RunConfig, progress: Progress, target: Any = None, *, is_plan: bool = False
) -> TrainingSet:
    """Read the catalogue, split its rows, fit the features; `target` is the survey they are for, if not a file."""
    data = local_path(data)
    given = None if is_path(data) else as_table(data)
    info = open_info(data, config.schema) if given is None else given.info()
    with looking_further(info):
        schema = resolve_schema(info.names, config.schema, info.units)
    refuse_zero_point(schema, config.schema)
    warn_of_lost_bands(info.names, schema, config.schema, progress)
    columns = used_columns(info, schema, config)
    if given is not None:
        return prepare_table(given.catalog(columns), info, schema, config, target, progress, is_plan=is_plan)
    progress.say(f"reading {info.n_rows:,} rows, {len(columns)} columns of '{address_of(info.path)}'")
    table = read_catalog(data, columns=columns, **config.schema.access)
    return prepare_table(table, info, schema, config, target, progress, is_plan=is_plan)


def used_columns(info: CatalogInfo, schema: PhotometrySchema, config: RunConfig) -> list[str]:
    """Return the columns that training reads, after checking that they are there."""
    schema.require(info.names, redshift=True)
    weight = schema.weight if config.weights.method == "column" else None
    if config.weights.method == "column" and weight is None:
        raise ConfigError('`method` in [weights] is "column" but no weight column is known; name it under [schema]')
    columns = label_columns(info.names, schema, config)
    return needed_columns(schema, *columns, weight, schema.id, config.split.column)


def prepare_table(
    table: Catalog,
    info: CatalogInfo,
    schema: PhotometrySchema,
    config: RunConfig,
    target: Any = None,
    progress: Progress | None = None,
    *,
    is_plan: bool = False,
) -> TrainingSet:
    """Split the rows of a table, make them look like the target if there is one, and fit the features.

    For a plan nothing is trained.
    """
    _check_target(config)
    digest = table_hash(table)
    used_columns(info, schema, config)
    refuse_velocities(
        table.floats(str(schema.redshift)), str(schema.redshift), info.path, info.units.get(str(schema.redshift))
    )
    refuse_fluxes(table, schema, info.path, units_are_stated(schema, config.schema, info.units))
    table, learned = with_labels(table, schema, config)
    table, counts, found = usable_rows(table, schema, config, warn=True)
    labels = labels_of(table, schema)
    z = labels.z
    photometry = extract_photometry(table, schema, config.sentinels)
    split = _split(table, config)
    if len(split.train) < 10:
        raise CatalogError(
            f"'{info.path}': only {len(split.train)} rows are left to train on, of {info.n_rows} read "
            f"({', '.join(f'{count} {what}' for what, count in counts.items() if count)}); give more "
            "galaxies with redshifts"
        )
    counts |= {"train": len(split.train), "validation": len(split.validation), "test": len(split.test)}
    ebv = ebv_of(table, schema, bool(config.features.extinction))
    scale = Scale.of(photometry_rows(photometry, split.train))
    warn_all(training_cautions(scale, len(split.train), info.path))
    redshifts = (float(z.min()), float(z.max()))
    rows, report = Rows(photometry, ebv, labels, split, _weights(table, schema, config.weights, z, split)), None
    if config.target.catalogue:
        rows, report = adapt(rows, schema, config, target, progress or Progress(), is_plan=is_plan)
    train = rows.split.train
    train_ebv = None if rows.ebv is None else rows.ebv[train]
    transformer, errors = fit_features(photometry_rows(rows.photometry, train), rows.z[train], config, train_ebv)
    X, flags, X_std = transformer.transform(rows.photometry, rows.ebv)
    labels, rates = doubt_by_quality(labels, transformer.filled(X[: len(z)]), table, config)
    plan = TrainingPlan(
        info,
        schema,
        counts,
        photometry.report,
        transformer.names,
        errors,
        count_flags(flags[train]),
        redshifts,
        found.causes,
        found.outside,
        learned | ({str(config.schema.redshift_quality): rates} if rates else {}),
        report,
    )
    labels = labels.followed_by(rows.labels.take(slice(len(z), None)))
    return TrainingSet(plan, labels, X, flags, rows.split, rows.weights, transformer, X_std, digest, scale.summary())


def usable_rows(
    table: Catalog, schema: PhotometrySchema, config: RunConfig, warn: bool = False
) -> tuple[Catalog, dict[str, int], Redshifts]:
    """Return the rows with a redshift in range and at least one measured band, and how many were left out.

    Rows of objects that are there more than once with redshifts that differ are left out, too.
    """
    z, limits = table.floats(str(schema.redshift)), config.split
    found = valid_redshifts(z, Limits.of(limits.min_redshift, limits.max_redshift, "as asked"), config.sentinels)
    counts = {"read": len(table), "no redshift": found.n_missing, "redshift out of range": found.n_outside}
    kept = table.take(found.keep)
    photometry = extract_photometry(kept, schema, config.sentinels)
    measured = photometry.measured.any(axis=1)
    counts["no band measured"] = int((~measured).sum())
    ids = kept[schema.id] if schema.id and schema.id in kept.names else None
    repeats = repeated_objects(photometry, kept.floats(str(schema.redshift)), ids)
    counts["contradicting redshifts"] = int((repeats.contradicting & measured).sum())
    if warn:
        warn_all(repeats_text(repeats, table.provenance.path or "the catalogue"))
    usable = measured & ~repeats.contradicting
    return kept if usable.all() else kept.take(usable), counts, found


def _check_target(config: RunConfig) -> None:
    """Refuse what says how to look like a target where there is none, and a simulated catalogue that is not there."""
    options = config.target
    said = "`simulated` is given" if options.simulated else ""
    if options.adapt in ("dim", "weights"):
        said = f"`adapt` is {options.adapt}"
    if said and not options.catalogue:
        raise ConfigError(f"{said} but no target; name the survey that the model is for with `target=`")
    path = "" if options.simulated in OWN or is_address(options.simulated) else options.simulated
    if path and not Path(path).exists():
        raise CatalogError(
            f"simulated catalogue '{path}' does not exist; expected a file, or {' or '.join(OWN)} for galaxies that "
            "gpzed simulates itself"
        )


def _split(table: Catalog, config: RunConfig) -> Split:
    if config.split.column:
        return split_by_column(table[config.split.column], config.split.column)
    return random_split(len(table), config.split.validation, config.split.test, config.seed)


def _weights(
    table: Catalog, schema: PhotometrySchema, options: WeightConfig, z: FloatArray, split: Split
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
    return weights


def table_hash(table: Catalog) -> str:
    """Return the SHA-256 of names and values of the columns of a table."""
    digest = hashlib.sha256()
    for name in table.names:
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(table[name]).tobytes())
    return digest.hexdigest()
