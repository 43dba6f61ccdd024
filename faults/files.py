"""Files of gpzed taken apart, garbled by a grammar of their parts, and put together again with a fitting checksum."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpzed.errors import GPzError
from gpzed.model.container import MAGIC, unpack

HOSTILE: tuple[Any, ...] = (
    *(None, True, False, "", "nan", "-inf", "auto", "x" * 3000, [], {}, [[]], {"": {}}, [1.0, "a"]),
    *(0, 1, -1, 3, 2**31, 2**63, 10**30, 10**400, 0.0, -1.5, 1e-320, 1e16, 1e150, 1e308, -1e308),
    *(float("nan"), float("inf"), -float("inf")),
)
"""What takes the place of a value; the last three are written as JavaScript does."""
NUMBERS = (np.nan, np.inf, -np.inf, 0.0, -1.0, 1e-300, 1e5, 1e100, 1e300, -1e300)
SHAPES: tuple[Any, ...] = ([], [0], [1], [-1], [2**40, 2**40], [10**30], [True], [1.5], ["a"], [1] * 70, None, 5, "ab")
DTYPES: tuple[Any, ...] = ("<f4", "<i8", "<u8", ">f8", "|b1", "|O", "<c16", "<M8[s]", "V8", "", None, 8, ["<f8"])


@dataclass(frozen=True)
class Parts:
    """A file taken apart: its first line, the header, and arrays as (name, dtype, shape, bytes)."""

    line: bytes
    header: dict[str, Any]
    arrays: list[tuple[Any, Any, Any, bytes]]

    @classmethod
    def of(cls, payload: bytes, kind: str) -> Parts:
        header, arrays = unpack(payload, kind, 1, source="", error=GPzError)
        listed = [(name, array.dtype.str, list(array.shape), array.tobytes()) for name, array in arrays.items()]
        return cls(f"{kind} 1\n".encode(), header, listed)

    def text(self) -> bytes:
        index = [entry[:3] for entry in self.arrays]
        return json.dumps({"header": self.header, "arrays": index}).encode()

    def sealed(self, text: bytes | None = None, length: int | None = None) -> bytes:
        text = self.text() if text is None else text
        size = (len(text) if length is None else length).to_bytes(8, "little")
        body = b"".join([MAGIC, self.line, size, text, *(entry[3] for entry in self.arrays)])
        return body + hashlib.sha256(body).digest()


def garbled(parts: Parts, rng: np.random.Generator) -> tuple[str, bytes]:
    """Return a fault drawn at random, and the file with it; one time in four with two more faults."""
    fault = str(rng.choice(list(FAULTS)))
    changed = FAULTS[fault](parts, rng)
    if rng.random() < 0.25:
        for other in rng.choice(list(FAULTS), 2):
            if isinstance(changed, Parts):
                changed = FAULTS[str(other)](changed, rng)
    return fault, changed if isinstance(changed, bytes) else changed.sealed()


Fault = Callable[[Parts, np.random.Generator], Parts | bytes]


def _value(parts: Parts, rng: np.random.Generator) -> Parts:
    """Put something else in the place of a value of the header."""

    def change(holder: Any, key: Any) -> None:
        old, draw = holder[key], rng.random()
        if isinstance(old, int | float) and abs(old) < 1e100 and draw < 0.5:
            holder[key] = [old + 1, -old, old * 1e3, float(old), old / 7, old * 10**20][rng.integers(6)]
        elif isinstance(old, str) and draw < 0.3:
            holder[key] = old[::-1] + "_"
        else:
            holder[key] = copy.deepcopy(HOSTILE[rng.integers(len(HOSTILE))])

    return _at_random(parts, rng, change)


def _dropped(parts: Parts, rng: np.random.Generator) -> Parts:
    return _at_random(parts, rng, lambda holder, key: holder.pop(key))


def _added(parts: Parts, rng: np.random.Generator) -> Parts:
    def change(holder: Any, key: Any) -> None:
        if isinstance(holder, dict):
            holder[f"{key}_"] = holder[key]
        else:
            holder.insert(key, copy.deepcopy(holder[key]))

    return _at_random(parts, rng, change)


def _renamed(parts: Parts, rng: np.random.Generator) -> Parts:
    def change(holder: Any, key: Any) -> None:
        if isinstance(holder, dict):
            holder[str(rng.choice([*holder, "", "x", "__class__", "é"]))] = holder.pop(key)
        else:
            holder.reverse()

    return _at_random(parts, rng, change)


def _swapped(parts: Parts, rng: np.random.Generator) -> Parts:
    header = copy.deepcopy(parts.header)
    places = list(_places(header))
    (one, key), (two, other) = (places[i] for i in rng.integers(len(places), size=2))
    with contextlib.suppress(KeyError, IndexError):  # one of them was inside the other
        one[key], two[other] = copy.deepcopy(two[other]), copy.deepcopy(one[key])
    return replace(parts, header=header)


def _nested(parts: Parts, rng: np.random.Generator) -> bytes:
    """Bury a value under many levels of lists or objects."""
    depth = int(rng.choice([20, 100, 900, 5000, 100_000]))
    left, right = ((b"[", b"]"), (b'{"a":', b"}"))[rng.integers(2)]
    marked = _at_random(parts, rng, lambda holder, key: holder.__setitem__(key, "@@"))
    return parts.sealed(marked.text().replace(b'"@@"', left * depth + b"1" + right * depth, 1))


def _twice(parts: Parts, rng: np.random.Generator) -> bytes:
    """Give a key of an object twice, the second time with another value."""
    marked = _at_random(parts, rng, lambda holder, key: holder.__setitem__(key, "@@"))
    other = json.dumps(HOSTILE[rng.integers(len(HOSTILE) - 3)]).encode()
    return parts.sealed(marked.text().replace(b'"@@"', b'1, "' + bytes([rng.integers(97, 123)]) + b'": ' + other, 1))


def _numbers(parts: Parts, rng: np.random.Generator) -> Parts:
    """Change the content of an array."""
    i = int(rng.integers(len(parts.arrays)))
    name, dtype, shape, content = parts.arrays[i]
    try:
        values = np.frombuffer(content, dtype).copy()
    except (TypeError, ValueError):
        return parts
    if values.size and values.dtype.kind == "f":
        scale = float(rng.choice([-1.0, 0.0, 1e-200, 1e-5, 2.0, 1e5, 1e200]))
        number = float(rng.choice(NUMBERS))
        with np.errstate(all="ignore"):
            match rng.integers(5):
                case 0:
                    values[rng.integers(values.size)] = number
                case 1:
                    values *= scale
                case 2:
                    values[rng.random(values.size) < 0.3] = number
                case 3:
                    rng.shuffle(values)
                case _:
                    values = rng.standard_normal(values.size) * 10.0 ** rng.integers(-3, 4)
    return _with_array(parts, i, (name, dtype, shape, values.tobytes()))


def _bits(parts: Parts, rng: np.random.Generator) -> Parts:
    """Flip bits of an array."""
    i = int(rng.integers(len(parts.arrays)))
    name, dtype, shape, content = parts.arrays[i]
    raw = np.frombuffer(content, np.uint8).copy()
    if raw.size:
        raw[rng.integers(raw.size, size=3)] ^= np.uint8(1) << rng.integers(8, size=3).astype(np.uint8)
    return _with_array(parts, i, (name, dtype, shape, raw.tobytes()))


def _shape(parts: Parts, rng: np.random.Generator) -> Parts:
    i = int(rng.integers(len(parts.arrays)))
    name, dtype, shape, content = parts.arrays[i]
    other = copy.deepcopy(SHAPES[rng.integers(len(SHAPES))])
    if isinstance(shape, list) and shape and rng.random() < 0.7:
        other = [shape[::-1], [*shape, 1], shape[1:], [shape[0] + 1, *shape[1:]], [0, *shape[1:]]][rng.integers(5)]
        if rng.random() < 0.5:  # with as many numbers as it needs
            content = (content * 3)[: 8 * int(np.prod(other))]
    return _with_array(parts, i, (name, dtype, other, content))


def _dtype(parts: Parts, rng: np.random.Generator) -> Parts:
    i = int(rng.integers(len(parts.arrays)))
    name, dtype, shape, content = parts.arrays[i]
    other = DTYPES[rng.integers(len(DTYPES))]
    if dtype == "<f8" and other in ("<f4", "<i8", "<u8") and rng.random() < 0.7:
        with np.errstate(all="ignore"):
            content = np.frombuffer(content, "<f8").astype(other).tobytes()
    return _with_array(parts, i, (name, other, shape, content))


def _arrays(parts: Parts, rng: np.random.Generator) -> Parts:
    """Drop, double, rename, swap or add an array."""
    arrays = list(parts.arrays)
    i, j = rng.integers(len(arrays), size=2)
    match rng.integers(5):
        case 0:
            arrays.pop(i)
        case 1:
            arrays.append(arrays[i])
        case 2:
            arrays[i] = (HOSTILE[rng.integers(len(HOSTILE) - 3)], *arrays[i][1:])
        case 3:
            arrays[i], arrays[j] = (arrays[i][0], *arrays[j][1:]), (arrays[j][0], *arrays[i][1:])
        case _:
            arrays.append(("surprise", "<f8", [1], bytes(8)))
    return replace(parts, arrays=arrays or list(parts.arrays))


def _letters(parts: Parts, rng: np.random.Generator) -> bytes:
    """Change single letters of the header."""
    text = np.frombuffer(parts.text(), np.uint8).copy()
    text[rng.integers(len(text), size=rng.integers(1, 4))] = rng.choice(np.frombuffer(b'0919-.e"[]{},:ax\\\xff', "u1"))
    return parts.sealed(text.tobytes())


def _length(parts: Parts, rng: np.random.Generator) -> bytes:
    """Say that the header is longer or shorter than it is."""
    right = len(parts.text())
    return parts.sealed(length=(0, 1, 2**31, 2**62, right + 1, right - 1, 2**64 - 1)[rng.integers(7)])


def _line(parts: Parts, rng: np.random.Generator) -> Parts:
    lines = (b"", b"\n", b"model\n", b"model 99\n", b"zebra 1\n", b"\xff\xff 1\n", b"model 1", b"model 1e0\n")
    return replace(parts, line=lines[rng.integers(len(lines))])


FAULTS: dict[str, Fault] = {
    "value": _value,
    "key dropped": _dropped,
    "key added": _added,
    "key renamed": _renamed,
    "key twice": _twice,
    "values swapped": _swapped,
    "nesting": _nested,
    "numbers": _numbers,
    "bits": _bits,
    "shape": _shape,
    "type": _dtype,
    "arrays": _arrays,
    "letters": _letters,
    "length": _length,
    "first line": _line,
}


def _with_array(parts: Parts, index: int, entry: tuple[Any, Any, Any, bytes]) -> Parts:
    arrays = list(parts.arrays)
    arrays[index] = entry
    return replace(parts, arrays=arrays)


def _at_random(parts: Parts, rng: np.random.Generator, change: Callable[[Any, Any], Any]) -> Parts:
    """Change the header at a place drawn at random."""
    header = copy.deepcopy(parts.header)
    places = list(_places(header))
    if places:
        change(*places[rng.integers(len(places))])
    return replace(parts, header=header)


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield all places of a tree, as containers and keys."""
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield tree, key
        yield from _places(tree[key])
