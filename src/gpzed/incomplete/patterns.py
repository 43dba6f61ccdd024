"""Patterns of rows: which inputs were observed, and how large their errors are; what training learns about the inputs.

Rows with the same gaps and errors can be treated alike. Gaps fall into patterns by themselves; errors, which differ
from row to row, are sorted into few classes for training.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpzed._types import AnyArray, BoolArray, FloatArray, IntArray
from gpzed.errors import DataWarning
from gpzed.gp.initialize import clusters
from gpzed.gp.whitening import Moments
from gpzed.incomplete.density import Density, Observations, choose_mixture

COMMON_ROWS = 100
"""Training rows (or weight) from which on a pattern is common: one with few rows costs more than it tells."""
MIXTURE_ROWS = 10_000
"""Rows that the mixture is fitted to at most."""
CANDIDATES = (1, 2, 4, 6)
"""Numbers of components among which held-out rows choose."""
MIN_ERROR = 1e-3
"""Errors below this part of an input's standard deviation are taken for this much: they do not matter."""
MIN_ROOM, ROWS_TO_JUDGE = 0.6, 20
"""Variance in units of that of the errors below which errors cannot be right, and complete rows per input to tell."""


class Pattern(NamedTuple):
    """Which inputs of a row were observed (one byte each), and the class of their errors, from 1; 0 for none."""

    observed: bytes
    error_class: int = 0

    @property
    def seen(self) -> BoolArray:
        """Which inputs were observed, (d,)."""
        return np.frombuffer(self.observed, dtype=np.uint8).astype(bool)

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing or uncertain."""
        return not self.error_class and 0 not in self.observed


def patterns_of(
    X: FloatArray, X_std: FloatArray | None = None, errors: ErrorClasses | None = None
) -> tuple[list[Pattern], IntArray]:
    """Find the patterns of rows, each once in a fixed order, and the position of each row's pattern among them."""
    n, d = X.shape
    seen = ~np.isnan(X)
    codes = (~seen).astype(np.int16)
    if errors is not None and X_std is not None:
        label = np.where(seen.any(axis=1), 1 + errors.assign(X_std, seen), 0)
        codes = np.hstack([codes, label[:, None].astype(np.int16)])
    elif seen.all():
        return [Pattern(bytes([1] * d))], np.zeros(n, dtype=np.intp)
    _, first, which = np.unique(_words(codes), return_index=True, return_inverse=True)
    patterns = [Pattern(seen[i].astype(np.uint8).tobytes(), *codes[i, d:].tolist()) for i in first]
    return patterns, which.ravel()


def _words(codes: AnyArray) -> AnyArray:
    """One number for each row of codes, in the same order; where none is large enough, slow tuples."""
    if not len(codes):
        return np.zeros(0, dtype=np.int64)
    low = codes.min(axis=0).astype(np.int64)
    spans = codes.max(axis=0) - low + 1
    if np.prod(spans.astype(np.float64)) > 2.0**62:
        return np.ascontiguousarray(codes).view([("", codes.dtype)] * codes.shape[1]).ravel()
    words = np.zeros(len(codes), dtype=np.int64)
    for column, least, span in zip(codes.T, low, spans, strict=True):
        words = words * span + (column - least)
    return words


