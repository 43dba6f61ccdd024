"""Helpers of the configuration: types to words and back, nearest keys, docstrings to comments, values to TOML."""

from __future__ import annotations

import difflib
import inspect
import json
import re
import reprlib
import textwrap
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin

_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text in quotes"}
MAX_TEXT, MAX_ENTRIES, MAX_DEPTH = 1000, 10_000, 3
"""Characters of a text, entries of a list, and lists within lists that an option may have."""
MAX_NUMBER = 1e38
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80
_EXAMPLES = {int: "1", float: "1.0", bool: "true", str: '"..."'}


def fits_type(value: Any, hint: Any) -> tuple[bool, Any]:
    """Return whether a TOML value is of a type, and the value as that type (lists as tuples, 1 as 1.0).

    Words may have hyphens for underscores, as on the command line.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        for choice in arguments:
            ok, ready = fits_type(value, choice)
            if ok:
                return True, ready
        return False, value
    if origin is Literal:
        word = value.replace("-", "_") if isinstance(value, str) and value not in arguments else value
        return word in arguments, word
    if origin is tuple:
        return _fits_tuple(value, arguments)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            return False, value
        entries = {key: fits_type(entry, arguments[1]) for key, entry in value.items()}
        return all(ok for ok, _ in entries.values()), {key: ready for key, (_, ready) in entries.items()}
    if hint is float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number, float(value) if is_number else value
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool), value
    return isinstance(hint, type) and isinstance(value, hint), value


def unreasonable(value: Any, depth: int = 0) -> str:
    """Return what no option can be, if a value is that: not finite, too large, too long, nested too deeply."""
    if isinstance(value, Mapping | list | tuple):
        if len(value) > MAX_ENTRIES or depth > MAX_DEPTH:
            return f"has more than {MAX_ENTRIES} entries, or lists within lists; make it shorter"
        parts = [*value, *value.values()] if isinstance(value, Mapping) else value
        return next(filter(None, (unreasonable(part, depth + 1) for part in parts)), "")
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return f"has a text of {len(value)} characters; expected at most {MAX_TEXT}"
    if isinstance(value, float) and not abs(value) <= MAX_NUMBER:
        return f"is or holds {value}; expected finite numbers, up to {MAX_NUMBER:g}"
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return f"is or holds a number of {value.bit_length()} bits; expected numbers of at most 64"
    return ""


def shown(value: Any, depth: int = 0) -> str:
    """Return a value for a message as a configuration has it, cut short."""
    if depth > MAX_DEPTH:
        return "..."
    if isinstance(value, Mapping):
        return f"a table with {', '.join(map(str, value))}"[:200] if value else "an empty table"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(shown(entry, depth + 1) for entry in value[:10])}{', ...' if len(value) > 10 else ''}]"[
            :200
        ]
    text = _SHORT.repr(value)
    return text if len(text) <= 200 else text[:200] + "..."


def _fits_tuple(value: Any, arguments: tuple[Any, ...]) -> tuple[bool, Any]:
    if not isinstance(value, list | tuple):
        return False, value
    kinds = [arguments[0]] * len(value) if len(arguments) == 2 and arguments[1] is Ellipsis else list(arguments)
    if len(kinds) != len(value):
        return False, value
    entries = [fits_type(entry, kind) for entry, kind in zip(value, kinds, strict=True)]
    return all(ok for ok, _ in entries), tuple(ready for _, ready in entries)


def describe_type(hint: Any) -> str:
    """Return what a type expects, in words."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(describe_type(choice) for choice in arguments if choice is not type(None))
    if origin is Literal:
        quoted = [json.dumps(choice) for choice in arguments]
        return quoted[0] if len(quoted) == 1 else "one of " + ", ".join(quoted)
    if origin is tuple:
        return f"a list, each entry {describe_type(arguments[0])}"
    if origin is not None and issubclass(origin, Mapping):
        return f"a table, each value {describe_type(arguments[1])}"
    return _WORDS.get(hint, str(hint))


def nearest(name: str, valid: Mapping[str, str], elsewhere: Mapping[str, str] | None = None) -> str:
    """Return a hint to the valid name most like `name`, and where it belongs; else all valid names."""
    close = difflib.get_close_matches(name, valid, 1, 0.6)
    if close:
        return f"did you mean `{close[0]}` {valid[close[0]]}?"
    far = difflib.get_close_matches(name, elsewhere or {}, 1, 0.8)
    if far and elsewhere:
        return f"did you mean `{far[0]}` {elsewhere[far[0]]}?"
    return f"valid keys: {', '.join(valid)}"


def parameter_docs(kind: Any) -> dict[str, str]:
    """Return the description of every parameter of a numpydoc docstring."""
    text = inspect.cleandoc(kind.__doc__ or "")
    found = re.search(r"(?ms)^Parameters\n-+\n(.*?)(?=^\w[\w ]*\n-+$|\Z)", text)
    docs: dict[str, str] = {}
    names: list[str] = []
    for line in (found[1] if found else "").splitlines():
        if line and not line[0].isspace():
            names = [name.strip() for name in line.partition(":")[0].split(",")]
        elif line.strip():
            for name in names:
                docs[name] = f"{docs.get(name, '')} {line.strip()}".strip()
    return docs


def commented(name: str, value: Any, hint: Any, doc: str) -> list[str]:
    """Return the lines of one key: its description as comments, then the assignment, commented out if unset."""
    lines = textwrap.wrap(doc, 100, initial_indent="# ", subsequent_indent="# ")
    if value is None:
        return [*lines, f"#: {name} = {_example(hint)}"]
    return [*lines, f"{name} = {_toml(value)}"]


def _example(hint: Any) -> str:
    choices = [choice for choice in get_args(hint) if choice is not type(None)] or [hint]
    choice = choices[0]
    if get_origin(choice) is tuple:
        return f"[{_EXAMPLES.get(get_args(choice)[0], '')}]"
    return _EXAMPLES.get(choice, '"..."')


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(entry) for entry in value) + "]"
    return repr(value)
