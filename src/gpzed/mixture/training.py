"""Heads of a trained model: the mixture density that takes the place of its one Gaussian, and how it is trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpzed._types import BoolArray, FloatArray, IntArray
from gpzed.engine.lbfgs import Iteration
from gpzed.engine.threads import Engine, Rows, Team
from gpzed.errors import NumericalError
from gpzed.gp.linalg import Factor
from gpzed.gp.parameters import Layout, MeanFunction, Parameters
from gpzed.incomplete.blur import Forms, Kind, Spread
from gpzed.incomplete.noisy import NoisyRows
from gpzed.incomplete.offsets import fit_offsets, offsets_of, shares_of
from gpzed.incomplete.refresh import HEADS_EVERY, head_forms, refresh_heads
from gpzed.mixture.heads import (
    Components,
    Heads,
    fit_head_posteriors,
    held_out_likelihood,
    predict_mixture,
    predict_noisy,
    score,
    start_heads,
)
from gpzed.mixture.stochastic import StochasticOptions, train_heads

MAX_ROWS = 200_000
"""Rows in memory that heads are trained on at most; the posterior of their weights is from all rows."""
SHAPE_PRIOR = 3.0
"""Strength of the prior on shapes, in units of the one for the model with one head: batches find more to over-fit."""
RIDGE = 0.3
TOLERANCE = 0.01
"""What a member of a committee may lose on the rows held out by longer training: in the mixture over-fits cancel."""
NOISE_SHIFTS = np.linspace(-1.0, 0.0, 11)
"""Corrections to ``ln beta`` of all heads among which the rows held out choose."""


@dataclass(frozen=True)
class MixtureHeads:
    """Trained heads.

    Attributes
    ----------
    heads : Heads
        With basis functions of their own, which started from those of the model.
    factors : tuple of Factor
        Of the posterior precisions of each head's mean weights.
    offsets : ndarray of shape (d, K)
        Of the log noise precision where inputs are missing, see `gpzed.incomplete.offsets`.
    mean_function : {"constant", "linear"}
    best_epoch : int
    best_score : float
        Mean log-likelihood of the rows held out, target standardised.
    """

    heads: Heads
    factors: tuple[Factor, ...]
    offsets: FloatArray
    mean_function: MeanFunction
    best_epoch: int
    best_score: float

    def predict(
        self,
        X: FloatArray,
        layout: Layout,
        team: Team,
        kind: IntArray | None,
        kinds: tuple[Kind, ...],
        spreads: Sequence[Spread] = (),
    ) -> Components:
        """Mixtures for whitened inputs, target standardised."""
        parts = predict_mixture(X, self.heads, self.factors, head_layout(layout), team, kind, kinds, spreads)
        if kind is None or not self.offsets.any():
            return parts
        noise = parts.noise_variances * np.exp(-offsets_of(self.offsets, kinds))[kind]
        return parts._replace(noise_variances=noise)

    def predict_noisy(
        self, X: FloatArray, V: FloatArray, missing: BoolArray, team: Team, noisy: NoisyRows
    ) -> Components:
        """Mixtures for whitened inputs with covariances of their own, some (n, d) of them missing."""
        parts = predict_noisy(X, V, self.heads, self.factors, team, noisy)
        noise = parts.noise_variances * np.exp(-shares_of(missing) @ self.offsets)
        return parts._replace(noise_variances=noise)

    def forms(self, layout: Layout) -> Forms:
        """Forms for what uncertain inputs add to the variance of each head, and then to each model variance."""
        return head_forms(self.heads, head_layout(layout), self.factors)


def head_layout(layout: Layout) -> Layout:
    """Layout of the heads of a model: its own, with a constant in the mean function at least."""
    return replace(layout, mean_function="constant") if layout.mean_function == "zero" else layout


def fit_heads(
    rows: Rows,
    start: Parameters,
    layout: Layout,
    n_heads: int,
    valid: Engine | None,
    everything: Engine,
    kinds: tuple[Kind, ...],
    options: StochasticOptions,
    rng: np.random.Generator,
    *,
    calibrate_noise: bool,
    scatter: bool = False,
    on_epoch: Callable[[Iteration], bool | None] | None = None,
) -> MixtureHeads:
    """Train heads on the basis functions of a trained model.

    Parameters
    ----------
    rows : Rows
        Standardised training rows in memory.
    start : Parameters
        Of the model with one head.
    layout : Layout
        Its layout.
    n_heads : int
    valid, everything : Engine
        Over rows held out, by which the epoch is chosen, and over all rows, from which the posterior is taken.
    kinds : tuple of Kind
    options : StochasticOptions
    rng : numpy.random.Generator
    calibrate_noise : bool
        Whether rows held out may ask for more noise.
    scatter : bool
        Whether heads start at random places, such that members of a committee differ.
    on_epoch : callable or None
    """
    layout = head_layout(layout)

    def validate(heads: Heads) -> float:
        assert valid is not None
        (total,) = valid.sum(held_out_likelihood, heads.state(layout, kinds), heads.Theta)
        return float(total) / valid.sum_omega

    def refresh(heads: Heads, *more: Engine) -> FloatArray | None:
        return refresh_heads([*more, *([] if valid is None else [valid])], rows, heads, layout, kinds)

    report = train_heads(
        rows,
        start_heads(start, rows.y, n_heads, layout, rng, scatter=scatter),
        layout,
        None if valid is None else validate,
        options,
        rng,
        kinds=kinds,
        refresh=refresh if kinds else None,
        refresh_every=HEADS_EVERY,
        on_epoch=on_epoch,
    )
    heads, best = report.heads, report.best_score
    if not np.all(np.isfinite(heads.Theta)):
        raise NumericalError("training of the heads broke down: their weights are not finite.")
    offsets = fit_offsets(rows, refresh(heads, everything), heads, layout, kinds)
    factors = fit_head_posteriors(everything, heads, layout, kinds)
    if valid is not None:
        shifts = NOISE_SHIFTS if calibrate_noise else np.zeros(1)
        state, by_kind = heads.state(layout, kinds), offsets_of(offsets, kinds)
        (totals,) = valid.sum(score, state, heads.Theta, factors, by_kind, shifts)
        chosen = int(np.argmax(totals))
        best = float(totals[chosen]) / valid.sum_omega
        heads = heads.with_noise_shift(float(shifts[chosen]), layout.m)
    return MixtureHeads(heads, factors, offsets, layout.mean_function, report.best_epoch, best)
