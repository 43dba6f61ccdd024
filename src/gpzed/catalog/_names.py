"""Names that are not there, or twice, and texts that are numbers."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence

from gpzed.errors import CatalogError


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


def refuse_repeated(names: Iterable[str], where: str) -> None:
    """Raise if two columns have the same name."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise CatalogError(f"{where}: column {twice[0]!r} appears twice; rename one")


def is_number(text: str) -> bool:
    """Tell whether a text reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
