r"""Mixtures predicted without matrices: the model variance of every head as a sum of squares.

.. math:: \nu_k(x) = \phi' S_k^{-1} \phi \approx \sum_j c_{jk}\, \phi_j(x)^2, \quad c_{jk} \ge 0,

takes M multiplications instead of M^2 / 2 for each head. The coefficients are those of least squares on training rows,
each weighted by the share of the head and relative to the variance of the whole component; other rows say whether
they are good enough. Low-rank forms of the matrices are not: a third of the rank misses most of the model variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from gpzed._types import FloatArray
from gpzed.engine.blocks import Block, Rows, Scratch
from gpzed.gp.linalg import Factor, non_negative_least_squares
from gpzed.gp.state import State, responses
from gpzed.gp.whitening import Whitening
from gpzed.mixture.heads import Heads
from gpzed.mixture.likelihood import head_outputs, moments_of

MAX_ROWS = 4000
"""Rows that the coefficients are fitted to and judged by, at most."""
MIN_ROWS = 200
HELD_FRACTION = 0.25
MAX_LOSS = 2e-3
"""Expected log-likelihood per row that the sums of squares may lose against the exact variances, in nats."""
MAX_ERROR = 0.1
"""Relative error of the standard deviation of the whole mixture that one row in a hundred may exceed."""
UNSEEN = 0.01
"""Response that a basis function must reach in some of these rows; what they say of others is rounding."""
MAX_SQUARE = 1e30
"""Largest coefficient: single precision ends at 3e38, and a basis function that no row is near to has any."""

LARGEST = 1e100
"""Means and variances beyond this are not sound."""


@dataclass(frozen=True)
class SquareForms:
    """Coefficients of the squares of the basis functions, and how good they are on rows kept aside."""

    squares: FloatArray  # (M, K)
    loss: float  # expected log-likelihood per row that they lose
    error: float  # of the standard deviation of the mixture, relative, 99th percentile

    @property
    def is_good(self) -> bool:
        """Whether they may take the place of the exact variances."""
        return self.loss <= MAX_LOSS and self.error <= MAX_ERROR and float(self.squares.max()) < MAX_SQUARE


class Place(NamedTuple):
    """Where the Gaussians of a member stand among those of a committee, and how they are scaled."""

    first: int  # column of the member's first Gaussian
    repeats: int  # how often its Gaussians stand there: once for each of the possible inputs, and with weight once
    share: float  # of the member
    y_mean: float
    y_scale: float  # both undo the standardisation of the target


class Columns(NamedTuple):
    """Results of a committee for some rows, (n, K of all members) each."""

    weights: FloatArray
    means: FloatArray
    model_variances: FloatArray
    noise_variances: FloatArray


class Quick(Protocol):
    """A member that is ready to predict for complete rows."""

    def moments(self, X: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return weights, means, model and noise variances for raw inputs (n, d), the target standardised, (K, n).

        Rows with gaps get numbers that mean nothing.
        """
        ...


def fit_squares(
    rows: Rows, heads: Heads, state: State, factors: Sequence[Factor], rng: np.random.Generator
) -> SquareForms | None:
    """Fit sums of squares to the model variances of complete rows; None if these are too few, or it is no good."""
    complete = np.arange(len(rows.y)) if rows.blur is None else np.flatnonzero(rows.blur == 0)
    if len(complete) < MIN_ROWS:
        return None
    chosen = rng.permutation(complete)[:MAX_ROWS]
    _, Phi, _ = responses(Block.of_inputs(rows.X[chosen]), Scratch(), state)
    pi, mean, nu, noise = moments_of(Phi, heads.Theta, factors)
    n_held = int(HELD_FRACTION * len(chosen))
    fitted, held = slice(n_held, None), slice(n_held)
    weight = np.sqrt(pi[:, fitted]) / (nu + noise)[:, fitted]
    seen = np.abs(Phi[:, fitted]).max(axis=1) > UNSEEN
    squares = []
    for factor, w, target in zip(factors, weight, nu[:, fitted], strict=True):
        found = non_negative_least_squares(Phi[:, fitted].T ** 2 * w[:, None], target * w)
        alone = factor.inverse_diagonal  # right where a basis function stands alone; (sum a_j)^2 <= M sum a_j^2
        squares.append(np.where(seen, np.minimum(found, len(alone) * alone), alone))
    forms = SquareForms(np.stack(squares, axis=1), *_judge(pi, mean, nu, noise, squares @ Phi**2, held))
    return forms if forms.is_good else None


def _judge(
    pi: FloatArray, mean: FloatArray, nu: FloatArray, noise: FloatArray, found: FloatArray, held: slice
) -> tuple[float, float]:
    """Return loss and error of model variances `found` instead of `nu`."""
    pi, mean, exact, found = pi[:, held], mean[:, held], (nu + noise)[:, held], (found + noise)[:, held]
    ratio = exact / found
    loss = 0.5 * np.sum(pi * (ratio - 1.0 - np.log(ratio)), axis=0)
    centre = np.sum(pi * mean, axis=0)
    between = np.sum(pi * (mean - centre) ** 2, axis=0)
    error = np.sqrt((np.sum(pi * found, axis=0) + between) / (np.sum(pi * exact, axis=0) + between)) - 1.0
    return float(loss.mean()), float(np.quantile(np.abs(error), 0.99))


def fill_columns(
    X: FloatArray, members: Sequence[tuple[Quick, Place]], columns: Columns, scratch: Scratch, *, spare: bool = False
) -> bool:
    """Predict mixtures for complete raw inputs (n, d) into the columns of a committee; tell whether they are sound.

    With `spare` the last column has no weight yet, and is else as the first. The compiled twin works in single
    precision.
    """
    is_sound = True
    for member, place in members:
        pi, mean, nu, noise = member.moments(X)
        scale, K = place.y_scale, len(mean)
        values = place.share * pi, place.y_mean + scale * mean, scale**2 * nu, scale**2 * noise
        for repeat in range(place.repeats):
            at = slice(place.first + repeat * K, place.first + (repeat + 1) * K)
            for target, value in zip(columns, values, strict=True):
                target[:, at] = 0.0 if repeat and target is columns.weights else value.T
        is_sound &= all(bool(np.all(np.abs(value) < LARGEST)) for value in values)
    for target in columns if spare else ():
        target[:, -1] = 0.0 if target is columns.weights else target[:, 0]
    return is_sound


@dataclass(frozen=True, eq=False)
class QuickHeads:
    """Heads ready to predict complete rows with sums of squares."""

    whitening: Whitening
    state: State
    Theta: FloatArray
    squares: FloatArray

    def moments(self, X: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return weights, means, model and noise variances, see `Quick`."""
        X = np.where(np.isnan(X), self.whitening.mean, X)
        _, Phi, _ = responses(Block.of_inputs(self.whitening(X)), Scratch(), self.state)
        mean, log_beta, log_pi = head_outputs(self.Theta, Phi)
        return np.exp(log_pi), mean, self.squares.T @ Phi**2, np.exp(-log_beta)
