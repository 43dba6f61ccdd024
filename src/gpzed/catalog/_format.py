"""What every file format shares: the interface of readers and writers, errors about bad files, metadata as JSON."""

from __future__ import annotations

import importlib
import json
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from gpzed._types import AnyArray, BoolArray
from gpzed.catalog._names import missing_column_message, near_misses
from gpzed.catalog.lists import Lists
from gpzed.catalog.table import Catalog, Note, Provenance
from gpzed.errors import CatalogError, DataWarning, GPzError, MissingDependencyError

METADATA_KEY = "gpzed_metadata"
"""Key of the whole metadata, as JSON, in the files that gpzed writes."""


@dataclass(frozen=True)
class CatalogInfo:
    """What is known of a file without reading its rows."""

    path: str
    format: str
    names: tuple[str, ...]  # columns that can be read, in order
    dtypes: dict[str, str]  # NumPy dtype name by column; "str" for text
    units: dict[str, str]  # unit by column, where known
    n_rows: int
    metadata: dict[str, Any]  # what the file says about itself
    unsupported: dict[str, str] = field(default_factory=dict)  # columns that cannot be read, with the reason
    notes: dict[str, Note] = field(default_factory=dict)  # description and UCD by column, where known
    lists: frozenset[str] = frozenset()  # columns of lists that differ in length
    arrays: dict[str, int] = field(default_factory=dict)  # of FITS: columns of several numbers per row, and how many


class Reader(ABC):
    """A file of one format: what it holds, and its rows in chunks.

    The constructor reads the head of the file and sets `info`; a subclass then gives its rows in pieces of any size.
    """

    title: ClassVar[str]
    """Name of the format in messages; in lower case, its name in `gpzed.catalog.FORMATS`."""
    info: CatalogInfo

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def rows(self, names: tuple[str, ...], chunk_rows: int, start_row: int) -> Iterator[Catalog]:
        """Yield the rows from `start_row` on, best `chunk_rows` at a time; one empty table if the file has none."""

    def chunks(self, names: tuple[str, ...], chunk_rows: int, start_row: int) -> Iterator[Catalog]:
        """Yield tables of exactly `chunk_rows` rows (the last one shorter) from row `start_row` on."""
        pending: list[Catalog] = []
        with reading(self.path, self.title):
            for piece in self.rows(names, chunk_rows, start_row):
                pending.append(piece)
                while sum(map(len, pending)) >= chunk_rows:
                    table = Catalog.concatenate(pending)
                    pending = [table.slice(chunk_rows)] if len(table) > chunk_rows else []
                    yield table.slice(0, chunk_rows) if pending else table
            if pending and (len(pending[0]) or self.info.n_rows == 0):
                yield Catalog.concatenate(pending)

    def _describe(self, dtypes: dict[str, str], n_rows: int, **more: Any) -> None:
        facts: dict[str, Any] = {"units": {}, "metadata": {}, **more}
        path, format_name = str(self.path), self.title.lower()
        self.info = CatalogInfo(path, format_name, names=tuple(dtypes), dtypes=dtypes, n_rows=n_rows, **facts)

    def _table(self, columns: Mapping[str, tuple[Any, BoolArray | None]], row: int) -> Catalog:
        """Return a piece of the file that starts at `row`, from values and mask of each column."""
        return Catalog(
            {name: values for name, (values, _) in columns.items()},
            masks={name: mask for name, (_, mask) in columns.items() if mask is not None},
            units={name: unit for name, unit in self.info.units.items() if name in columns},
            notes=self.info.notes,
            metadata=self.info.metadata,
            provenance=Provenance(str(self.path), self.title.lower(), row),
        )


class Writer(ABC):
    """A file of one format being written, under its temporary name; made from the first chunk."""

    @staticmethod
    def refuse_lists(first: Catalog, format_name: str) -> None:
        """Raise if a column holds lists that differ in length."""
        for name in first.names:
            if isinstance(first[name], Lists):
                raise CatalogError(
                    f"column {name!r} holds lists of different lengths, which {format_name} output does not support; "
                    "write Parquet or HDF5, or leave the column out"
                )

    @abstractmethod
    def write(self, chunk: Catalog) -> None:
        """Append rows; the columns are those of the first chunk."""

    @abstractmethod
    def close(self) -> None:
        """Finish the file."""

    def abort(self) -> None:
        """Let go of the file, which will be removed."""
        with suppress(Exception):
            self.close()


