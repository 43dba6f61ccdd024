"""From an astropy table to ours, for the formats that are read whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gpzed.catalog._common import CatalogInfo, dtype_name, spans
from gpzed.catalog.table import SUPPORTED_KINDS, Catalog, Provenance


def from_astropy(table: Any, path: Path, format_name: str) -> tuple[Catalog, dict[str, str]]:
    """Return an astropy table as a Catalog, and the columns that cannot be in one with the reason."""
    columns, units, unsupported = {}, {}, {}
    for name in table.colnames:
        column = table[name]
        values = column.filled() if hasattr(column, "filled") and column.dtype.kind == "V" else column
        if getattr(values, "dtype", np.dtype("V")).kind not in SUPPORTED_KINDS + "SO":
            unsupported[name] = f"{format_name} type {getattr(values, 'dtype', type(values).__name__)}"
            continue
        masked = isinstance(values, np.ma.MaskedArray)
        columns[name] = np.ma.MaskedArray(values.data, mask=values.mask) if masked else np.asarray(values)
        if getattr(column, "unit", None) is not None:
            units[name] = str(column.unit)
    metadata = {k: v for k, v in table.meta.items() if isinstance(v, str | int | float | bool | list | dict)}
    provenance = Provenance(str(path), format_name)
    return Catalog(columns, units=units, metadata=metadata, provenance=provenance, n_rows=len(table)), unsupported


class WholeReader:
    """A table already in memory, handed out in chunks."""

    def __init__(self, read: tuple[Catalog, dict[str, str]]) -> None:
        self._table, unsupported = read
        table = self._table
        self.info = CatalogInfo(
            str(table.provenance.path),
            str(table.provenance.format),
            table.names,
            {name: dtype_name(table[name].dtype) for name in table.names},
            dict(table.units),
            len(table),
            dict(table.metadata),
            unsupported,
        )

    def chunks(self, names: tuple[str, ...], chunk_rows: int, start_row: int) -> Iterator[Catalog]:
        """Yield tables of `chunk_rows` rows from `start_row` on."""
        chosen = self._table.select(names)
        for start, stop in spans(len(chosen), chunk_rows, start_row):
            yield chosen.slice(start, stop)
