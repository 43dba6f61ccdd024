"""`Components`: the Gaussians that the densities of n objects consist of, and whose they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from gpzed._types import AnyArray, BoolArray, FloatArray, IntArray
from gpzed.compiled import substitute
from gpzed.compiled.binding import is_compiled
from gpzed.compiled.points import mixture_moments
from gpzed.prediction import checks
from gpzed.prediction.compact import AT_ONCE, REACH, SLOTS, SPECK, Compact, compact
from gpzed.prediction.mixture import (
    UNCUT,
    Mixture,
    Moments,
    build,
    log_sum_exp,
    moments,
    row_chunks,
)

OF_ALL = -1
"""Label of components that belong to no member: those of wings and of doubt."""
ARRAYS = ("weights", "means", "model_variances", "noise_variances", "input_variances")


@dataclass(frozen=True, eq=False)
class Components:
    """K Gaussians for each of n objects; arrays are read-only, and trusted: `checked` is the door for others.

    Weights, means and the three parts of the variance have shape (n, K); `gpzed.Prediction` says what they mean.
    `member` (K,) says which model gave a component, `OF_ALL` for those of none; components of one model stand
    together, and within a model those for the same `input` (K,).
    """

    weights: FloatArray
    means: FloatArray
    model_variances: FloatArray
    noise_variances: FloatArray
    input_variances: FloatArray
    member: IntArray
    input: IntArray

    def __post_init__(self) -> None:
        for name in (*ARRAYS, "member", "input"):
            view = getattr(self, name).view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    @classmethod
    def checked(
        cls,
        weights: ArrayLike,
        means: ArrayLike,
        model_variances: ArrayLike,
        noise_variances: ArrayLike,
        input_variances: ArrayLike | None = None,
        member: ArrayLike | None = None,
        input: ArrayLike | None = None,
    ) -> Components:
        """Copy and check arrays of others; see `gpzed.Prediction` for what they mean."""
        share = checks.normalised_weights(weights)
        shape = share.shape
        parts = {"model_variances": model_variances, "noise_variances": noise_variances}
        parts["input_variances"] = np.zeros(shape) if input_variances is None else input_variances
        model, noise, inputs = (checks.variances(name, values, shape) for name, values in parts.items())
        K = shape[1]
        made = cls(
            share,
            checks.component_array("means", means, shape),
            model,
            noise,
            inputs,
            np.arange(K) if member is None else checks.labels("member", member, K),
            np.zeros(K, dtype=np.intp) if input is None else checks.labels("input", input, K),
        )
        made.verify()
        return made

    def verify(self) -> None:
        """Raise ValueError unless weights, means and variances are finite, and these positive; nothing is copied."""
        total = self.model_variances + self.noise_variances + self.input_variances
        expected = "drop or repair these objects first"
        checks.require(np.isfinite(self.weights), self.weights, "weights", "is not finite", expected)
        checks.require(np.isfinite(self.means), self.means, "means", "is not finite", expected)
        checks.require(total > 0, total, "variances", "sum to zero", "add a small floor to the variance")
        checks.require(np.isfinite(total), total, "variances", "overflow", "check their units")

    @property
    def _has_exact_inputs(self) -> bool:
        """Whether input variances are one zero for all, see `no_input_variances`."""
        return self.input_variances.strides == (0, 0) and self.input_variances.size > 0

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def n_components(self) -> int:
        """Number K of components per object."""
        return int(self.weights.shape[1])

    @cached_property
    def stds(self) -> FloatArray:
        """Standard deviation of each component, shape (n, K)."""
        return checks.read_only(np.sqrt(self.model_variances + self.noise_variances + self.input_variances))

    @property
    def n_always(self) -> int:
        """Number of components that objects without gaps have, too: those for the first of the possible inputs.

        The others may have been left out where they have no weight. Nothing must change with that.
        """
        return int(np.count_nonzero(self.input == self.input.min()))

    @cached_property
    def compact(self) -> Compact:
        """The same mixtures without repetition, see `gpzed.prediction.compact`; as they are if that is not worth it."""
        if self.n_always <= SLOTS:
            return Compact(self.weights, self.means, self.stds**2)
        arrays = [getattr(self, name) for name in ARRAYS]
        if self._has_exact_inputs:
            arrays[-1] = None
        return Compact(*substitute(compact)(*arrays, slots=SLOTS, light=SPECK, at_once=AT_ONCE, reach=REACH))

    @cached_property
    def _means(self) -> FloatArray:
        """Mean of each object before any cut, shape (n,)."""
        return np.einsum("nk,nk->n", self.compact.weights, self.compact.means)  # type: ignore[no-any-return]

    def mixtures(self, lower: float | None) -> Iterator[tuple[IntArray | slice, Compact]]:
        """Yield rows with their mixtures without repetition, to be cut at `lower`; later ones replace earlier ones.

        Those that lie below the cut for the most part are as they are: what is left of them are tails, which merging
        changes.
        """
        yield slice(None), self.compact
        if lower is None or self.n_always <= SLOTS:
            return
        below = np.flatnonzero(self._means < lower)
        if len(below):
            model, noise, inputs = (getattr(self, name)[below] for name in ARRAYS[2:])
            yield below, Compact(self.weights[below], self.means[below], model + noise + inputs)

    def take(self, rows: AnyArray | slice) -> Components:
        """Return the components of some of the objects."""
        return replace(self, **{name: getattr(self, name)[rows] for name in ARRAYS})

    def of_member(self, member: int) -> Components:
        """Return what one member says by itself, with the components that belong to all."""
        own, extra = np.flatnonzero(self.member == member), np.flatnonzero(self.member == OF_ALL)
        which = np.concatenate([own, extra])
        arrays = {name: getattr(self, name)[:, which] for name in ARRAYS}
        weights, n = arrays["weights"], len(own)
        total = weights[:, :n].sum(axis=1, keepdims=True)
        weights[:, :n] = np.where(total > 0.0, weights[:, :n] / np.where(total > 0.0, total, 1.0), 1.0 / n)
        weights[:, :n] *= 1.0 - weights[:, n:].sum(axis=1, keepdims=True)
        return Components(**arrays, member=self.member[which], input=self.input[which])

    def with_one_more(self, weight: FloatArray | float, **values: FloatArray) -> Components:
        """Return the components with one more that belongs to all, given its mean and parts of the variance, (n,).

        Its weight is taken from the others in proportion.
        """
        share = np.broadcast_to(np.asarray(weight, dtype=np.float64), (len(self),))[:, None]
        arrays = {name: np.hstack([getattr(self, name), values[name][:, None]]) for name in ARRAYS[1:]}
        arrays["weights"] = np.hstack([(1.0 - share) * self.weights, share])
        return Components(**arrays, member=np.append(self.member, OF_ALL), input=np.append(self.input, 0))

    def filled(self, rows: BoolArray, mean: float, variance: float) -> Components:
        """Return the components with one Gaussian, all of it noise, for some of the objects."""
        if not rows.any():
            return self
        arrays = {name: np.array(getattr(self, name)) for name in ARRAYS}
        for name, value in zip(ARRAYS[1:], (mean, 0.0, variance, 0.0), strict=True):
            arrays[name][rows] = value
        return replace(self, **arrays)

    def overwritten(self, rows: IntArray, part: Components) -> Components:
        """Return the components with others for some of the objects; for whom made the arrays: they are written to."""
        if not len(rows):
            return self
        names = ARRAYS[:4] if self._has_exact_inputs and not part.input_variances.any() else ARRAYS
        assert names is not ARRAYS or not self._has_exact_inputs, "there is no room for input variances"
        for name in names:
            values = getattr(self, name).view()
            values.flags.writeable = True
            values[rows] = getattr(part, name)
        return replace(self)

    def rows(self, lower: float | None, columns: int = 1) -> Iterator[tuple[slice, Mixture]]:
        """Yield slices of rows with their mixtures cut at `lower`, sized for `columns` values per component."""
        for rows in row_chunks(len(self), self.n_components * columns):
            yield rows, build(self.weights[rows], self.means[rows], self.stds[rows], lower)

    def moments(self, lower: float | None = None) -> Moments:
        """Return mean and parts of the variance of each object, once cut at `lower`."""
        groups = _starts(self.member), _starts(self.member, self.input)
        if is_compiled():
            arrays = {name: getattr(self, name) for name in ARRAYS}
            if self._has_exact_inputs:
                del arrays["input_variances"]
            found = mixture_moments(arrays, *groups, lower=lower, uncut=UNCUT)
            return Moments(*(checks.read_only(part) for part in found))
        parts = [np.empty(len(self)) for _ in Moments._fields]
        for rows, mix in self.rows(lower):
            model, noise, inputs = (getattr(self, name)[rows] for name in ARRAYS[2:])
            for out, value in zip(parts, moments(mix, model, noise, inputs, *groups), strict=True):
                out[rows] = value
        return Moments(*(checks.read_only(part) for part in parts))

    def log_weights(self, lower: float | None) -> FloatArray:
        """Return log weights (n, K), less the log probability above the cut."""
        log_w: FloatArray = np.log(self.weights)
        if lower is None:
            return log_w
        above = log_ndtr((self.means - lower) / self.stds)
        return log_w - log_sum_exp((log_w + above).T)[:, None]


def no_input_variances(shape: tuple[int, ...]) -> FloatArray:
    """Return input variances of objects all of whose inputs are exact: zeros that take no memory."""
    return np.broadcast_to(np.float64(0.0), shape)


def _starts(*labels: IntArray) -> IntArray:
    """Return where runs of components with the same labels begin."""
    changes = np.any([np.diff(label) != 0 for label in labels], axis=0)
    return np.concatenate([[0], 1 + np.flatnonzero(changes)])
