"""FITS binary tables in: raw rows straight from disk, a chunk at a time."""

from __future__ import annotations

import gzip
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpzed._types import AnyArray, BoolArray
from gpzed.catalog._common import (
    METADATA_KEY,
    CatalogInfo,
    dtype_name,
    load_metadata,
    reading,
    require,
    spans,
)
from gpzed.catalog.table import Catalog, Provenance
from gpzed.errors import CatalogError

#: Header cards that describe the layout of the file, not the data.
_STRUCTURE = frozenset(
    (
        "SIMPLE", "BITPIX", "NAXIS", "NAXIS1", "NAXIS2", "EXTEND", "XTENSION", "PCOUNT", "GCOUNT", "TFIELDS",
        "CHECKSUM", "DATASUM", "THEAP", "END", "COMMENT", "HISTORY", "CONTINUE", "EXTNAME", "LONGSTRN",
    )
)  # fmt: skip
_COLUMN_CARDS = (
    "TTYPE",
    "TFORM",
    "TUNIT",
    "TNULL",
    "TSCAL",
    "TZERO",
    "TDISP",
    "TDIM",
    "TCTYP",
    "TCUNI",
    "TCOMM",
    "TUCD",
)

#: Unsigned numbers (and signed bytes) are stored shifted by half their range.
_SHIFTED: dict[tuple[str, int, int], np.dtype[Any]] = {
    ("i", 2, 2**15): np.dtype(np.uint16),
    ("i", 4, 2**31): np.dtype(np.uint32),
    ("i", 8, 2**63): np.dtype(np.uint64),
    ("u", 1, -128): np.dtype(np.int8),
}


@dataclass(frozen=True)
class _Field:
    """How one column lies in a row and what its numbers mean."""

    name: str
    scale: float
    zero: float
    null: int | None
    logical: bool
    marked_null_text: bool

    def decode(self, raw: AnyArray) -> tuple[AnyArray, BoolArray | None]:
        """Return native values and mask of one column of a raw chunk."""
        if self.logical:
            codes = raw.view(np.uint8) if raw.dtype.itemsize == 1 else raw
            return codes == ord("T"), codes == 0
        if raw.dtype.kind == "S":
            mask = (
                raw.view(np.uint8).reshape(len(raw), raw.dtype.itemsize)[:, 0] == 0
                if self.marked_null_text and raw.ndim == 1
                else None
            )
            return np.char.rstrip(np.char.decode(raw, "utf-8"), " "), mask
        values = raw.astype(raw.dtype.newbyteorder("="))
        mask = None
        if self.null is not None and values.dtype.kind in "iu":
            mask = values == self.null
        return self._scaled(values), mask

    def _scaled(self, values: AnyArray) -> AnyArray:
        if self.scale == 1 and self.zero == 0:
            return values
        shifted = self.shifted_dtype(values.dtype)
        if shifted is not None:
            # adding half the range is flipping the top bit, which stays exact in 64 bits
            top = np.array(1 << (8 * values.dtype.itemsize - 1), dtype=f"u{values.dtype.itemsize}")
            return np.asarray((values.view(top.dtype) ^ top).view(shifted))
        return values.astype(np.float64) * self.scale + self.zero

    def shifted_dtype(self, raw: np.dtype[Any]) -> np.dtype[Any] | None:
        """Return the integer dtype meant by a shift of half the range, if it is one."""
        return _SHIFTED.get((raw.kind, raw.itemsize, int(self.zero))) if self.scale == 1 else None

    def dtype(self, raw: np.dtype[Any]) -> str:
        """Return the name of the dtype that `decode` gives."""
        if self.logical:
            return "bool"
        if raw.kind == "S" or (self.scale == 1 and self.zero == 0):
            return dtype_name(raw)
        return (self.shifted_dtype(raw) or np.dtype(np.float64)).name


