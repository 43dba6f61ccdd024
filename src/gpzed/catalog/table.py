"""The table every reader produces and every writer takes: named columns with masks, units and origin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from gpzed._types import AnyArray, BoolArray, FloatArray
from gpzed.catalog._names import is_number, missing_column_message
from gpzed.catalog.lists import Lists
from gpzed.errors import CatalogError

SUPPORTED_KINDS = "biufUM"
"""Kinds of NumPy dtype a column may have: boolean, integers, floats, text, time stamps."""

KINDS = {"U": "text", "S": "text", "M": "dates", "m": "times", "c": "complex numbers"}
"""What columns hold that are no numbers, in words."""


class Note(NamedTuple):
    """What a column is: in words, and as a Unified Content Descriptor of the Virtual Observatory."""

    description: str = ""
    ucd: str = ""


@dataclass(frozen=True)
class Provenance:
    """Where a table came from."""

    path: str | None = None  # file or folder the rows were read from
    format: str | None = None  # name of the format, as `gpzed.catalog.FORMATS` lists them
    row_offset: int = 0  # row of the file that is row 0 of this table

    def where(self, row: int | None = None) -> str:
        """Return ``'file', row k`` for messages; rows are counted from 0 in the file."""
        name = "the table" if self.path is None else f"'{self.path}'"
        return name if row is None else f"{name}, row {self.row_offset + row}"


def _from_objects(values: AnyArray, name: str) -> tuple[AnyArray, BoolArray]:
    """Turn an object array into a plain one; None becomes a masked entry."""
    mask = np.array([v is None for v in values.ravel()], dtype=bool).reshape(values.shape)
    present = [v for v in values.ravel() if v is not None]
    if all(isinstance(v, str | bytes) for v in present):
        text = [v.decode("utf-8") if isinstance(v, bytes) else ("" if v is None else v) for v in values.ravel()]
        return np.array(text, dtype=np.str_).reshape(values.shape), mask
    plain = np.array(present)
    if plain.dtype.kind not in SUPPORTED_KINDS or plain.ndim != 1 or plain.dtype.kind == "U":
        raise CatalogError(
            f"column {name!r} holds Python objects of mixed or unsupported type "
            f"({', '.join(sorted({type(v).__name__ for v in present}))}); give numbers, booleans or text"
        )
    filled: AnyArray = np.zeros(values.shape, dtype=plain.dtype)
    filled[~mask] = plain
    return filled, mask


def _plain(values: Any, name: str) -> tuple[AnyArray, BoolArray | None]:
    """Return native-endian values of a supported kind and the mask they carried, if any."""
    mask: BoolArray | None = None
    if isinstance(values, np.ma.MaskedArray):
        mask, values = np.ma.getmaskarray(values), values.data
    array: AnyArray = np.asarray(values)
    if array.dtype.kind == "O":
        array, none = _from_objects(array, name)
        mask = none if mask is None else mask | none
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    elif array.dtype.kind == "T":
        array = array.astype(np.str_)
    if array.dtype.kind not in SUPPORTED_KINDS or array.dtype == np.longdouble != np.dtype(np.float64):
        raise CatalogError(
            f"column {name!r} has dtype {array.dtype}; a column holds booleans, integers, floats of at most "
            "64 bits, text or time stamps"
        )
    if array.ndim == 0:
        raise CatalogError(f"column {name!r} is a single value; give one value per row")
    return array.astype(array.dtype.newbyteorder("="), copy=False), mask


_FILL: dict[str, Any] = {"b": False, "i": 0, "u": 0, "f": np.nan, "U": "", "M": "NaT"}


def _frozen(array: AnyArray) -> AnyArray:
    view = array.view()
    view.flags.writeable = False
    return view


def _column(values: Any, mask: Any, name: str) -> tuple[Any, BoolArray | None]:
    """Return read-only values and mask (None where nothing is masked); masked entries hold the fill value."""
    if isinstance(values, Lists):
        missing = None if mask is None or not np.any(mask) else _frozen(np.asarray(mask, dtype=bool))
        return values, missing
    array, own = _plain(values, name)
    given = None if mask is None else np.asarray(mask, dtype=bool)
    if given is not None and given.shape != array.shape:
        raise CatalogError(
            f"mask of column {name!r} has shape {given.shape} but its values have shape {array.shape}; "
            "give one boolean per value"
        )
    both = own if given is None else given if own is None else own | given
    if both is None or not both.any():
        return _frozen(array), None
    filled = array.copy()
    filled[both] = _FILL[array.dtype.kind]
    return _frozen(filled), _frozen(both)


class Catalog:
    """An immutable table: ordered named columns, a mask, a unit and a note for each, metadata and provenance.

    Parameters
    ----------
    columns : mapping of str to array-like of shape (n_rows, ...)
        Values by column name, in order. Masked arrays and None entries become masks; byte strings become
        text; big-endian numbers become native. Other arrays are kept as they are, not copied, and so are `Lists`,
        columns of lists that differ in length.
    masks : mapping of str to array-like of bool, optional
        True where a value is missing. Columns not named have no missing values.
    units : mapping of str to str, optional
        Unit by column name.
    notes : mapping of str to Note, optional
        Description and UCD by column name; those of other columns are passed over.
    metadata : mapping, optional
        Anything JSON can hold, kept with the file.
    provenance : Provenance, optional
        Where the rows came from.
    n_rows : int, optional
        Number of rows of a table without columns.

    Notes
    -----
    A masked entry always holds NaN (floats), 0 (integers), False, an empty text or NaT, so that no stray
    sentinel hides under a mask. Arrays handed out are read-only.

    Examples
    --------
    >>> table = Catalog({"id": [7, 8], "mag_g": [21.5, 22.0]}, masks={"mag_g": [False, True]})
    >>> len(table), table.names
    (2, ('id', 'mag_g'))
    >>> table.floats("mag_g")
    array([21.5,  nan])
    """

    __slots__ = ("_columns", "_masks", "_metadata", "_n_rows", "_notes", "_provenance", "_units")

    def __init__(
        self,
        columns: Mapping[str, Any],
        *,
        masks: Mapping[str, Any] | None = None,
        units: Mapping[str, str] | None = None,
        notes: Mapping[str, Note] | None = None,
        metadata: Mapping[str, Any] | None = None,
        provenance: Provenance | None = None,
        n_rows: int | None = None,
    ) -> None:
        self._columns: dict[str, Any] = {}
        self._masks: dict[str, BoolArray] = {}
        names = list(columns)
        for name, values in columns.items():
            array, mask = _column(values, (masks or {}).get(name), name)
            self._columns[name] = array
            if mask is not None:
                self._masks[name] = mask
        for kind, mapping in (("mask", masks), ("unit", units)):
            for name in mapping or ():
                if name not in self._columns:
                    raise CatalogError(missing_column_message(name, names, f"a {kind} is given but the table"))
        lengths = {name: len(array) for name, array in self._columns.items()}
        if len(set(lengths.values())) > 1:
            found = ", ".join(f"{name} {length:,}" for name, length in list(lengths.items())[:10])
            raise CatalogError(f"columns differ in length: {found}; give one value per row in every column")
        self._n_rows = next(iter(lengths.values()), n_rows or 0)
        self._units = {name: unit for name, unit in (units or {}).items() if unit}
        self._notes = {name: note for name, note in (notes or {}).items() if name in self._columns and any(note)}
        self._metadata = dict(metadata or {})
        self._provenance = provenance or Provenance()

    def __len__(self) -> int:
        return self._n_rows

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __repr__(self) -> str:
        return f"<Catalog of {len(self)} rows, columns {', '.join(self.names)}>"

    def __getitem__(self, name: str) -> Any:
        """Return the values of a column, read-only: an array, or `Lists`."""
        try:
            return self._columns[name]
        except KeyError:
            raise CatalogError(missing_column_message(name, list(self._columns), self._provenance.where())) from None

    @property
    def names(self) -> tuple[str, ...]:
        """Column names, in order."""
        return tuple(self._columns)

    @property
    def masks(self) -> Mapping[str, BoolArray]:
        """Mask by column name; columns without missing values are absent."""
        return MappingProxyType(self._masks)

    @property
    def units(self) -> Mapping[str, str]:
        """Unit by column name; columns without a unit are absent."""
        return MappingProxyType(self._units)

    @property
    def notes(self) -> Mapping[str, Note]:
        """Description and UCD by column name; columns without either are absent."""
        return MappingProxyType(self._notes)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the file says about itself."""
        return MappingProxyType(self._metadata)

    @property
    def provenance(self) -> Provenance:
        """File, format and row offset."""
        return self._provenance

    def mask(self, name: str) -> BoolArray:
        """Return True where the column has no value, same shape as the column."""
        values = self[name]
        mask = self._masks.get(name)
        return np.zeros(values.shape, dtype=bool) if mask is None else mask

    def has_mask(self, name: str) -> bool:
        """Return whether any value of the column is masked."""
        self[name]
        return name in self._masks

    def floats(self, name: str) -> FloatArray:
        """Return a boolean, integer or float column as new float64 values, NaN where masked."""
        values = self[name]
        if isinstance(values, Lists):
            raise CatalogError(
                f"{self._provenance.where()}: column {name!r} holds lists; expected one number per row; choose another"
            )
        if values.dtype.kind not in "biuf":
            raise CatalogError(
                f"{self._provenance.where()}: column {name!r} holds {self._what_is_no_number(name)}; "
                "expected numbers; choose another column or convert it"
            )
        floats: FloatArray = values.astype(np.float64)
        if name in self._masks:
            floats[self._masks[name]] = np.nan
        return floats

    def _what_is_no_number(self, name: str) -> str:
        """Return the kind of a column in words, with the first value that is no number, and its row in the file."""
        values, offset = self[name], self._provenance.row_offset
        kind = KINDS.get(values.dtype.kind, "no numbers")
        rows = np.flatnonzero(~self.mask(name)).tolist() if values.ndim == 1 else []
        row = next((row for row in rows if not is_number(str(values[row]))), None)
        if row is not None:
            return f"{kind}: row {offset + row} is '{values[row]}'"
        if not rows:
            return kind
        return f"{kind}, though rows {offset} to {offset + len(values) - 1} look like numbers ('{values[rows[0]]}')"

    def select(self, names: Sequence[str]) -> Catalog:
        """Return a table of the named columns, in the order given."""
        return Catalog(
            {name: self[name] for name in names},
            masks={name: self._masks[name] for name in names if name in self._masks},
            units={name: self._units[name] for name in names if name in self._units},
            notes=self._notes,
            metadata=self._metadata,
            provenance=self._provenance,
            n_rows=self._n_rows,
        )

    def slice(self, start: int, stop: int | None = None) -> Catalog:
        """Return rows `start` to `stop` (not included), without copying; the row offset moves along."""
        rows = slice(*slice(start, stop).indices(len(self)))
        return self._picked(rows, self._provenance.row_offset + rows.start, max(rows.stop - rows.start, 0))

    def take(self, rows: Any) -> Catalog:
        """Return the rows picked by an index or boolean array; the row offset no longer applies and is 0."""
        return self._picked(np.asarray(rows), 0)

    def _picked(self, rows: Any, row_offset: int, n_rows: int | None = None) -> Catalog:
        return Catalog(
            {k: v[rows] for k, v in self._columns.items()},
            masks={k: v[rows] for k, v in self._masks.items()},
            units=self._units,
            notes=self._notes,
            metadata=self._metadata,
            provenance=replace(self._provenance, row_offset=row_offset),
            n_rows=n_rows,
        )

    def with_columns(
        self,
        columns: Mapping[str, Any],
        *,
        masks: Mapping[str, Any] | None = None,
        units: Mapping[str, str] | None = None,
        notes: Mapping[str, Note] | None = None,
    ) -> Catalog:
        """Return a table with columns added at the end, or replaced in place where the name exists."""
        kept_masks = {k: v for k, v in self._masks.items() if k not in columns}
        kept_units = {k: v for k, v in self._units.items() if k not in columns or k not in (units or {})}
        return Catalog(
            {**self._columns, **columns},
            masks={**kept_masks, **(masks or {})},
            units={**kept_units, **(units or {})},
            notes={**{k: v for k, v in self._notes.items() if k not in columns}, **(notes or {})},
            metadata=self._metadata,
            provenance=self._provenance,
        )

    @staticmethod
    def concatenate(tables: Iterable[Catalog]) -> Catalog:
        """Return the rows of several tables of the same columns, with units, metadata and provenance of the first."""
        parts = list(tables)
        if not parts:
            raise CatalogError("nothing to concatenate; give at least one table")
        first = parts[0]
        if len(parts) == 1:
            return first
        for part in parts[1:]:
            check_same_columns(first, part)
        columns = {name: _joined([part[name] for part in parts]) for name in first.names}
        masks = {
            name: np.concatenate([part.mask(name) for part in parts])
            for name in first.names
            if any(part.has_mask(name) for part in parts)
        }
        return Catalog(
            columns,
            masks=masks,
            units=first._units,
            notes=first._notes,
            metadata=first._metadata,
            provenance=first._provenance,
            n_rows=sum(len(part) for part in parts),
        )

    def equals(self, other: Catalog) -> bool:
        """Return whether names, dtypes (text width aside), values, masks, units and metadata are the same."""
        if (self.names, self._units, self._metadata) != (other.names, other._units, other._metadata):
            return False
        return len(self) == len(other) and all(
            _same_dtype(self[k].dtype, other[k].dtype)
            and np.array_equal(self.mask(k), other.mask(k))
            and _same_values(self[k], other[k])
            for k in self.names
        )


