"""ECSV and VOTable through astropy, read whole."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gpzed.catalog._format import Reader, dtype_name, require, spans
from gpzed.catalog.table import SUPPORTED_KINDS, Catalog
from gpzed.errors import CatalogError


class _WholeReader(Reader):
    """A table in memory, handed out in chunks."""

    def _hold(self, table: Any) -> None:
        """Take the columns of an astropy table, and note those that cannot be in a `Catalog`."""
        columns, unsupported = {}, {}
        for name in table.colnames:
            column = table[name]
            dtype = getattr(column, "dtype", type(column).__name__)
            if getattr(dtype, "kind", "V") not in SUPPORTED_KINDS + "SO":
                unsupported[name] = f"{self.title.lower()} type {dtype}"
                continue
            masked = isinstance(column, np.ma.MaskedArray)
            columns[name] = np.ma.MaskedArray(column.data, mask=column.mask) if masked else np.asarray(column)
        self._columns = Catalog(columns, n_rows=len(table))
        self._describe(
            {name: dtype_name(self._columns[name].dtype) for name in columns},
            len(table),
            units={name: str(table[name].unit) for name in columns if getattr(table[name], "unit", None) is not None},
            metadata={k: v for k, v in table.meta.items() if isinstance(v, str | int | float | bool | list | dict)},
            unsupported=unsupported,
        )

    def rows(self, names: tuple[str, ...], chunk_rows: int, start_row: int) -> Iterator[Catalog]:
        """Yield slices of the table."""
        for start, stop in spans(self.info.n_rows, chunk_rows, start_row):
            part = self._columns.slice(start, stop)
            yield self._table({name: (part[name], part.masks.get(name)) for name in names}, start)


class EcsvReader(_WholeReader):
    """An ECSV file."""

    title = "ECSV"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        table = require("astropy.table", "reading ECSV", "fits")
        self._hold(table.Table.read(path, format="ascii.ecsv"))


class VotableReader(_WholeReader):
    """The first table of a VOTable document that has columns."""

    title = "VOTable"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        votable = require("astropy.io.votable", "reading VOTable", "fits")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tables = [table for table in votable.parse(path, verify="ignore").iter_tables() if table.fields]
            if not tables:
                raise CatalogError(f"'{path}' holds no TABLE with FIELDs; give a VOTable with one")
            self._hold(tables[0].to_table(use_names_over_ids=True))
