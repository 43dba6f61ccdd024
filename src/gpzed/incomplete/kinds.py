"""Rows with missing or noisy inputs: which kinds of them there are, and what the kernels get to see of each.

The *key* of a row is the pattern of the inputs seen and the class of their errors. Every key and component of the
density of the inputs makes a *kind* (`gpzed.incomplete.blur.Kind`): expected inputs that are affine in what was seen,
and a covariance that all such rows share. Complete rows without errors are kind 0, for which nothing is different.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpzed._types import AnyArray, BoolArray, FloatArray, IntArray
from gpzed.incomplete.blur import Kind
from gpzed.incomplete.density import Conditional, Density, Group, GroupMoments, choose_mixture, factor, fit_gaussian
from gpzed.incomplete.noise_classes import NoiseClasses
from gpzed.model.whitening import Moments, Whitening
from gpzed.prediction import Prediction

Key = tuple[bytes, int]
"""Pattern of the inputs seen (one byte each), and class of the errors, counted from 1; 0 for none."""
MIN_SHARE = 0.01
"""Components with a smaller probability for a row are left out."""
MAX_SHARERS = 3
"""Components that a row may be shared by: its most likely ones."""
LIKELY = 0.8
"""Probability of a component from which on a training row counts as its own."""
COMMON_ROWS = 100
"""Training rows (or weight) with a key from which on components of the density have kinds of their own in training: a
kind with few rows costs more than it tells."""
MIXTURE_ROWS = 10_000
"""Rows that the mixture is fitted to at most."""
CANDIDATES = (1, 2, 4, 6)
"""Numbers of components among which rows held out choose."""


class RawRows(NamedTuple):
    """Rows as the user gives them, checked.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        Inputs; NaN where there is none.
    y : ndarray of shape (n,)
    omega : ndarray of shape (n,)
        Weights.
    X_std : ndarray of shape (n, d), or None
        Standard errors of the inputs.
    """

    X: FloatArray
    y: FloatArray
    omega: FloatArray
    X_std: FloatArray | None = None

    def take(self, index: IntArray | BoolArray | slice) -> RawRows:
        """Take some of the rows."""
        X_std = None if self.X_std is None else self.X_std[index]
        return RawRows(self.X[index], self.y[index], self.omega[index], X_std)

    @staticmethod
    def join(parts: Iterable[RawRows]) -> RawRows:
        """Rows of several parts in one; all have errors or none has."""
        X, y, omega, X_std = zip(*parts, strict=True)
        errors = None if X_std[0] is None else np.concatenate(X_std)
        return RawRows(np.concatenate(X), np.concatenate(y), np.concatenate(omega), errors)


@dataclass(frozen=True)
class InputModel:
    """What is known of inputs beyond their values: density, and classes of errors.

    Attributes
    ----------
    density : Density
    noise : NoiseClasses or None
        None if the model was trained on inputs without errors.
    """

    density: Density
    noise: NoiseClasses | None

    def noise_of(self, key: Key) -> FloatArray:
        """Error variances that go with a key, (d,)."""
        return _noise_of(key, self.noise)


def _noise_of(key: Key, noise: NoiseClasses | None) -> FloatArray:
    return np.zeros(len(key[0])) if not key[1] or noise is None else noise.variances[key[1] - 1]


def keys_of(X: FloatArray, X_std: FloatArray | None, noise: NoiseClasses | None) -> tuple[list[Key], IntArray]:
    """Keys of rows, each once in a fixed order, and the position of each row's key in that list."""
    n, d = X.shape
    seen = ~np.isnan(X)
    has_errors = noise is not None and X_std is not None
    if not has_errors and seen.all():
        return [(bytes([1] * d), 0)], np.zeros(n, dtype=np.intp)
    codes = (~seen).astype(np.int16)
    if noise is not None and X_std is not None:
        label = np.where(seen.any(axis=1), 1 + noise.assign(X_std, seen), 0)
        codes = np.hstack([codes, label[:, None].astype(np.int16)])
    _, first, which = np.unique(_words(codes), return_index=True, return_inverse=True)
    keys = [(seen[i].astype(np.uint8).tobytes(), int(codes[i, d]) if has_errors else 0) for i in first]
    return keys, which.ravel()


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


def seen_of(key: Key) -> BoolArray:
    """Tell the inputs seen from a key."""
    return np.frombuffer(key[0], dtype=np.uint8).astype(bool)


def is_plain(key: Key) -> bool:
    """Whether rows with this key are complete and without errors."""
    return not key[1] and 0 not in key[0]


