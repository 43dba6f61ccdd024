"""CSV in and out, in chunks; ECSV in. Fast with pyarrow, and working without it."""

from __future__ import annotations

import contextlib
import csv
import gzip
import importlib.util
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gpzed._types import AnyArray, BoolArray
from gpzed.catalog._astropy import WholeReader, from_astropy
from gpzed.catalog._common import CatalogInfo, dtype_name, dump_metadata, portable, reading, require
from gpzed.catalog._csv_head import NEXT_TYPE, NULLS, CsvHead, head_lines, is_gzipped, open_text, read_head
from gpzed.catalog._parquet import arrow_to_numpy
from gpzed.catalog.table import Catalog, Provenance
from gpzed.errors import CatalogError

_BLOCK_BYTES = 1 << 22
_PLAIN_ROWS = 1 << 15


def _has_pyarrow() -> bool:
    return importlib.util.find_spec("pyarrow") is not None


class CsvReader:
    """A CSV file with a header line, after any number of ``#`` comment lines.

    Notes
    -----
    A CSV file does not say what its columns hold, and a guess from the first rows can be wrong further down
    (99 at the top, 22.5 below). So the file is read once from end to end to settle the types and count the
    rows; a column is integer only if every value is. Files written by gpzed declare their types.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with reading(path, "CSV"):
            self._head = read_head(path)
        self._source = _ArrowCsv(path, self._head) if _has_pyarrow() else _PlainCsv(path, self._head)

    @cached_property
    def info(self) -> CatalogInfo:
        """Columns, number of rows and metadata; found by reading the file once."""
        types = dict(self._head.dtypes)
        while True:
            with reading(self.path, "CSV"):
                try:
                    n_rows = sum(len(part) for part in self._source.parts(types, self._head.names, threads=False))
                    break
                except _TypeMismatchError as mismatch:
                    self._widen(types, mismatch)
        head = self._head
        return CatalogInfo(str(self.path), "csv", head.names, types, dict(head.units), n_rows, dict(head.metadata))

    def _widen(self, types: dict[str, str], mismatch: _TypeMismatchError) -> None:
        wider = NEXT_TYPE.get(types[mismatch.column])
        if self._head.declared or wider is None:
            raise CatalogError(
                f"'{self.path}': column {mismatch.column!r} is declared {types[mismatch.column]} but "
                f"{mismatch}; "
                "repair the value, or remove the '# gpzed_columns' line to have the types guessed"
            )
        types[mismatch.column] = wider

    def chunks(self, names: tuple[str, ...], chunk_rows: int, start_row: int) -> Iterator[Catalog]:
        """Yield tables of `chunk_rows` rows from `start_row` on (rows before it are parsed and dropped)."""
        types = self.info.dtypes
        pending: list[Catalog] = []
        held, skip, offset = 0, start_row, start_row
        with reading(self.path, "CSV"):
            for part in self._source.parts(types, names, threads=True):
                dropped = min(skip, len(part))
                skip -= dropped
                pending.append(part.slice(dropped))
                held += len(part) - dropped
                while held >= chunk_rows:
                    table = Catalog.concatenate(pending)
                    yield self._finish(table.slice(0, chunk_rows), offset)
                    pending, held, offset = [table.slice(chunk_rows)], held - chunk_rows, offset + chunk_rows
        if held or self.info.n_rows == start_row == 0:
            empty = {name: np.empty(0, dtype=_storage(types[name])) for name in names}
            yield self._finish(Catalog.concatenate(pending) if pending else Catalog(empty), offset)

    def _finish(self, table: Catalog, offset: int) -> Catalog:
        columns = {
            name: table[name].astype(_final(self.info.dtypes[name], table[name]), copy=False) for name in table.names
        }
        return Catalog(
            columns,
            masks={name: table.mask(name) for name in table.names if table.has_mask(name)},
            units={k: v for k, v in self._head.units.items() if k in table},
            metadata=self._head.metadata,
            provenance=Provenance(str(self.path), "csv", offset),
            n_rows=len(table),
        )


class _TypeMismatchError(Exception):
    """A value does not fit the type its column was taken to have."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(reason)
        self.column = column


def _storage(name: str) -> np.dtype[Any]:
    """Return the dtype in which a declared type is parsed."""
    if name == "str" or name.startswith("datetime64"):
        return np.dtype(np.str_)
    return np.dtype(np.float32 if name == "float16" else name)


