"""Checks of what users hand over: tables to matrices, weights, validation rows; every message says what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_array, check_X_y, validate_data

from gpzed._types import FloatArray
from gpzed.incomplete.patterns import RawRows
from gpzed.model.wrong_labels import with_wrong_rate

N_PARTS = range(2, 7)
PARTS = "(X, y), followed by as many as needed of sample_weight, X_std, y_std and y_wrong, in this order"
"""Of chunks of a source, and of validation rows."""


def is_lazy(data: Any) -> bool:
    """Whether data are a Dask collection (array, data frame, delayed), which has to be computed first."""
    return callable(getattr(data, "__dask_graph__", None)) and data.__dask_graph__() is not None


def without_mask(values: Any) -> Any:
    """Return a masked array of NumPy as a plain one with NaN where it is masked; anything else as it is."""
    return np.ma.filled(values.astype(np.float64), np.nan) if np.ma.isMaskedArray(values) else values


def astropy_matrix(table: Any) -> tuple[list[str], FloatArray] | None:
    """Column names and values of an astropy table (masked values as NaN); None for anything else."""
    if not (hasattr(table, "colnames") and hasattr(table, "as_array")):
        return None
    columns = []
    for name in table.colnames:
        values: Any = table[name]
        columns.append(np.asarray(without_mask(getattr(values, "value", values)), dtype=np.float64))
    matrix = np.stack(columns, axis=1) if columns else np.empty((len(table), 0))
    return [str(name) for name in table.colnames], matrix


def validate_table(estimator: Any, X: Any, y: Any = "no_validation", *, reset: bool = True, **options: Any) -> Any:
    """scikit-learn's `validate_data` in float64, also for astropy tables and masked arrays, which it does not know."""
    refuse_masked(y)
    X = without_mask(X)
    named = astropy_matrix(X)
    if named is None:
        return validate_data(estimator, X, y, reset=reset, dtype=np.float64, **options)
    names, matrix = named
    if reset:
        checked = validate_data(estimator, matrix, y, reset=True, dtype=np.float64, **options)
        estimator.feature_names_in_ = np.array(names, dtype=object)
        return checked
    expected = getattr(estimator, "feature_names_in_", None)
    if expected is None:
        return validate_data(estimator, matrix, y, reset=False, dtype=np.float64, **options)
    if list(expected) != names:
        raise ValueError(
            "The feature names should match those that were passed during fit, in the same order. "
            f"Expected {', '.join(expected)}; found {', '.join(names)}."
        )
    if isinstance(y, str):
        return check_array(matrix, dtype=np.float64, estimator=estimator, **options)
    return check_X_y(matrix, y, dtype=np.float64, estimator=estimator, **options)


def refuse_masked(y: Any) -> None:
    """Refuse targets that are masked: there is nothing to learn from such rows."""
    masked = np.flatnonzero(np.ma.getmaskarray(y)) if np.ma.isMaskedArray(y) else np.zeros(0, dtype=int)
    if len(masked):
        raise ValueError(
            f"`y` is masked in {len(masked)} of {len(y)} rows, the first is row {masked[0]}; expected a target in "
            "every row. Leave such rows out."
        )


def check_rows(
    estimator: Any, X: Any, y: Any, sample_weight: Any, X_std: Any, y_std: Any = None, y_wrong: Any = None
) -> RawRows:
    """Check training rows in memory: at least two of positive weight, the others left out; all features observed."""
    X, y = validate_table(
        estimator, X, y, y_numeric=True, ensure_min_samples=2, ensure_all_finite=estimator._all_finite
    )
    errors = check_input_errors(X_std, X)
    omega, labels = check_weights(sample_weight, len(X)), check_labels(len(X), y_std, y_wrong)
    rows = drop_weightless(RawRows(X, np.asarray(y, dtype=np.float64), omega, errors, *labels))
    if len(rows.y) == 0:
        raise ValueError("`sample_weight` is zero for all rows; expected at least two rows with a positive weight.")
    if len(rows.y) < 2:
        raise ValueError(f"only {len(rows.y)} sample has a positive `sample_weight`; expected at least 2 to train on.")
    require_observations(np.asarray(np.isfinite(rows.X).any(axis=0)))
    return rows