def _joined(parts: list[Any]) -> Any:
    return Lists.concatenate(parts) if isinstance(parts[0], Lists) else np.concatenate(parts)


def _same_values(a: Any, b: Any) -> bool:
    if isinstance(a, Lists) or isinstance(b, Lists):
        return isinstance(a, Lists) and a.equals(b)
    return np.array_equal(a, b, equal_nan=a.dtype.kind in "fM")


def _same_dtype(a: np.dtype[Any], b: np.dtype[Any]) -> bool:
    return (a.kind == b.kind == "U") or a == b


def check_same_columns(first: Catalog, later: Catalog) -> None:
    """Raise unless `later` has the columns of `first`, of the same dtype and shape (text width aside)."""
    where = later.provenance.where(0)
    lost = [name for name in first.names if name not in later]
    if lost:
        raise CatalogError(missing_column_message(lost[0], list(later.names), where))
    extra = [name for name in later.names if name not in first]
    if extra:
        raise CatalogError(
            f"{where}: column {extra[0]!r} appears that earlier rows do not have; expected {', '.join(first.names)}"
        )
    for name in first.names:
        a, b = first[name], later[name]
        same_kind = isinstance(a, Lists) == isinstance(b, Lists)
        if not same_kind or not _same_dtype(a.dtype, b.dtype) or a.shape[1:] != b.shape[1:]:
            raise CatalogError(
                f"{where}: column {name!r} is {b.dtype}{list(b.shape[1:]) or ''} but earlier rows were "
                f"{a.dtype}{list(a.shape[1:]) or ''}; convert it to one type"
            )
