"""ECSV and VOTable through astropy, read whole.

Both formats can ask more of their reader than to read them, and astropy obliges: it unpacks compressed files, and opens
whatever file or address a VOTable names. Such files are refused here.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gpzed.catalog._format import Reader, dtype_name, load_metadata, require, spans
from gpzed.catalog._whole import stored_metadata
from gpzed.catalog.table import SUPPORTED_KINDS, Catalog, Note
from gpzed.errors import CatalogError

_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"PK\x03\x04", b"\x1f\x9d")
"""First bytes of compressed files."""
_REACHES_OUT = re.compile(rb"""<!ENTITY|<(?:\w+:)?STREAM\b(?:[^>"']|"[^"]*"|'[^']*')*?\bhref""", re.IGNORECASE)
"""Entities, and data that are elsewhere."""
_MAX_METADATA = 100_000
"""Values that the metadata may hold in all; YAML can make billions of a few bytes."""


class WholeReader(Reader):
    """A table in memory, handed out in chunks."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with path.open("rb") as stream:
            if stream.read(6).startswith(_COMPRESSED):
                raise CatalogError(f"'{path}' is compressed, which is not supported for {self.title}; unpack it first")

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
        left = [_MAX_METADATA]
        self._describe(
            {name: dtype_name(self._columns[name].dtype) for name in columns},
            len(table),
            units={name: str(table[name].unit) for name in columns if getattr(table[name], "unit", None) is not None},
            metadata={k: v for k, v in table.meta.items() if isinstance(k, str) and _is_plain(v, left)},
            unsupported=unsupported,
            notes={name: _note(table[name]) for name in columns},
        )

    def rows(self, names: tuple[str, ...], chunk_rows: int, start_row: int) -> Iterator[Catalog]:
        """Yield slices of the table."""
        for start, stop in spans(self.info.n_rows, chunk_rows, start_row):
            part = self._columns.slice(start, stop)
            yield self._table({name: (part[name], part.masks.get(name)) for name in names}, start)


def _note(column: Any) -> Note:
    ucd = (getattr(column, "meta", None) or {}).get("ucd")
    return Note(str(getattr(column, "description", None) or ""), ucd if isinstance(ucd, str) else "")


def _is_plain(value: Any, left: list[int], depth: int = 0) -> bool:
    """Return whether JSON can hold a value, in `left` numbers and texts or fewer."""
    left[0] -= 1
    if isinstance(value, dict):
        value = [*value, *value.values()] if all(isinstance(key, str) for key in value) else object()
    if isinstance(value, list):
        return depth < 20 and all(left[0] > 0 and _is_plain(item, left, depth + 1) for item in value)
    return value is None or isinstance(value, str | int | float | bool)


class EcsvReader(WholeReader):
    """An ECSV file."""

    title = "ECSV"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        table = require("astropy.table", "reading ECSV", "fits")
        self._hold(table.Table.read(path, format="ascii.ecsv"))


class VotableReader(WholeReader):
    """The first table of a VOTable document that has columns."""

    title = "VOTable"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        votable = require("astropy.io.votable", "reading VOTable", "fits")
        if _REACHES_OUT.search(path.read_bytes().replace(b"\0", b"")):  # without its zeros UTF-16 is ASCII
            raise CatalogError(
                f"'{path}' declares entities, or data in another place (a STREAM with href), which is not supported; "
                "give a VOTable that holds its data"
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            document = votable.parse(path, verify="ignore")
            tables = [table for table in document.iter_tables() if table.fields]
            if not tables:
                raise CatalogError(f"'{path}' holds no TABLE with FIELDs; give a VOTable with one")
            table = tables[0].to_table(use_names_over_ids=True)
            stored = stored_metadata(document.resources)
            table.meta = table.meta if stored is None else load_metadata(stored)
            self._hold(table)
