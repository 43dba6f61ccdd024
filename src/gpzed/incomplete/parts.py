"""Rows with gaps or errors as the kernels see them: expected inputs, and how uncertain these are.

A row becomes one *part* for each component of the density that may be behind it. Where gaps and errors fall into
patterns, every pattern and component makes a `Blur`: expected inputs that are affine in what was observed, and a
covariance that all such rows share. Where rows have errors of their own, each has a covariance of its own. Complete
rows without errors are blur 0, for which nothing is different.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np

from gpzed._types import AnyArray, FloatArray, IntArray
from gpzed.gp.linalg import root_stack
from gpzed.gp.whitening import Whitening
from gpzed.incomplete.blur import Blur
from gpzed.incomplete.density import Conditional, Density, Regressions, normalise
from gpzed.incomplete.patterns import InputModel, Pattern, error_variances, patterns_of
from gpzed.prediction.components import ARRAYS, Components

MAX_PARTS = 3
"""Parts of a row at most: its most likely components."""
MIN_PROBABILITY = 0.01
"""Components with a smaller probability for a row are left out."""
LIKELY = 0.8
"""Probability of a component from which on a training row counts as its own."""
MAX_ROWS = 65_536
"""Rows of one pattern that are worked on at once."""
ROWS = 256
"""Rows with errors of their own that are conditioned at once."""
JITTER = 1e-10
"""Added to covariances of whitened inputs that belong to one row, so that they have a factor."""


class RowParts(NamedTuple):
    """Parts of rows: one for each component of the density that may be behind a row."""

    X: FloatArray  # (p, d) whitened expected inputs
    blur: IntArray | None = None  # (p,) all 0 if None
    row: IntArray | None = None  # (p,) the row that each part belongs to; in order, one for each, if None
    rank: IntArray | None = None  # (p,) 0 for the most likely component of a row, 1 for the next
    probability: FloatArray | None = None  # (p,) of the component; those of a row sum to 1
    # (p, d, d) factors of covariances that belong to each row alone, lower triangular, whitened
    V: FloatArray | None = None

    def average(self, values: FloatArray, n: int) -> FloatArray:
        """Average values (p, s) of the parts, for each of the n rows, (n, s)."""
        if self.row is None or self.probability is None:
            return values
        total = np.zeros((n, values.shape[1]))
        np.add.at(total, self.row, self.probability[:, None] * values)
        return total

    def positions(self, n: int, n_inputs: int) -> IntArray:
        """Return where the parts of each of n rows are, (n, n_inputs); those that a row lacks repeat its likeliest."""
        row = np.arange(n) if self.row is None else self.row
        rank = np.zeros(n, dtype=np.intp) if self.rank is None else self.rank
        likely = np.zeros(n, dtype=np.intp)
        likely[row[::-1]] = np.arange(len(row))[::-1]
        where = np.repeat(likely[:, None], n_inputs, axis=1)
        where[row, rank] = np.arange(len(row))
        return where

    def join(self, components: Components, n: int, n_inputs: int) -> Components:
        """Put Gaussians of parts together for each of the n rows, those of `n_inputs` inputs side by side."""
        if self.row is None and n_inputs == 1:
            return components
        K = components.n_components
        row = np.arange(n) if self.row is None else self.row
        rank = np.zeros(n, dtype=np.intp) if self.rank is None else self.rank
        probability = np.ones(n) if self.probability is None else self.probability
        weights = np.zeros((n, n_inputs, K))
        weights[row, rank] = probability[:, None] * components.weights
        where = self.positions(n, n_inputs)
        arrays = {name: getattr(components, name)[where].reshape(n, -1) for name in ARRAYS[1:]}
        arrays["weights"] = weights.reshape(n, -1)
        inputs = np.repeat(np.arange(n_inputs), K)
        return Components(**arrays, member=np.zeros_like(inputs), input=inputs)


class PatternTable:
    """Blurs 1, 2, ... of rows for the patterns that these may have, in whitened inputs.

    To train with, there is one Gaussian for all inputs, `single`: a row then has one part, that of its most likely
    component, or of `single` if none is likely or its pattern is `rare`. To let all components have a part, they would
    have to be weighed by the targets in every step. `share` of the training rows are blurred. `labels` are the pattern
    and component of each blur; `single` is the last component.
    """

    def __init__(
        self,
        inputs: InputModel,
        whitening: Whitening,
        patterns: Iterable[Pattern],
        single: Density | None = None,
        rare: Collection[Pattern] = (),
        share: float = 1.0,
    ) -> None:
        self.share = share
        self.inputs, self.whitening, self._n_own = inputs, whitening, len(inputs.density.weights)
        density = inputs.density if single is None or self._n_own == 1 else inputs.density.with_spare(single)
        incomplete = [pattern for pattern in patterns if not pattern.is_complete]
        self._index = {pattern: index for index, pattern in enumerate(incomplete)}
        shape, g = (len(incomplete), density.means.shape[1]), len(density.weights)
        seen = np.array([pattern.seen for pattern in incomplete], dtype=bool).reshape(shape)
        self._given = density.regress(seen, error_variances(incomplete, inputs.errors).reshape(shape))
        self._is_rare = np.array([g > self._n_own and pattern in rare for pattern in incomplete], dtype=bool)
        self._blur = np.zeros((len(incomplete), g), dtype=np.intp)  # of every pattern and component
        self.labels = [
            (pattern, component)
            for pattern, is_rare in zip(incomplete, self._is_rare, strict=True)
            for component in range(self._n_own if is_rare else 0, g)
        ]
        blurs = []
        for number, (pattern, component) in enumerate(self.labels, 1):
            self._blur[self._index[pattern], component] = number
            blurs.append(_whitened_blur(self._given, self._index[pattern], component, density.scale, whitening))
        self.blurs = tuple(blurs)

    def parts(self, X: FloatArray, X_std: FloatArray | None = None) -> RowParts:
        """Give rows their parts."""
        patterns, which = patterns_of(X, X_std, self.inputs.errors)
        if all(pattern.is_complete for pattern in patterns):
            return RowParts(self.whitening(X))
        found: list[tuple[AnyArray, ...]] = []
        for index, pattern in enumerate(patterns):
            rows = np.flatnonzero(which == index)
            if pattern.is_complete:
                zeros = np.zeros(len(rows), dtype=np.intp)
                found.append((self.whitening(X[rows]), zeros, rows, zeros, np.ones(len(rows))))
            else:
                found += (self._some_parts(self._index[pattern], some, X) for some in _chunks(rows))
        return RowParts(*(np.concatenate(column) for column in zip(*found, strict=True)))

    def _some_parts(self, pattern: int, rows: IntArray, X: FloatArray) -> tuple[AnyArray, ...]:
        """Parts of rows that have one pattern: fields of `RowParts` up to the probability."""
        values = np.where(np.isnan(X[rows]), 0.0, X[rows])
        logs, offsets = self._given.expect(values, [(pattern, slice(None))])
        probability = normalise(logs)[0].T
        if len(logs) > self._n_own:
            component = probability.argmax(axis=1)
            component[(probability.max(axis=1) < LIKELY) | self._is_rare[pattern]] = self._n_own
            component, probability = component[:, None], np.ones((len(rows), 1))
        else:
            component = np.argsort(-probability, axis=1, kind="stable")[:, :MAX_PARTS]
            probability = _likely(np.take_along_axis(probability, component, axis=1))
        rank, index = np.nonzero(probability.T)
        chosen = component[index, rank]
        expected = self.whitening(self._given.means[chosen] + offsets[chosen, index])
        return expected, self._blur[pattern, chosen], rows[index], rank, probability[index, rank]


def _chunks(rows: IntArray) -> list[IntArray]:
    return [rows[start : start + MAX_ROWS] for start in range(0, len(rows), MAX_ROWS)]


def _likely(probability: FloatArray) -> FloatArray:
    """Leave out what is unlikely, (n, g); the others sum to 1."""
    kept = np.where(probability < MIN_PROBABILITY, 0.0, probability)
    return np.asarray(kept / kept.sum(axis=1, keepdims=True))


def _whitened_blur(given: Regressions, pattern: int, component: int, scale: FloatArray, whitening: Whitening) -> Blur:
    """Bring what is known of inputs, given those observed, to whitened ones."""
    seen = given.seen[pattern]
    V = whitening.matrix.T @ _factor(given.Psi[pattern, component], scale)
    slopes = given.slopes[pattern, component, seen].T
    directions = np.linalg.qr(whitening.matrix.T @ slopes)[0] if seen.any() else np.zeros((len(seen), 0))
    origin = whitening(given.means[component][None])[0]
    return Blur(np.ascontiguousarray(V), origin, np.ascontiguousarray(directions), ~seen)


def _factor(Psi: FloatArray, scale: FloatArray) -> FloatArray:
    """``V`` (d, r) with ``Psi = V V'``, directions without variance left out (one is kept at least)."""
    variance, directions = np.linalg.eigh(Psi / np.outer(scale, scale))
    kept = variance > 1e-12
    kept[-1] = True
    return np.asarray(scale[:, None] * directions[:, kept] * np.sqrt(np.maximum(variance[kept], 0.0)))