class FitsReader:
    """The first binary table of a FITS file, plain or gzipped."""

    def __init__(self, path: Path) -> None:
        fits = require("astropy.io.fits", "reading FITS", "fits")
        self.path = path
        with reading(path, "FITS"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with fits.open(path, memmap=True, lazy_load_hdus=True) as hdus:
                hdu = self._first_table(fits, hdus)
                self._describe(hdu)
        self._check_size()

    def _first_table(self, fits: Any, hdus: Any) -> Any:
        seen = []
        for i, hdu in enumerate(hdus):
            table = isinstance(hdu, fits.BinTableHDU)
            if table and not hdu.header.get("ZIMAGE") and not hdu.header.get("ZTABLE"):
                return hdu
            kind = "tile-compressed" if table else type(hdu).__name__
            seen.append(f"{i}: {hdu.name or 'unnamed'} ({kind})")
        raise CatalogError(
            f"'{self.path}' has no binary table; it has HDUs {', '.join(seen)}; give a file with a BINTABLE extension"
        )

    def _describe(self, hdu: Any) -> None:
        header, columns = hdu.header, hdu.columns
        self._offset: int = hdu.fileinfo()["datLoc"]
        self._dtype = np.dtype(columns.dtype.newbyteorder(">"))
        stored = load_metadata(header[METADATA_KEY[:8].upper()]) if METADATA_KEY[:8].upper() in header else None
        self._fields: dict[str, _Field] = {}
        units, unsupported, dtypes = {}, {}, {}
        for i, column in enumerate(columns, start=1):
            name = column.name
            raw = self._dtype[name].base
            code = column.format.format if hasattr(column.format, "format") else ""
            why = _unsupported(code)
            if why:
                unsupported[name] = why
                continue
            item = _Field(
                name,
                scale=header.get(f"TSCAL{i}", 1),
                zero=header.get(f"TZERO{i}", 0),
                null=header.get(f"TNULL{i}"),
                logical=code == "L",
                marked_null_text=stored is not None,
            )
            self._fields[name] = item
            dtypes[name] = item.dtype(raw)
            if header.get(f"TUNIT{i}"):
                units[name] = str(header[f"TUNIT{i}"])
        metadata = _header_metadata(header) if stored is None else stored.get("metadata", {})
        units.update({} if stored is None else stored.get("units", {}))
        self.info = CatalogInfo(
            str(self.path),
            "fits",
            tuple(self._fields),
            dtypes,
            units,
            int(header["NAXIS2"]),
            metadata,
            unsupported,
        )

    def _check_size(self) -> None:
        """Raise if a plain file is shorter than its header says."""
        if _gzipped(self.path):
            return
        held = (self.path.stat().st_size - self._offset) // max(self._dtype.itemsize, 1)
        if held < self.info.n_rows:
            raise CatalogError(
                f"'{self.path}' is truncated: its header announces {self.info.n_rows} rows of "
                f"{self._dtype.itemsize} bytes, the file holds {max(held, 0)}; fetch it again"
            )

    def chunks(self, names: tuple[str, ...], chunk_rows: int, start_row: int) -> Iterator[Catalog]:
        """Yield tables of `chunk_rows` rows from `start_row` on."""
        width = self._dtype.itemsize
        opener: Any = gzip.open if _gzipped(self.path) else open
        with reading(self.path, "FITS"), opener(self.path, "rb") as stream:
            stream.seek(self._offset + start_row * width)
            for start, stop in spans(self.info.n_rows, chunk_rows, start_row):
                data = stream.read((stop - start) * width)
                if len(data) < (stop - start) * width:
                    raise CatalogError(
                        f"'{self.path}' is truncated at row {start + len(data) // width} of "
                        f"{self.info.n_rows}; fetch it again"
                    )
                yield self._decode(np.frombuffer(data, dtype=self._dtype), names, start)

    def _decode(self, raw: AnyArray, names: tuple[str, ...], start: int) -> Catalog:
        columns, masks = {}, {}
        for name in names:
            try:
                values, mask = self._fields[name].decode(np.ascontiguousarray(raw[name]))
            except UnicodeDecodeError as error:
                raise CatalogError(
                    f"'{self.path}', rows {start} to {start + len(raw) - 1}: column {name!r} holds text "
                    "that is not "
                    f"UTF-8 ({error.reason}); leave the column out or repair the file"
                ) from error
            columns[name] = values
            if mask is not None and mask.any():
                masks[name] = mask
        return Catalog(
            columns,
            masks=masks,
            units={k: v for k, v in self.info.units.items() if k in columns},
            metadata=self.info.metadata,
            provenance=Provenance(str(self.path), "fits", start),
            n_rows=len(raw),
        )


def _gzipped(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(2) == b"\x1f\x8b"


def _unsupported(code: str) -> str:
    """Return why a column of this FITS format cannot be held in a flat table, or nothing."""
    if code in ("P", "Q"):
        return "variable-length array"
    return {"X": "bit array", "C": "complex numbers", "M": "complex numbers"}.get(code, "")


def _header_metadata(header: Any) -> dict[str, Any]:
    """Return the header cards of a foreign file that are not about its layout."""
    kept: dict[str, Any] = {}
    for card in header.cards:
        key = card.keyword
        if not key or key in _STRUCTURE or (key[:5] in _COLUMN_CARDS and key[5:].isdigit()) or key[:4] == "TDIM":
            continue
        if isinstance(card.value, str | int | float | bool):
            kept[key] = card.value
    return kept
