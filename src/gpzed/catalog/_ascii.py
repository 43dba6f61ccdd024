"""Tables of text through astropy, read whole: columns between blanks or tabs, CDS and machine-readable tables, IPAC."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

from gpzed.catalog._astropy import WholeReader
from gpzed.catalog._format import require
from gpzed.errors import CatalogError

_README = ("ReadMe", "README", "readme", "ReadMe.txt")
_NO_NAME = re.compile(r"col\d+|[-+]?[0-9.]+(?:[eE][-+]?\d+)?")


class AsciiReader(WholeReader):
    """A table of text, with its column names in a first line (with or without ``#``) or in the header of its format.

    A table of VizieR without names is read with the ``ReadMe`` beside it.
    """

    title = "ASCII"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        ascii_ = require("astropy.io.ascii", "reading ASCII tables", "fits")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = self._with_readme(ascii_)
            if table is None:
                table = ascii_.read(str(path))
        if all(_NO_NAME.fullmatch(name) for name in table.colnames):
            raise CatalogError(
                f"'{path}' has no line with the names of its {len(table.colnames)} columns; put one on top, such as "
                "'id mag_g mag_err_g z_spec', or the ReadMe of the catalogue beside it"
            )
        self._hold(table)

    def _with_readme(self, ascii_: Any) -> Any:
        """Return the table as the ReadMe beside it describes it, None if there is no such description."""
        for name in _README:
            readme = self.path.with_name(name)
            if readme.is_file() and readme != self.path and self.path.name in readme.read_text("utf-8", "replace"):
                return ascii_.read(str(self.path), format="cds", readme=str(readme))
        return None
