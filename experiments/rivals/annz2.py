"""Output files of ANNz2, for those who have it: its row beside the others."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from gpzed._types import FloatArray
from gpzed.catalog import read_catalog
from gpzed.catalog.table import Catalog
from gpzed.errors import CatalogError
from gpzed.prediction import Prediction

BEST, ERROR = "ANNZ_best", "ANNZ_best_err"
REDSHIFTS = ("Z", "z_spec", "zspec", "inTrainFlag_Z", "redshift", "z")
"""Names under which the true redshift may stand; ANNz2 copies the one of its configuration (``zTrg = "Z"``)."""


def read_annz2(path: str | os.PathLike[str]) -> tuple[FloatArray, Prediction]:
    """Read true redshifts (n,) and predictions from an output file of ANNz2.

    That is its text output (columns set apart by commas or blanks, names in the first line, perhaps after a ``#``), or
    those columns in any format that gpzed reads. The mean is `ANNZ_best`, the variance the square of `ANNZ_best_err`,
    as in the paper (section 7).
    """
    table = _read(Path(path))
    missing = [name for name in (BEST, ERROR) if name not in table.names]
    if missing:
        raise CatalogError(
            f"'{path}' has no column '{missing[0]}'; expected the output of ANNz2 with {BEST} and {ERROR} (its "
            "randomised regression writes both)"
        )
    column = next((name for name in REDSHIFTS if name in table.names), None)
    if column is None:
        raise CatalogError(
            f"'{path}' has no true redshift ({', '.join(REDSHIFTS)}); let ANNz2 copy it with addOutputVars"
        )
    z, mean, std = (table.floats(name) for name in (column, BEST, ERROR))
    good = np.isfinite(z) & np.isfinite(mean) & (std > 0.0) & np.isfinite(std)
    if not good.all():
        raise CatalogError(
            f"'{path}': {int((~good).sum())} of {len(z)} rows have no redshift, no {BEST} or no positive {ERROR}, row "
            f"{int(np.flatnonzero(~good)[0]) + 1} first; leave these rows out"
        )
    return z, Prediction.gaussian(mean, 0.0, std**2)


def _read(path: Path) -> Catalog:
    if path.suffix.lower() not in (".txt", ".dat", ".asc", ".csv"):
        return read_catalog(path)
    if not path.exists():
        raise CatalogError(f"there is no file '{path}'; give the output of ANNz2")
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    rows = [line.lstrip("# ").replace(",", " ").split() for line in lines]
    names = [name.partition(";")[2] or name for name in rows[0]] if rows else []  # "F;ANNZ_best", ROOT's kinds
    width = len(names)
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != width:
            raise CatalogError(f"'{path}', line {number}: {len(row)} values; expected {width}, as in the first line")
    try:
        values = np.array(rows[1:], dtype=np.float64).reshape(max(len(rows) - 1, 0), width)
    except ValueError as reason:
        raise CatalogError(f"'{path}' holds something that is no number ({reason}); give the output of ANNz2") from None
    return Catalog({name: values[:, index] for index, name in enumerate(names)})
