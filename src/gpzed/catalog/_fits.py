"""FITS binary tables: headers through astropy, rows through NumPy, a chunk at a time.

The rows are coded and decoded here because no library does all that a catalogue needs. astropy cannot append rows,
reads gzipped tables whole, and drops the nulls of logical and shifted columns. fitsio ignores nulls altogether, stores
only ASCII text, appends rows five times more slowly than this module, and is under the GPL.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from gpzed._types import AnyArray, BoolArray
from gpzed.catalog._format import (
    METADATA_KEY,
    Reader,
    Writer,
    dtype_name,
    dump_metadata,
    is_gzipped,
    load_metadata,
    portable,
    require,
    spans,
)
from gpzed.catalog._names import refuse_repeated
from gpzed.catalog.table import Catalog, Note
from gpzed.errors import CatalogError

_TYPES: dict[str, tuple[str, str, int]] = {
    "bool": ("L", "i1", 0),
    "uint8": ("B", "u1", 0),
    "int8": ("B", "u1", -(2**7)),
    "int16": ("I", ">i2", 0),
    "uint16": ("I", ">i2", 2**15),
    "int32": ("J", ">i4", 0),
    "uint32": ("J", ">i4", 2**31),
    "int64": ("K", ">i8", 0),
    "uint64": ("K", ">i8", 2**63),
    "float32": ("E", ">f4", 0),
    "float64": ("D", ">f8", 0),
}
"""FITS code, stored dtype and TZERO by NumPy type; what FITS lacks is stored shifted by half its range."""
_SHIFTED = {(np.dtype(stored), zero): np.dtype(name) for name, (_, stored, zero) in _TYPES.items() if zero}
_UNSUPPORTED = {
    "P": "variable-length array",
    "Q": "variable-length array",
    "X": "bit array",
    "C": "complex numbers",
    "M": "complex numbers",
}
_NOTE_CARDS = "TCOMM", "TUCD"
"""Cards of a column's description and UCD, as other programs (STILTS, TOPCAT, astropy) write and read them."""
_METADATA_CARD = METADATA_KEY[:8].upper()
_NOT_METADATA = re.compile(r"(COMMENT|HISTORY|CHECKSUM|DATASUM|EXTNAME|LONGSTRN|CONTINUE|T[A-Z]{3,4}\d+|)")
_BLOCK = 2880
_COPY_BYTES = 1 << 24
_MAX_HEADER_BYTES = 1 << 25


@dataclass
class _Column:
    """How a column is stored: FITS code, dtype, scale, zero and null of its raw numbers."""

    code: str
    raw: np.dtype[Any]
    shape: tuple[int, ...] = ()
    scale: float = 1
    zero: float = 0
    null: int | None = None
    blank_is_null: bool = False
    is_masked: bool = False
    uses_null: bool = False

    def decode(self, raw: AnyArray) -> tuple[AnyArray, BoolArray | None]:
        """Return native values and mask."""
        if self.code == "L":
            return raw == ord("T"), raw == 0
        if self.code == "A":
            return np.char.rstrip(_decoded(raw), " "), raw == b"" if self.blank_is_null and raw.ndim == 1 else None
        values = raw.astype(raw.dtype.newbyteorder("="))
        mask = None if self.null is None or values.dtype.kind == "f" else values == self.null
        if (self.scale, self.zero) == (1, 0):
            return values, mask
        shifted = _SHIFTED.get((self.raw, int(self.zero))) if self.scale == 1 else None
        if shifted is not None:
            return _flipped(values).view(shifted), mask
        return values.astype(np.float64) * self.scale + self.zero, mask

    def encode(self, values: AnyArray, mask: BoolArray | None) -> AnyArray:
        """Return what to store; an empty text is a blank, a masked one nothing, as FITS lets readers tell."""
        if self.code == "A":
            raw = np.where(values == "", b" ", _encoded(values))
            return raw if mask is None else np.where(mask, b"", raw)
        if self.code == "L":
            values = np.where(values, ord("T"), ord("F")).astype(np.int8)
        elif self.zero:
            values = _flipped(values).view(self.raw.newbyteorder("="))
        if mask is None or self.code in "ED":
            return values
        return np.where(mask, np.array(self.null or 0, dtype=values.dtype), values)


def _flipped(values: AnyArray) -> AnyArray:
    """Return values with the top bit flipped: a shift by half the range that stays exact in 64 bits."""
    unsigned = np.dtype(f"u{values.dtype.itemsize}")
    return np.asarray(values.view(unsigned) ^ unsigned.type(1 << (8 * unsigned.itemsize - 1)))


def _decoded(raw: AnyArray) -> AnyArray:
    try:
        return raw.astype(np.str_)  # ASCII only, and many times faster
    except UnicodeDecodeError:
        return np.char.decode(raw, "utf-8")


