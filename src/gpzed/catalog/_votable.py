"""VOTable in, read whole through astropy."""

from __future__ import annotations

import warnings
from pathlib import Path

from gpzed.catalog._astropy import WholeReader, from_astropy
from gpzed.catalog._common import reading, require
from gpzed.errors import CatalogError


class VotableReader(WholeReader):
    """The first table of a VOTable document that has columns."""

    def __init__(self, path: Path) -> None:
        votable = require("astropy.io.votable", "reading VOTable", "fits")
        with reading(path, "VOTable"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            document = votable.parse(path, verify="ignore")
            tables = [table for table in document.iter_tables() if table.fields]
            if not tables:
                raise CatalogError(f"'{path}' holds no TABLE with FIELDs; give a VOTable with one")
            read = tables[0].to_table(use_names_over_ids=True)
        super().__init__(from_astropy(read, path, "votable"))