class RawRows(NamedTuple):
    """Rows as the user gives them, checked."""

    X: FloatArray  # (n, d) inputs; NaN where there is none
    y: FloatArray  # (n,)
    omega: FloatArray  # (n,) weights
    X_std: FloatArray | None = None  # (n, d) standard errors of the inputs
    y_std: FloatArray | None = None  # (n,) standard errors of the targets
    wrong: FloatArray | None = None  # (n,) probability that a target is not that of its row at all

    def take(self, index: IntArray | BoolArray | slice) -> RawRows:
        """Take some of the rows."""
        return RawRows(*(None if array is None else array[index] for array in self))  # type: ignore[arg-type]

    @staticmethod
    def join(parts: Iterable[RawRows]) -> RawRows:
        """Put rows of several parts together; all have errors, and doubts, or none has."""
        joined = (None if arrays[0] is None else np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return RawRows(*joined)  # type: ignore[arg-type]


@dataclass(frozen=True)
class ErrorClasses:
    """Errors of the inputs, sorted into few classes."""

    centres: FloatArray  # (c, d) log standard errors around which the classes lie
    variances: FloatArray  # (c, d) error variance of each class: the mean of its rows
    floor: FloatArray  # (d,) smaller standard errors are taken for this much

    @classmethod
    def fit(cls, X: FloatArray, X_std: FloatArray, n_classes: int) -> ErrorClasses:
        """Sort errors into classes by k-means on their logarithms."""
        seen = np.isfinite(X)
        scale = np.array([np.std(column[ok]) if ok.any() else 1.0 for column, ok in zip(X.T, seen.T, strict=True)])
        floor = MIN_ERROR * np.where(scale > 0.0, scale, 1.0)
        std = np.maximum(np.where(seen, X_std, np.nan), floor)
        log_std = np.log(std)
        middle = [np.median(column[ok]) if ok.any() else 0.0 for column, ok in zip(log_std.T, seen.T, strict=True)]
        filled = np.where(seen, log_std, middle)
        distinct = np.unique(filled, axis=0)
        size = min(n_classes, len(distinct))
        first = np.argsort(distinct.sum(axis=1), kind="stable")[np.linspace(0, len(distinct) - 1, size).astype(int)]
        centres, label = clusters(filled, distinct[first], 20)
        used = np.unique(label)
        variances = np.stack([_mean_square(std[label == c], np.exp(2.0 * centres[c])) for c in used])
        return cls(np.ascontiguousarray(centres[used]), variances, floor)

    def assign(self, X_std: FloatArray, seen: BoolArray) -> IntArray:
        """Find the class (n,) of the errors of each row, those of missing inputs left aside."""
        log_std = np.log(np.maximum(np.where(seen, X_std, 1.0), self.floor))
        distances = [np.sum(np.where(seen, log_std - centre, 0.0) ** 2, axis=1) for centre in self.centres]
        return np.asarray(np.argmin(distances, axis=0))


def _mean_square(std: FloatArray, default: FloatArray) -> FloatArray:
    """Mean over the rows of the squares that are finite; the default where none is."""
    count = np.isfinite(std).sum(axis=0)
    return np.where(count > 0, np.nansum(std**2, axis=0) / np.maximum(count, 1), default)


def warn_of_large_errors(X: FloatArray, X_std: FloatArray | None) -> None:
    """Warn if errors leave no room for true inputs: in some direction their mean variance exceeds the scatter.

    Complete rows are judged: inputs and errors that are independent have at least the scatter of the errors.
    """
    complete = np.isfinite(X).all(axis=1)
    if X_std is None or complete.sum() < ROWS_TO_JUDGE * X.shape[1]:
        return
    error = np.sqrt(np.mean(X_std[complete] ** 2, axis=0))
    noisy = error > 0.0
    if not noisy.any():
        return
    scatter = np.cov((X[complete][:, noisy] / error[noisy]).T).reshape(int(noisy.sum()), -1)
    room = float(np.linalg.eigvalsh(scatter)[0])
    if room < MIN_ROOM:
        warnings.warn(
            "the errors of the inputs are larger than the scatter of these allows: in one direction it is "
            f"{np.sqrt(max(room, 0.0)):.2f} of what errors alone, independent of each other, would give; expected 1 or "
            "more. Are they overstated, or correlated? Scale `X_std` down or leave it out (`errors` in section "
            "[features]).",
            DataWarning,
            stacklevel=3,
        )


@dataclass(frozen=True)
class PatternMoments:
    """Moments of the inputs of training rows, pattern by pattern; chunks add up with ``+``."""

    moments: dict[Pattern, Moments]  # of the inputs observed
    held_out: frozenset[Pattern] = frozenset()  # patterns of held-out rows

    @classmethod
    def of(cls, rows: RawRows, errors: ErrorClasses | None) -> PatternMoments:
        """Take the moments of rows."""
        patterns, which = patterns_of(rows.X, rows.X_std, errors)
        moments = {}
        for index, pattern in enumerate(patterns):
            own = slice(None) if len(patterns) == 1 else which == index
            X = rows.X[own]
            moments[pattern] = Moments.of(X if pattern.is_complete else X[:, pattern.seen], rows.omega[own])
        return cls(moments)

    def with_held_out(self, rows: RawRows | None, errors: ErrorClasses | None) -> PatternMoments:
        """Add the patterns of held-out rows."""
        patterns = () if rows is None else patterns_of(rows.X, rows.X_std, errors)[0]
        return PatternMoments(self.moments, self.held_out | frozenset(patterns))

    def __add__(self, other: PatternMoments) -> PatternMoments:
        moments = dict(self.moments)
        for pattern, part in other.moments.items():
            moments[pattern] = moments[pattern] + part if pattern in moments else part
        return PatternMoments(moments, self.held_out | other.held_out)

    @property
    def patterns(self) -> list[Pattern]:
        """All patterns, in a fixed order."""
        return sorted({*self.moments, *self.held_out})

    @property
    def rare(self) -> list[Pattern]:
        """Patterns of few training rows, or none."""
        return [one for one in self.patterns if one not in self.moments or self.moments[one].weight < COMMON_ROWS]

    @property
    def uncertain_share(self) -> float:
        """Part of the training rows in which something is missing or uncertain."""
        weights = np.array([moments.weight for moments in self.moments.values()])
        return float(weights @ [not pattern.is_complete for pattern in self.moments] / weights.sum())

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing or uncertain in any training row."""
        return all(pattern.is_complete for pattern in self.moments)


@dataclass(frozen=True)
class InputModel:
    """What is known of inputs beyond their values."""

    density: Density  # of the true inputs
    errors: ErrorClasses | None  # None if the model was trained on inputs without errors


def error_variances(patterns: Iterable[Pattern], errors: ErrorClasses | None) -> FloatArray:
    """Look up the error variances that go with patterns, (p, d)."""

    def variances(pattern: Pattern) -> FloatArray:
        if errors is None or not pattern.error_class:
            return np.zeros(len(pattern.observed))
        return np.asarray(errors.variances[pattern.error_class - 1])

    return np.array([variances(pattern) for pattern in patterns])


def fit_inputs(
    summary: PatternMoments, errors: ErrorClasses | None, sample: RawRows | None, n_components: int | None
) -> tuple[InputModel, Density, Moments]:
    """Learn the density of the inputs; its size is chosen by held-out likelihood if `n_components` is None.

    Beside it return one Gaussian for all inputs (for training rows of which no component is likely) and their moments,
    as a whitening needs them. A mixture is learned from the rows of `sample`; one Gaussian needs none.
    """
    if summary.is_complete:
        (moments,) = summary.moments.values()
        gaussian = Density.gaussian(moments.mean, moments.scatter / moments.weight)
    else:
        patterns, parts = list(summary.moments), list(summary.moments.values())
        seen = np.array([pattern.seen for pattern in patterns])
        gaussian = Density.fit(Observations.from_moments(parts, seen, error_variances(patterns, errors)))
        weight = sum(part.weight for part in parts)
        moments = Moments(weight, gaussian.mean, gaussian.covariance * weight)
    is_mixture = sample is not None and n_components != 1 and not (summary.is_complete and n_components is None)
    if sample is None or not is_mixture:
        return InputModel(gaussian, errors), gaussian, moments
    sizes = CANDIDATES if n_components is None else (n_components,)
    density = choose_mixture(gaussian, _observations(sample, errors), sizes, np.random.default_rng(0))
    return InputModel(density, errors), gaussian, moments


def _observations(rows: RawRows, errors: ErrorClasses | None) -> Observations:
    patterns, which = patterns_of(rows.X, rows.X_std, errors)
    order = np.argsort(which, kind="stable")
    counts, seen = np.bincount(which, minlength=len(patterns)), np.array([pattern.seen for pattern in patterns])
    X = np.nan_to_num(rows.X[order], nan=0.0)
    return Observations(X, rows.omega[order], counts, seen, error_variances(patterns, errors))
