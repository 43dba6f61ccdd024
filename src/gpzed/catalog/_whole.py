"""ECSV and VOTable written through astropy: kept in memory, and written when all rows are there."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gpzed.catalog._format import METADATA_KEY, Writer, dump_metadata, metadata_entries, portable, require
from gpzed.catalog.table import Catalog, Note
from gpzed.errors import CatalogError


class _WholeWriter(Writer):
    """A table that is written in one piece."""

    title: str

    def __init__(self, path: Path, first: Catalog, metadata: Mapping[str, Any], compression: str | None = None) -> None:
        self._table = require("astropy.table", f"writing {self.title}", "fits").Table
        if compression is not None:
            raise CatalogError(f"`compression` is {compression!r}, but {self.title} is written plain; leave it out")
        self.refuse_lists(first, self.title)
        dump_metadata(metadata)  # or it cannot be stored
        self._path, self._metadata = path, metadata
        self._chunks: list[Catalog] = []

    def write(self, chunk: Catalog) -> None:
        """Keep rows."""
        self._chunks.append(chunk)

    def close(self) -> None:
        """Write the file."""
        whole = Catalog.concatenate(self._chunks)
        columns = {name: portable(whole[name]) for name in whole.names}
        table = self._table(
            {
                name: np.ma.MaskedArray(values, whole.mask(name)) if whole.has_mask(name) else values
                for name, values in columns.items()
            }
        )
        for name in whole.names:
            note = whole.notes.get(name, Note())
            column = table[name]
            column.description = note.description or None
            if note.ucd:
                column.meta["ucd"] = note.ucd
            if name in whole.units:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # units that astropy does not know are kept as they are
                    column.unit = require("astropy.units", "units", "fits").Unit(
                        whole.units[name], parse_strict="silent"
                    )
        self._save(table)

    def abort(self) -> None:
        """Forget the rows."""
        self._chunks = []

    @abstractmethod
    def _save(self, table: Any) -> None:
        """Write an astropy table."""


class EcsvWriter(_WholeWriter):
    """Write an ECSV file.

    ECSV keeps dtypes, units, notes, masks and metadata. Time stamps become ISO text, 16-bit floats 32-bit.
    """

    title = "ECSV"

    def _save(self, table: Any) -> None:
        table.meta.update({key: value for key, value in self._metadata.items() if value is not None})
        table.write(self._path, format="ascii.ecsv", overwrite=True)


class VotableWriter(_WholeWriter):
    """Write a VOTable document, in binary (BINARY2).

    VOTable keeps units, notes, masks, and metadata (INFO elements; the whole of it as JSON under ``gpzed_metadata``).
    Unsigned integers become wider signed ones, time stamps ISO text, 16-bit floats 32-bit.
    """

    title = "VOTable"

    def _save(self, table: Any) -> None:
        votable = require("astropy.io.votable", "writing VOTable", "fits")
        converters = require("astropy.io.votable.converters", "writing VOTable", "fits")
        tree = require("astropy.io.votable.tree", "writing VOTable", "fits")
        for name in table.colnames:
            if table[name].dtype == np.uint64:
                raise CatalogError(f"column {name!r} is uint64, which VOTable has not; write it as text or int64")
            is_masked = np.ma.is_masked(table[name])
            if table[name].dtype in (np.int8, np.uint16, np.uint32) or (is_masked and table[name].dtype == np.uint8):
                table[name] = table[name].astype(f"i{max(2 * table[name].dtype.itemsize, 2)}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            document = votable.from_table(table)
        resource = document.resources[0]
        for field in resource.tables[0].fields:
            if field.datatype == "bit":  # which STILTS cannot read from BINARY2
                field.datatype = "boolean"
                field.converter = converters.get_converter(field)
            column = table[field.name]
            if np.ma.is_masked(column) and column.dtype.kind == "i":  # astropy 6 writes no mask without it
                field.values.null = np.iinfo(column.dtype).min
                field.converter = converters.get_converter(field)
        for key, text in metadata_entries(self._metadata).items():
            resource.infos.append(tree.Info(name=key, value=text))
        document.to_xml(str(self._path), tabledata_format="binary2")


def stored_metadata(resources: list[Any]) -> str | None:
    """Return the metadata that gpzed wrote into a VOTable, as JSON; None if there are none."""
    found = (info.value for resource in resources for info in resource.infos if info.name == METADATA_KEY)
    return next(found, None)
