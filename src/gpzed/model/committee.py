"""A committee of trained members, and what they say together (end of section 5 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gpzed._types import FloatArray, IntArray
from gpzed.engine.threads import Team
from gpzed.model.coverage import DOUBTFUL, Coverage, return_to_prior
from gpzed.model.member import Member
from gpzed.model.mixing import Predictor, mix_members
from gpzed.model.network_member import NetworkMember
from gpzed.model.recalibration import Recalibration
from gpzed.prediction import OF_ALL, Prediction


class HeldOut(NamedTuple):
    """Targets of held-out rows, and what is predicted for them without them: by all members, or by one of each kind.

    Where rows are few, members hold out different ones; then only those that did not see a row predict it. The rows
    chose the iterates, and the widths and wings of the densities.
    """

    y: FloatArray
    prediction: Prediction


@dataclass(frozen=True)
class Committee:
    """Trained members, and what they learned together: where training rows are, and what held-out ones correct.

    `members` are those with basis functions; `networks` stand beside them, with the part `network_share` of the whole.
    """

    members: tuple[Member, ...]
    coverage: Coverage | None = None
    recalibration: Recalibration | None = None
    networks: tuple[NetworkMember, ...] = ()
    network_share: float = 0.0
    held_out: HeldOut | None = field(default=None, compare=False)  # of this training; not kept in the model file

    @property
    def predictors(self) -> tuple[Predictor, ...]:
        """All members, of both kinds."""
        return (*self.members, *self.networks)

    @property
    def shares(self) -> FloatArray:
        """The part of the mixture that belongs to each of the `predictors`; alike for those of one kind."""
        kinds = (self.members, 1.0 - self.network_share), (self.networks, self.network_share)
        return np.concatenate([np.full(len(kind), share / max(len(kind), 1)) for kind, share in kinds])

    def labels(self) -> tuple[IntArray, IntArray]:
        """Return member and input of every Gaussian of a prediction, as `gpzed.prediction.Components` has them.

        The members' own, for each head and each of the possible inputs, and one more for wings or for doubt.
        """
        inputs = [predictor.input_labels for predictor in self.predictors]
        member = np.repeat(np.arange(len(inputs)), [len(own) for own in inputs])
        has_wings = self.recalibration is not None and self.recalibration.wing_weight > 0.0
        if has_wings or self._has_doubt:
            return np.append(member, OF_ALL), np.append(np.concatenate(inputs), 0)
        return member, np.concatenate(inputs)

    def predict(
        self, X: FloatArray, team: Team, X_std: FloatArray | None = None, *, exact: bool = False, lean: bool = False
    ) -> Prediction:
        """Predict for raw inputs; densities go back to that of the training targets where coverage is low.

        Unless `exact`, model variances of complete rows are sums of squares, where these are good enough. `lean` as in
        `mix_members`.
        """
        prediction = self.recalibrated(X, team, X_std, exact=exact, spare=self._has_doubt, lean=lean)
        if self.coverage is None:
            return prediction
        if X_std is not None:  # an outlier may be noise: what matters is where the true inputs are
            X = self.members[0].denoised(X, X_std)
        n_own = int(np.count_nonzero(prediction.components.member != OF_ALL))
        coverage = self.coverage(X, team)
        rows = np.flatnonzero(coverage < DOUBTFUL)
        part = return_to_prior(prediction[rows], coverage[rows], self.coverage.mean, self.coverage.variance, n_own)
        components = prediction.components.overwritten(rows, part.components)
        return prediction.changed(components=components, coverage=np.clip(coverage, 0.0, 1.0))

    @property
    def _has_doubt(self) -> bool:
        """Whether predictions have one more Gaussian for doubt, apart from that for wings."""
        has_wings = self.recalibration is not None and self.recalibration.wing_weight > 0.0
        is_mixture = len(self.predictors) > 1 or len(self.members[0].input_labels) > 1
        return self.coverage is not None and is_mixture and not has_wings

    def recalibrated(
        self,
        X: FloatArray,
        team: Team,
        X_std: FloatArray | None = None,
        *,
        exact: bool = False,
        spare: bool = False,
        lean: bool = False,
    ) -> Prediction:
        """Predict without regard to coverage; `spare` and `lean` as in `mix_members`."""
        mixed = mix_members(self.predictors, self.shares, X, team, X_std, exact=exact, spare=spare, lean=lean)
        prediction = Prediction.of(mixed)
        if self.recalibration is None:
            return prediction
        is_local = self.recalibration.local.size > 0
        shares = self.coverage.shares(X) if is_local and self.coverage is not None else None
        return self.recalibration(prediction, shares)

    def draw(self, X: FloatArray, n_samples: int, rng: np.random.Generator, team: Team) -> FloatArray:
        """Draw functions without noise, (n, n_samples): a member for each, for each object a Gaussian by its share.

        Recalibration and coverage move and widen draws as they do predictions.
        """
        components = self.predict(X, team, exact=True).components
        chosen = rng.choice(len(self.shares), size=n_samples, p=self.shares)
        values = np.empty((len(X), n_samples))
        for index, (predictor, share) in enumerate(zip(self.predictors, self.shares, strict=True)):
            picked = np.flatnonzero(chosen == index)
            own, extra = (np.flatnonzero(components.member == label) for label in (index, OF_ALL))
            shares = np.hstack([components.weights[:, own] / share, components.weights[:, extra]])
            which = _choose(shares, len(picked), rng)
            deviates = np.where(which < len(own), predictor.draw(X, which, rng), rng.standard_normal(which.shape))
            columns = np.concatenate([own, extra])[which]
            mean, variance = (
                np.take_along_axis(array, columns, axis=1) for array in (components.means, components.model_variances)
            )
            values[:, picked] = mean + np.sqrt(variance) * deviates
        return values


def _choose(shares: FloatArray, size: int, rng: np.random.Generator) -> IntArray:
    """Choose columns at random, in proportion to the shares of each row, (n, size)."""
    edges = np.cumsum(shares, axis=1)
    at = rng.random((len(shares), size)) * edges[:, -1:]
    return np.asarray((at[:, :, None] >= edges[:, None, :-1]).sum(axis=2))
