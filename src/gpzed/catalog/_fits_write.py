"""FITS binary tables out: rows appended as they come, the header completed at the end."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from gpzed._types import AnyArray, BoolArray
from gpzed.catalog._common import METADATA_KEY, dump_metadata, portable, require
from gpzed.catalog.table import Catalog
from gpzed.errors import CatalogError

_BLOCK = 2880
_CODES = {
    "b1": "L",
    "u1": "B",
    "i1": "B",
    "i2": "I",
    "u2": "I",
    "i4": "J",
    "u4": "J",
    "i8": "K",
    "u8": "K",
    "f4": "E",
    "f8": "D",
}


class _Column:
    """One column of the file: raw dtype, null value, and whether masks were seen."""

    def __init__(self, name: str, values: AnyArray, unit: str | None) -> None:
        values = portable(values)
        self.name, self.unit, self.shape = name, unit, values.shape[1:]
        self.kind, size = values.dtype.kind, values.dtype.itemsize
        self.masked = self.null_used = False
        self.zero: int | None = None
        self.null: int | None = None
        if self.kind == "U":
            if self.shape:
                raise CatalogError(f"column {name!r} holds several texts per row, which FITS cannot; leave it out")
            self.raw = np.dtype(f"S{_width(values)}")
            return
        self.code = _CODES[f"{self.kind}{size}"]
        shifted = (self.kind == "u" and size > 1) or (self.kind == "i" and size == 1)
        if shifted:
            self.zero = -128 if size == 1 else 1 << (8 * size - 1)
        if self.kind in "iu":
            # the end of the range that catalogues use least: the lowest signed, the highest unsigned number
            low = self.kind == "i"
            self.null = {(1, True): 0, (1, False): 255}.get((size, low), (1 if shifted else -1) * 2 ** (8 * size - 1))
            self.null -= 1 if shifted and size > 1 else 0
        raw_kind = {"b": "u", "i": "u" if size == 1 else "i", "u": "u" if size == 1 else "i"}.get(self.kind, self.kind)
        self.raw = np.dtype(f">{raw_kind}{size}")

    def encode(self, values: AnyArray, mask: BoolArray | None) -> AnyArray:
        """Return the raw numbers or bytes of a chunk."""
        values = portable(values)
        self.masked |= mask is not None
        if self.kind == "U":
            raw = np.char.encode(values, "utf-8")
            blank = values == ""
            raw = np.where(blank, b" ", raw)
            return raw if mask is None else np.where(mask, b"", raw)
        if self.kind == "b":
            codes = np.where(values, np.uint8(ord("T")), np.uint8(ord("F")))
            return codes if mask is None else np.where(mask, np.uint8(0), codes)
        if self.kind == "f":
            return values
        if self.zero is not None:
            top = np.array(1 << (8 * values.dtype.itemsize - 1), dtype=f"u{values.dtype.itemsize}")
            values = (values.view(top.dtype) ^ top).view(self.raw.newbyteorder("="))
        clash = values == self.null
        if mask is not None:
            clash &= ~mask
            values = np.where(mask, np.array(self.null, dtype=values.dtype), values)
        self.null_used |= bool(clash.any())
        return values

    def fits_column(self, fits: Any) -> Any:
        """Return the column's description for the header."""
        ascii_unit = self.unit if self.unit and self.unit.isascii() else None
        if self.kind == "U":
            return fits.Column(name=self.name, format=f"{self.raw.itemsize}A", unit=ascii_unit)
        count = int(np.prod(self.shape)) if self.shape else 1
        dim = "(" + ",".join(str(k) for k in reversed(self.shape)) + ")" if len(self.shape) > 1 else None
        null = self.null if self.masked else None
        if null is not None and self.null_used:
            raise CatalogError(
                f"column {self.name!r} has masked values and uses every end of its range, so FITS has "
                "no number left "
                "to mark them with; convert the column to a wider integer or write another format"
            )
        return fits.Column(
            name=self.name, format=f"{count}{self.code}", unit=ascii_unit, null=null, bzero=self.zero, dim=dim
        )


def _width(values: AnyArray) -> int:
    """Return the bytes that the longest text needs in UTF-8, at least 1."""
    encoded = np.char.encode(values, "utf-8") if values.size else np.array([b""])
    return max(int(np.char.str_len(encoded).max()), 1)


