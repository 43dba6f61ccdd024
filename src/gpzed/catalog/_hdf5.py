"""HDF5 through h5py: a flat group of equally long datasets (as RAIL writes them), or one compound dataset."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from gpzed._types import AnyArray
from gpzed.catalog._format import (
    METADATA_KEY,
    Reader,
    Writer,
    dtype_name,
    load_metadata,
    metadata_entries,
    portable,
    reading,
    require,
    spans,
)
from gpzed.catalog._heaps import check_heaps
from gpzed.catalog.lists import Lists
from gpzed.catalog.table import SUPPORTED_KINDS, Catalog, Note
from gpzed.errors import CatalogError

_MASK_GROUP = "_gpzed_mask"
"""Group that holds the masks of the columns that have any, beside the data."""
_ASTROPY_HEADER = ".__table_column_meta__"
"""What astropy adds to the name of a table for the dataset with the units of its columns."""
_ROWS_PER_BLOCK = 1 << 16
_MAX_DEPTH = 16
"""Groups within groups in which tables are looked for."""
_MAX_UNPACKED = 1 << 15
"""Times that compressed values may grow: some 1000 by gzip, more by zstd."""
_SMALL = 1 << 26
"""Bytes up to which a file is looked through for damaged heaps, whatever it holds; larger ones if heaps are read."""


def _dtype(item: Any, name: str) -> Any:
    """Return the type of a column, which is a dataset or part of a compound one."""
    return item.dtype[name] if item.dtype.names else item.dtype


class Hdf5Reader(Reader):
    """A group of datasets, or a compound dataset, of an HDF5 file."""

    title = "HDF5"

    def __init__(self, path: Path, group: str | None = None) -> None:
        super().__init__(path)
        self._h5py = require("h5py", "reading HDF5", "hdf5")
        self._is_small = path.stat().st_size <= _SMALL
        with self._h5py.File(path, "r") as file:
            if self._is_small:
                check_heaps(path)
            self._group = self._find_group(file, group)
            self._describe_columns(file)

    def _find_group(self, file: Any, group: str | None) -> str:
        found = self._tables(file)
        if group is None:
            self._refuse_pandas(self._items(file["/"]).values())
        else:
            node = file.get(group)
            if node is not None and node.file.filename == file.filename:
                self._refuse_pandas([node, *(file[str(parent)] for parent in PurePosixPath(node.name).parents)])
                return group
            raise CatalogError(
                f"'{self.path}' has no group {group!r}; tables are in {', '.join(found)}; choose with `hdf5_group=`"
            )
        if not found:
            raise CatalogError(f"'{self.path}' holds no datasets; give an HDF5 file with one dataset per column")
        if len(found) > 1:
            listed = ", ".join(map(repr, found))
            raise CatalogError(f"'{self.path}' holds {len(found)} tables: {listed}; choose one with `hdf5_group=`")
        return found[0]

    def _refuse_pandas(self, nodes: Iterable[Any]) -> None:
        if any("pandas_type" in node.attrs for node in nodes):
            raise CatalogError(
                f"'{self.path}' is a file of pandas, whose layout only pandas reads; write Parquet with it: "
                "pandas.read_hdf(...).to_parquet(...)"
            )

    def _tables(self, file: Any) -> list[str]:
        """Return the groups that hold datasets, and the compound datasets, each once."""
        found, seen, groups = [], set(), [("/", file["/"])]
        for path, group in groups:  # grows on the way
            place = self._h5py.h5o.get_info(group.id).addr
            if place in seen or path.count("/") > _MAX_DEPTH:
                continue
            seen.add(place)
            items = self._items(group)
            if any(map(self._is_column, items.values())):
                found.append(path)
            for name, item in items.items():
                below = f"{path}{name}" if path == "/" else f"{path}/{name}"
                if isinstance(item, self._h5py.Group) and below != f"/{_MASK_GROUP}":
                    groups.append((below, item))
                elif self._is_dataset(item) and item.dtype.names:
                    found.append(below)
        return [path.removeprefix("/") or "/" for path in found]

    def _items(self, group: Any) -> dict[str, Any]:
        """Return what a group holds, by name; links to other files are not followed."""
        kinds = {name: group.get(name, getclass=True, getlink=True) for name in group}
        items = {name: group[name] for name, kind in kinds.items() if kind is not self._h5py.ExternalLink}
        return {
            name: item
            for name, item in items.items()
            if item.file.filename == group.file.filename and not name.endswith(_ASTROPY_HEADER)
        }

    def _is_dataset(self, item: Any) -> bool:
        return isinstance(item, self._h5py.Dataset)

    def _is_column(self, item: Any) -> bool:
        return self._is_dataset(item) and item.ndim >= 1 and not item.dtype.names

    def _columns(self, file: Any) -> dict[str, Any]:
        """Return the dataset that holds each column."""
        node = file[self._group]
        if self._is_dataset(node):
            return dict.fromkeys(node.dtype.names or (), node)
        return {name: item for name, item in self._items(node).items() if self._is_column(item)}

    def _describe_columns(self, file: Any) -> None:
        dtypes, units, notes, lists, unsupported = {}, {}, {}, set(), {}
        header = self._astropy_header(file)
        columns = self._columns(file)
        lengths = {name: len(item) for name, item in columns.items()}
        if len(set(lengths.values())) > 1:
            raise CatalogError(
                f"'{self.path}', group {self._group!r}: datasets differ in length: "
                f"{', '.join(f'{name} {length:,}' for name, length in list(lengths.items())[:10])}; "
                "choose a group of equally long datasets with `hdf5_group=`"
            )
        for name, item in columns.items():
            dtype = _dtype(item, name)
            text = self._h5py.check_string_dtype(dtype) is not None
            self._check_storage(name, item)
            inner = None if text else self._h5py.check_vlen_dtype(dtype)
            if inner is not None and inner.kind in "iuf":
                dtype = inner
                lists.add(name)
            if not text and dtype.base.kind not in SUPPORTED_KINDS + "S":
                unsupported[name] = f"HDF5 type {dtype}"
                continue
            dtypes[name] = "str" if text else dtype_name(dtype.base.newbyteorder("="))
            said = header.get(name, {}) if item.dtype.names else item.attrs
            unit = said.get("unit", said.get("units"))
            if unit is not None:
                units[name] = _text(unit)
            notes[name] = Note(*(_text(said.get(key, "")) for key in Note._fields))
        n_rows = next(iter(lengths.values()), 0)
        self._describe(
            dtypes,
            n_rows,
            units=units,
            metadata=self._metadata(file),
            unsupported=unsupported,
            notes=notes,
            lists=frozenset(lists),
        )

    def _astropy_header(self, file: Any) -> dict[str, dict[str, Any]]:
        """Return what astropy keeps of each column of a compound dataset, in a dataset of YAML beside it."""
        item = file.get(f"{self._group}{_ASTROPY_HEADER}")
        if not self._is_dataset(item):
            return {}
        self._check_storage(item.name, item)
        meta = require("astropy.table.meta", "units in HDF5 files of astropy", "fits")
        columns = meta.get_header_from_yaml([_text(line) for line in item[:]])["datatype"]
        return {column["name"]: column for column in columns}

    def _check_storage(self, name: str, item: Any) -> None:
        """Refuse data that are in other files, and sizes that no data stand behind."""
        if item.external or item.is_virtual:
            raise CatalogError(
                f"'{self.path}': the values of {name!r} are in another file, which is not supported; copy them here"
            )
        declared, stored = item.size * item.dtype.itemsize, item.id.get_storage_size()
        if declared > _MAX_UNPACKED * stored + (1 << 24):
            raise ValueError(f"{name!r} has shape {item.shape} but holds only {stored} bytes")

    def _metadata(self, file: Any) -> dict[str, Any]:
        stored = {**file.attrs, **file[self._group].attrs}
        if METADATA_KEY in stored:
            return load_metadata(_text(stored[METADATA_KEY]))
        plain = {k: v.decode() if isinstance(v, bytes) else v for k, v in stored.items()}
        return {k: v.item() if isinstance(v, np.generic) else v for k, v in plain.items() if np.ndim(v) == 0}

    def rows(self, names: tuple[str, ...], chunk_rows: int, start_row: int) -> Iterator[Catalog]:
        """Yield slices of the datasets."""
        with self._h5py.File(self.path, "r") as file:
            columns, top = self._columns(file), self._items(file)
            if not self._is_small and any(self._h5py.check_vlen_dtype(_dtype(columns[name], name)) for name in names):
                check_heaps(self.path)
            stored_masks = self._items(top[_MASK_GROUP]) if _MASK_GROUP in top else {}
            block = max([item.chunks[0] for item in columns.values() if item.chunks], default=1)
            step = max(chunk_rows, block)  # or HDF5 would unpack each of its own chunks many times
            for start, stop in spans(self.info.n_rows, step, start_row):
                found = {}
                for name in names:
                    with reading(self.path, self.title, f", column {name!r}, rows {start} to {stop}"):
                        mask = stored_masks[name][start:stop] if name in stored_masks else None
                        found[name] = self._values(columns[name], name, start, stop), mask
                yield self._table(found, start)

    def _values(self, item: Any, name: str, start: int, stop: int) -> Any:
        if name in self.info.lists:
            rows = item[start:stop]
            ends = np.concatenate([[0], np.cumsum([len(row) for row in rows], dtype=np.int64)])
            return Lists(np.concatenate([np.empty(0, self.info.dtypes[name]), *rows]), ends)
        if item.dtype.names:
            item = item.fields(name)
        elif self._h5py.check_string_dtype(item.dtype) is not None:
            return np.asarray(item.asstr()[start:stop]).astype(np.str_)
        return np.asarray(item[start:stop])


def _text(value: Any) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


class _GuardedFile(io.FileIO):
    """A file for HDF5 to write to that never fails in its hands.

    The HDF5 library crashes the process when it cannot flush what it holds, as on a full disk. So the first error is
    kept here, what follows is dropped, and the writer asks for the error afterwards.
    """

    error: OSError | None = None

    def check(self) -> None:
        """Raise the first error that writing met."""
        if self.error is not None:
            raise self.error

    def write(self, data: Any, /) -> int:
        """Write all of `data`, or pretend to."""
        view = memoryview(data).cast("B")
        done = 0
        try:
            while done < len(view) and self.error is None:
                done += super().write(view[done:]) or 0
        except OSError as error:
            self.error = error
        return len(view)

    def readinto(self, buffer: Any, /) -> int:
        """Fill `buffer`, with zeros past the end."""
        view = memoryview(buffer).cast("B")
        n_read = super().readinto(view) or 0
        view[n_read:] = bytes(len(view) - n_read)
        return len(view)

    def truncate(self, size: int | None = None, /) -> int:
        """Cut or extend the file."""
        try:
            return super().truncate(size) if self.error is None else size or 0
        except OSError as error:
            self.error = error
        return size or 0


class Hdf5Writer(Writer):
    """Write an HDF5 group of resizable datasets, one per column.

    HDF5 keeps dtypes, lists, units and notes (attributes ``unit``, ``description``, ``ucd``) and metadata (attributes
    of the group; the whole of it as JSON under ``gpzed_metadata``). It lacks missing values: masks go to boolean
    datasets in the group ``_gpzed_mask``, which other programs pass over. Time stamps become ISO text.
    """

    def __init__(
        self,
        path: Path,
        first: Catalog,
        metadata: Mapping[str, Any],
        compression: str | None = None,
        group: str | None = None,
    ) -> None:
        self._h5py = require("h5py", "writing HDF5", "hdf5")
        for name in first.names:
            if "/" in name or name in (".", ""):
                raise CatalogError(f"column name {name!r} cannot be stored in HDF5; rename it without '/'")
        self._guard = _GuardedFile(path, "r+")
        self._file = self._h5py.File(self._guard, "w", libver=("earliest", "v110"), track_order=True)
        name = (group or "photometry").strip("/")
        self._group = self._file.create_group(name, track_order=True) if name else self._file
        self._n_rows = 0
        blocks = _ROWS_PER_BLOCK if len(first) > _ROWS_PER_BLOCK else None
        filters = {"compression": compression, "shuffle": compression is not None}
        for name in first.names:
            values = _without_times(first[name])
            kind = self._h5py.string_dtype() if values.dtype.kind == "U" else values.dtype
            kind = self._h5py.vlen_dtype(kind) if isinstance(values, Lists) else kind
            item = self._create(self._group, name, values.shape[1:], kind, blocks, **filters)
            said = {"unit": first.units.get(name, ""), **first.notes.get(name, Note())._asdict()}
            for key, text in said.items():
                if text:
                    item.attrs[key] = np.bytes_(text.encode())
        for key, text in metadata_entries(metadata).items():
            if len(text.encode()) > 60_000:
                raise CatalogError(
                    f"metadata {key!r} is {len(text)} characters long; HDF5 attributes hold 60000: shorten it"
                )
            self._group.attrs[key] = np.bytes_(text.encode())  # of fixed length: HDF5 may hang over a damaged heap

    def _create(
        self, group: Any, name: str, shape: tuple[int, ...], kind: Any, blocks: int | None = None, **filters: Any
    ) -> Any:
        chunks = (blocks, *shape) if blocks else True
        size: dict[str, Any] = {"shape": (0, *shape), "maxshape": (None, *shape), "chunks": chunks}
        return group.create_dataset(name, dtype=kind, track_times=False, **size, **filters)

    def write(self, chunk: Catalog) -> None:
        """Append rows."""
        for name in chunk.names:
            values, mask = _without_times(chunk[name]), chunk.masks.get(name)
            if isinstance(values, Lists):
                rows: AnyArray = np.empty(len(values), dtype=object)
                rows[:] = list(values)
                values = rows
            self._append(self._group[name], values.astype(object) if values.dtype.kind == "U" else values)
            if mask is not None:
                masks = self._file.require_group(_MASK_GROUP)
                self._append(masks.get(name) or self._create(masks, name, values.shape[1:], bool), mask)
        self._n_rows += len(chunk)
        self._guard.check()

    def _append(self, item: Any, values: AnyArray) -> None:
        """Write the next rows; HDF5 fills those that a mask left out before with False."""
        item.resize(self._n_rows + len(values), axis=0)
        item[self._n_rows :] = values

    def close(self) -> None:
        """Close the file."""
        for mask in self._file.get(_MASK_GROUP, {}).values():
            mask.resize(self._n_rows, axis=0)
        self._file.close()
        self._guard.close()
        self._guard.check()

    def abort(self) -> None:
        """Close, whatever state the file is in."""
        self._guard.error = self._guard.error or OSError("the file was given up")
        for opened in (self._file, self._guard):
            with contextlib.suppress(Exception):
                opened.close()


def _without_times(values: Any) -> Any:
    return portable(values) if values.dtype.kind == "M" else values
