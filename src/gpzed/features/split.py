"""Which rows train, which choose the iterate, which are put aside to judge by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpzed._types import AnyArray, IntArray
from gpzed.errors import CatalogError, ConfigError

_WORDS = {
    "train": 0, "training": 0, "0": 0,
    "validation": 1, "valid": 1, "val": 1, "1": 1,
    "test": 2, "testing": 2, "2": 2,
}  # fmt: skip


@dataclass(frozen=True)
class SplitConfig:
    """Which rows of the catalogue are used, and for what.

    Parameters
    ----------
    validation : float
        Part of the rows that chooses the iterate and does nothing else; 0 to let the estimator hold out rows itself
        (`validation_fraction` under [model]), which serve the final fit too.
    test : float
        Part of the rows put aside; training reports how well they are predicted.
    column : str
        Column that says train, validation or test, or 0, 1, 2, instead; "" for none.
    min_redshift : float or None
        Rows at or below this redshift are left out: stars and failed fits, at 0 or below, if not given.
    max_redshift : float or None
        Rows above this redshift are left out; 20 if not given.
    """

    validation: float = 0.0
    test: float = 0.0
    column: str = ""
    min_redshift: float | None = None
    max_redshift: float | None = None

    def __post_init__(self) -> None:
        for name in ("validation", "test"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ConfigError(f"`{name}` is {getattr(self, name)}; expected a part of the rows, 0 to below 1")
        if self.validation + self.test >= 1.0:
            raise ConfigError(f"`validation` + `test` is {self.validation + self.test:g}; nothing is left to train on")
        if self.column and (self.validation or self.test):
            raise ConfigError("`column` is given and so are parts; give either the column or `validation` and `test`")


@dataclass(frozen=True)
class Split:
    """Row numbers of each part, ascending."""

    train: IntArray
    validation: IntArray
    test: IntArray


def random_split(n: int, validation: float, test: float, seed: int) -> Split:
    """Split `n` rows at random into the parts asked for; the same seed gives the same split.

    Examples
    --------
    >>> split = random_split(10, 0.2, 0.3, seed=0)
    >>> len(split.train), len(split.validation), len(split.test)
    (5, 2, 3)
    """
    order = np.random.default_rng(seed).permutation(n)
    n_validation, n_test = round(validation * n), round(test * n)
    cut = n - n_validation - n_test
    parts = np.split(order, [cut, cut + n_validation])
    return Split(*(np.sort(part) for part in parts))


def split_by_column(values: AnyArray, name: str) -> Split:
    """Split rows as the column `name` says.

    It holds text (train, validation, test; letter case ignored), integers 0, 1, 2, or booleans (True trains, False
    tests).

    Examples
    --------
    >>> import numpy as np
    >>> from gpzed.features import split_by_column
    >>> found = split_by_column(np.array(["train", "test", "train"]), "split")
    >>> found.train.tolist(), found.test.tolist()
    ([0, 2], [1])
    """
    if values.dtype.kind == "b":
        codes = np.where(values, 0, 2)
    else:
        words, which = np.unique(values, return_inverse=True)
        keys = [str(word).strip().lower().removesuffix(".0") for word in words]
        unknown = [word for word, key in zip(words, keys, strict=True) if key not in _WORDS]
        if unknown:
            raise CatalogError(
                f"split column {name!r} holds {unknown[0]!s}; expected train, validation or test, or 0, 1 or 2"
            )
        codes = np.array([_WORDS[key] for key in keys])[which.ravel()]
    return Split(*(np.flatnonzero(codes == code) for code in range(3)))