def _encoded(values: AnyArray) -> AnyArray:
    """Return text as UTF-8 no wider than the longest entry needs."""
    try:
        raw = values.astype(np.bytes_)
    except UnicodeEncodeError:
        raw = np.char.encode(values, "utf-8")
    return raw.astype(f"S{max(np.char.str_len(raw).max(initial=0), 1)}")


class FitsReader(Reader):
    """The first binary table of a FITS file, plain or gzipped."""

    title = "FITS"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        fits = require("astropy.io.fits", "reading FITS", "fits")
        self._gzipped = is_gzipped(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._describe_table(self._first_table(fits))
        held = (path.stat().st_size - self._offset) // max(self._dtype.itemsize, 1)
        if held < self.info.n_rows and not self._gzipped:
            raise CatalogError(
                f"'{path}' is truncated: its header announces {self.info.n_rows} rows of "
                f"{self._dtype.itemsize} bytes, the file holds {max(held, 0)}; fetch it again"
            )

    def _open(self) -> Any:
        return (gzip.open if self._gzipped else open)(self.path, "rb")

    def _first_table(self, fits: Any) -> Any:
        """Return the table as its header describes it, and note where its rows begin.

        `astropy.io.fits.open` would unpack gzipped files whole, and believe what damaged headers say of their size.
        """
        seen: list[str] = []
        with self._open() as stream:
            for raw, header in _hdus(stream, fits):
                if _is_table(header):
                    if not 0 <= header["TFIELDS"] <= 999:
                        raise ValueError(f"TFIELDS is {header['TFIELDS']}; a table has at most 999 columns")
                    titles = (header.get(f"TTYPE{i}") for i in range(1, header["TFIELDS"] + 1))
                    refuse_repeated([str(title) for title in titles if title], f"'{self.path}'")
                    self._offset: int = stream.tell()
                    return fits.BinTableHDU.fromstring(raw)
                kind = header.get("XTENSION", "IMAGE")
                note = "tile-compressed" if kind == "BINTABLE" else kind
                seen.append(f"{len(seen)}: {header.get('EXTNAME', 'unnamed' if seen else 'PRIMARY')} ({note})")
        raise CatalogError(
            f"'{self.path}' has no binary table; it has HDUs {', '.join(seen)}; give a file with a BINTABLE extension"
        )

    def _describe_table(self, hdu: Any) -> None:
        self._dtype = np.dtype(hdu.columns.dtype.newbyteorder(">"))
        n_rows, width = hdu.header["NAXIS2"], hdu.header["NAXIS1"]
        if width != self._dtype.itemsize or n_rows < 0:
            raise ValueError(
                f"NAXIS1 and NAXIS2 are {width} and {n_rows}, the columns take {self._dtype.itemsize} bytes"
            )
        ours = load_metadata(hdu.header[_METADATA_CARD]) if _METADATA_CARD in hdu.header else None
        self._columns: dict[str, _Column] = {}
        units, notes, unsupported = {}, {}, {}
        for i, column in enumerate(hdu.columns, start=1):
            code = column.format.format
            if code in _UNSUPPORTED:
                unsupported[column.name] = _UNSUPPORTED[code]
                continue
            scale, zero = hdu.header.get(f"TSCAL{i}", 1), hdu.header.get(f"TZERO{i}", 0)
            raw = self._dtype[column.name].base
            self._columns[column.name] = _Column(
                code, raw, (), scale, zero, hdu.header.get(f"TNULL{i}"), blank_is_null=ours is not None
            )
            if column.unit:
                units[column.name] = str(column.unit)
            notes[column.name] = Note(*(str(hdu.header.get(f"{key}{i}", "")) for key in _NOTE_CARDS))
        self._describe(
            {name: dtype_name(item.decode(np.empty(0, item.raw))[0].dtype) for name, item in self._columns.items()},
            n_rows,
            units=units | (ours or {}).get("units", {}),
            metadata=_foreign_metadata(hdu.header) if ours is None else ours.get("metadata", {}),
            unsupported=unsupported,
            notes=notes,
            arrays={
                name: math.prod(self._dtype[name].shape)
                for name, column in self._columns.items()
                if self._dtype[name].shape and column.code not in "AL"
            },
        )

    def rows(self, names: tuple[str, ...], chunk_rows: int, start_row: int) -> Iterator[Catalog]:
        """Yield rows as they come from the stream; unlike a memory map it survives a file cut short meanwhile."""
        width = self._dtype.itemsize
        with self._open() as stream:
            stream.seek(self._offset + start_row * width)
            for start, stop in spans(self.info.n_rows, chunk_rows, start_row):
                data = stream.read((stop - start) * width)
                if len(data) < (stop - start) * width:
                    raise CatalogError(
                        f"'{self.path}' is truncated at row {start + len(data) // width} of "
                        f"{self.info.n_rows}; fetch it again"
                    )
                raw = np.frombuffer(data, dtype=self._dtype, count=stop - start)
                yield self._table({name: self._decode(name, raw[name], start) for name in names}, start)

    def _decode(self, name: str, raw: AnyArray, start: int) -> tuple[AnyArray, BoolArray | None]:
        try:
            return self._columns[name].decode(np.ascontiguousarray(raw))
        except UnicodeDecodeError as error:
            raise CatalogError(
                f"'{self.path}', rows {start} to {start + len(raw) - 1}: column {name!r} holds text that is not "
                f"UTF-8 ({error.reason}); leave the column out or repair the file"
            ) from error


def later_tables(path: str) -> dict[int, str]:
    """Return what the tables after the first are called, by the number of their HDU; they are not read."""
    fits = require("astropy.io.fits", "reading FITS", "fits")
    found = {}
    with (gzip.open if is_gzipped(Path(path)) else open)(path, "rb") as stream, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(ValueError, KeyError, OSError, EOFError, fits.VerifyError):  # damage after the first table
            for k, (_, header) in enumerate(_hdus(stream, fits)):
                if _is_table(header):
                    found[k] = f"{header.get('EXTNAME', 'unnamed')}, {header['TFIELDS']} columns"
    return dict(list(found.items())[1:])


def _hdus(stream: Any, fits: Any) -> Iterator[tuple[bytes, Any]]:
    """Yield every header, as bytes and parsed, with the stream where its data begin."""
    first = True
    while raw := _read_header(stream, first):
        header, start = fits.Header.fromstring(raw), stream.tell()
        yield raw, header
        stream.seek(start + _data_bytes(header))
        first = False


def _is_table(header: Any) -> bool:
    return header.get("XTENSION") == "BINTABLE" and not header.get("ZIMAGE") and not header.get("ZTABLE")


def _read_header(stream: Any, first: bool) -> bytes:
    """Read a header, whole blocks up to its END card; nothing at the end of the file."""
    header = bytearray()
    while block := stream.read(_BLOCK):
        header += block
        if first and not header.startswith(b"SIMPLE  ="):
            raise ValueError("it does not begin with the keyword SIMPLE")
        if any(block.startswith(b"END     ", at) for at in range(0, len(block), 80)):
            return bytes(header)
        if len(header) > _MAX_HEADER_BYTES:
            raise ValueError(f"a header goes on for more than {_MAX_HEADER_BYTES} bytes")
    if header:
        raise ValueError("a header has no END card")
    return b""


def _data_bytes(header: Any) -> int:
    """Return the size of the data after a header, in whole blocks."""
    axes = [int(header[f"NAXIS{k}"]) for k in range(1, int(header["NAXIS"]) + 1)]
    if header.get("GROUPS") is True and axes and axes[0] == 0:
        axes = axes[1:]
    values = math.prod(axes) if axes else 0
    size = abs(int(header["BITPIX"])) // 8 * int(header.get("GCOUNT", 1)) * (int(header.get("PCOUNT", 0)) + values)
    return max(size + -size % _BLOCK, 0)


def _foreign_metadata(header: Any) -> dict[str, Any]:
    """Return the header cards of a foreign file that are not about its layout."""
    cards = header.copy(strip=True).items()
    return {
        key: value
        for key, value in cards
        if isinstance(value, str | int | float | bool) and not _NOT_METADATA.fullmatch(key)
    }


class FitsWriter(Writer):
    """Write a FITS binary table in constant memory: rows as they come, the header at the end.

    FITS keeps dtypes, units, notes (cards TCOMM and TUCD), masks of integers (TNULL), booleans and text, and metadata
    (as one long JSON text under ``GPZED_ME``, continued over cards). It cannot hold: masks of floats (they become NaN),
    trailing blanks of text, time stamps (ISO text) and 16-bit floats (32-bit). A text wider than any before
    makes the rows already written be copied once into a wider layout.
    """

    def __init__(self, path: Path, first: Catalog, metadata: Mapping[str, Any], compression: str | None = None) -> None:
        self._fits = require("astropy.io.fits", "writing FITS", "fits")
        self.refuse_lists(first, "FITS")
        self._path = path
        self._notes = [first.notes.get(name, Note()) for name in first.names]
        self._columns = {name: _column_for(name, portable(first[name])) for name in first.names}
        self._units = {name: unit for name, unit in first.units.items() if unit.isascii()}
        other_units = {name: unit for name, unit in first.units.items() if not unit.isascii()}
        stored = {"metadata": json.loads(dump_metadata(metadata)), "units": other_units}
        # quotes and ampersands have a special meaning in long FITS texts
        text = json.dumps(stored, separators=(",", ":"))
        self._metadata = text.replace("'", "\\u0027").replace("&", "\\u0026")
        self._n_rows = 0
        self._header_size = len(self._header(every_null=True))
        self._stream: BinaryIO = path.open("r+b")
        self._stream.seek(self._header_size)

    def _dtype(self) -> np.dtype[Any]:
        return np.dtype([(name, column.raw, column.shape) for name, column in self._columns.items()])

    def _header(self, every_null: bool = False) -> bytes:
        columns = []
        for name, column in self._columns.items():
            count = column.raw.itemsize if column.code == "A" else int(np.prod(column.shape))
            columns.append(
                self._fits.Column(
                    name=name,
                    format=f"{count}{column.code}",
                    unit=self._units.get(name),
                    null=column.null if every_null or column.is_masked else None,
                    bzero=column.zero or None,
                    dim=str(column.shape[::-1]).replace(" ", "") if len(column.shape) > 1 else None,
                )
            )
        table = self._fits.BinTableHDU.from_columns(columns, nrows=0, name="CATALOG")
        table.header["NAXIS2"] = self._n_rows
        for i, note in enumerate(self._notes, start=1):
            for key, text in zip(_NOTE_CARDS, note, strict=True):
                if text and text.isascii() and text.isprintable():
                    table.header[f"{key}{i}"] = text.replace("&", "and")
        table.header[_METADATA_CARD] = self._metadata
        primary = self._fits.PrimaryHDU().header
        return bytes((primary.tostring() + table.header.tostring()).encode("ascii"))

    def write(self, chunk: Catalog) -> None:
        """Append rows."""
        old, raws = self._dtype(), {}
        for name, column in self._columns.items():
            mask = chunk.masks.get(name)
            raw = raws[name] = column.encode(portable(chunk[name]), mask)
            if column.code == "A":
                column.raw = np.promote_types(column.raw, raw.dtype)
            column.is_masked |= mask is not None
            column.uses_null |= column.null is not None and bool(((raw == column.null) & ~chunk.mask(name)).any())
            if column.is_masked and column.uses_null:
                raise CatalogError(
                    f"column {name!r} has masked values and uses every end of its range, so FITS has no number left "
                    "to mark them with; convert the column to a wider integer or write another format"
                )
        if self._n_rows and self._dtype() != old:
            self._widen(old)
        rows = np.empty(len(chunk), dtype=self._dtype())
        for name, raw in raws.items():
            rows[name] = raw
        self._stream.write(rows.view(np.uint8).data)
        self._n_rows += len(chunk)

    def _widen(self, old: np.dtype[Any]) -> None:
        """Copy the rows written so far into the wider layout, block by block."""
        copy = self._path.with_name(self._path.name + ".wide")
        self._stream.flush()
        rows = np.memmap(self._path, old, "r", self._header_size, (self._n_rows,))
        try:
            with copy.open("wb") as stream:
                stream.seek(self._header_size)
                for start, stop in spans(self._n_rows, max(_COPY_BYTES // old.itemsize, 1), 0):
                    stream.write(rows[start:stop].astype(self._dtype()).view(np.uint8).data)
            self._stream.close()
            os.replace(copy, self._path)
        finally:
            copy.unlink(missing_ok=True)
        self._stream = self._path.open("r+b")
        self._stream.seek(0, os.SEEK_END)

    def close(self) -> None:
        """Pad the data to whole blocks, write the header and close."""
        with self._stream:
            self._stream.write(bytes(-self._n_rows * self._dtype().itemsize % _BLOCK))
            header = self._header()
            # without TNULL cards the header is shorter than reserved: blank cards before END are allowed
            end = header.rindex(b"END" + b" " * 77)
            self._stream.seek(0)
            self._stream.write(header[:end].ljust(self._header_size - 80) + b"END".ljust(80))


def _column_for(name: str, values: AnyArray) -> _Column:
    """Return how to store a column; masked integers become the end of the range that catalogues use least."""
    if not name.isascii() or not name.isprintable() or len(name) > 68:
        raise CatalogError(f"column name {name!r} cannot be stored in FITS; use at most 68 ASCII characters")
    kind, shape = values.dtype.kind, values.shape[1:]
    if kind == "U":
        if shape:
            raise CatalogError(f"column {name!r} holds several texts per row, which FITS cannot; leave it out")
        return _Column("A", np.dtype("S1"))
    code, stored, zero = _TYPES[values.dtype.name]
    raw = np.dtype(stored)
    ends = np.iinfo(raw) if kind in "iu" else None
    null = None if ends is None else int(ends.max if kind == "u" else ends.min)
    return _Column(code, raw, shape, zero=zero, null=null)