def parts_with_errors(X: FloatArray, X_std: FloatArray, inputs: InputModel, whitening: Whitening) -> RowParts:
    """Give rows with errors (and gaps, where X is NaN) their parts, with covariances of their own.

    The most likely components of the density make a part each, and all others of a row one Gaussian with their mean and
    covariance: no variance is lost, whatever their number.
    """
    assert inputs.errors is not None
    std = np.maximum(np.where(np.isnan(X), 0.0, X_std), inputs.errors.floor)
    found = []
    for start in range(0, len(X), ROWS):
        rows = slice(start, start + ROWS)
        given = merge(inputs.density.condition(X[rows], std[rows]), MAX_PARTS)
        probability = _likely(given.probabilities)
        rank, index = np.nonzero(probability.T)
        Psi = whitening.matrix.T @ given.covariances[index, rank] @ whitening.matrix
        V = root_stack(0.5 * (Psi + np.swapaxes(Psi, 1, 2)), JITTER)
        found.append((whitening(given.means[index, rank]), start + index, rank, probability[index, rank], V))
    if not found:
        return RowParts(whitening(X))
    columns: list[AnyArray] = [np.concatenate(column) for column in zip(*found, strict=True)]
    return RowParts(columns[0], None, *columns[1:])


def merge(given: Conditional, size: int) -> Conditional:
    """Put all but the `size` - 1 most likely components of each row together; the most likely ones come first."""
    order = np.argsort(-given.probabilities, axis=1, kind="stable")
    sorted_, n = Conditional(*(values[np.arange(len(order))[:, None], order] for values in given)), size - 1
    if order.shape[1] <= size:
        return sorted_
    total = sorted_.probabilities[:, n:].sum(axis=1)
    part = sorted_.probabilities[:, n:] / np.maximum(total, 1e-300)[:, None]
    means, covariances = sorted_.means[:, n:], sorted_.covariances[:, n:]
    centre = np.einsum("ng,nga->na", part, means)
    off = means - centre[:, None]
    within = np.einsum("ng,ngab->nab", part, covariances) + np.einsum("ng,nga,ngb->nab", part, off, off)
    rest = (total, centre, within)
    return Conditional(*(np.concatenate([a[:, :n], b[:, None]], axis=1) for a, b in zip(sorted_, rest, strict=True)))
