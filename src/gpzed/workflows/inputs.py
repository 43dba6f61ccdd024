"""From the rows of a table to the inputs of the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpzed._types import FloatArray
from gpzed.catalog import Catalog, Photometry, PhotometrySchema, Sentinels, extract_photometry
from gpzed.features import FeatureTransformer, photometry_rows


@dataclass(frozen=True)
class Inputs:
    """Inputs of the model for the rows of one table."""

    X: FloatArray
    flags: Any
    photometry: Photometry
    X_std: FloatArray | None = None

    def take(self, rows: Any) -> Inputs:
        """Return the inputs of some of the rows."""
        X_std = None if self.X_std is None else self.X_std[rows]
        return Inputs(self.X[rows], self.flags[rows], photometry_rows(self.photometry, rows), X_std)


def ebv_of(table: Catalog, schema: PhotometrySchema, transformer_needs_it: bool) -> FloatArray | None:
    """Return the E(B-V) column, if there is one and it is needed."""
    return table.floats(schema.ebv) if schema.ebv and transformer_needs_it else None


def make_inputs(
    table: Catalog, schema: PhotometrySchema, sentinels: Sentinels, transformer: FeatureTransformer
) -> Inputs:
    """Return inputs and flags for the rows of a table."""
    photometry = extract_photometry(table, schema, sentinels)
    ebv = ebv_of(table, schema, bool(transformer.config.extinction))
    X, flags, X_std = transformer.transform(photometry, ebv)
    return Inputs(X, flags, photometry, X_std)


def needed_columns(schema: PhotometrySchema, *more: str | None) -> list[str]:
    """Return the columns to read: the photometry and the others named, each once."""
    return list(dict.fromkeys([*schema.photometry_columns, *(name for name in more if name)]))
