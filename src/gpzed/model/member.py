"""A trained model: parameters, posterior, the maps around them, and how training went; what it predicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpzed._types import FloatArray
from gpzed.engine.lbfgs import Iteration
from gpzed.engine.threads import Team
from gpzed.gp.evidence import State, make_state
from gpzed.gp.parameters import Layout, Parameters
from gpzed.gp.posterior import Posterior
from gpzed.gp.predictive import Predictive, predict, predict_noisy, variance_forms
from gpzed.incomplete.blur import Forms, Kind, Spread
from gpzed.incomplete.kinds import MAX_SHARERS, Expanded, Key, KindTable, gather, in_order, keys_of
from gpzed.incomplete.noisy import NoisyRows
from gpzed.incomplete.noisy_rows import expand_noisy
from gpzed.mixture.training import MixtureHeads, head_layout
from gpzed.model.data import Standardisation
from gpzed.prediction import Prediction

KEPT_KINDS = 256
"""Kinds of rows whose preparations for predicting a member keeps."""


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
        the rows held out, target in its own units).
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
    """One trained model: parameters, posterior of the weights, and the maps around them."""

    layout: Layout
    parameters: Parameters
    posterior: Posterior
    standardisation: Standardisation
    noise_correction: float
    report: TrainingReport | None = None
    mixture: MixtureHeads | None = None

    @property
    def state(self) -> State:
        """Parameters as the kernels want them, noise correction included."""
        return self.make_state(())

    def make_state(self, kinds: Sequence[Kind]) -> State:
        """As `state`, for rows of several kinds."""
        corrected = replace(self.parameters, b=self.parameters.b + self.noise_correction)
        return make_state(corrected, self.layout, kinds=kinds)

    @property
    def n_inputs(self) -> int:
        """Parts of a prediction, for different inputs that may be behind a row with missing or noisy ones."""
        return min(len(self.standardisation.inputs.density.weights), MAX_SHARERS)

    def expand(self, X: FloatArray, X_std: FloatArray | None = None) -> tuple[Expanded, KindTable]:
        """Whitened, expected inputs of raw ones, and the kinds of rows among them."""
        map_ = self.standardisation
        if X_std is not None:
            return expand_noisy(X, X_std, map_.inputs, map_.whitening), KindTable(map_.inputs, map_.whitening, ())
        table = KindTable(map_.inputs, map_.whitening, keys_of(X, None, None)[0])
        return table.expand(X), table

    def expected(self, X: FloatArray, X_std: FloatArray | None = None) -> FloatArray:
        """Whitened inputs (n, d), expected ones where raw inputs are missing or noisy."""
        expanded, _ = self.expand(X, X_std)
        return in_order(expanded.X, expanded, len(X))

    def denoised(self, X: FloatArray, X_std: FloatArray) -> FloatArray:
        """Raw inputs (n, d) that are to be expected behind noisy ones; missing ones, too."""
        whitening = self.standardisation.whitening
        return np.asarray(np.linalg.solve(whitening.matrix.T, self.expected(X, X_std).T).T + whitening.mean)

    def predict(self, X: FloatArray, team: Team, X_std: FloatArray | None = None) -> tuple[Predictive, Expanded]:
        """Moments of the predictive distribution of a model without heads for raw inputs, in the units of the target.

        Returns
        -------
        Predictive
            For the expanded rows: a raw one may stand for several, one for each component of the density.
        Expanded
        """
        expanded, table = self.expand(X, X_std)
        require_covariance(self.layout, table.kinds)
        state = self.make_state(table.kinds)
        if expanded.V is None:
            spreads = [self._spread(key, kind) for key, kind in zip(table.kind_keys, table.kinds, strict=True)]
            moments = predict(expanded.X, state, self.posterior, team, expanded.kind, spreads)
        else:
            moments = predict_noisy(expanded.X, expanded.V, state, self.posterior, team, self._noisy)
        mean, nu, noise, added = moments
        map_ = self.standardisation
        scale = map_.y_scale
        return Predictive(map_.y_mean + scale * mean, scale**2 * nu, scale**2 * noise, scale**2 * added), expanded

    def distribution(self, X: FloatArray, team: Team, X_std: FloatArray | None = None) -> Prediction:
        """Predictive distributions of raw inputs: one Gaussian each, or the mixture that the heads give."""
        if self.mixture is None:
            moments, expanded = self.predict(X, team, X_std)
            return gather(Prediction.gaussian(*moments), expanded, len(X), self.n_inputs)
        expanded, table = self.expand(X, X_std)
        if expanded.V is None:
            spreads = [self._spread(key, kind) for key, kind in zip(table.kind_keys, table.kinds, strict=True)]
            parts = self.mixture.predict(expanded.X, self.layout, team, expanded.kind, table.kinds, spreads)
        else:
            parts = self.mixture.predict_noisy(expanded.X, expanded.V, np.isnan(X)[expanded.row], team, self._noisy)
        map_ = self.standardisation
        scale = map_.y_scale
        prediction = Prediction(
            parts.weights,
            map_.y_mean + scale * parts.means,
            scale**2 * parts.model_variances,
            scale**2 * parts.noise_variances,
            scale**2 * parts.input_variances,
            n_heads=parts.means.shape[1],
        )
        return gather(prediction, expanded, len(X), self.n_inputs)

    @property
    def n_heads(self) -> int:
        """Gaussians of a prediction for one component of the density of the inputs."""
        return 1 if self.mixture is None else self.mixture.heads.K

    @cached_property
    def _forms(self) -> Forms:
        if self.mixture is not None:
            return self.mixture.forms(self.layout)
        return variance_forms(self.parameters, self.layout, self.posterior)

    @cached_property
    def _noisy(self) -> NoisyRows:
        layout = self.layout if self.mixture is None else head_layout(self.layout)
        return NoisyRows(self._forms, layout.k)

    @cached_property
    def _spreads(self) -> dict[tuple[Key, int], Spread]:
        return {}

    def _spread(self, key: tuple[Key, int], kind: Kind) -> Spread:
        """Prepare what uncertain inputs of a kind add to the variance; kept, since it takes a while."""
        if key not in self._spreads:
            if len(self._spreads) >= KEPT_KINDS:
                self._spreads.pop(next(iter(self._spreads)))
            self._spreads[key] = Spread(self._forms, kind)
        return self._spreads[key]


def require_covariance(layout: Layout, kinds: Sequence[Kind]) -> None:
    """Refuse uncertain inputs where the basis functions are sigmoids, whose expectation has no closed form."""
    if kinds and layout.structure.is_sigmoid:
        raise ValueError(
            '`covariance` is "ANN", which takes no missing (NaN) or noisy inputs; give complete rows, or choose one of '
            'the covariances, such as "VC".'
        )
