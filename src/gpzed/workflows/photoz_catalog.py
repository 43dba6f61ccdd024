"""Predictions for a table in memory, with the table that they belong to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from gpzed._types import AnyArray
from gpzed.catalog import PhotometrySchema, SentinelReport
from gpzed.config import PredictConfig
from gpzed.features import count_flags
from gpzed.prediction import Prediction
from gpzed.prediction.reduce import Gaussians
from gpzed.workflows.columns import GAUSSIANS, as_lists, predict_columns, settled
from gpzed.workflows.outputs import file_columns, joined, open_output, output_kind
from gpzed.workflows.tables import Table

NO_LISTS = ("astropy", "")
"""Libraries whose tables hold Gaussians as arrays of one width, those not used with weight 0."""


@dataclass(frozen=True, repr=False)
class PhotozCatalog:
    """Redshifts for the rows of a table.

    Columns are those of `gpzed predict` (``z_phot``, ``z_mean``, ``z_std``, ``z_flags``, ...), and those of the table:
    ``result["z_phot"] - result["z_spec"]``.
    """

    prediction: Prediction  # the densities, one per row
    table: Table  # what they were predicted for
    schema: PhotometrySchema  # which column of it was taken for what
    options: PredictConfig  # what the columns are
    sentinels: SentinelReport  # what was measured and what was not
    metadata: Mapping[str, Any] = field(default_factory=dict)  # what a file of these predictions says about itself

    def __len__(self) -> int:
        return len(self.prediction)

    def __repr__(self) -> str:
        return f"<PhotozCatalog of {len(self):,} rows: {', '.join(list(self.columns)[:8])}>"

    def __getitem__(self, name: str) -> AnyArray:
        if name in self.columns:
            return self.columns[name]
        if name not in self.table.names:
            raise KeyError(f"no column {name!r}; there are {', '.join((*self.table.names, *self.columns))}")
        values: AnyArray = self.table.catalog([name])[name]
        return values

    __iter__: None = None  # over rows or over names? `to_table` gives a table, `keys` the names

    def __contains__(self, name: object) -> bool:
        return name in self.columns or name in self.table.names

    def keys(self) -> list[str]:
        """Names of all columns."""
        return list(dict.fromkeys([*self.table.names, *self.columns]))

    @cached_property
    def columns(self) -> dict[str, AnyArray]:
        """Columns that `gpzed predict` adds, by name."""
        return predict_columns(self.prediction, self.options)

    @property
    def flags(self) -> dict[str, int]:
        """Rows by flag."""
        return count_flags(self.columns["z_flags"])

    def to_table(self) -> Any:
        """Return a table of the kind that came in, with the columns of the predictions added.

        For predictions from a file it is a `gpzed.catalog.Catalog`.
        """
        kept = self.options.columns
        table = self.table if kept is None else Table(self.table.catalog(kept), "gpzed")
        if table.library in NO_LISTS:
            return table.with_columns(self.columns)
        return table.with_columns(as_lists(self.columns, settled(self.options, self.prediction.n_components)))

    def to_qp(self, grid: Any = None) -> Any:
        """Return a qp ensemble, with ``z_phot``, ``z_mean`` and ``z_std`` as its ancillary data.

        Parameters
        ----------
        grid : array-like of shape (g,) or None
            Redshifts at which densities are tabulated. If None the ensemble holds mixtures of at most eight Gaussians,
            with the same means and variances as the densities; qp has no cut mixtures, so that some of them reach below
            zero.
        """
        from gpzed.workflows.ensemble import POINTS, make_ensemble, with_points

        if grid is not None:
            ensemble = self.prediction.to_qp(grid)
        elif self.columns.keys() >= set(GAUSSIANS) and self.options.pdf != "full":  # merged before
            few = Gaussians(*(self.columns[name] for name in GAUSSIANS))
            ensemble = make_ensemble(few, 0.0 if self.options.positive else None)
        else:
            ensemble = self.prediction.reduced(without_cut=True).to_qp()
        return with_points(ensemble, {name: self.columns[name] for name in POINTS})

    def write(self, path: str | os.PathLike[str], format: str | None = None) -> None:
        """Write the columns that came in and those of the predictions to a file."""
        kind = output_kind(Path(path), format)
        options = settled(self.options, self.prediction.n_components, kind)
        columns = predict_columns(self.prediction, options)
        kept = self.table.names if self.options.columns is None else self.options.columns
        table = self.table.catalog(name for name in kept if name not in columns)
        metadata = {**self.metadata, "gpzed_pdf": {**self.metadata.get("gpzed_pdf", {}), "form": options.pdf}}
        with open_output(Path(path), format, options, metadata, self.schema.id) as writer:
            writer.write(joined(table, file_columns(columns, options, kind)))
