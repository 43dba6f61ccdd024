"""What training minimises, and the score of held-out rows that chooses among its iterates."""

from __future__ import annotations

import numpy as np

from gpzed._types import FloatArray
from gpzed.engine.blocks import Engine, Rows
from gpzed.gp.evidence import Evaluation, evaluate, fit_posterior
from gpzed.gp.parameters import Layout
from gpzed.gp.posterior import Posterior
from gpzed.gp.predictive import score
from gpzed.gp.prior import log_prior
from gpzed.gp.state import State
from gpzed.incomplete.blur import Blur
from gpzed.incomplete.givens import refresh, trust_in_rows

NOISE_SHIFTS = np.linspace(-3.0, 0.0, 13)
"""Corrections to ``ln beta`` among which held-out rows choose; the best is refined by a parabola. Only towards more
noise: held-out rows chose the iterate, too, and would ask for too little of it."""


class Objective:
    """Minus the log evidence and log prior per row; remembers its last evaluation for the score of held-out rows."""

    def __init__(
        self,
        engine: Engine,
        layout: Layout,
        blurs: tuple[Blur, ...],
        shape_prior: float,
        weighted_precision: bool,
        doubtful: bool = False,
    ) -> None:
        self.engine, self.layout, self.blurs, self.doubtful = engine, layout, blurs, doubtful
        self.shape_prior, self.weighted_precision = shape_prior, weighted_precision
        self._last: tuple[FloatArray, Evaluation] | None = None

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return value and gradient."""
        layout, n = self.layout, self.engine.n
        parameters = layout.unpack(theta)
        result = evaluate(self.engine, parameters, layout, self.weighted_precision, self.blurs)
        prior, grad_prior = log_prior(parameters, layout, self.shape_prior)
        self._last = (theta.copy(), result)
        gradient = layout.pack(result.gradient) + layout.pack(grad_prior)
        return -(result.evidence.total + prior) / n, -gradient / n

    def log_evidence(self, theta: FloatArray) -> float:
        """Return the log evidence of the rows (Eq. 5.6)."""
        parameters = self.layout.unpack(theta)
        result = evaluate(self.engine, parameters, self.layout, self.weighted_precision, self.blurs)
        self._last = (theta.copy(), result)
        return result.evidence.total

    def posterior(self, theta: FloatArray, engine: Engine | None = None) -> tuple[State, Posterior]:
        """Return the posterior of the weights from these rows, or from those of another engine."""
        if engine is None and self._last is not None and np.array_equal(theta, self._last[0]):
            return self._last[1].state, self._last[1].posterior
        parameters = self.layout.unpack(theta)
        return fit_posterior(
            self.engine if engine is None else engine, parameters, self.layout, self.weighted_precision, self.blurs
        )[:2]

    def refresh(self, theta: FloatArray, valid: Engine | None, *others: Engine, trusting: bool = False) -> None:
        """Set what is given in these rows, held-out ones and others; `trusting` takes all targets for right."""
        doubtful = self.doubtful and not trusting
        parameters = self.layout.unpack(theta)
        engines, given = [self.engine, *others], (self.layout, self.weighted_precision, self.blurs)
        refresh(engines, parameters, *given, valid, doubtful=doubtful)
        self._last = None

    def trust(self, theta: FloatArray, rows: Rows) -> FloatArray | None:
        """Return the probability that the targets of rows in memory are right; None where none may be wrong."""
        return trust_in_rows(rows, *self.posterior(theta)) if self.doubtful else None

    def validate(self, valid: Engine, theta: FloatArray, calibrate_noise: bool) -> tuple[float, float]:
        """Return the mean log-likelihood of held-out rows, and the constant on ``ln beta`` at which it is reached.

        Optimised shapes fit the training rows too closely, so that noise comes out too small on others. With
        `calibrate_noise` a model is judged, and used, with the constant that held-out rows prefer.
        """
        shifts = NOISE_SHIFTS if calibrate_noise else np.zeros(1)
        (totals,) = valid.sum(score, *self.posterior(theta), shifts)
        scores = totals / valid.sum_omega
        best = int(np.argmax(scores))
        if not 0 < best < len(scores) - 1:
            return float(scores[best]), float(shifts[best])
        left, centre, right = scores[best - 1 : best + 2]
        curvature = left - 2.0 * centre + right
        offset = 0.5 * (left - right) / curvature if curvature < 0.0 else 0.0
        peak = centre - 0.25 * (left - right) * offset
        return float(peak), float(shifts[best] + offset * (shifts[1] - shifts[0]))
