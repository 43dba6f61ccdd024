"""Small catalogues with a learnable redshift, for the tests of features, pipeline and command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gpzed.catalog import Catalog, write_catalog
from gpzed.config import RunConfig

BANDS = ("u", "g", "r")
QUICK = {
    "model": {"n_basis": 5, "n_members": 1, "n_heads": 1},
    "training": {"patience": 2, "tol": 1e-4},
}


def galaxies(n: int, seed: int = 0) -> Catalog:
    """Return n galaxies with ids, names, magnitudes, errors and redshifts."""
    rng = np.random.default_rng(seed)
    z = rng.uniform(0.05, 1.0, n)
    bright = rng.uniform(18.0, 21.0, n)
    columns: dict[str, object] = {
        "id": rng.integers(1 << 60, size=n),
        "name": np.array([f"galaxy é{i}" for i in range(n)]),
    }
    for k, band in enumerate(BANDS):
        error = 0.02 + 0.03 * rng.random(n)
        mag = bright + (2 - k) * z + error * rng.standard_normal(n)
        columns[f"mag_{band}"], columns[f"mag_err_{band}"] = mag.astype(np.float32), error.astype(np.float32)
    columns["z_spec"] = z
    return Catalog(columns, units={"mag_u": "mag"})


def with_sentinels(table: Catalog) -> Catalog:
    """Return the table with a non-detection, a missing band, a failed one, an extreme one and an empty row in front."""
    columns = {name: np.array(table[name]) for name in table.names}
    columns["mag_u"][:5] = (99.0, -9999.0, 20.0, 45.0, np.nan)
    columns["mag_err_u"][:5] = (99.0, -9999.0, -1.0, 0.05, np.nan)
    columns["mag_g"][4] = columns["mag_r"][4] = np.nan
    return Catalog(columns)


def quick_config(**sections: dict[str, object]) -> RunConfig:
    """Return a configuration that trains in a moment."""
    return RunConfig.from_dict({**QUICK, **sections})


def write(table: Catalog, path: Path) -> Path:
    """Write a table and return its path."""
    write_catalog(table, path)
    return path
