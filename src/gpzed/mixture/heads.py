"""Parameters of a mixture density on the basis functions of GPz: K heads, each with its own mean, noise and gate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpzed._types import FloatArray
from gpzed.gp.linalg import Factor
from gpzed.gp.parameters import Layout, Parameters
from gpzed.gp.state import State, make_state
from gpzed.incomplete.blur import Blur
from gpzed.incomplete.spread import QuadraticForms


@dataclass(frozen=True)
class Heads:
    """Basis functions and the heads on them, or a gradient for both."""

    P: FloatArray  # (m, d)
    Gamma: FloatArray  # shape by structure
    Theta: FloatArray  # (m + k, 3 K) weights of the K means, then of the K log noise precisions, then of the K gates

    @property
    def K(self) -> int:
        """Number of heads."""
        return int(self.Theta.shape[1]) // 3

    def pack(self) -> FloatArray:
        """Return all numbers in one vector."""
        return np.concatenate([np.ravel(self.P), np.ravel(self.Gamma), np.ravel(self.Theta)])

    def unpack(self, theta: FloatArray) -> Heads:
        """Undo `pack`, in the shapes of these heads."""
        parts = np.split(theta, np.cumsum([self.P.size, self.Gamma.size]))
        shapes = self.P.shape, self.Gamma.shape, self.Theta.shape
        return Heads(*(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)))

    def rounded(self) -> Heads:
        """Return the heads in numbers that single precision holds, shorter in a file."""
        return Heads(*(part.astype(np.float32).astype(np.float64) for part in (self.P, self.Gamma, self.Theta)))

    def state(self, layout: Layout, blurs: Sequence[Blur] = ()) -> State:
        """Prepare the basis functions for the kernels."""
        m = layout.m
        parameters = Parameters(self.P, self.Gamma, np.zeros(m), 0.0, np.zeros(layout.n_weights), np.zeros(m))
        return make_state(parameters, layout, blurs=blurs)

    def with_noise_shift(self, shift: float, m: int) -> Heads:
        """Return the same heads with a constant added to every ``ln beta``."""
        Theta = self.Theta.copy()
        Theta[m, self.K : 2 * self.K] += shift
        return Heads(self.P, self.Gamma, Theta)

    def forms(self, layout: Layout, factors: Sequence[Factor] = ()) -> QuadraticForms:
        """Return forms for what uncertain inputs add to the variance of every head.

        With `factors`, then to each model variance, and the variances of each ``ln beta``.
        """
        matrices = [np.outer(w, w) for w in self.Theta.T[: self.K]] + [factor.inverse for factor in factors]
        if factors:
            matrices += [np.outer(u, u) for u in self.Theta.T[self.K : 2 * self.K]]
        return QuadraticForms(self.P, layout.structure.expand(self.Gamma, layout.d), np.stack(matrices))


def start_heads(
    parameters: Parameters, y: FloatArray, K: int, layout: Layout, rng: np.random.Generator, *, scatter: bool = False
) -> Heads:
    """Return heads that divide the range of the target among them, on given basis functions.

    Each is in the middle of its part, or with `scatter` anywhere in it.
    """
    Theta = np.zeros((layout.n_weights, 3 * K))
    Theta[: layout.m] = 0.01 * rng.standard_normal((layout.m, 3 * K))
    Theta[layout.m, :K] = np.quantile(y, (np.arange(K) + (rng.random(K) if scatter else 0.5)) / K)
    Theta[layout.m, K : 2 * K] = 2.0 * np.log(K)
    return Heads(parameters.P.copy(), parameters.Gamma.copy(), Theta)


def head_layout(layout: Layout) -> Layout:
    """Return the layout of the heads of a model: its own, with a constant in the mean function at least."""
    return replace(layout, mean_function="constant") if layout.mean_function == "zero" else layout
