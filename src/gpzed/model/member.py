"""A trained model: parameters, posterior, the maps around them, and how training went; what it predicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpzed._types import FloatArray, IntArray
from gpzed.engine.lbfgs import Iteration
from gpzed.engine.threads import Team
from gpzed.gp.linalg import Factor
from gpzed.gp.parameters import Layout, Parameters
from gpzed.gp.posterior import Posterior
from gpzed.gp.predictive import predict, predict_noisy, responses_of, variance_forms
from gpzed.gp.state import State, make_state
from gpzed.incomplete.blur import Blur
from gpzed.incomplete.parts import MAX_PARTS, PatternTable, RowParts
from gpzed.incomplete.patterns import Pattern
from gpzed.incomplete.spread import AddedVariance, BlurredRows, QuadraticForms
from gpzed.mixture.heads import head_layout
from gpzed.mixture.predictive import MixtureHeads
from gpzed.mixture.quick import QuickHeads
from gpzed.model.data import Standardisation
from gpzed.prediction import Components

KEPT_BLURS = 256
"""Blurs of rows whose preparations for predicting a member keeps."""


@dataclass(frozen=True)
class TrainingReport:
    """How the training of one model went.

    Attributes
    ----------
    status, message : str
        Why training ended.
    n_rows : tuple of int
        Training rows of each stage, the last one all of them.
    history : tuple of Iteration
        Every accepted step: seconds since training began (the search for starting values included), objective (minus
        log evidence and log prior, per row), largest element of its gradient, validation score (mean log-likelihood of
        the held-out rows, target in its own units).
    stage : tuple of int
        The stage of every step.
    best_iteration : int
        Index (from 1) in `history` of the step that was kept.
    best_score : float
        Its validation score.
    log_evidence : float
        Log evidence (Eq. 5.6) of the training rows there, target standardised.
    noise_correction : float
        What validation added to ``ln beta`` after training (see `calibrate_noise`).
    n_evaluations, n_rejected : int
        Evaluations of the evidence, and those at which it broke down so that the step was shortened.
    seconds : float
    """

    status: str
    message: str
    n_rows: tuple[int, ...]
    history: tuple[Iteration, ...]
    stage: tuple[int, ...]
    best_iteration: int
    best_score: float
    log_evidence: float
    noise_correction: float
    n_evaluations: int
    n_rejected: int
    seconds: float


@dataclass(frozen=True)
class Member:
    """One trained model: parameters, posterior of the weights or heads in its place, and the maps around them."""

    layout: Layout
    parameters: Parameters
    posterior: Posterior | None  # none with heads, which have their own
    standardisation: Standardisation
    noise_correction: float
    report: TrainingReport | None = None
    mixture: MixtureHeads | None = None

    @property
    def basis(self) -> tuple[FloatArray, FloatArray]:
        """Centres P and square roots Gamma of the precisions of the basis functions that predict, whitened."""
        source = self.parameters if self.mixture is None else self.mixture.heads
        return source.P, source.Gamma

    @property
    def weights(self) -> Posterior:
        """Posterior of the weights of a member without heads."""
        assert self.posterior is not None
        return self.posterior

    @cached_property
    def state(self) -> State:
        """Parameters as the kernels want them, noise correction included."""
        return make_state(self._corrected, self.layout)

    def make_state(self, blurs: Sequence[Blur]) -> State:
        """As `state`, for rows with several blurs."""
        return make_state(self._corrected, self.layout, blurs=blurs) if blurs else self.state

    @property
    def _corrected(self) -> Parameters:
        return replace(self.parameters, b=self.parameters.b + self.noise_correction)

    @property
    def n_inputs(self) -> int:
        """Parts of a prediction, for different inputs that may be behind a row with missing or noisy ones."""
        return min(len(self.standardisation.inputs.density.weights), MAX_PARTS)

    def parts(self, X: FloatArray, X_std: FloatArray | None = None) -> tuple[RowParts, PatternTable]:
        """Parts of raw rows, and the blurs of rows among them."""
        return self.standardisation.parts(X, X_std)

    def expected(self, X: FloatArray, X_std: FloatArray | None = None) -> FloatArray:
        """Whitened inputs (n, d), expected ones where raw inputs are missing or noisy."""
        return self.standardisation.expected(X, X_std)

    def denoised(self, X: FloatArray, X_std: FloatArray) -> FloatArray:
        """Raw inputs (n, d) that are to be expected behind noisy ones; missing ones, too."""
        whitening = self.standardisation.whitening
        return np.asarray(np.linalg.solve(whitening.matrix.T, self.expected(X, X_std).T).T + whitening.mean)

    def components(self, X: FloatArray, team: Team, X_std: FloatArray | None = None) -> Components:
        """Return the Gaussians for raw inputs: one for each, or those of the heads; for every input that may be."""
        parts, table = self.parts(X, X_std)
        weights, means, model, noise, inputs = self._moments(X, parts, table, team)
        map_, labels = self.standardisation, np.zeros(weights.shape[1], dtype=np.intp)
        scale = map_.y_scale
        variances = scale**2 * model, scale**2 * noise, scale**2 * inputs
        found = Components(weights, map_.y_mean + scale * means, *variances, labels, labels)
        return parts.join(found, len(X), self.n_inputs)

    def _moments(self, X: FloatArray, parts: RowParts, table: PatternTable, team: Team) -> tuple[FloatArray, ...]:
        """Return weights, means and variances of all Gaussians of parts of rows, target standardised, (parts, K)."""
        spreads = [self._spread(label, blur) for label, blur in zip(table.labels, table.blurs, strict=True)]
        if self.mixture is not None:
            if parts.V is None:
                return self.mixture.predict(parts.X, self.layout, team, parts.blur, table.blurs, spreads)
            return self.mixture.predict_noisy(parts.X, parts.V, np.isnan(X)[parts.row], team, self._noisy)
        state = self.make_state(table.blurs)
        if parts.V is None:
            found = predict(parts.X, state, self.weights, team, parts.blur, spreads)
        else:
            found = predict_noisy(parts.X, parts.V, state, self.weights, team, self._noisy)
        columns = [np.asarray(part)[:, None] for part in found]
        return (np.ones_like(columns[0]), *columns)

    def draw(self, X: FloatArray, which: IntArray, rng: np.random.Generator) -> FloatArray:
        """Draw how far functions are from their expectations at raw inputs, in units of their standard deviations.

        Weights come from their posterior; `which` (n, s) says of which Gaussian of its prediction each value is.
        """
        parts, table = self.parts(X)
        if self.mixture is None:
            factors: tuple[Factor, ...] = (self.weights.factor,)
            state = self.make_state(table.blurs)
        else:
            state, factors = self.mixture.heads.state(head_layout(self.layout), table.blurs), self.mixture.factors
        Phi, where = responses_of(parts.X, state, parts.blur), parts.positions(len(X), self.n_inputs)
        deviates = np.zeros(which.shape)
        for head, factor in enumerate(factors):
            whitened = Phi @ factor.whitener.T
            whitened /= np.maximum(np.linalg.norm(whitened, axis=1, keepdims=True), np.finfo(float).tiny)
            drawn = whitened @ rng.standard_normal((whitened.shape[1], which.shape[1]))
            for rank, rows in enumerate(where.T):
                np.copyto(deviates, drawn[rows], where=which == rank * len(factors) + head)
        return deviates

    @property
    def input_labels(self) -> IntArray:
        """For which of the possible inputs each Gaussian of a prediction is."""
        return np.repeat(np.arange(self.n_inputs), self.n_heads)

    @property
    def n_heads(self) -> int:
        """Gaussians of a prediction for one component of the density of the inputs."""
        return 1 if self.mixture is None else self.mixture.heads.K

    @cached_property
    def quick(self) -> QuickHeads | None:
        """The heads ready to predict complete rows without matrices; None where sums of squares are not good enough."""
        if self.mixture is None or self.mixture.quick is None:
            return None
        heads, layout = self.mixture.heads, head_layout(self.layout)
        whitening, squares = self.standardisation.whitening, self.mixture.quick.squares
        return QuickHeads(whitening, heads.state(layout), heads.Theta, squares)

    @cached_property
    def _forms(self) -> QuadraticForms:
        if self.mixture is not None:
            return self.mixture.forms(self.layout)
        return variance_forms(self.parameters, self.layout, self.weights)

    @cached_property
    def _noisy(self) -> BlurredRows:
        layout = self.layout if self.mixture is None else head_layout(self.layout)
        return BlurredRows(self._forms, layout.k)

    @cached_property
    def _spreads(self) -> dict[tuple[Pattern, int], AddedVariance]:
        return {}

    def _spread(self, label: tuple[Pattern, int], blur: Blur) -> AddedVariance:
        """Prepare what uncertain inputs of a blur add to the variance; kept, since it takes a while."""
        if label not in self._spreads:
            if len(self._spreads) >= KEPT_BLURS:
                self._spreads.pop(next(iter(self._spreads)))
            self._spreads[label] = AddedVariance(self._forms, blur)
        return self._spreads[label]
