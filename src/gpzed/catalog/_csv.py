"""CSV through pyarrow, in chunks: comment lines, headers and types that hold for the whole file are added here."""

from __future__ import annotations

import contextlib
import csv
import gzip
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gpzed.catalog._arrow import to_arrow, to_numpy
from gpzed.catalog._format import Reader, Writer, dtype_name, dump_metadata, is_gzipped, portable, require
from gpzed.catalog._names import is_number, refuse_repeated
from gpzed.catalog.table import Catalog, Note
from gpzed.errors import CatalogError

_COLUMNS_MARK = "# gpzed_columns: "
"""Comment line in which gpzed keeps dtypes and units of the columns."""
_METADATA_MARK = "# gpzed_metadata: "
"""Comment line in which gpzed keeps the metadata."""
_NULLS = ["", "null", "NULL", "Null", "NA", "N/A", "n/a", "None", "none", "--", "\\N", "<NA>"]
"""Fields that mean "no value"; NaN is a value."""
_TYPES = ("int64", "uint64", "float64", "bool", "str")
"""What a column may turn out to hold, each tried when a value does not fit the one before."""
_BLOCK_BYTES = 1 << 22
_MAX_HEAD = 1 << 22
"""Characters that comments and header may take together."""
_MAX_COLUMNS = 10_000
INDEX = "index"
"""Name of a first column that has none: pandas and R write the numbers, or names, of rows there."""


class CsvReader(Reader):
    """A CSV file with a header line, after any number of ``#`` comment lines.

    A CSV file does not say what its columns hold, and a guess from the first rows (as pyarrow makes it) can be wrong
    further down (99 at the top, 22.5 below). So the file is read once from end to end to settle the types and count
    the rows; a column is integer only if every value is. Files written by gpzed declare their types.
    """

    title = "CSV"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._pa = require("pyarrow", "reading CSV", "csv")
        self._csv = require("pyarrow.csv", "reading CSV", "csv")
        self._head = head = _read_head(path)
        types = dict(head.dtypes) or self._guess()
        while True:
            checked = head.names[:1] if head.dtypes else head.names
            try:
                n_rows = sum(batch.num_rows for batch in self._batches(types, checked))
                break
            except _TypeMismatchError as mismatch:
                self._widen(types, mismatch)
        self._describe(types, n_rows, units=head.units, notes=head.notes, metadata=head.metadata)

    def _guess(self) -> dict[str, str]:
        """Return the types that pyarrow finds in the first block, and the narrowest for a column without values."""
        first = next(self._batches({}, self._head.names, read_ahead=False), None)
        if first is None:
            return dict.fromkeys(self._head.names, "float64")
        usual = {"null": "int64", "int64": "int64", "double": "float64", "bool": "bool"}
        types = {item.name: usual.get(str(item.type), "str") for item in first.schema}
        for name in [name for name, kind in types.items() if kind == "float64"]:
            values = first.column(name).drop_null().to_numpy()
            if values.max() >= 2.0**63 and not np.mod(values, 1).any():  # whole numbers that only uint64 can hold
                types[name] = "uint64"
        return types

    def _widen(self, types: dict[str, str], mismatch: _TypeMismatchError) -> None:
        kind = types[mismatch.column]
        if self._head.dtypes or kind == "str":
            raise CatalogError(
                f"'{self.path}': column {mismatch.column!r} is declared {kind} but {mismatch}; "
                "repair the value, or remove the '# gpzed_columns' line to have the types guessed"
            ) from mismatch
        types[mismatch.column] = _TYPES[_TYPES.index(kind) + 1]

    def rows(self, names: tuple[str, ...], chunk_rows: int, start_row: int) -> Iterator[Catalog]:
        """Yield parsed blocks of the file; rows before `start_row` are parsed and dropped."""
        types = self.info.dtypes
        if self.info.n_rows == 0:
            yield self._table({name: (np.empty(0, dtype=types[name]), None) for name in names}, 0)
        row = 0
        try:
            for batch in self._batches(types, names):
                skip = max(start_row - row, 0)
                if skip < batch.num_rows:
                    yield self._convert(batch.slice(skip), names, row + skip)
                row += batch.num_rows
        except _TypeMismatchError as mismatch:
            self._widen(dict(types), mismatch)
            raise CatalogError(f"'{self.path}' changed while it was read: {mismatch}; read it again") from mismatch

    def _convert(self, batch: Any, names: tuple[str, ...], row: int) -> Catalog:
        columns = {}
        for name in names:
            values, mask = to_numpy(self._pa, batch.column(name))
            kind = self.info.dtypes[name]
            columns[name] = (values if kind == "str" else values.astype(kind, copy=False)), mask
        return self._table(columns, row)

    def _batches(self, types: Mapping[str, str], names: tuple[str, ...], read_ahead: bool = True) -> Iterator[Any]:
        """Yield the named columns of the file as record batches of the given types."""
        head, compression = self._head, "gzip" if is_gzipped(self.path) else None
        # an empty line is a row, a masked value, only in a one-column table that gpzed wrote
        one_column = bool(head.dtypes) and len(head.names) == 1
        options = (
            self._csv.ReadOptions(
                use_threads=read_ahead, block_size=_BLOCK_BYTES, skip_rows=head.skip_lines, column_names=head.names
            ),
            self._csv.ParseOptions(
                delimiter=head.delimiter,
                newlines_in_values=True,
                ignore_empty_lines=not one_column,
                invalid_row_handler=lambda row: "skip" if row.text.startswith("#") else "error",
            ),
            self._csv.ConvertOptions(
                column_types={name: self._parsed_as(kind) for name, kind in types.items() if name in names},
                include_columns=list(names),
                null_values=_NULLS,
                strings_can_be_null=True,
                quoted_strings_can_be_null=not head.dtypes,
                true_values=["true", "True", "TRUE"],
                false_values=["false", "False", "FALSE"],
            ),
        )
        with self._pa.input_stream(str(self.path), compression=compression) as source:
            try:
                yield from self._csv.open_csv(source, *options)
            except self._pa.ArrowInvalid as error:
                mismatch = re.search(r"In CSV column #(\d+): (.*)", str(error), flags=re.DOTALL)
                if mismatch:
                    raise _TypeMismatchError(head.names[int(mismatch[1])], mismatch[2]) from error
                if "Empty CSV file" not in str(error):
                    raise

    def _parsed_as(self, name: str) -> Any:
        if name == "str" or name.startswith("datetime64"):
            return self._pa.string()
        return self._pa.from_numpy_dtype(np.dtype(np.float32 if name == "float16" else name))