def require(module: str, doing: str, extra: str) -> Any:
    """Import an optional package or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingDependencyError(
            f"{doing} needs {package}; install it with `pip install gpzed[{extra}]`"
        ) from error


def require_existing(file: Path) -> None:
    """Raise unless the file or folder exists, and name the one most like it; pipes and devices are no files."""
    if not file.exists():
        siblings = [p.name for p in file.parent.iterdir()] if file.parent.is_dir() else []
        near = near_misses(file.name, siblings)
        hint = f"did you mean '{file.with_name(near[0])}'?" if near else "check the path."
        raise CatalogError(f"'{file}' does not exist; {hint}")
    if not file.is_file() and not file.is_dir():
        raise CatalogError(f"'{file}' is no file but a pipe or device, which cannot be read twice; write a file first")


@contextmanager
def reading(path: Path, format_name: str, what: str = "") -> Iterator[None]:
    """Turn whatever a library raises over a bad file into one CatalogError."""
    try:
        yield
    except GPzError:
        raise
    except MemoryError as error:
        raise CatalogError(
            f"'{path}'{what} does not fit into memory as {format_name}: {str(error) or 'no more memory'}; read fewer "
            "rows or columns at a time; if the file is small, it is damaged: fetch it again"
        ) from error
    except PermissionError as error:
        raise CatalogError(f"'{path}' cannot be read: {error.strerror}; check the file's permissions") from error
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise CatalogError(
            f"'{path}'{what} cannot be read as {format_name}: {reason}; the file may be truncated, damaged or of "
            "another format: fetch it again, or name the format with `format=`"
        ) from error


def choose_columns(info: CatalogInfo, columns: Sequence[str] | None) -> tuple[str, ...]:
    """Return the columns to read; unsupported ones warn unless asked for by name, then they raise."""
    if columns is None:
        if info.unsupported:
            listed = "; ".join(f"{name!r}: {why}" for name, why in info.unsupported.items())
            warnings.warn(
                f"'{info.path}': {len(info.unsupported)} column(s) left out ({listed})", DataWarning, stacklevel=3
            )
        if not info.names:
            raise CatalogError(f"'{info.path}' has no column that can be read; give a table of numbers")
        return info.names
    if not columns:
        raise CatalogError(f"'{info.path}': `columns` is empty; name at least one column, or None for all")
    for name in columns:
        if name in info.unsupported:
            raise CatalogError(
                f"'{info.path}': column {name!r} cannot be read ({info.unsupported[name]}); "
                "leave it out or convert the file"
            )
        if name not in info.names:
            raise CatalogError(missing_column_message(name, info.names, f"'{info.path}'"))
    return tuple(dict.fromkeys(columns))


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the dtype's name for display and storage, "str" for text of any width."""
    return "str" if dtype.kind in "US" else dtype.name


def _plain_json(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def dump_metadata(metadata: Mapping[str, Any]) -> str:
    """Return metadata as one line of ASCII JSON."""
    for key, value in metadata.items():
        try:
            json.dumps(value, default=_plain_json)
        except (TypeError, ValueError) as error:
            raise CatalogError(
                f"metadata {key!r} cannot be stored: {error}; give text, numbers, lists or dictionaries"
            ) from error
    return json.dumps(dict(metadata), default=_plain_json)


def metadata_entries(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return metadata as text by key: all of it as JSON, and plain entries for programs that do not know our key."""
    plain = {str(k): str(v) for k, v in metadata.items() if isinstance(v, str | int | float | bool)}
    return {**plain, METADATA_KEY: dump_metadata(metadata)} if metadata else {}


def load_metadata(text: str) -> dict[str, Any]:
    """Return metadata stored by `dump_metadata`; damaged text is kept as it is."""
    try:
        stored = json.loads(text)
    except (ValueError, RecursionError):
        return {METADATA_KEY: text}
    return stored if isinstance(stored, dict) else {METADATA_KEY: stored}


def portable(values: AnyArray) -> AnyArray:
    """Return time stamps as ISO text and half floats as float32, for formats that lack them."""
    if values.dtype.kind == "M":
        return np.datetime_as_string(values)
    return values.astype(np.float32) if values.dtype == np.float16 else values


def is_gzipped(path: Path) -> bool:
    """Return whether the file starts like a gzip file, whatever its name."""
    with path.open("rb") as stream:
        return stream.read(2) == b"\x1f\x8b"


def spans(n_rows: int, chunk_rows: int, start_row: int) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of the chunks; one empty span if the file has no rows at all."""
    if n_rows == 0 and start_row == 0:
        yield 0, 0
    for start in range(start_row, n_rows, chunk_rows):
        yield start, min(start + chunk_rows, n_rows)
