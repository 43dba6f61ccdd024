"""HDF5 in and out: a flat group of equally long datasets (as RAIL writes them), or one compound dataset."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gpzed._types import AnyArray, BoolArray
from gpzed.catalog._common import (
    METADATA_KEY,
    CatalogInfo,
    dtype_name,
    dump_metadata,
    load_metadata,
    portable,
    reading,
    require,
    scalar_text,
    spans,
)
from gpzed.catalog.table import SUPPORTED_KINDS, Catalog, Provenance
from gpzed.errors import CatalogError

#: Group that holds the masks of the columns that have any, beside the data.
MASK_GROUP = "_gpzed_mask"
_ROWS_PER_BLOCK = 1 << 16


class Hdf5Reader:
    """A group of datasets, or a compound dataset, of an HDF5 file."""

    def __init__(self, path: Path, group: str | None = None) -> None:
        self._h5py = require("h5py", "reading HDF5", "hdf5")
        self.path = path
        with reading(path, "HDF5"), self._h5py.File(path, "r") as file:
            self._group = self._find_group(file) if group is None else self._named_group(file, group)
            self.info = self._describe(file)

    def _named_group(self, file: Any, group: str) -> str:
        if group not in file:
            raise CatalogError(
                f"'{self.path}' has no group {group!r}; tables are in {self._candidates(file)}; choose "
                "with `hdf5_group=`"
            )
        return group

    def _candidates(self, file: Any) -> list[str]:
        """Return the groups with datasets of their own, and the compound datasets."""
        found = ["/"] if any(self._is_column(item) for item in file.values()) else []

        def visit(name: str, item: Any) -> None:
            if name.split("/")[0] == MASK_GROUP:
                return
            if isinstance(item, self._h5py.Dataset):
                if item.dtype.names:
                    found.append(name)
            elif any(self._is_column(child) for child in item.values()):
                found.append(name)

        file.visititems(visit)
        return found

    def _is_column(self, item: Any) -> bool:
        return isinstance(item, self._h5py.Dataset) and item.ndim >= 1 and not item.dtype.names

    def _find_group(self, file: Any) -> str:
        found = self._candidates(file)
        if len(found) == 1:
            return found[0]
        if not found:
            raise CatalogError(f"'{self.path}' holds no datasets; give an HDF5 file with one dataset per column")
        raise CatalogError(
            f"'{self.path}' holds {len(found)} tables: {', '.join(repr(k) for k in found)}; choose one "
            "with `hdf5_group=`"
        )

    def _columns(self, file: Any) -> dict[str, tuple[np.dtype[Any], tuple[int, ...], Any]]:
        """Return dtype, shape and HDF5 object of every column."""
        node = file[self._group]
        if isinstance(node, self._h5py.Dataset):
            return {name: (node.dtype[name], node.shape, node) for name in node.dtype.names or ()}
        names = [k for k, item in node.items() if self._is_column(item)]
        order = [str(k) for k in node.attrs.get("gpzed_columns", ())]
        if sorted(order) == sorted(names):
            names = order
        return {k: (node[k].dtype, node[k].shape, node[k]) for k in names}

    def _describe(self, file: Any) -> CatalogInfo:
        dtypes, units, unsupported = {}, {}, {}
        columns = self._columns(file)
        lengths = {name: shape[0] for name, (_, shape, _) in columns.items()}
        if len(set(lengths.values())) > 1:
            raise CatalogError(
                f"'{self.path}', group {self._group!r}: datasets differ in length: {lengths}; "
                "choose a group of equally long datasets with `hdf5_group=`"
            )
        for name, (dtype, _, item) in columns.items():
            text = self._h5py.check_string_dtype(dtype) is not None
            if not text and dtype.base.kind not in SUPPORTED_KINDS + "S":
                unsupported[name] = f"HDF5 type {dtype}"
                continue
            dtypes[name] = "str" if text else dtype_name(dtype.base.newbyteorder("="))
            unit = item.attrs.get("unit", item.attrs.get("units")) if not item.dtype.names else None
            if unit is not None:
                units[name] = _text(unit)
        metadata = self._metadata(file)
        n_rows = next(iter(lengths.values()), 0)
        return CatalogInfo(str(self.path), "hdf5", tuple(dtypes), dtypes, units, n_rows, metadata, unsupported)

    def _metadata(self, file: Any) -> dict[str, Any]:
        stored = dict(file.attrs)
        node = file[self._group]
        stored.update(node.attrs)
        if METADATA_KEY in stored:
            return load_metadata(_text(stored[METADATA_KEY]))
        plain = {k: v.decode() if isinstance(v, bytes) else v for k, v in stored.items() if k != "gpzed_columns"}
        return {k: v.item() if isinstance(v, np.generic) else v for k, v in plain.items() if np.ndim(v) == 0}

    def chunks(self, names: tuple[str, ...], chunk_rows: int, start_row: int) -> Iterator[Catalog]:
        """Yield tables of `chunk_rows` rows from `start_row` on."""
        with reading(self.path, "HDF5"), self._h5py.File(self.path, "r") as file:
            columns = self._columns(file)
            stored_masks = file.get(f"{MASK_GROUP}", {})
            for start, stop in spans(self.info.n_rows, chunk_rows, start_row):
                values, masks = {}, {}
                for name in names:
                    with reading(self.path, "HDF5", f", column {name!r}, rows {start} to {stop}"):
                        values[name] = self._values(columns[name][2], name, start, stop)
                        if name in stored_masks:
                            masks[name] = stored_masks[name][start:stop]
                yield Catalog(
                    values,
                    masks=masks,
                    units={k: v for k, v in self.info.units.items() if k in values},
                    metadata=self.info.metadata,
                    provenance=Provenance(str(self.path), "hdf5", start),
                    n_rows=stop - start,
                )

    def _values(self, item: Any, name: str, start: int, stop: int) -> AnyArray:
        if item.dtype.names:
            values: AnyArray = item.fields(name)[start:stop]
        elif self._h5py.check_string_dtype(item.dtype) is not None:
            values = item.asstr()[start:stop].astype(np.str_)
        else:
            values = item[start:stop]
        return values


def _text(value: Any) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


class _GuardedFile:
    """A file for HDF5 to write to that never fails in its hands.

    The HDF5 library crashes the process when it cannot flush what it holds, as on a full disk. So an error is
    kept here, what follows is dropped, and the sink asks for the error afterwards.
    """

    def __init__(self, path: Path) -> None:
        self._stream = path.open("r+b", buffering=0)
        self._error: OSError | None = None
        self._given_up = False

    def check(self) -> None:
        """Raise the first error that writing met."""
        if self._error is not None:
            raise self._error

    def give_up(self) -> None:
        """Drop whatever is still to be written."""
        self._given_up = True

    def _try(self, action: Callable[[], Any]) -> None:
        if self._given_up or self._error is not None:
            return
        try:
            action()
        except OSError as error:
            self._error = error

    def write(self, data: Any) -> int:
        """Write all of `data`, or pretend to."""
        view = memoryview(data).cast("B")

        def write_all() -> None:
            done = 0
            while done < len(view):
                done += self._stream.write(view[done:]) or 0

        self._try(write_all)
        return len(view)

    def read(self, size: int = -1) -> bytes:
        """Return bytes; h5py knows a file by this method and then uses `readinto`."""
        return self._stream.read(size) or b""

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer`, with zeros past the end."""
        view = memoryview(buffer).cast("B")
        n_read = self._stream.readinto(view) or 0
        view[n_read:] = bytes(len(view) - n_read)
        return len(view)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to a position."""
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        """Return the position."""
        return self._stream.tell()

    def truncate(self, size: int | None = None) -> int:
        """Cut or extend the file."""
        self._try(lambda: self._stream.truncate(size))
        return size or 0

    def flush(self) -> None:
        """Do nothing: writes are not buffered here."""

    def close(self) -> None:
        """Close the file."""
        self._try(self._stream.close)
        with contextlib.suppress(OSError):
            self._stream.close()


class Hdf5Sink:
    """Write an HDF5 group of resizable datasets, one per column.

    Notes
    -----
    HDF5 keeps dtypes, units (attribute ``unit``) and metadata (attributes of the group; the whole of it as
    JSON under ``gpzed_metadata``). It has no missing values of its own: masks go to boolean datasets in the
    group ``_gpzed_mask``, which other programs pass over. Time stamps become ISO text.
    """

    def __init__(
        self,
        path: Path,
        first: Catalog,
        metadata: Mapping[str, Any],
        group: str | None = None,
        compression: str | None = None,
    ) -> None:
        self._h5py = require("h5py", "writing HDF5", "hdf5")
        for name in first.names:
            if "/" in name or name in (".", ""):
                raise CatalogError(f"column name {name!r} cannot be stored in HDF5; rename it without '/'")
        self._guard = _GuardedFile(path)
        self._file = self._h5py.File(self._guard, "w", libver=("earliest", "v110"))
        self._group = self._file.require_group(group or "photometry")
        self._n_rows = 0
        self._compression = compression
        for name in first.names:
            self._create(first, name)
        self._group.attrs["gpzed_columns"] = np.array(first.names, dtype=self._h5py.string_dtype())
        if metadata:
            for key, text in scalar_text(metadata).items():
                self._attribute(key, text)
            self._attribute(METADATA_KEY, dump_metadata(metadata))

    def _attribute(self, key: str, text: str) -> None:
        if len(text) > 60_000:  # attributes over 64 kB need dense storage; metadata that long is one dataset
            raise CatalogError(
                f"metadata {key!r} is {len(text)} characters long; HDF5 attributes hold 60000: shorten it"
            )
        self._group.attrs[key] = text

    def _create(self, first: Catalog, name: str) -> None:
        values = portable(first[name]) if first[name].dtype.kind == "M" else first[name]
        kind: Any = self._h5py.string_dtype() if values.dtype.kind == "U" else values.dtype
        item = self._group.create_dataset(
            name,
            shape=(0, *values.shape[1:]),
            maxshape=(None, *values.shape[1:]),
            dtype=kind,
            chunks=(_ROWS_PER_BLOCK, *values.shape[1:]) if len(first) > _ROWS_PER_BLOCK else True,
            compression=self._compression,
            shuffle=self._compression is not None,
            track_times=False,
        )
        if name in first.units:
            item.attrs["unit"] = first.units[name]

    def write(self, chunk: Catalog) -> None:
        """Append rows."""
        stop = self._n_rows + len(chunk)
        for name in chunk.names:
            values = chunk[name]
            if values.dtype.kind == "M":
                values = portable(values)
            item = self._group[name]
            item.resize(stop, axis=0)
            item[self._n_rows : stop] = values.astype(object) if values.dtype.kind == "U" else values
            self._write_mask(name, chunk.mask(name) if chunk.has_mask(name) else None, values.shape[1:], stop)
        self._n_rows = stop
        self._guard.check()

    def _write_mask(self, name: str, mask: BoolArray | None, shape: tuple[int, ...], stop: int) -> None:
        path = f"{MASK_GROUP}/{name}"
        if path not in self._file:
            if mask is None:
                return
            self._file.create_dataset(
                path,
                shape=(0, *shape),
                maxshape=(None, *shape),
                dtype=bool,
                chunks=True,
                fillvalue=False,
                track_times=False,
            )
        item = self._file[path]
        item.resize(stop, axis=0)
        if mask is not None:
            item[self._n_rows : stop] = mask

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._guard.close()
        self._guard.check()

    def abort(self) -> None:
        """Close, whatever state the file is in."""
        self._guard.give_up()
        with contextlib.suppress(Exception):
            self._file.close()
        self._guard.close()
