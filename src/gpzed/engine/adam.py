"""Adam (Kingma & Ba 2015) with a one-cycle schedule (Smith & Topin 2018), for steps by small random batches.

L-BFGS on all rows stops in one of many poor optima that the likelihood of a mixture has; noisy steps that become
smaller and smaller do not (measured: docs/explanation/mixtures.md). What is scored and used is the mean of the
parameters over the last steps (Polyak & Juditsky 1992), which the noise of the steps hardly moves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpzed._types import AnyArray

PEAK_RATE = 0.02
WARM_UP = 0.3
"""Part of the schedule in which the rate rises."""
MAX_NORM = 5.0
"""Longer gradients (per row) are shortened to this."""
MOMENTUM = 0.95, 0.85
"""Of the mean gradient, at the ends and at the peak of the schedule."""
DECAY, EPSILON = 0.999, 1e-8
MEMORY = 0.05
"""Part of the schedule over which parameters are averaged."""


class Factors(NamedTuple):
    """Numbers of one step."""

    rate: float
    momentum: float
    corrected_rate: float  # for the start of the mean gradient at zero
    root_scale: float  # of the mean square, for the same reason


class Adam:
    """Parameters `theta` on their way, their `mean` over the last steps, and the `count` of these.

    The schedule is made for `total` steps. `decay` (like theta), in units of the learning rate, draws parameters to
    zero (Loshchilov & Hutter 2019). All is done in the precision of theta. `first` and `second` are the mean gradient
    and its mean square; `memory` is the weight of the latest parameters in their mean.
    """

    def __init__(
        self, theta: AnyArray, total: int, peak_rate: float = PEAK_RATE, decay: AnyArray | None = None
    ) -> None:
        self._peak_rate, self._decay = peak_rate, decay
        self.theta, self.mean, self.count = theta.copy(), theta.copy(), 0
        self.first, self.second = np.zeros_like(theta), np.zeros_like(theta)
        self.memory = min(1.0, 1.0 / (MEMORY * total))
        self._total, self._bias = total, 1.0

    def advance(self) -> Factors:
        """Count a step and return its factors."""
        rate, momentum = schedule(self.count / self._total, self._peak_rate)
        self.count += 1
        self._bias *= momentum
        return Factors(rate, momentum, rate / (1.0 - self._bias), 1.0 / (1.0 - DECAY**self.count))

    def step(self, gradient: AnyArray, scale: float, factors: Factors | None = None) -> float:
        """Take a step against `scale` times a gradient; return the norm of that.

        With `factors` it is a step that was counted before.
        """
        rate, momentum, corrected_rate, root_scale = factors or self.advance()
        norm = abs(scale) * float(np.sqrt(np.cumsum(gradient * gradient)[-1]))  # in order, whatever the BLAS
        g = (scale * MAX_NORM / norm if norm > MAX_NORM else scale) * gradient
        self.first += (1.0 - momentum) * (g - self.first)
        self.second += (1.0 - DECAY) * (g * g - self.second)
        if self._decay is not None:
            self.theta -= rate * self._decay * self.theta
        self.theta -= corrected_rate * self.first / (np.sqrt(self.second * root_scale) + EPSILON)
        self.mean += self.memory * (self.theta - self.mean)
        return norm


def schedule(progress: float, peak_rate: float = PEAK_RATE) -> tuple[float, float]:
    """Return learning rate and momentum at a point, 0 to 1, of the schedule."""
    rising = progress < WARM_UP
    position = progress / WARM_UP if rising else (progress - WARM_UP) / (1.0 - WARM_UP)
    wave = float(np.cos(np.pi * position))
    height = 0.5 * (1.0 - wave) if rising else 0.5 * (1.0 + wave)
    low = peak_rate / 25.0 if rising else 0.0
    return low + (peak_rate - low) * height, MOMENTUM[0] + (MOMENTUM[1] - MOMENTUM[0]) * height
