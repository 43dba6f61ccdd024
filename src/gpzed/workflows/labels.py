"""From the redshift columns of a catalogue to labels: which redshift each row has, its error, and doubts."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpzed._types import FloatArray
from gpzed.catalog import Catalog, PhotometrySchema, extract_photometry
from gpzed.catalog.schema import find_column
from gpzed.config import RunConfig
from gpzed.errors import ConfigError
from gpzed.features.labels import ASSUMED_SCATTER, ASSUMED_WRONG, MIN_PAIRS, Labels, combine, learn_errors
from gpzed.model.wrong_labels import class_rates
from gpzed.workflows.cautions import warn_all
from gpzed.workflows.redshifts import Limits, valid_redshifts

STD, WRONG, COLUMN = "gpzed label std", "gpzed label wrong", "gpzed label column"
"""Columns of a table in which labels travel with their rows."""


def label_columns(names: tuple[str, ...], schema: PhotometrySchema, config: RunConfig) -> list[str]:
    """Return the columns that labels are made from, the redshift first, after checking that they are there."""
    options = config.schema
    more = [find_column(name, names, "redshift") for name in options.redshifts[1:]]
    if schema.redshift in more or len(set(more)) < len(more):
        raise ConfigError(f"`redshift` names a column twice: {', '.join(options.redshifts)}; give every column once")
    doubts = [
        find_column(name, names, role)
        for role in ("redshift_wrong", "redshift_quality")
        if (name := getattr(options, role))
    ]
    error = [schema.redshift_err] if schema.redshift_err else []
    return [str(schema.redshift), *more, *error, *doubts]


def with_labels(table: Catalog, schema: PhotometrySchema, config: RunConfig) -> tuple[Catalog, dict[str, Any]]:
    """Return a table whose redshift column has the best redshift of every row, and what was learned of each column.

    Errors and doubts, where there are any, stand in columns beside it.
    """
    options, column = config.schema, str(schema.redshift)
    more = [find_column(name, table.names, "redshift") for name in options.redshifts[1:]]
    doubt = find_column(options.redshift_wrong, table.names, "redshift_wrong") if options.redshift_wrong else None
    if not (more or doubt or schema.redshift_err):
        return table, {}
    first = Labels(_redshifts(table, column, config), _errors(table, schema.redshift_err), _probabilities(table, doubt))
    found, others, learned = first, [], {}
    magnitude = _magnitude(table, schema, config) if more else np.empty(0)
    for name in more:
        z = _redshifts(table, name, config)
        errors = learn_errors(z, found.z, magnitude)
        if errors.n_pairs < MIN_PAIRS:
            warn_all(
                [
                    f"only {errors.n_pairs} rows have '{name}' beside a better redshift, too few to learn its errors "
                    f"from; a scatter of {ASSUMED_SCATTER:g} (1+z) and {100 * ASSUMED_WRONG:g} % wrong are assumed"
                ]
            )
        others.append(errors(z, magnitude))
        found = combine(first, others)
        learned[name] = errors.to_dict() | {"rows_used": int(np.sum(found.column == len(others)))}
    labels = combine(first, others)
    if not more:  # the redshift column itself tells why a row has none
        labels = Labels(table.floats(column), labels.std, labels.wrong, labels.column)
    columns: dict[str, Any] = {column: labels.z}
    for name, values in ((STD, labels.std), (WRONG, labels.wrong), (COLUMN, labels.column)):
        if values is not None:
            columns[name] = values
    masks = {column: table.mask(column)} if not more and table.has_mask(column) else None
    return table.with_columns(columns, masks=masks), learned


def labels_of(table: Catalog, schema: PhotometrySchema) -> Labels:
    """Return the labels of a table of `with_labels`."""
    std, wrong, column = (table[name] if name in table.names else None for name in (STD, WRONG, COLUMN))
    return Labels(table.floats(str(schema.redshift)), std, wrong, column)


def doubt_by_quality(labels: Labels, X: FloatArray, table: Catalog, config: RunConfig) -> tuple[Labels, dict[str, Any]]:
    """Return labels with the rate of wrong ones of each value of the quality column; and these rates."""
    if not config.schema.redshift_quality:
        return labels, {}
    name = find_column(config.schema.redshift_quality, table.names, "redshift_quality")
    quality = table[name]
    own = np.ones(len(quality), dtype=bool) if labels.column is None else labels.column == 0
    rates = class_rates(X[own], labels.z[own], quality[own], np.random.default_rng(config.seed))
    wrong = np.full(len(quality), np.nan) if labels.wrong is None else labels.wrong.copy()
    for value, rate in rates.items():
        chosen = own & (quality == value) & np.isnan(wrong)
        wrong[chosen] = rate
    return Labels(labels.z, labels.std, wrong, labels.column), {str(value): rate for value, rate in rates.items()}


def _redshifts(table: Catalog, name: str, config: RunConfig) -> FloatArray:
    """Return redshifts, NaN for what stands for none; those out of range stay, since a star has no better redshift."""
    z = table.floats(name)
    return np.where(valid_redshifts(z, Limits(-np.inf, np.inf), config.sentinels).keep, z, np.nan)


def _errors(table: Catalog, name: str | None) -> FloatArray | None:
    """Return errors of redshifts, 0 where there is none."""
    if name is None:
        return None
    errors = table.floats(name)
    return np.where(np.isfinite(errors) & (errors > 0.0), errors, 0.0)


def _probabilities(table: Catalog, name: str | None) -> FloatArray | None:
    if name is None:
        return None
    wrong = table.floats(name)
    bad = (wrong < 0.0) | (wrong > 1.0)
    if bad.any():
        row = int(np.argmax(bad))
        raise ConfigError(
            f"{table.provenance.where(row)}: column '{name}' is {wrong[row]:g}; expected the probability that a "
            f"redshift is wrong, from 0 to 1 ({int(bad.sum())} such rows); flags go to `redshift_quality`"
        )
    return np.minimum(wrong, 0.99)


def _magnitude(table: Catalog, schema: PhotometrySchema, config: RunConfig) -> FloatArray:
    """Return the magnitude of the reference band, but for a constant; NaN where it was not measured."""
    bands = schema.observed
    band = config.features.reference_band or bands[len(bands) // 2]
    photometry = extract_photometry(table, schema, config.sentinels)
    values = photometry.values[:, photometry.bands.index(band)]
    if photometry.kind == "magnitude":
        return values
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(values > 0.0, -2.5 * np.log10(values), np.nan)
