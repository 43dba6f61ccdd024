"""One file for named arrays and a JSON header: versioned, checksummed, written atomically, never executed.

Layout: 8 bytes of magic, a line ``kind version``, the length of the header (8 bytes, little-endian), the header as
UTF-8 JSON, the arrays as raw little-endian bytes in the order of the header, and the SHA-256 of all that precedes.
Numbers that single precision holds exactly are stored in it, and triangular matrices without their zeros.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from gpzed._types import AnyArray
from gpzed.errors import GPzError
from gpzed.model.records import from_parts, to_parts

T = TypeVar("T")
MAGIC = b"\x89GPZED\r\n"
DIGEST_SIZE = 32
MAX_DEPTH, MAX_DIGITS, MAX_DIMENSIONS = 32, 50, 8
"""Limits of what a header may hold: levels of lists and objects, digits of a number, axes of an array."""
_DTYPES = {"<f8", "<f4", "<i8", "<i4", "<u4", "|u1", "|b1", "<u8", "|i1"}


def pack_record(kind: str, version: int, record: Any) -> bytes:
    """Return the content of a file of some kind (one word) that holds a record; see `gpzed.model.records`."""
    return pack(kind, version, *to_parts(record))


def unpack_record(payload: bytes, kind: str, version: int, record: type[T], *, source: str, error: type[GPzError]) -> T:
    """Undo `pack_record`: return an instance of `record`, or raise an `error` that names `source`.

    `version` is the latest that can be read.
    """
    header, arrays = unpack(payload, kind, version, source=source, error=error)
    try:
        return from_parts(record, header, arrays)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError) as reason:
        raise error(
            f'"{source}" lacks or garbles a part of the {kind} ({str(reason)[:300]}); this version of gpzed did not '
            "write it. Train again."
        ) from reason


def pack(kind: str, version: int, header: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> bytes:
    """Serialise a header, of anything that JSON can hold, and arrays."""
    index, chunks = [], []
    for name, array in arrays.items():
        array = np.asarray(array)
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        if little.dtype.str not in _DTYPES:
            raise TypeError(f"array {name!r} has dtype {array.dtype}, which a gpzed file does not hold.")
        stored = _stored(little)
        index.append([name, little.dtype.str, list(array.shape), stored.dtype.str, bool(stored.ndim < little.ndim)])
        chunks.append(stored.tobytes())
    text = json.dumps({"header": dict(header), "arrays": index}, allow_nan=False).encode()
    body = b"".join([MAGIC, f"{kind} {version}\n".encode(), len(text).to_bytes(8, "little"), text, *chunks])
    return body + hashlib.sha256(body).digest()


def _stored(array: AnyArray) -> AnyArray:
    """Return what is stored of an array: single precision where it is exact, rows of a lower triangle one by one."""
    if array.dtype == "<f8":
        with np.errstate(over="ignore"):
            single = array.astype("<f4")
        array = single if np.array_equal(single, array, equal_nan=True) else array
    if array.ndim == 2 and len(array) == array.shape[1] > 1 and not np.triu(array, 1).any():
        return array[np.tril_indices(len(array))]
    return array


def _restored(values: AnyArray, dtype: str, shape: list[int], is_lower: bool) -> AnyArray:
    """Undo `_stored`, in the byte order of this machine."""
    wanted = np.dtype(dtype).newbyteorder("=")
    if not is_lower:
        return values.reshape(shape).astype(wanted)
    array = np.zeros(shape, wanted)
    array[np.tril_indices(shape[0])] = values
    return array


def unpack(
    payload: bytes, kind: str, version: int, *, source: str, error: type[GPzError]
) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Undo `pack`, with a reason for everything that can be wrong."""
    if not payload.startswith(MAGIC):
        what = "is empty" if not payload else "does not begin like a gpzed file"
        raise error(f'"{source}" {what}; expected a gpzed {kind} file. Give the file that gpzed wrote.')
    end = payload.find(b"\n", len(MAGIC), len(MAGIC) + 64)
    words = payload[len(MAGIC) : max(end, 0)].decode("ascii", "replace").split()
    if len(words) != 2 or not words[1].isdigit():
        raise error(f'"{source}" is damaged near its beginning; restore it from a copy, or train again.')
    if words[0] != kind:
        raise error(f'"{source}" is a gpzed {words[0]} file; expected a {kind} file.')
    if int(words[1]) > version:
        raise error(
            f'"{source}" has format version {words[1]}, but this gpzed reads up to version {version}. '
            "Upgrade gpzed (`pip install --upgrade gpzed`) to read it."
        )
    if hashlib.sha256(payload[:-DIGEST_SIZE]).digest() != payload[-DIGEST_SIZE:]:
        raise error(
            f'"{source}" fails its checksum: it was truncated or altered after it was written. '
            "Restore it from a copy, or train again."
        )
    try:
        return _unpack_body(payload[:-DIGEST_SIZE], end + 1)
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError) as reason:
        raise error(
            f'"{source}" has a sound checksum but garbled content ({str(reason)[:300]}); it was not written by gpzed.'
        ) from None