@dataclass(frozen=True)
class Summary:
    """Moments of the inputs of training rows, key by key; chunks add up with ``+``.

    Attributes
    ----------
    moments : dict of Key to Moments
        Of the inputs seen.
    others : frozenset of Key
        Keys of rows held out.
    """

    moments: dict[Key, Moments]
    others: frozenset[Key] = frozenset()

    @classmethod
    def of(cls, rows: RawRows, noise: NoiseClasses | None, held: RawRows | None = None) -> Summary:
        """Moments of `rows`, and the keys of rows held out."""
        keys, which = keys_of(rows.X, rows.X_std, noise)
        moments = {}
        for index, key in enumerate(keys):
            members = slice(None) if len(keys) == 1 else which == index
            X = rows.X[members]
            moments[key] = Moments.of(X if is_plain(key) else X[:, seen_of(key)], rows.omega[members])
        others = frozenset() if held is None else frozenset(keys_of(held.X, held.X_std, noise)[0])
        return cls(moments, others)

    def __add__(self, other: Summary) -> Summary:
        moments = dict(self.moments)
        for key, part in other.moments.items():
            moments[key] = moments[key] + part if key in moments else part
        return Summary(moments, self.others | other.others)

    @property
    def keys(self) -> list[Key]:
        """All keys, in a fixed order."""
        return sorted({*self.moments, *self.others})

    @property
    def rare(self) -> list[Key]:
        """Keys of few training rows, or none."""
        return [key for key in self.keys if key not in self.moments or self.moments[key].weight < COMMON_ROWS]

    @property
    def is_plain(self) -> bool:
        """Whether all training rows are complete and without errors."""
        return all(is_plain(key) for key in self.moments)


def fit_inputs(
    summary: Summary, noise: NoiseClasses | None, sample: RawRows | None, n_components: int | None
) -> tuple[InputModel, Density, Moments]:
    """Learn the density of the inputs.

    Parameters
    ----------
    summary : Summary
    noise : NoiseClasses or None
    sample : RawRows or None
        Training rows, from which a mixture is learned; one Gaussian needs none.
    n_components : int or None
        Gaussians of the density; chosen by held-out likelihood if None.

    Returns
    -------
    InputModel
    Density
        One Gaussian for all: in training, for rows of which no component is likely.
    moments : Moments
        Of the inputs, as a whitening needs them.
    """
    if summary.is_plain and (n_components in (None, 1) or sample is None):
        (moments,) = summary.moments.values()
        density = Density(np.ones(1), moments.mean[None], (moments.scatter / moments.weight)[None])
        return InputModel(density, noise), density, moments
    d = len(summary.keys[0][0])
    groups = [
        GroupMoments(seen_of(key), _noise_of(key, noise), part.weight, part.mean, part.scatter)
        for key, part in summary.moments.items()
    ]
    gaussian = fit_gaussian(groups, d)
    weight = sum(group.weight for group in groups)
    moments = Moments(weight, gaussian.mean, gaussian.covariance * weight)
    density = gaussian
    if sample is not None and n_components != 1:
        sizes = CANDIDATES if n_components is None else (n_components,)
        density = choose_mixture(gaussian, _groups(sample, noise), sizes, np.random.default_rng(0))
    return InputModel(density, noise), gaussian, moments


def _groups(rows: RawRows, noise: NoiseClasses | None) -> list[Group]:
    keys, which = keys_of(rows.X, rows.X_std, noise)
    groups = []
    for index, key in enumerate(keys):
        members, seen = which == index, seen_of(key)
        groups.append(Group(seen, _noise_of(key, noise), rows.X[members][:, seen], rows.omega[members]))
    return groups


class Expanded(NamedTuple):
    """Rows as the kernels see them: one for each component of the density that may have brought it forth.

    Attributes
    ----------
    X : ndarray of shape (p, d)
        Whitened expected inputs.
    kind : ndarray of int of shape (p,), or None
        All 0 if None.
    row : ndarray of int of shape (p,), or None
        The row that each one stands for; in order, one for each, if None.
    rank : ndarray of int of shape (p,), or None
        0 for the component that is most likely to have brought forth the row, 1 for the next.
    share : ndarray of shape (p,), or None
        Probability of the component; those of a row sum to 1.
    V : ndarray of shape (p, d, d), or None
        Factors of covariances that belong to each row alone, lower triangular, whitened.
    """

    X: FloatArray
    kind: IntArray | None = None
    row: IntArray | None = None
    rank: IntArray | None = None
    share: FloatArray | None = None
    V: FloatArray | None = None