def _final(name: str, values: AnyArray) -> np.dtype[Any]:
    return values.dtype if name == "str" else np.dtype(name)


def _blank_is_row(head: CsvHead) -> bool:
    """Return whether an empty line is a row: a masked value of a one-column table that gpzed wrote."""
    return head.declared and len(head.names) == 1


class _ArrowCsv:
    """Parse with pyarrow's streaming reader."""

    def __init__(self, path: Path, head: CsvHead) -> None:
        self._pa = require("pyarrow", "reading CSV fast", "parquet")
        self._csv = require("pyarrow.csv", "reading CSV fast", "parquet")
        self._path, self._head = path, head

    def parts(self, types: Mapping[str, str], names: tuple[str, ...], *, threads: bool) -> Iterator[Catalog]:
        """Yield parsed blocks of the file."""
        try:
            for batch in self._open(types, names, threads):
                columns, masks = {}, {}
                for name in names:
                    columns[name], mask = arrow_to_numpy(self._pa, self._pa.chunked_array([batch.column(name)]))
                    if mask is not None:
                        masks[name] = mask
                yield Catalog(columns, masks=masks, n_rows=batch.num_rows)
        except self._pa.ArrowInvalid as error:
            found = re.search(r"In CSV column #(\d+): (.*)", str(error), flags=re.DOTALL)
            if found and names == self._head.names:
                raise _TypeMismatchError(names[int(found[1])], found[2]) from error
            raise

    def _open(self, types: Mapping[str, str], names: tuple[str, ...], threads: bool) -> Iterator[Any]:
        head = self._head
        arrow = {
            name: self._pa.string() if dtype.kind == "U" else self._pa.from_numpy_dtype(dtype)
            for name, dtype in ((name, _storage(types[name])) for name in names)
        }
        source = self._pa.input_stream(str(self._path), compression="gzip" if is_gzipped(self._path) else None)
        with source:
            try:
                reader = self._csv.open_csv(
                    source,
                    self._csv.ReadOptions(
                        use_threads=threads,
                        block_size=_BLOCK_BYTES,
                        skip_rows=head.skip_lines,
                        column_names=head.names,
                    ),
                    self._csv.ParseOptions(
                        delimiter=head.delimiter,
                        newlines_in_values=True,
                        ignore_empty_lines=not _blank_is_row(head),
                        invalid_row_handler=lambda row: "skip" if row.text.startswith("#") else "error",
                    ),
                    self._csv.ConvertOptions(
                        column_types=arrow,
                        include_columns=list(names),
                        null_values=list(NULLS),
                        strings_can_be_null=True,
                        quoted_strings_can_be_null=not head.declared,
                        true_values=["true", "True", "TRUE"],
                        false_values=["false", "False", "FALSE"],
                    ),
                )
            except self._pa.ArrowInvalid as error:
                if "Empty CSV file" in str(error):
                    return
                raise
            yield from reader


class _PlainCsv:
    """Parse with the csv module, where pyarrow is not installed; empty text is then read as masked."""

    def __init__(self, path: Path, head: CsvHead) -> None:
        self._path, self._head = path, head

    def parts(self, types: Mapping[str, str], names: tuple[str, ...], *, threads: bool) -> Iterator[Catalog]:
        """Yield parsed blocks of the file."""
        del threads
        index = {name: i for i, name in enumerate(self._head.names)}
        for rows in self._rows():
            columns, masks = {}, {}
            for name in names:
                columns[name], masks[name] = _parse([row[index[name]] for row in rows], types[name], name)
            yield Catalog(columns, masks=masks, n_rows=len(rows))

    def _rows(self) -> Iterator[list[list[str]]]:
        width = len(self._head.names)
        with open_text(self._path) as stream:
            for _ in range(self._head.skip_lines):
                stream.readline()
            rows: list[list[str]] = []
            for number, row in enumerate(csv.reader(stream, delimiter=self._head.delimiter)):
                if (not row and not _blank_is_row(self._head)) or (
                    row and row[0].startswith("#") and len(row) != width
                ):
                    continue
                if len(row or [""]) != width:
                    raise CatalogError(
                        f"'{self._path}', line {number + self._head.skip_lines + 1}: expected {width} "
                        "columns, got "
                        f"{len(row)}; the file may be truncated: repair or remove the line"
                    )
                rows.append(row or [""])
                if len(rows) == _PLAIN_ROWS:
                    yield rows
                    rows = []
            if rows:
                yield rows


