"""Trained heads, and the mixtures they predict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpzed._types import BoolArray, FloatArray, IntArray
from gpzed.compiled import substitute
from gpzed.engine.blocks import Block, Scratch, Sums
from gpzed.engine.threads import Team
from gpzed.gp.labels import log_anywhere, log_likelihood
from gpzed.gp.linalg import Factor
from gpzed.gp.parameters import Layout, MeanFunction
from gpzed.gp.predictive import by_rows, expected_noise
from gpzed.gp.state import State
from gpzed.incomplete.blur import Blur
from gpzed.incomplete.offsets import offsets_of, shares_of
from gpzed.incomplete.spread import AddedVariance, BlurredRows, QuadraticForms
from gpzed.mixture.heads import Heads, head_layout
from gpzed.mixture.likelihood import Outputs, log_density, moments, moments_of
from gpzed.mixture.quick import SquareForms


@dataclass(frozen=True)
class MixtureHeads:
    """Trained heads."""

    heads: Heads  # with basis functions of their own, which started from those of the model
    factors: tuple[Factor, ...]  # of the posterior precisions of each head's mean weights
    offsets: FloatArray  # (d, K) of the log noise precision where inputs are missing, see `gpzed.incomplete.offsets`
    mean_function: MeanFunction
    best_epoch: int
    best_score: float  # mean log-likelihood of the held-out rows, target standardised
    quick: SquareForms | None = None  # what stands for the posteriors in predictions; None where nothing does

    def predict(
        self,
        X: FloatArray,
        layout: Layout,
        team: Team,
        blur: IntArray | None = None,
        blurs: Sequence[Blur] = (),
        spreads: Sequence[AddedVariance] = (),
    ) -> Components:
        """Predict mixtures for whitened inputs (n, d), target standardised, block by block over the threads of `team`.

        Rows of `blurs` 1, 2, ... have uncertain inputs; `spreads` say what these add to the variance of each head, then
        to each model variance, and how much each ``ln beta`` varies.
        """
        layout = head_layout(layout)
        state, Theta, factors = self.heads.state(layout, blurs), self.heads.Theta, self.factors

        def predict_rows(rows: slice | IntArray, blur: int) -> Components:
            block = Block.of_inputs(X[rows], blur)
            return predict_block(block, Scratch(team.buffers()), state, Theta, factors, spreads)

        parts = self._predict(len(X), team, predict_rows, blur)
        if blur is None or not self.offsets.any():
            return parts
        noise = parts.noise_variances * np.exp(-offsets_of(self.offsets, blurs))[blur]
        return parts._replace(noise_variances=noise)

    def predict_noisy(
        self, X: FloatArray, V: FloatArray, missing: BoolArray, team: Team, noisy: BlurredRows
    ) -> Components:
        """Predict mixtures for whitened inputs with covariances ``V V'`` of their own, some (n, d) of them missing."""

        def predict_rows(rows: slice | IntArray, _: int) -> Components:
            Phi, total = noisy(X[rows].T, V[rows], Scratch(team.buffers()))
            pi, mean, nu, noise = moments_of(Phi, self.heads.Theta, self.factors)
            added, nu_added, spread = np.split(total, 3)
            return Components(pi, mean, nu + nu_added, expected_noise(noise, spread), added)

        parts = self._predict(len(X), team, predict_rows)
        noise = parts.noise_variances * np.exp(-shares_of(missing) @ self.offsets)
        return parts._replace(noise_variances=noise)

    def _predict(
        self, n: int, team: Team, predict_rows: Callable[..., Components], blur: IntArray | None = None
    ) -> Components:
        for factor in self.factors:
            factor.whitener  # noqa: B018  computed once, before the threads ask for it
        return by_rows(Components, (n, self.heads.K), len(self.heads.Theta), team, predict_rows, blur)

    def forms(self, layout: Layout) -> QuadraticForms:
        """Return forms for what uncertain inputs add to variances and model variances, and to the spread of ln beta."""
        return self.heads.forms(head_layout(layout), self.factors)


class Components(NamedTuple):
    """Predicted mixtures, each of shape (n, K), or (K, n) of a block."""

    weights: FloatArray
    means: FloatArray
    model_variances: FloatArray
    noise_variances: FloatArray
    input_variances: FloatArray


def predict_block(
    block: Block,
    scratch: Scratch,
    state: State,
    Theta: FloatArray,
    factors: tuple[Factor, ...],
    spreads: Sequence[AddedVariance] = (),
) -> Components:
    """Predict for a block; with `spreads` uncertain inputs add what these say, else the variance the block carries."""
    pi, mean, nu, noise = substitute(moments)(block, scratch, state, Theta, factors)
    added = np.zeros_like(nu) if block.v is None else block.v
    if spreads and block.blur != 0:
        added, nu_added, spread = np.split(spreads[block.blur - 1](block.Xt, scratch), 3)
        nu, noise = nu + nu_added, expected_noise(noise, spread)
    return Components(pi, mean, nu, noise, added)


def score(
    block: Block,
    scratch: Scratch,
    state: State,
    Theta: FloatArray,
    factors: tuple[Factor, ...],
    offsets: FloatArray,
    shifts: FloatArray,
) -> Sums:
    """Kernel: log-likelihood of held-out rows, had every ``ln beta`` been shifted by each of `shifts`.

    `offsets` (blurs, K) are added to it in rows of each blur (`gpzed.incomplete.offsets`).
    """
    weights, means, nu, noise, added = predict_block(block, scratch, state, Theta, factors)
    with np.errstate(divide="ignore"):
        outputs = Outputs(means, offsets[block.blur, :, None] - np.log(noise), np.log(weights))
    shifted = (outputs._replace(log_beta=outputs.log_beta + shift) for shift in shifts)
    totals = np.stack([log_density(at, block.y, nu + added)[0] for at in shifted])
    wrong = None if block.labels is None else block.labels.wrong
    return (log_likelihood(totals, log_anywhere(block.y), wrong) @ block.omega,)