class KindTable:
    """Kinds of rows for a set of keys, in whitened inputs.

    Parameters
    ----------
    inputs : InputModel
    whitening : Whitening
    keys : iterable of Key
        Those that rows may have.
    whole : Density or None
        One Gaussian for all inputs, to train with: a row then stands for its most likely component alone, or for
        `whole` if none is likely. To let all components share it, they would have to be weighed by the targets in every
        step.
    rare : collection of Key
        Those of which all rows stand for `whole`.
    """

    def __init__(
        self,
        inputs: InputModel,
        whitening: Whitening,
        keys: Iterable[Key],
        whole: Density | None = None,
        rare: Collection[Key] = (),
    ) -> None:
        self.inputs, self.whitening, self._rare = inputs, whitening, frozenset(rare)
        self._is_whole = whole is not None and len(inputs.density.weights) > 1
        self.keys = [key for key in keys if not is_plain(key)]
        self._first: dict[Key, int] = {}
        self._given: list[Conditional] = []
        self.kind_keys: list[tuple[Key, int]] = []
        kinds: list[Kind] = []
        for key in self.keys:
            self._first[key] = len(kinds)
            for component in range(0 if self._is_whole and key in self._rare else len(inputs.density.weights)):
                given = inputs.density.conditional(component, seen_of(key), inputs.noise_of(key))
                self._given.append(given)
                self.kind_keys.append((key, component))
                kinds.append(whitened_kind(given, inputs.density, whitening))
            if whole is not None and self._is_whole:
                self._given.append(whole.conditional(0, seen_of(key), inputs.noise_of(key)))
                self.kind_keys.append((key, len(inputs.density.weights)))
                kinds.append(whitened_kind(self._given[-1], whole, whitening))
        self.kinds = tuple(kinds)

    def expand(self, X: FloatArray, X_std: FloatArray | None = None) -> Expanded:
        """Give rows their kinds and expected inputs."""
        keys, which = keys_of(X, X_std, self.inputs.noise)
        if all(is_plain(key) for key in keys):
            return Expanded(self.whitening(X))
        parts = [self._expand_key(key, np.flatnonzero(which == index), X) for index, key in enumerate(keys)]
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        return Expanded(*columns)

    def _expand_key(
        self, key: Key, rows: IntArray, X: FloatArray
    ) -> tuple[FloatArray, IntArray, IntArray, IntArray, FloatArray]:
        n = len(rows)
        zeros, density = np.zeros(n, dtype=np.intp), self.inputs.density
        if is_plain(key):
            return self.whitening(X[rows]), zeros, rows, zeros, np.ones(n)
        seen, noise, first = seen_of(key), self.inputs.noise_of(key), self._first[key]
        values = X[np.ix_(rows, np.flatnonzero(seen))]
        n_components = len(density.weights)
        if n_components == 1 or (self._is_whole and key in self._rare):
            expected = self.whitening(self._given[first].expect(values))
            return expected, zeros + first + 1, rows, zeros, np.ones(n)
        share, _ = density.responsibilities(values, seen, noise)
        if self._is_whole:
            top = share.argmax(axis=1)
            top[share.max(axis=1) < LIKELY] = n_components
            n_components += 1
            share = np.eye(n_components)[top]
        order = np.argsort(-share, axis=1, kind="stable")[:, :MAX_SHARERS]
        share = np.take_along_axis(share, order, axis=1)
        share[share < MIN_SHARE] = 0.0
        share /= share.sum(axis=1, keepdims=True)
        rank, index = np.nonzero(share.T)
        component = order[index, rank]
        expected = np.empty((len(index), X.shape[1]))
        for g in range(n_components):
            members = component == g
            expected[members] = self._given[first + g].expect(values[index[members]])
        return self.whitening(expected), first + 1 + component, rows[index], rank, share[index, rank]


def whitened_kind(given: Conditional, density: Density, whitening: Whitening) -> Kind:
    """Bring a conditional density to whitened inputs."""
    variance = np.diagonal(density.covariance)
    scale = np.sqrt(np.where(variance > 0.0, variance, 1.0))
    V = whitening.matrix.T @ factor(given.Psi, scale)
    directions = np.linalg.qr(whitening.matrix.T @ given.gain)[0] if given.gain.shape[1] else np.zeros((len(scale), 0))
    origin = whitening(given.mean[None])[0]
    return Kind(np.ascontiguousarray(V), origin, np.ascontiguousarray(directions), ~given.seen)


def gather(prediction: Prediction, expanded: Expanded, n: int, n_inputs: int) -> Prediction:
    """Put predictions for expanded rows together to one mixture, of `n_inputs` parts, for each of the n raw rows."""
    if expanded.row is None and n_inputs == 1:
        return prediction
    K = prediction.n_components
    row = np.arange(n) if expanded.row is None else expanded.row
    rank = np.zeros(n, dtype=np.intp) if expanded.rank is None else expanded.rank
    share = np.ones(n) if expanded.share is None else expanded.share
    parts: dict[str, Any] = {"weights": np.zeros((n, n_inputs, K))}
    parts["weights"][row, rank] = share[:, None] * prediction.weights
    likely = np.zeros(n, dtype=np.intp)  # components that a row lacks repeat one that it has, with weight zero
    likely[row[::-1]] = np.arange(len(row))[::-1]
    for name in ("means", "model_variances", "noise_variances", "input_variances"):
        values = getattr(prediction, name)
        parts[name] = np.repeat(values[likely][:, None], n_inputs, axis=1)
        parts[name][row, rank] = values
    fields = {name: values.reshape(n, -1) for name, values in parts.items()}
    return Prediction(**fields, lower=prediction.lower, n_heads=n_inputs * K, n_inputs=n_inputs)


def in_order(values: FloatArray, expanded: Expanded, n: int) -> FloatArray:
    """Mean of values (p, s) of expanded rows over the components, for each of the n raw rows, (n, s)."""
    if expanded.row is None or expanded.share is None:
        return values
    total = np.zeros((n, values.shape[1]))
    np.add.at(total, expanded.row, expanded.share[:, None] * values)
    return total
