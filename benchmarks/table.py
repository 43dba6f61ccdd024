"""Markdown table of a file of JSON lines, for the documentation: `python benchmarks/table.py FILE COLUMN ...`."""

from __future__ import annotations

import json
import sys


def cell(value: object) -> str:
    """Write one value the way a reader wants it."""
    if isinstance(value, dict):
        return ", ".join(f"`{key}={item!r}`" for key, item in value.items()) or "defaults"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value)


def main() -> None:
    path, *columns = sys.argv[1:]
    with open(path, encoding="utf-8") as stream:
        records = [json.loads(line) for line in stream if line.strip()]
    columns = columns or list(records[0])
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for record in records:
        print("| " + " | ".join(cell(record.get(column)) for column in columns) + " |")


if __name__ == "__main__":
    main()
