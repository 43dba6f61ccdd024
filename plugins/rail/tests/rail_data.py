"""RAIL's own small data, and a model trained on them."""

from __future__ import annotations

from typing import Any

import numpy as np
from rail.core.data import TableHandle
from rail.utils.path_utils import find_rail_file

from rail.estimation.algos.gpzed import GPZedInformer

GROUP = "photometry"
TRAINING = find_rail_file("examples_data/testdata/training_100gal.hdf5")
VALIDATION = find_rail_file("examples_data/testdata/validation_10gal.hdf5")
QUICK = {"n_basis": 5, "patience": 2, "tol": 1e-4, "hdf5_groupname": GROUP}
"""Enough for a test."""
QUICK |= {name: 1 for name in ("n_heads", "n_members") if name in GPZedInformer.config_options}


def read(path: str) -> dict[str, np.ndarray]:
    """Return the columns of one of RAIL's files."""
    return {name: np.array(values) for name, values in TableHandle("any", path=path).read()[GROUP].items()}


def copies(table: dict[str, np.ndarray], times: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Return a table many times over, with magnitudes moved a little, a few non-detections and a few bands missing."""
    rng = np.random.default_rng(seed)
    more = {name: np.concatenate([values] * times) for name, values in table.items()}
    n = len(more["id"])
    more["id"] = np.arange(n, dtype=np.int64) + 7_000_000
    for name in [name for name in more if name.startswith("mag_") and "err" not in name]:
        more[name] = (more[name] + 0.05 * rng.standard_normal(n)).astype(np.float32)
        more[name][rng.random(n) < 0.05] = 99.0
        more[name][rng.random(n) < 0.03] = np.nan
    return more


def inform(table: dict[str, np.ndarray], **options: Any) -> Any:
    """Train on a table in memory and return the model."""
    stage = GPZedInformer.make_stage(name="fixture", output_mode="return", **{**QUICK, **options})
    return stage.inform({GROUP: table}).data
