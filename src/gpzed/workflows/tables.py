"""Tables of other libraries behind one interface: read a column, add columns, get the same kind of table back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpzed._types import AnyArray, BoolArray
from gpzed.catalog import Catalog, CatalogInfo, Lists, read_catalog
from gpzed.catalog._arrow import to_arrow
from gpzed.catalog._names import refuse_repeated
from gpzed.config import SchemaConfig
from gpzed.errors import CatalogError

IN_MEMORY = "a table in memory"
_NAMES = {
    "pandas": "columns",
    "polars": "columns",
    "pyarrow": "column_names",
    "astropy": "colnames",
    "gpzed": "names",
}
"""Attribute that holds the names of the columns, by library."""


@dataclass(frozen=True)
class Table:
    """A table in memory."""

    data: Any  # as the user gave it
    library: str
    """Where its kind comes from: "pandas", "polars", "astropy", "pyarrow", "gpzed", or "" for a mapping of arrays."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        names = list(self.data) if isinstance(self.data, Mapping) else getattr(self.data, _NAMES[self.library])
        return tuple(str(name) for name in names)

    def __len__(self) -> int:
        if isinstance(self.data, Mapping):
            return len(next(iter(self.data.values()), ()))
        return self.data.num_rows if self.library == "pyarrow" else len(self.data)

    def catalog(self, names: Iterable[str]) -> Catalog:
        """Return some of the columns as a catalogue."""
        if isinstance(self.data, Catalog):
            return self.data.select(list(names))
        read = {name: _READERS[self.library](self.data[name]) for name in dict.fromkeys(names)}
        masks = {name: mask for name, (_, mask) in read.items() if mask is not None}
        return Catalog({name: values for name, (values, _) in read.items()}, masks=masks, n_rows=len(self))

    def with_columns(self, columns: Mapping[str, AnyArray]) -> Any:
        """Return a table of the same kind with columns added, or replaced where it has them already."""
        return _WRITERS[self.library](self.data, dict(columns))

    @property
    def units(self) -> dict[str, str]:
        """Units by column, where the table has them."""
        if self.library in ("astropy", ""):
            found = {name: getattr(self.data[name], "unit", None) for name in self.names}
        elif self.library == "pyarrow":
            kept = {item.name: item.metadata or {} for item in self.data.schema}
            found = {name: (about.get(b"unit") or about.get(b"units") or b"").decode() for name, about in kept.items()}
        else:
            found = dict(self.data.units) if isinstance(self.data, Catalog) else {}
        return {name: str(unit) for name, unit in found.items() if unit is not None and str(unit)}

    def info(self) -> CatalogInfo:
        """Return what is known of a catalogue before its rows are read."""
        path = self.data.provenance.path if isinstance(self.data, Catalog) else None
        return CatalogInfo(path or IN_MEMORY, "memory", self.names, {}, self.units, len(self), {})


def as_table(data: Any, schema: SchemaConfig | None = None) -> Table:
    """Return a table of any library, or the rows of a file, behind one interface."""
    if is_path(data):
        return Table(read_catalog(data, **(schema or SchemaConfig()).access), "gpzed")
    library = next((kind.__module__.partition(".")[0] for kind in type(data).__mro__ if _is_known(kind)), None)
    if library is not None and hasattr(data, _NAMES[library]):  # series and single columns have none
        table = Table(data, library)
        refuse_repeated(table.names, "`data`")
        return table
    if isinstance(data, Mapping):
        return Table(data, "")
    raise CatalogError(
        f"`data` is a {_kind(data)}; expected a data frame (pandas, polars, pyarrow), "
        "an astropy table, a dict of arrays, or the path of a catalogue"
    )


def is_path(data: Any) -> bool:
    """Tell whether something is the path of a file, and not a table."""
    return isinstance(data, str | os.PathLike)


def _kind(data: Any) -> str:
    return f"{type(data).__module__.partition('.')[0]}.{type(data).__name__}"


def _is_known(kind: type) -> bool:
    return bool(kind.__module__.partition(".")[0] in _READERS)


# ---------------------------------------------------------------- reading a column: values, and what is missing

Column = tuple[Any, BoolArray | None]


def _from_pandas(column: Any) -> Column:
    if isinstance(column.dtype, np.dtype) and column.dtype.kind != "O":
        return column.to_numpy(), None
    values, missing = column.astype(object).to_numpy(copy=True), column.isna().to_numpy()
    values[missing] = None
    return values, None


def _from_polars(column: Any) -> Column:
    if column.dtype.is_numeric():
        missing = column.is_null().to_numpy()
        return column.fill_null(0).to_numpy(), missing if missing.any() else None
    return np.array(column.to_list(), dtype=object), None


def _from_pyarrow(column: Any) -> Column:
    import pyarrow as pa

    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        missing = column.is_null().to_numpy()
        return column.fill_null(0).to_numpy(), missing if missing.any() else None
    return np.array(column.to_pylist(), dtype=object), None


def _from_astropy(column: Any) -> Column:
    mask = getattr(column, "mask", None)
    values = np.asarray(getattr(getattr(column, "unmasked", column), "value", getattr(column, "data", column)))
    missing = None if mask is None else np.broadcast_to(np.asarray(mask, dtype=bool), values.shape)
    return np.ma.getdata(values), missing


def _from_array(column: Any) -> Column:
    return getattr(column, "value", column) if hasattr(column, "unit") else column, None


_READERS = {
    "pandas": _from_pandas,
    "polars": _from_polars,
    "pyarrow": _from_pyarrow,
    "astropy": _from_astropy,
    "gpzed": _from_array,
    "": _from_array,
}


# ---------------------------------------------------------------- adding columns


def _is_nested(values: Any) -> bool:
    """Tell whether a column holds several numbers per row."""
    return isinstance(values, Lists) or values.ndim > 1


def _to_pandas(data: Any, columns: dict[str, AnyArray]) -> Any:
    import pandas as pd

    kept = data[[name for name in data.columns if str(name) not in columns]]
    made = {name: list(values) if _is_nested(values) else values for name, values in columns.items()}
    return pd.concat([kept, pd.DataFrame(made, index=data.index)], axis=1)


def _to_polars(data: Any, columns: dict[str, AnyArray]) -> Any:
    import polars as pl

    nested = {name: pl.Series(name, list(values)) for name, values in columns.items() if _is_nested(values)}
    plain = {name: pl.Series(name, values) for name, values in columns.items() if name not in nested}
    return data.with_columns([{**plain, **nested}[name] for name in columns])


def _to_pyarrow(data: Any, columns: dict[str, AnyArray]) -> Any:
    import pyarrow as pa

    kept = data.select([name for name in data.column_names if name not in columns])
    for name, values in columns.items():
        kept = kept.append_column(name, to_arrow(pa, values, None))
    return kept


def _to_astropy(data: Any, columns: dict[str, AnyArray]) -> Any:
    table = data.copy()
    for name, values in columns.items():
        table[name] = values
    return table


_WRITERS: dict[str, Callable[[Any, dict[str, AnyArray]], Any]] = {
    "pandas": _to_pandas,
    "polars": _to_polars,
    "pyarrow": _to_pyarrow,
    "astropy": _to_astropy,
    "gpzed": lambda data, columns: data.with_columns(columns),
    "": lambda data, columns: {**data, **columns},
}