class _TypeMismatchError(Exception):
    """A value does not fit the type its column was taken to have."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(reason)
        self.column = column


@dataclass(frozen=True)
class _Head:
    """What the lines before the data say; dtypes, units and metadata only in files of gpzed."""

    names: tuple[str, ...]
    skip_lines: int
    delimiter: str
    dtypes: dict[str, str] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    notes: dict[str, Note] = field(default_factory=dict)


def _read_head(path: Path) -> _Head:
    """Read comments and header, which may be the last of the comments."""
    comments: list[str] = []
    opener: Any = gzip.open if is_gzipped(path) else open
    with opener(path, "rt", encoding="utf-8-sig", newline="") as stream:
        left = _MAX_HEAD
        while line := stream.readline(left):
            left -= len(line)
            if left <= 0:
                raise ValueError(f"comments and header go on for more than {_MAX_HEAD} characters")
            if line.strip() and not line.startswith("#"):
                break
            comments.append(line.rstrip("\r\n"))
        following = stream.readline(_MAX_HEAD)
        stream.read(_BLOCK_BYTES)  # raises if the text is not UTF-8, which pyarrow reports less clearly
    delimiter = next((mark for mark in ",\t;" if mark in line), ",")
    names = _fields(line, delimiter)
    skip = len(comments) + 1
    header = _fields(comments[-1].lstrip("# \t"), delimiter) if comments else []
    numbers = [is_number(name) for name in names]
    next_numbers = [is_number(value) for value in _fields(following, delimiter)]
    is_header = any(below and not above for above, below in zip(numbers, next_numbers, strict=False))
    if all(numbers) or (any(numbers) and len(header) == len(names) and not is_header):
        if not names or len(header) != len(names):
            raise CatalogError(
                f"'{path}' has no header line: its first line is {line.strip()[:80]!r}; "
                "the first line that is no comment must name the columns"
            )
        names, skip = header, skip - 1
    if len(names) > _MAX_COLUMNS:
        raise CatalogError(f"'{path}' has {len(names)} columns; expected at most {_MAX_COLUMNS}: check the header line")
    if names[0] == "" and INDEX not in names:
        names[0] = INDEX
    if not all(names):
        raise CatalogError(
            f"'{path}': column {names.index('') + 1} of {len(names)} has no name; complete the header line"
        )
    refuse_repeated(names, f"'{path}'")
    columns, metadata = _marked(comments, _COLUMNS_MARK), _marked(comments, _METADATA_MARK)
    if list(columns) != names or not all(isinstance(column, dict) for column in columns.values()):
        return _Head(tuple(names), skip, delimiter, metadata=metadata)
    dtypes = {name: str(column.get("dtype", "str")) for name, column in columns.items()}
    units = {name: str(column["unit"]) for name, column in columns.items() if "unit" in column}
    notes = {name: Note(*(str(column.get(key, "")) for key in Note._fields)) for name, column in columns.items()}
    return _Head(tuple(names), skip, delimiter, dtypes, units, metadata, notes)


def _fields(line: str, delimiter: str) -> list[str]:
    rows = csv.reader([line] if line.strip() else [], delimiter=delimiter, skipinitialspace=True)
    return [name.strip() for name in next(rows, [])]


def _marked(comments: Sequence[str], mark: str) -> dict[str, Any]:
    """Return the JSON of the comment that starts with `mark`; nothing if it is absent or damaged."""
    for line in comments:
        if line.startswith(mark):
            with contextlib.suppress(ValueError, RecursionError):
                found = json.loads(line[len(mark) :])
                return found if isinstance(found, dict) else {}
    return {}


class CsvWriter(Writer):
    """Write a CSV file, gzipped if `compression` is "gzip".

    CSV itself has no dtypes, units or metadata. They are kept in leading ``#`` comment lines, which the
    reader of gpzed understands (dtypes, units, masks, metadata are then exact) and others must skip. Masked
    values are empty fields, text is quoted. Columns with several values per row cannot be stored.
    """

    def __init__(self, path: Path, first: Catalog, metadata: Mapping[str, Any], compression: str | None = None) -> None:
        self._pa = require("pyarrow", "writing CSV", "csv")
        self._csv = require("pyarrow.csv", "writing CSV", "csv")
        self.refuse_lists(first, "CSV")
        for name in first.names:
            if first[name].ndim > 1:
                raise CatalogError(
                    f"column {name!r} has shape {first[name].shape}, which CSV cannot hold; split or leave it out"
                )
            if name != name.strip() or not name.isprintable():
                raise CatalogError(f"column name {name!r} cannot be stored in CSV; remove blanks at its ends")
        columns = {name: {"dtype": dtype_name(first[name].dtype)} for name in first.names}
        for name, unit in first.units.items():
            columns[name]["unit"] = unit
        for name, note in first.notes.items():
            columns[name] |= {key: text for key, text in note._asdict().items() if text}
        text = _METADATA_MARK + dump_metadata(metadata) + "\n" if metadata else ""
        text += _COLUMNS_MARK + json.dumps(columns) + "\n"
        text += ",".join('"' + name.replace('"', '""') + '"' for name in first.names) + "\n"
        self._raw = path.open("wb")
        self._stream: Any = gzip.GzipFile("", "wb", 5, self._raw, mtime=0) if compression == "gzip" else self._raw
        self._stream.write(text.encode("utf-8"))

    def write(self, chunk: Catalog) -> None:
        """Append rows."""
        arrays = [to_arrow(self._pa, portable(chunk[name]), chunk.masks.get(name)) for name in chunk.names]
        table = self._pa.Table.from_arrays(arrays, names=list(chunk.names))
        if len(chunk):
            self._csv.write_csv(table, self._stream, self._csv.WriteOptions(include_header=False))

    def close(self) -> None:
        """Close the file."""
        with self._raw:
            self._stream.close()
