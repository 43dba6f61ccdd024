"""Near misses for names that are not there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


def near_misses(name: str, names: Iterable[str], n: int = 3) -> list[str]:
    """Return the names most like `name`, letter case aside."""
    by_lower: dict[str, str] = {}
    for known in names:
        by_lower.setdefault(known.lower(), known)
    return [by_lower[k] for k in difflib.get_close_matches(name.lower(), by_lower, n=n, cutoff=0.6)]


def missing_column_message(name: str, names: Sequence[str], where: str) -> str:
    """Return the message for a column that is not there: near misses, then what there is."""
    near = near_misses(name, names)
    hint = f"did you mean {', '.join(repr(k) for k in near)}?" if near else "no column has a similar name."
    shown = ", ".join(repr(k) for k in names[:30]) + (", ..." if len(names) > 30 else "")
    return f"{where} has no column {name!r}; {hint} It has {len(names)} columns: {shown}"
