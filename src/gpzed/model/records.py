"""A tree of dataclasses as (JSON, arrays), and back: driven by their fields and type hints, and strict about both.

Numbers, text, lists and mappings go into the JSON part under the names of the fields; arrays are named by their path in
the tree, like ``members/0/parameters/P``. Sequences of records that hold nothing but numbers become one table.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from gpzed._types import AnyArray

T = TypeVar("T")
Arrays = dict[str, AnyArray]
LARGEST = 1e100
"""No number of a record is larger: squares and products of some stay finite."""
_SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_known: dict[Any, dict[str, Any]] = {}  # fields of records
_codes: dict[type, tuple[Callable[[Any], str], Callable[[str], Any]]] = {}
_unbounded: set[tuple[type, str]] = set()  # fields that may be NaN or infinite


def to_parts(record: Any) -> tuple[dict[str, Any], Arrays]:
    """Take a dataclass instance apart: plain JSON types, and arrays by their path in the tree."""
    arrays: Arrays = {}
    return _store(record, type(record), "", arrays), arrays


def from_parts(kind: type[T], stored: Any, arrays: Mapping[str, AnyArray]) -> T:
    """Undo `to_parts`: ValueError if something is missing, unknown, or not of the type that its field declares."""
    left = dict(arrays)
    record: T = _restore(stored, kind, "", left)
    if left:
        raise ValueError(f"unknown array {next(iter(left))!r}")
    return record


def store_as_text(kind: type[T], to_text: Callable[[T], str], from_text: Callable[[str], T]) -> None:
    """Let values of a type that is not a plain record be stored as text."""
    _codes[kind] = (to_text, from_text)


def may_be_infinite(kind: type, *names: str) -> None:
    """Let some numbers of a record be NaN or infinite; all others must be finite and below `LARGEST`."""
    _unbounded.update((kind, name) for name in names)


def learn_fields(kind: Any) -> None:
    """Resolve the type hints of a record and of all that it holds now, so that reading a file evaluates nothing."""
    for choice in _choices(kind):
        if dataclasses.is_dataclass(choice) and choice not in _codes:
            for hint in _fields(choice).values():
                learn_fields(hint)
        else:
            for argument in get_args(choice):
                learn_fields(argument)


# ---------------------------------------------------------------- to parts


def _store(value: Any, hint: Any, path: str, arrays: Arrays) -> Any:
    if hint in _codes and value is not None:
        return _codes[hint][0](value)
    if dataclasses.is_dataclass(value):
        return _store_record(value, path, arrays)
    if isinstance(value, np.ndarray):
        if not np.all(np.abs(value) < LARGEST):
            raise ValueError(
                f"`{path}` has values that are not finite, or beyond {LARGEST:g}; rescale inputs and target."
            )
        arrays[path] = value
        return None
    if isinstance(value, list | tuple):
        return _store_sequence(value, hint, path, arrays)
    if isinstance(value, Mapping):
        item = _item_hint(hint)
        return {str(key): _store(entry, item, f"{path}/{key}", arrays) for key, entry in value.items()}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"`{path}` is a {type(value).__name__}, which a gpzed file does not hold.")


def _store_record(record: Any, path: str, arrays: Arrays) -> dict[str, Any]:
    stored = {}
    for name, hint in _fields(type(record)).items():
        value, place = getattr(record, name), f"{path}/{name}" if path else name
        kept = _store(value, _present(hint) if value is not None else hint, place, arrays)
        if place not in arrays:
            stored[name] = kept
    return stored


def _store_sequence(values: Any, hint: Any, path: str, arrays: Arrays) -> Any:
    item = _item_hint(hint)
    if _is_row(item):
        rows = [dataclasses.astuple(value) for value in values]
        arrays[path] = np.array(rows, dtype=np.float64).reshape(len(rows), len(_fields(item)))
        return None
    return [_store(value, item, f"{path}/{index}", arrays) for index, value in enumerate(values)]


# ---------------------------------------------------------------- from parts


def _restore(stored: Any, hint: Any, path: str, arrays: Arrays) -> Any:
    choices = _choices(hint)
    if len(choices) > 1:
        return _restore_choice(stored, choices, path, arrays)
    kind = choices[0]
    origin = get_origin(kind) or kind
    if kind in _codes:
        return _codes[kind][1](_checked(stored, str, path))
    if dataclasses.is_dataclass(kind):
        return _restore_record(stored, kind, path, arrays)
    if origin is np.ndarray:
        return _restore_array(kind, path, arrays)
    if origin in (list, tuple):
        return _restore_sequence(stored, kind, path, arrays)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        item = _item_hint(kind)
        entries = _checked(stored, dict, path).items()
        return {key: _restore(entry, item, f"{path}/{key}", arrays) for key, entry in entries}
    if origin is Literal:
        if stored not in get_args(kind):
            raise ValueError(f"`{path}` is {stored!r}; expected one of {get_args(kind)}")
        return stored
    if kind is float and isinstance(stored, str) and stored in _SPECIAL:
        return _SPECIAL[stored]
    return stored if kind is Any else _checked(stored, kind, path)


def _restore_choice(stored: Any, choices: tuple[Any, ...], path: str, arrays: Arrays) -> Any:
    if stored is None and path not in arrays and type(None) in choices:
        return None
    present = [choice for choice in choices if choice is not type(None)]
    for choice in present[:-1]:
        try:
            return _restore(stored, choice, path, arrays)
        except (TypeError, ValueError):
            continue
    return _restore(stored, present[-1], path, arrays)


def _restore_record(stored: Any, kind: Any, path: str, arrays: Arrays) -> Any:
    stored = _checked(stored, dict, path)
    hints = _fields(kind)
    for name in stored:
        if name not in hints:
            raise ValueError(f"unknown field {name!r} in `{path or kind.__name__}`")
    values = {}
    for name, hint in hints.items():
        place = f"{path}/{name}" if path else name
        if (name in stored) == (place in arrays):
            raise ValueError(f"`{place}` is missing, or there twice")
        value = values[name] = _restore(stored.get(name), hint, place, arrays)
        if isinstance(value, float) and not abs(value) < LARGEST and (kind, name) not in _unbounded:
            raise ValueError(f"`{place}` is {value}; expected a finite number, below {LARGEST:g}")
    return kind(**values)


def _restore_array(kind: Any, path: str, arrays: Arrays) -> AnyArray:
    if path not in arrays:
        raise ValueError(f"array {path!r} is missing")
    array = arrays.pop(path)
    (dtype,) = get_args(get_args(kind)[1])
    if dtype is not Any and array.dtype != np.dtype(dtype):
        raise ValueError(f"array {path!r} is of type {array.dtype}; expected {np.dtype(dtype)}")
    if not np.all(np.abs(array) < LARGEST):
        raise ValueError(f"array {path!r} has values that are not finite, or beyond {LARGEST:g}")
    return array


def _restore_sequence(stored: Any, kind: Any, path: str, arrays: Arrays) -> Any:
    item, make = _item_hint(kind), get_origin(kind) or kind
    if _is_row(item):
        if path not in arrays:
            raise ValueError(f"array {path!r} is missing")
        table, hints = arrays.pop(path), list(_fields(item).values())
        if table.ndim != 2 or table.shape[1] != len(hints):
            raise ValueError(f"array {path!r} has shape {table.shape}; expected (rows, {len(hints)})")
        return make(item(*(kind(value) for kind, value in zip(hints, row, strict=True))) for row in table.tolist())
    entries = _checked(stored, list, path)
    return make(_restore(entry, item, f"{path}/{index}", arrays) for index, entry in enumerate(entries))


def _checked(value: Any, kind: Any, path: str) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    is_number = kind in (int, float) and isinstance(value, bool)
    if is_number or not isinstance(value, kind):
        raise ValueError(f"`{path}` is {str(value)[:40]!r}; expected {getattr(kind, '__name__', kind)}")
    return value


# ---------------------------------------------------------------- type hints


def _fields(kind: Any) -> dict[str, Any]:
    if kind not in _known:
        hints = get_type_hints(kind)
        _known[kind] = {item.name: hints[item.name] for item in dataclasses.fields(kind) if item.init}
    return _known[kind]


def _choices(hint: Any) -> tuple[Any, ...]:
    choices = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return tuple(_spelt_out(choice) for choice in choices)


def _spelt_out(hint: Any) -> Any:
    """Return what an alias of a type stands for; NumPy's NDArray is one from NumPy 2.5 on."""
    alias = getattr(get_origin(hint), "__value__", None)
    return hint if alias is None else alias[get_args(hint)]


def _present(hint: Any) -> Any:
    """Return what an optional field holds if it holds something."""
    present = [choice for choice in _choices(hint) if choice is not type(None)]
    return present[0] if len(present) == 1 else hint


def _item_hint(hint: Any) -> Any:
    """Return the type of the elements of a sequence, or of the values of a mapping."""
    arguments = [argument for argument in get_args(hint) if argument is not Ellipsis]
    return arguments[-1] if arguments else Any


def _is_row(hint: Any) -> bool:
    """Tell whether records of a type hold nothing but numbers."""
    return dataclasses.is_dataclass(hint) and all(kind in (int, float) for kind in _fields(hint).values())
