"""Functions that workers import: where partitions come from."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np


def wave(n: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a smooth function of two features."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, 2))
    return X, np.sin(1.5 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.standard_normal(n)


def load(folder: str, index: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of one partition of a folder; every reading leaves a mark."""
    with (Path(folder) / "reads.txt").open("a") as stream:
        stream.write(f"{index}\n")
    with np.load(Path(folder) / f"{index}.npz") as stored:
        return stored["X"], stored["y"]


def store(folder: Path, X: np.ndarray, y: np.ndarray, bounds: list[int]) -> list[object]:
    """Write partitions and return their delayed readers."""
    import dask

    for index, (start, stop) in enumerate(pairwise(bounds)):
        np.savez(folder / f"{index}.npz", X=X[start:stop], y=y[start:stop])
    return [dask.delayed(load, pure=False)(str(folder), index) for index in range(len(bounds) - 1)]


def reads(folder: Path) -> list[int]:
    """Numbers of the partitions read so far."""
    return [int(line) for line in (folder / "reads.txt").read_text().split()]