def check_assumed(assumed: Any, X: Any, y: Any, sample_weight: Any, *others: Any) -> npt.NDArray[np.bool_]:
    """Check which training rows rest on an assumption, and return it for those of positive weight."""
    marked, n = np.asarray(assumed), len(y)
    if marked.shape != (n,) or marked.dtype != bool:
        raise ValueError(
            f"`assumed` has shape {marked.shape} and type {marked.dtype}; expected {n} booleans, one per row."
        )
    marked = marked[check_weights(sample_weight, n) > 0.0]
    if np.count_nonzero(~marked) < 2:
        raise ValueError("`assumed` leaves fewer than 2 rows; expected some that rest on no assumption.")
    return np.asarray(marked)


def check_validation(estimator: Any, validation_data: Any, has_errors: bool) -> RawRows | None:
    """Check rows to choose the iterate by, if there are any; they must have `X_std` if the training rows do."""
    if validation_data is None:
        return None
    if len(validation_data) not in N_PARTS:
        raise ValueError(f"`validation_data` has {len(validation_data)} parts; expected {PARTS}.")
    X, y, weight, X_std, *labels = (*validation_data, *[None] * 4)[:6]
    X, y = validate_table(estimator, X, y, y_numeric=True, reset=False, ensure_all_finite=estimator._all_finite)
    omega = check_weights(weight, len(y))
    errors = check_input_errors(X_std, X, "`validation_data`: ")
    if has_errors != (errors is not None):
        raise ValueError("`X_std` is given for training or validation rows only; give it for both or none.")
    known = check_labels(len(y), *labels, where="`validation_data`: ")
    return drop_weightless(RawRows(X, np.asarray(y, dtype=np.float64), omega, errors, *known))


def check_labels(
    n: int, y_std: Any = None, y_wrong: Any = None, *, where: str = ""
) -> tuple[FloatArray | None, FloatArray | None]:
    """Check standard errors of targets, and probabilities that they are wrong: float64 of shape (n,), or None."""
    checked: list[FloatArray | None] = []
    for name, given in (("y_std", y_std), ("y_wrong", y_wrong)):
        if given is None:
            checked.append(None)
            continue
        values = np.asarray(without_mask(given), dtype=np.float64)
        if values.shape != (n,):
            raise ValueError(f"{where}`{name}` has shape {values.shape}; expected ({n},), one number per row of X.")
        is_error = name == "y_std"
        bad = ~(np.isfinite(values) & (values >= 0.0)) if is_error else (values < 0.0) | (values >= 1.0)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            expected = "finite standard errors >= 0" if is_error else "probabilities >= 0 and < 1, or NaN if not known"
            raise ValueError(
                f"{where}`{name}` has {int(bad.sum())} values that it cannot have, the first in row {row} "
                f"({values[row]}); expected {expected}. Leave such rows out."
            )
        checked.append(values)
    return checked[0], checked[1]


def require_observations(observed: npt.NDArray[np.bool_]) -> None:
    """Refuse features that were never observed."""
    if not observed.all():
        columns = np.flatnonzero(~observed).tolist()
        raise ValueError(
            f"X has only NaN in feature{'s' if len(columns) > 1 else ''} {columns} (counted from 0); expected "
            "at least one value to learn from. Drop them."
        )


def check_weights(sample_weight: npt.ArrayLike | None, n: int) -> FloatArray:
    """Return weights as float64 of shape (n,), finite and not negative; ones if None."""
    if sample_weight is None:
        return np.ones(n)
    omega = np.asarray(without_mask(sample_weight), dtype=np.float64)
    if omega.ndim == 0:
        omega = np.full(n, float(omega))
    if omega.shape != (n,):
        raise ValueError(f"`sample_weight` has shape {omega.shape}; expected ({n},), one weight per row of X.")
    bad = ~np.isfinite(omega) | (omega < 0.0)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"`sample_weight` has {int(bad.sum())} negative or non-finite values, the first in row {row} "
            f"({omega[row]}); expected weights >= 0. Set the weight of rows to be left out to 0."
        )
    return omega


def check_input_errors(X_std: Any, X: FloatArray, where: str = "") -> FloatArray | None:
    """Check standard errors of the inputs: finite and not negative, float64 of the shape of X, NaN where X has none."""
    if X_std is None:
        return None
    named = astropy_matrix(X_std)
    errors = np.asarray(without_mask(X_std) if named is None else named[1], dtype=np.float64)
    if errors.shape != X.shape:
        raise ValueError(
            f"{where}`X_std` has shape {errors.shape}; expected {X.shape}, one standard error for every value of X."
        )
    missing = np.isnan(X)
    bad = ~missing & ~(np.isfinite(errors) & (errors >= 0.0))
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"{where}`X_std` has {int(bad.sum())} negative or non-finite values where X has one, the first in "
            f"row {row}, column {column} ({errors[row, column]}); expected standard errors >= 0. Set X to NaN where "
            "there is no measurement."
        )
    return np.where(missing, np.nan, errors) if missing.any() else errors


