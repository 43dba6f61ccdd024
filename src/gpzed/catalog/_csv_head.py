"""The first lines of a CSV file: comments, header, delimiter, and the types of its columns."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from gpzed.errors import CatalogError

#: Comment line in which gpzed keeps dtypes and units of the columns.
COLUMNS_MARK = "# gpzed_columns: "
#: Comment line in which gpzed keeps the metadata.
METADATA_MARK = "# gpzed_metadata: "
#: Unquoted fields that mean "no value".
NULLS = ("", "null", "NULL", "Null", "NA", "N/A", "n/a", "None", "none", "--", "\\N", "<NA>")
#: What a column becomes when a value does not fit its type.
NEXT_TYPE = {"bool": "str", "int64": "uint64", "uint64": "float64", "float64": "str"}

_INTEGER = re.compile(r"[+-]?\d+")
_BOOLEANS = {"true", "false", "True", "False", "TRUE", "FALSE"}
_SAMPLE_ROWS = 1000


@dataclass(frozen=True)
class CsvHead:
    """What the lines before the data say.

    Parameters
    ----------
    names : tuple of str
        Column names.
    skip_lines : int
        Lines before the first row of data.
    delimiter : str
        Comma, tab or semicolon.
    dtypes : dict of str to str
        Types: as gpzed declared them, else a first guess from the first rows.
    declared : bool
        Whether the types were declared in the file.
    units : dict of str to str
        Units, where gpzed declared them.
    metadata : dict
        Metadata, where gpzed stored it.
    """

    names: tuple[str, ...]
    skip_lines: int
    delimiter: str
    dtypes: dict[str, str]
    declared: bool
    units: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)


def is_gzipped(path: Path) -> bool:
    """Return whether the file starts like a gzip file, whatever its name."""
    with path.open("rb") as stream:
        return stream.read(2) == b"\x1f\x8b"


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """Open a plain or gzipped CSV file as UTF-8 text, without its byte-order mark."""
    zipped = is_gzipped(path)
    with path.open("rb") as raw:
        binary: Any = gzip.GzipFile(fileobj=raw) if zipped else raw
        with io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as text:
            yield text


def read_head(path: Path) -> CsvHead:
    """Read comments, header and the first rows of a CSV file."""
    with open_text(path) as stream:
        comments: list[str] = []
        line = stream.readline()
        while line and (line.startswith("#") or not line.strip()):
            comments.append(line.rstrip("\r\n"))
            line = stream.readline()
        skip = len(comments)
        delimiter = _delimiter(line or (comments[-1] if comments else ""))
        names = _fields(line, delimiter)
        rest: Iterator[str] = stream
        if not names or all(_is_number(name) for name in names):
            header = _fields(comments[-1].lstrip("# \t"), delimiter) if comments else []
            if not names or len(header) != len(names):
                raise CatalogError(
                    f"'{path}' has no header line: its first line is {line.strip()[:80]!r}; "
                    "the first line that is no comment must name the columns"
                )
            names, rest = header, itertools.chain([line], stream)
        else:
            skip += 1
        _check_names(names, path)
        sample = list(itertools.islice(csv.reader(rest, delimiter=delimiter), _SAMPLE_ROWS))
    return _with_declarations(names, skip, delimiter, sample, comments)


def _with_declarations(
    names: list[str], skip: int, delimiter: str, sample: list[list[str]], comments: Sequence[str]
) -> CsvHead:
    columns = _marked(comments, COLUMNS_MARK)
    metadata = _marked(comments, METADATA_MARK) or {}
    if columns is not None and list(columns) == names:
        dtypes = {name: str(columns[name].get("dtype", "str")) for name in names}
        units = {name: str(columns[name]["unit"]) for name in names if "unit" in columns[name]}
        return CsvHead(tuple(names), skip, delimiter, dtypes, True, units, metadata)
    rows = [row for row in sample if len(row) == len(names) and not row[0].startswith("#")]
    guessed = {name: guess_type([row[i] for row in rows]) for i, name in enumerate(names)}
    return CsvHead(tuple(names), skip, delimiter, guessed, False, {}, metadata)


def _marked(comments: Sequence[str], mark: str) -> dict[str, Any] | None:
    for line in comments:
        if line.startswith(mark):
            try:
                found = json.loads(line[len(mark) :])
            except ValueError:
                return None
            return found if isinstance(found, dict) else None
    return None


def _delimiter(line: str) -> str:
    for candidate in (",", "\t", ";"):
        if candidate in line:
            return candidate
    return ","


def _fields(line: str, delimiter: str) -> list[str]:
    return (
        [name.strip() for name in next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])]
        if line.strip()
        else []
    )


def _check_names(names: Sequence[str], path: Path) -> None:
    for i, name in enumerate(names):
        if not name:
            raise CatalogError(f"'{path}': column {i + 1} of {len(names)} has no name; complete the header line")
        if name in names[:i]:
            raise CatalogError(f"'{path}': column {name!r} appears twice in the header; rename one")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def guess_type(values: Sequence[str]) -> str:
    """Return the narrowest of bool, int64, uint64, float64, str that holds all the values."""
    present = [v.strip() for v in values if v.strip() not in NULLS]
    if present and all(v in _BOOLEANS for v in present):
        return "bool"
    if all(_INTEGER.fullmatch(v) for v in present):
        if not present:
            return "int64"
        low, high = min(int(v) for v in present), max(int(v) for v in present)
        if low >= -(2**63) and high < 2**63:
            return "int64"
        return "uint64" if low >= 0 and high < 2**64 else "str"
    return "float64" if all(_is_number(v) for v in present) else "str"


def head_lines(names: Sequence[str], dtypes: Mapping[str, str], units: Mapping[str, str], metadata: str | None) -> str:
    """Return the lines gpzed writes before the data."""
    columns = {name: {"dtype": dtypes[name], **({"unit": units[name]} if name in units else {})} for name in names}
    text = METADATA_MARK + metadata + "\n" if metadata else ""
    text += COLUMNS_MARK + json.dumps(columns) + "\n"
    return text + ",".join('"' + name.replace('"', '""') + '"' for name in names) + "\n"