def _parse(values: list[str], kind: str, name: str) -> tuple[AnyArray, BoolArray]:
    """Return values and mask of one column of texts."""
    mask = np.array([v.strip() in NULLS for v in values], dtype=bool)
    dtype = _storage(kind)
    if dtype.kind == "U":
        return np.array(["" if m else v for v, m in zip(values, mask, strict=True)], dtype=np.str_), mask
    convert: Any = {"b": _boolean, "i": int, "u": int, "f": float}[dtype.kind]
    numbers = []
    for value, missing in zip(values, mask, strict=True):
        try:
            numbers.append(convert("0" if dtype.kind != "b" else "false") if missing else convert(value))
        except ValueError as error:
            raise _TypeMismatchError(name, f"invalid value {value!r}") from error
    try:
        return np.array(numbers, dtype=dtype), mask
    except OverflowError as error:
        raise _TypeMismatchError(name, f"a value is out of range of {dtype}") from error


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError(text)
    return lowered == "true"


class CsvSink:
    """Write a CSV file, gzipped if its name ends in ``.gz``.

    Notes
    -----
    CSV itself has no dtypes, units or metadata. They are kept in leading ``#`` comment lines, which the
    reader of gpzed understands (dtypes, units, masks, metadata are then exact) and others must skip. Masked
    values are empty fields, text is quoted. Columns with several values per row cannot be stored.
    """

    def __init__(self, path: Path, first: Catalog, metadata: Mapping[str, Any], zipped: bool = False) -> None:
        for name in first.names:
            if first[name].ndim > 1:
                raise CatalogError(
                    f"column {name!r} has shape {first[name].shape}, which CSV cannot hold; split or leave it out"
                )
            if name != name.strip() or not name.isprintable():
                raise CatalogError(f"column name {name!r} cannot be stored in CSV; remove blanks at its ends")
        self._names = first.names
        self._raw = path.open("wb")
        self._stream: Any = gzip.GzipFile("", "wb", 5, self._raw, mtime=0) if zipped else self._raw
        dtypes = {name: dtype_name(first[name].dtype) for name in first.names}
        text = head_lines(first.names, dtypes, first.units, dump_metadata(metadata) if metadata else None)
        self._stream.write(text.encode("utf-8"))

    def write(self, chunk: Catalog) -> None:
        """Append rows."""
        if not len(chunk):
            return
        masks = {name: chunk.mask(name) if chunk.has_mask(name) else None for name in self._names}
        values = {name: portable(chunk[name]) for name in self._names}
        if _has_pyarrow():
            pa = require("pyarrow", "writing CSV fast", "parquet")
            arrow = require("pyarrow.csv", "writing CSV fast", "parquet")
            table = pa.table(
                {name: pa.array(values[name], mask=masks[name], from_pandas=False) for name in self._names}
            )
            arrow.write_csv(table, self._stream, arrow.WriteOptions(include_header=False))
            return
        fields = [_format(values[name], masks[name]) for name in self._names]
        self._stream.write(("\n".join(map(",".join, zip(*fields, strict=True))) + "\n").encode("utf-8"))

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        self._raw.close()

    def abort(self) -> None:
        """Close without finishing."""
        for stream in (self._stream, self._raw):
            with contextlib.suppress(OSError, ValueError):
                stream.close()


def _format(values: AnyArray, mask: BoolArray | None) -> list[str]:
    if values.dtype.kind == "U":
        texts = ['"' + v.replace('"', '""') + '"' for v in values.tolist()]
    elif values.dtype.kind == "b":
        texts = ["true" if v else "false" for v in values.tolist()]
    else:
        texts = [str(v) for v in values]
    return texts if mask is None else ["" if m else t for t, m in zip(texts, mask, strict=True)]


class EcsvReader(WholeReader):
    """An ECSV file, read whole through astropy."""

    def __init__(self, path: Path) -> None:
        table = require("astropy.table", "reading ECSV", "fits")
        with reading(path, "ECSV"):
            read = table.Table.read(path, format="ascii.ecsv")
        super().__init__(from_astropy(read, path, "ecsv"))