def drop_weightless(rows: RawRows) -> RawRows:
    """Leave out rows of weight zero: they have no part in the likelihood."""
    used = rows.omega > 0.0
    return rows if used.all() else rows.take(used)


def check_chunk(
    index: int, chunk: Any, d: int, names: list[str] | None = None, missing: bool = False, wrong_rate: float = 0.0
) -> RawRows:
    """Check chunk number `index` of a user's source against the first, and complete it with weights.

    NaN among the inputs is fine if `missing`; `wrong_rate` is that of wrong targets where chunks do not tell.
    """
    if len(chunk) not in N_PARTS:
        raise ValueError(f"chunk {index} of `source` has {len(chunk)} parts; expected {PARTS}.")
    named = astropy_matrix(chunk[0])
    X = np.asarray(without_mask(chunk[0]) if named is None else named[1], dtype=np.float64)
    y = np.asarray(without_mask(chunk[1]), dtype=np.float64)
    columns = getattr(chunk[0], "columns", None)
    found = [str(name) for name in columns] if named is None and columns is not None else named and named[0]
    if names is not None and found is not None and found != names:
        raise ValueError(
            f"chunk {index} of `source` has the columns {found}; expected {names}, in this order, as in the first "
            "chunk."
        )
    if X.ndim != 2 or X.shape[1] != d or y.shape != (len(X),):
        raise ValueError(
            f"chunk {index} of `source` has X of shape {X.shape} and y of shape {y.shape}; expected (rows, {d}) and "
            "(rows,)."
        )
    bad = ~np.isfinite(y) | (np.isinf(X) if missing else ~np.isfinite(X)).any(axis=1)
    if bad.any():
        raise ValueError(
            f"chunk {index} of `source` has NaN or infinity in {int(bad.sum())} rows, the first in row "
            f"{int(np.flatnonzero(bad)[0])} of the chunk; expected finite values. Drop or repair those rows."
        )
    omega = check_weights(chunk[2] if len(chunk) > 2 else None, len(y))
    errors = check_input_errors(chunk[3] if len(chunk) > 3 else None, X, f"chunk {index} of `source`: ")
    labels = check_labels(len(y), *chunk[4:], where=f"chunk {index} of `source`: ")
    return with_wrong_rate(drop_weightless(RawRows(X, y, omega, errors, *labels)), wrong_rate)


OPTIONAL_PARTS = ("X_std", "y_std", "y_wrong")


def kinds_of(rows: RawRows) -> tuple[bool, ...]:
    """Say which of the `OPTIONAL_PARTS` rows have."""
    return rows.X_std is not None, rows.y_std is not None, rows.wrong is not None


class CheckedChunks:
    """Chunks of a user's source, checked and completed with weights; those that are lazy are computed one by one."""

    def __init__(
        self,
        source: Iterable[Any],
        d: int,
        names: list[str] | None = None,
        *,
        missing: bool = False,
        wrong_rate: float = 0.0,
    ) -> None:
        self.source, self.d, self.names, self.missing, self.wrong_rate = source, d, names, missing, wrong_rate

    def survey(self) -> tuple[int, npt.NDArray[np.bool_], bool]:
        """Count the rows; say which features were ever observed, and whether inputs come with errors."""
        n, observed, has_errors = 0, np.zeros(self.d, dtype=bool), False
        for rows in self:
            n += len(rows.y)
            observed |= np.isfinite(rows.X).any(axis=0)
            has_errors = rows.X_std is not None
        return n, observed, has_errors

    def __iter__(self) -> Iterator[RawRows]:
        kinds: tuple[bool, ...] | None = None
        for index, chunk in enumerate(self.source):
            ready = chunk.compute() if is_lazy(chunk) else chunk
            rows = check_chunk(index, ready, self.d, self.names, self.missing, self.wrong_rate)
            found = kinds_of(rows)
            if kinds is not None and kinds != found:
                name = next(name for name, a, b in zip(OPTIONAL_PARTS, kinds, found, strict=True) if a != b)
                raise ValueError(
                    f"chunk {index} of `source` differs from the first in having `{name}`; give it in all or none."
                )
            kinds = found
            yield rows
