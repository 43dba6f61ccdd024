"""One file for named arrays and a JSON header: versioned, checksummed, written atomically, never executed.

Layout: 8 bytes of magic, a line ``kind version``, the length of the header (8 bytes, little-endian), the header as
UTF-8 JSON, the arrays as raw little-endian bytes in the order of the header, and the SHA-256 of all that precedes.
"""

from __future__ import annotations

import hashlib
import json
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
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError) as reason:
        raise error(
            f'"{source}" lacks or garbles a part of the {kind} ({reason}); this version of gpzed did not write it. '
            "Train again."
        ) from reason


def pack(kind: str, version: int, header: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> bytes:
    """Serialise a header, of anything that JSON can hold, and arrays."""
    index, chunks = [], []
    for name, array in arrays.items():
        array = np.asarray(array)
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        if little.dtype.str not in _DTYPES:
            raise TypeError(f"array {name!r} has dtype {array.dtype}, which a gpzed file does not hold.")
        index.append([name, little.dtype.str, list(array.shape)])
        chunks.append(little.tobytes())
    text = json.dumps({"header": dict(header), "arrays": index}, allow_nan=False).encode()
    body = b"".join([MAGIC, f"{kind} {version}\n".encode(), len(text).to_bytes(8, "little"), text, *chunks])
    return body + hashlib.sha256(body).digest()


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
        return _unpack_body(payload, end + 1)
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError) as reason:
        raise error(
            f'"{source}" has a sound checksum but garbled content ({reason}); it was not written by gpzed.'
        ) from None


def _unpack_body(payload: bytes, start: int) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    length = int.from_bytes(payload[start : start + 8], "little")
    position = start + 8 + length
    content = json.loads(payload[start + 8 : position])
    arrays: dict[str, AnyArray] = {}
    for name, dtype, shape in content["arrays"]:
        size = int(np.prod(shape, dtype=np.int64))
        if dtype not in _DTYPES:
            raise ValueError(f"array {name!r} of type {dtype!r}")
        values = np.frombuffer(payload, np.dtype(dtype), size, position)
        arrays[name] = values.reshape(shape).astype(values.dtype.newbyteorder("="))
        position += values.nbytes
    return content["header"], arrays


def read_bytes(path: str | os.PathLike[str], error: type[GPzError]) -> bytes:
    """Return the content of a file; one that is not there or not readable is an `error` with the reason."""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise error(f'there is no file "{os.fspath(path)}"; check the path.') from None
    except OSError as reason:
        raise error(f'"{os.fspath(path)}" cannot be read: {reason.strerror}.') from None