def _unpack_body(body: bytes, start: int) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    position = start + 8 + int.from_bytes(body[start : start + 8], "little")
    if start + 8 > len(body) or position > len(body):
        raise ValueError("a header that goes on beyond the end")
    content = _read_json(body[start + 8 : position].decode())
    if not isinstance(content, dict) or content.keys() != {"header", "arrays"} or type(content["header"]) is not dict:
        raise ValueError("no header and arrays")
    arrays: dict[str, AnyArray] = {}
    for name, dtype, shape, *more in content["arrays"]:
        stored, is_lower = more or (dtype, False)
        if not isinstance(name, str) or name in arrays:
            raise ValueError(f"an array named {str(name)[:40]!r}, or two of that name")
        known = dtype in _DTYPES and (stored == dtype or (stored, dtype) == ("<f4", "<f8"))
        if not known or type(is_lower) is not bool:
            raise ValueError(f"array {name!r} of type {str(dtype)[:40]!r}, stored as {str(stored)[:40]!r}")
        if len(shape) > MAX_DIMENSIONS or not all(type(length) is int and length >= 0 for length in shape):
            raise ValueError(f"array {name!r} of shape {str(shape)[:40]}")
        if is_lower and (len(shape) != 2 or shape[0] != shape[1]):
            raise ValueError(f"array {name!r} of shape {str(shape)[:40]}, no triangle")
        count = shape[0] * (shape[0] + 1) // 2 if is_lower else math.prod(shape)
        if count * np.dtype(stored).itemsize > len(body) - position:
            raise ValueError(f"array {name!r} of shape {str(shape)[:40]}, beyond the end")
        values = np.frombuffer(body, np.dtype(stored), count, position)
        arrays[name] = _restored(values, dtype, shape, is_lower)
        position += values.nbytes
    if position != len(body):
        raise ValueError(f"{len(body) - position} bytes that belong to no array")
    return content["header"], arrays


def _read_json(text: str) -> Any:
    """Read JSON as `pack` writes it: no key twice, nothing but finite numbers of sensible length, and not too deep."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a key that stands twice")
        return found

    def number(digits: str) -> Any:
        value = float(digits)
        if not math.isfinite(value) or len(digits) > MAX_DIGITS:
            raise ValueError(f"the number {digits[:40]}")
        return value if set(digits) & set(".eE") else int(digits)

    content = json.loads(text, object_pairs_hook=unique, parse_float=number, parse_int=number, parse_constant=number)
    level, depth = [content], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise ValueError(f"more than {MAX_DEPTH} levels")
        inner = [part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list)]
        level = [part for parts in inner for part in parts]
    return content


def read_bytes(path: str | os.PathLike[str], error: type[GPzError]) -> bytes:
    """Return the content of a file; one that is not there or not readable is an `error` with the reason."""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise error(f'there is no file "{os.fspath(path)}"; check the path.') from None
    except OSError as reason:
        raise error(f'"{os.fspath(path)}" cannot be read: {reason.strerror}.') from None
