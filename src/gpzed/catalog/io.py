"""Catalogue files in and out: whole or in chunks, the format chosen by suffix or by name."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from gpzed._files import commit, create_beside, discard
from gpzed.catalog._ascii import AsciiReader
from gpzed.catalog._astropy import EcsvReader, VotableReader
from gpzed.catalog._csv import CsvReader, CsvWriter
from gpzed.catalog._fits import FitsReader, FitsWriter
from gpzed.catalog._format import CatalogInfo, Reader, Writer, choose_columns, reading, require_existing
from gpzed.catalog._hdf5 import Hdf5Reader, Hdf5Writer
from gpzed.catalog._names import near_misses
from gpzed.catalog._parquet import ParquetReader, ParquetWriter
from gpzed.catalog._whole import EcsvWriter, VotableWriter
from gpzed.catalog.remote import is_address, local_path, sent_to
from gpzed.catalog.table import Catalog, check_same_columns
from gpzed.errors import CatalogError, GPzError


class _Format(NamedTuple):
    """A file format: its suffixes, how it is read and, if it can be, written."""

    suffixes: tuple[str, ...]
    reader: type[Reader]
    writer: Callable[..., Writer] | None = None


_FORMATS = {
    "fits": _Format((".fits", ".fit", ".fts", ".fits.gz", ".fit.gz"), FitsReader, FitsWriter),
    "parquet": _Format((".parquet", ".pq"), ParquetReader, ParquetWriter),
    "hdf5": _Format((".hdf5", ".h5", ".hdf"), Hdf5Reader, Hdf5Writer),
    "csv": _Format((".csv", ".csv.gz"), CsvReader, CsvWriter),
    "ecsv": _Format((".ecsv",), EcsvReader, EcsvWriter),
    "ascii": _Format((".dat", ".txt", ".cat", ".tbl", ".mrt", ".tsv"), AsciiReader),
    "votable": _Format((".vot", ".xml", ".votable"), VotableReader, VotableWriter),
}
FORMATS = {name: entry.suffixes for name, entry in _FORMATS.items()}
"""Format names and the suffixes that mean them."""
WRITABLE = tuple(name for name, entry in _FORMATS.items() if entry.writer)
"""Formats that can be written."""
CHUNK_ROWS = 262_144
"""Rows per chunk unless told otherwise: a few tens of megabytes for a typical catalogue."""


def format_of(path: str | os.PathLike[str], format: str | None = None, *, writing: bool = False) -> str:
    """Return the name of a file's format: `format` if given, else what the suffix means; a folder holds Parquet files.

    With `writing`, the error for unknown suffixes lists those that can be written.

    Examples
    --------
    >>> format_of("galaxies.fits.gz")
    'fits'
    """
    if format is not None:
        if format.lower() not in FORMATS:
            near = near_misses(format, FORMATS)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise CatalogError(f"unknown `format` {format!r}; {hint}Valid formats: {', '.join(FORMATS)}")
        return format.lower()
    name = Path(path).name.lower()
    for known, suffixes in FORMATS.items():
        if name.endswith(suffixes):
            return known
    if Path(path).is_dir():
        return "parquet"
    usable = WRITABLE if writing else tuple(FORMATS)
    listed = "; ".join(f"{known}: {' '.join(FORMATS[known])}" for known in usable)
    hint = "" if writing else "; or name it with `format=`"
    raise CatalogError(f"'{path}': the suffix does not tell the format; valid suffixes are {listed}{hint}")


def _open_reader(path: str | os.PathLike[str], format: str | None, hdf5_group: str | None) -> Reader:
    file = Path(local_path(path))
    require_existing(file)
    chosen = format_of(file, format)
    if file.is_file() and file.stat().st_size == 0:
        raise CatalogError(f"'{file}' is empty (0 bytes); expected a {chosen} file: fetch or write it again")
    if file.is_dir() and chosen != "parquet":
        raise CatalogError(f"'{file}' is a folder; only a folder of Parquet files can be read, not of {chosen}")
    options = {"group": hdf5_group} if chosen == "hdf5" else {}
    if hdf5_group is not None and not options:
        raise CatalogError(f"`hdf5_group` is {hdf5_group!r} but '{file}' is read as {chosen}; leave it out")
    reader = _FORMATS[chosen].reader
    with reading(file, reader.title):
        return reader(file, **options)


def catalog_info(
    path: str | os.PathLike[str], *, format: str | None = None, hdf5_group: str | None = None
) -> CatalogInfo:
    """Return columns, dtypes, units, number of rows and metadata of a file; parameters as for `iter_catalog`.

    FITS, Parquet and HDF5 are asked for their headers only. CSV has none: it is read through once, in constant memory.
    ECSV, VOTable and ASCII tables are read whole.

    Examples
    --------
    >>> from gpzed.catalog import Catalog, catalog_info, write_catalog
    >>> write_catalog(Catalog({"mag_g": [20.1, 21.5], "z_spec": [0.1, 0.3]}), "galaxies.csv")
    >>> info = catalog_info("galaxies.csv")
    >>> info.names, info.n_rows
    (('mag_g', 'z_spec'), 2)
    """
    return _open_reader(path, format, hdf5_group).info


def iter_catalog(
    path: str | os.PathLike[str],
    *,
    chunk_rows: int = CHUNK_ROWS,
    columns: Sequence[str] | None = None,
    format: str | None = None,
    start_row: int = 0,
    hdf5_group: str | None = None,
) -> Iterator[Catalog]:
    """Iterate over a file in chunks, in row order and constant memory.

    A file without rows gives one empty chunk, which has the columns. Missing files and columns raise `CatalogError` at
    the call, damage further in when it is reached.

    Parameters
    ----------
    path : path-like
        File, or folder of Parquet files (read in the order of their names); or an address that fsspec knows (s3://...,
        https://...), which is fetched whole.
    chunk_rows : int
        Rows per chunk; every chunk but the last has exactly this many.
    columns : sequence of str, optional
        Columns to read, in this order; all by default.
    format : str, optional
        Name of the format if the suffix does not tell it.
    start_row : int
        First row to read.
    hdf5_group : str, optional
        Group of an HDF5 file that holds the columns, if there are several.

    Examples
    --------
    >>> from gpzed.catalog import Catalog, iter_catalog, write_catalog
    >>> write_catalog(Catalog({"mag_g": [20.1, 21.5], "z_spec": [0.1, 0.3]}), "galaxies.csv")
    >>> [len(chunk) for chunk in iter_catalog("galaxies.csv", chunk_rows=1)]
    [1, 1]
    """
    if chunk_rows < 1:
        raise CatalogError(f"`chunk_rows` is {chunk_rows}; expected at least 1")
    reader = _open_reader(path, format, hdf5_group)
    names = choose_columns(reader.info, columns)
    if not 0 <= start_row <= reader.info.n_rows:
        raise CatalogError(
            f"`start_row` is {start_row} but '{path}' has {reader.info.n_rows} rows; expected a row in it"
        )
    return reader.chunks(names, chunk_rows, start_row)


def read_catalog(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    format: str | None = None,
    hdf5_group: str | None = None,
) -> Catalog:
    """Read a whole file into memory; parameters as for `iter_catalog`.

    Examples
    --------
    >>> from gpzed.catalog import Catalog, read_catalog, write_catalog
    >>> write_catalog(Catalog({"mag_g": [20.1, 21.5], "z_spec": [0.1, 0.3]}), "galaxies.csv")
    >>> read_catalog("galaxies.csv")["z_spec"].tolist()
    [0.1, 0.3]
    """
    chunks = iter_catalog(path, chunk_rows=1 << 20, columns=columns, format=format, hdf5_group=hdf5_group)
    return Catalog.concatenate(chunks)


class CatalogWriter:
    """A catalogue file being written; use it as a context, made by `open_writer`.

    The file appears under its name only when the context ends without an error; until then it has a temporary name
    (``.name.xxxx.part``) in the same folder, which is removed on any error. `rows_written` counts the rows so far.
    """

    def __init__(self, path: Path, make_writer: Callable[[Path, Catalog], Writer]) -> None:
        self.path = path
        self.rows_written = 0
        self._make_writer = make_writer
        self._writer: Writer | None = None
        self._first: Catalog | None = None
        self._temporary: Path | None = None  # None before the context begins and after it has ended or failed

    def __enter__(self) -> CatalogWriter:
        with self._guarded():
            self._temporary = create_beside(self.path)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None or self._temporary is None:
            self._abort()
            return
        with self._guarded():
            if self._writer is None:
                raise CatalogError(
                    f"'{self.path}': nothing was written; write at least one chunk (it may have no rows)"
                )
            self._writer.close()
            commit(self._temporary, self.path)
            self._writer = self._temporary = None

    def write(self, chunk: Catalog) -> None:
        """Append the rows of a chunk; the first chunk settles columns, dtypes and units."""
        if self._temporary is None:
            raise CatalogError(f"'{self.path}' is not open for writing; use `with open_writer(...) as writer:`")
        with self._guarded():
            if self._writer is None or self._first is None:
                if not chunk.names:
                    raise CatalogError(f"'{self.path}': the table to write has no columns; give at least one")
                self._writer = self._make_writer(self._temporary, chunk)
                self._first = chunk.slice(0, 0)
            check_same_columns(self._first, chunk)
            self._writer.write(chunk.select(self._first.names))
            self.rows_written += len(chunk)

    def _abort(self) -> None:
        if self._writer is not None:
            self._writer.abort()
        if self._temporary is not None:
            discard(self._temporary)
        self._writer = self._temporary = None

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Clear up on any error, and tell what a failing disk means."""
        try:
            yield
        except BaseException as error:
            self._abort()
            if isinstance(error, OSError | RuntimeError) and not isinstance(error, GPzError):
                raise CatalogError(_disk_message(self.path, error, self.rows_written)) from error
            raise


def _disk_message(path: Path, error: Exception, rows: int) -> str:
    text = " ".join(str(error).split())
    full = getattr(error, "errno", None) == errno.ENOSPC or "errno = 28" in text or "No space left" in text
    reason = "the disk is full" if full else text
    todo = "free some space or choose another disk" if full else "check the folder and the disk"
    return (
        f"'{path}' could not be written: {reason} (after {rows} rows); nothing was left under this name and the "
        f"temporary file was removed; {todo}, then run again"
    )


def open_writer(
    path: str | os.PathLike[str],
    format: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    *,
    compression: str | None = None,
    hdf5_group: str | None = None,
) -> CatalogWriter:
    """Open a catalogue file for writing in chunks.

    Parameters
    ----------
    path : path-like
        File to write; replaced when the new one is whole.
    format : str, optional
        One of `WRITABLE`, if the suffix does not tell it.
    metadata : mapping, optional
        Stored in the file; by default the metadata of the first chunk.
    compression : str, optional
        Parquet: a codec of pyarrow ("lz4" by default; "zstd", "snappy", "none"). HDF5: "gzip" or "lzf", none
        by default.
    hdf5_group : str, optional
        Group of an HDF5 file; "photometry" by default.

    Notes
    -----
    What the formats cannot hold of a `Catalog`: Parquet nothing but columns of three dimensions; HDF5 time
    stamps (they become ISO text; masks go to a group of their own); FITS masks of floats (they become NaN),
    trailing blanks of text, time stamps, 16-bit floats; CSV columns with several values per row, and dtypes,
    units and metadata only in comment lines that other readers skip.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "out.csv")
    >>> with open_writer(path, metadata={"survey": "demo"}) as writer:
    ...     writer.write(Catalog({"id": [1, 2], "z_phot": [0.1, 0.2]}))
    ...     writer.write(Catalog({"id": [3], "z_phot": [0.3]}))
    >>> len(read_catalog(path))
    3
    """
    file = Path(path)
    chosen = format_of(file, format, writing=True)
    entry = _FORMATS[chosen]
    if entry.writer is None:
        raise CatalogError(f"'{file}': {chosen} can be read but not written; write one of {', '.join(WRITABLE)}")
    if chosen == "fits" and file.name.lower().endswith(".gz"):
        raise CatalogError(f"'{file}': gzipped FITS can be read but not written; drop the '.gz'")
    if file.is_dir():
        raise CatalogError(f"'{file}' is a folder; give the name of a file to write")
    if not file.parent.is_dir():
        raise CatalogError(f"'{file}' cannot be written: folder '{file.parent}' does not exist; create it first")

    if chosen == "csv" and file.name.lower().endswith(".gz"):
        compression = "gzip"
    options = {"group": hdf5_group} if chosen == "hdf5" else {}
    writer = partial(entry.writer, compression=compression, **options)
    return CatalogWriter(
        file, lambda temporary, first: writer(temporary, first, dict(first.metadata if metadata is None else metadata))
    )


def write_catalog(
    catalog: Catalog,
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    compression: str | None = None,
    hdf5_group: str | None = None,
) -> None:
    """Write a table to a file, or to an address, whole or not at all; parameters as for `open_writer`.

    Examples
    --------
    >>> from gpzed.catalog import Catalog, catalog_info, write_catalog
    >>> write_catalog(Catalog({"mag_g": [20.1, 21.5], "z_spec": [0.1, 0.3]}), "galaxies.csv")
    >>> catalog_info("galaxies.csv").names
    ('mag_g', 'z_spec')
    """
    if is_address(path):
        with sent_to(os.fspath(path), "the table") as file:
            write_catalog(
                catalog, file, format=format, metadata=metadata, compression=compression, hdf5_group=hdf5_group
            )
        return
    with open_writer(path, format, metadata, compression=compression, hdf5_group=hdf5_group) as writer:
        for start in range(0, max(len(catalog), 1), CHUNK_ROWS):
            writer.write(catalog.slice(start, start + CHUNK_ROWS))
