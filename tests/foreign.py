"""Files as other programs write them."""

from __future__ import annotations

from typing import Any


def write_votable(table: Any, path: Any) -> None:
    """Write an astropy table as VOTable text (TABLEDATA), by astropy's writer in Python.

    The one in C writes a byte past its buffer where a row fills it (astropy issue 20419); the process dies later.
    """
    from astropy.io import votable

    votable.from_table(table).to_xml(str(path), _debug_python_based_parser=True)