class FitsSink:
    """Write a FITS binary table in constant memory.

    Notes
    -----
    FITS keeps dtypes, units, masks of integers (TNULL), booleans and text, and metadata (as one long JSON
    text under ``GPZED_ME``, continued over cards). It cannot hold: masks of floats (they become NaN),
    trailing blanks of text, time stamps (ISO text) and 16-bit floats (32-bit). A text wider than any before
    makes the rows already written be copied once into a wider layout.
    """

    def __init__(self, path: Path, first: Catalog, metadata: Mapping[str, Any]) -> None:
        self._fits = require("astropy.io.fits", "writing FITS", "fits")
        for name in first.names:
            if not name.isascii() or not name.isprintable() or len(name) > 68:
                raise CatalogError(f"column name {name!r} cannot be stored in FITS; use at most 68 ASCII characters")
        self._path = path
        self._columns = [_Column(name, first[name], first.units.get(name)) for name in first.names]
        units = {k: v for k, v in first.units.items() if not v.isascii()}
        stored = json.dumps({"metadata": json.loads(dump_metadata(metadata)), "units": units}, separators=(",", ":"))
        # quotes and ampersands have a meaning of their own in long FITS texts
        self._metadata = stored.replace("'", "\\u0027").replace("&", "\\u0026")
        self._n_rows = 0
        self._stream: BinaryIO = path.open("r+b")
        self._header_size = self._reserve()
        self._stream.write(bytes(self._header_size))

    def _dtype(self) -> np.dtype[Any]:
        return np.dtype([(c.name, c.raw, c.shape) if c.shape else (c.name, c.raw) for c in self._columns])

    def _reserve(self) -> int:
        """Return the bytes of the longest header these columns can come to need."""
        flags = [(c.masked, c.null_used) for c in self._columns]
        for column in self._columns:
            column.masked, column.null_used = column.kind in "iu", False
        size = len(self._header())
        for column, (masked, used) in zip(self._columns, flags, strict=True):
            column.masked, column.null_used = masked, used
        return size

    def _header(self) -> bytes:
        primary = self._fits.PrimaryHDU().header.tostring().encode("ascii")
        table = self._fits.BinTableHDU.from_columns([c.fits_column(self._fits) for c in self._columns], nrows=0)
        table.header["NAXIS2"] = self._n_rows
        table.header["EXTNAME"] = "CATALOG"
        table.header[METADATA_KEY[:8].upper()] = self._metadata
        return bytes(primary + table.header.tostring().encode("ascii"))

    def write(self, chunk: Catalog) -> None:
        """Append rows."""
        raws = {}
        old = self._dtype()
        for column in self._columns:
            mask = chunk.mask(column.name) if chunk.has_mask(column.name) else None
            raws[column.name] = column.encode(chunk[column.name], mask)
            if column.kind == "U":
                needed = _width(portable(chunk[column.name]))
                column.raw = np.dtype(f"S{max(needed, column.raw.itemsize)}")
        if self._dtype() != old:
            self._widen(old)
        rows = np.zeros(len(chunk), dtype=self._dtype())
        for name, raw in raws.items():
            rows[name] = raw
        self._stream.write(rows.view(np.uint8).data)
        self._n_rows += len(chunk)

    def _widen(self, old: np.dtype[Any]) -> None:
        """Copy the rows written so far into the wider layout, block by block."""
        new, copy = self._dtype(), self._path.with_name(self._path.name + ".wide")
        header_size = self._reserve()
        try:
            with copy.open("wb") as stream:
                stream.write(bytes(header_size))
                self._stream.seek(self._header_size)
                block = max((1 << 24) // old.itemsize, 1)
                for start in range(0, self._n_rows, block):
                    data = self._stream.read(min(block, self._n_rows - start) * old.itemsize)
                    rows = np.frombuffer(data, dtype=old)
                    wide = np.zeros(len(rows), dtype=new)
                    for name in old.names or ():
                        wide[name] = rows[name]
                    stream.write(wide.tobytes())
            self._stream.close()
            os.replace(copy, self._path)
        finally:
            copy.unlink(missing_ok=True)
        self._stream, self._header_size = self._path.open("r+b"), header_size
        self._stream.seek(0, os.SEEK_END)

    def close(self) -> None:
        """Pad the data to whole blocks, write the header and close."""
        self._stream.write(bytes(-self._n_rows * self._dtype().itemsize % _BLOCK))
        header = self._header()
        # cards never used (TNULL) leave the header shorter: blank cards before END are allowed
        end = header.rindex(b"END" + b" " * 77)
        header = header[:end].ljust(self._header_size - 80) + b"END".ljust(80)
        self._stream.seek(0)
        self._stream.write(header)
        self._stream.close()

    def abort(self) -> None:
        """Close without finishing."""
        with contextlib.suppress(OSError):
            self._stream.close()
