r"""Recalibration of predictive distributions by held-out rows (docs/explanation/recalibration.md).

The variance of every component is multiplied by a factor, and a part of the weight goes to one more Gaussian, with the
mean and variance of the whole, widened,

.. math:: \sum_k w_k N(\mu_k, v_k) \to (1 - \omega) \sum_k w_k N(\mu_k, s^2 v_k) + \omega\, N(\mu, s^2 r^2 v),

by the s, r and ω under which the held-out targets are most likely.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp, ndtr

from gpzed._types import AnyArray, FloatArray
from gpzed.gp import labels
from gpzed.prediction import Prediction

MIN_ROWS = 200
"""Fewer rows than this tell too little."""
MAX_ROWS = 10_000
MIN_GAIN = 3.0
"""Log-likelihood of all rows together, in cross-validation, that a richer change must bring over a simpler one: many
rows may ask for a small change, few for a large one only."""
LOCAL_WIDTH = 0.3
"""Standard deviation of the prior on differences of ln s between regions."""
START = np.array([0.0, -2.0, 0.9])
"""Where ln s, logit of the weight of the wings and ln r start; a weak prior holds the last two there."""
VARIANCES = ("model_variances", "noise_variances", "input_variances")
LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True)
class Recalibration:
    """What is done to predictions, and how they were before and after.

    `log_scale` is ln s, `wing_weight` ω (0 for none) and `wing_scale` r; `local` (g,) is added to ln s in each region
    of the inputs, and empty if recalibration is global. `before` and `after` have ``mll`` and ``pit_ks`` of `n_rows`
    held-out rows; after: by cross-validation, each half judged by what the other taught.
    """

    log_scale: float = 0.0
    wing_weight: float = 0.0
    wing_scale: float = 1.0
    local: FloatArray = field(default_factory=lambda: np.zeros(0))
    n_rows: int = 0
    before: dict[str, float] = field(default_factory=dict)
    after: dict[str, float] = field(default_factory=dict)

    @property
    def changes(self) -> bool:
        """Whether anything is changed at all."""
        return self.log_scale != 0.0 or self.wing_weight > 0.0 or bool(self.local.any())

    def __call__(self, prediction: Prediction, shares: FloatArray | None = None) -> Prediction:
        """Recalibrate predictions; wings are one component more, the last.

        `shares`, (n, g), says how much each object belongs to each region; needed if there are local changes.
        """
        if not self.changes:
            return prediction
        log_scale = np.full(len(prediction), self.log_scale)
        if self.local.size:
            assert shares is not None
            log_scale += shares @ self.local
        narrow = np.exp(2.0 * log_scale)
        components = prediction.components
        parts = {name: narrow[:, None] * getattr(components, name) for name in VARIANCES}
        components = replace(components, **parts)
        if self.wing_weight > 0.0:
            wide = self.wing_scale**2 * narrow
            wings = {name: wide * getattr(prediction, name.removesuffix("s")) for name in VARIANCES}
            components = components.with_one_more(self.wing_weight, means=prediction.mean, **wings)
        return prediction.changed(components=components)


def fit_recalibration(
    prediction: Prediction,
    y: FloatArray | Targets,
    omega: FloatArray | None = None,
    shares: FloatArray | None = None,
    rng: np.random.Generator | None = None,
) -> Recalibration:
    """Learn from held-out rows how to correct predictions.

    Nothing, a factor, or a factor and wings: the richest that still gains something in cross-validation.

    Parameters
    ----------
    prediction : Prediction
        Of held-out rows, by posteriors that do not include them; they did choose the iterate and the noise correction.
    y : Targets or ndarray of shape (n,)
        Their targets, and what is known of these.
    omega : ndarray of shape (n,) or None
        Their weights.
    shares : ndarray of shape (n, g) or None
        How much each row belongs to each region of the inputs, for a factor that depends on the region.
    rng : numpy.random.Generator or None
        Of the halves of the cross-validation.
    """
    rng = np.random.default_rng(0) if rng is None else rng
    targets = y if isinstance(y, Targets) else Targets(y)
    order = rng.permutation(len(targets.y))[:MAX_ROWS]
    omega = np.ones(len(targets.y)) if omega is None else omega
    shares = None if shares is None else shares[order]
    rows = _Rows.of(prediction[order], targets.take(order), omega[order], shares)
    n = len(order)
    if n < MIN_ROWS:
        return Recalibration(n_rows=n)
    halves = (np.arange(n) % 2 == 0, np.arange(n) % 2 == 1)
    candidates: list[tuple[float, bool, FloatArray]] = []  # score, has wings, PIT values
    for has_wings in (False, True):
        score, pit = np.empty(n), np.empty(n)
        for fitted, judged in (halves, halves[::-1]):
            parameters = _fit(rows.take(fitted), has_wings)
            score[judged] = rows.take(judged).log_pdf(parameters, has_wings)
            pit[judged] = rows.take(judged).cdf(parameters, has_wings)
        candidates.append((float(np.average(score, weights=rows.omega)), has_wings, pit))
    start = np.concatenate([START, np.zeros(0 if rows.shares is None else rows.shares.shape[1])])
    best, chosen = float(np.average(rows.log_pdf(start, False), weights=rows.omega)), None
    trusted = rows.omega * rows.trust(start)
    before = {"mll": best, "pit_ks": _uniformity(rows.cdf(start, False), trusted)}
    for candidate in candidates:
        if candidate[0] > best + MIN_GAIN / n:
            best, chosen = candidate[0], candidate
    if chosen is None:
        return Recalibration(n_rows=n, before=before, after=before)
    parameters = _fit(rows, chosen[1])
    after = {"mll": chosen[0], "pit_ks": _uniformity(chosen[2], trusted)}
    return Recalibration(
        float(parameters[0]),
        float(expit(parameters[1])) if chosen[1] else 0.0,
        float(np.exp(parameters[2])) if chosen[1] else 1.0,
        parameters[3:].copy(),
        n,
        before,
        after,
    )


class Targets(NamedTuple):
    """Targets of held-out rows, each (n,), and what is known of them."""

    y: FloatArray
    y_std: FloatArray | None = None  # standard errors
    wrong: FloatArray | None = None  # probability that a target is wrong
    log_wrong: FloatArray | None = None  # log density of the target if so

    def take(self, which: AnyArray) -> Targets:
        """Take some of the rows."""
        return Targets(*(None if array is None else array[which] for array in self))  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Rows:
    """Held-out rows: distances from the components, and last from the whole, in standard deviations, and the like."""

    t: FloatArray  # (n, K + 1)
    log_weight: FloatArray  # (n, K)
    log_std: FloatArray  # (n, K + 1)
    omega: FloatArray
    shares: FloatArray | None
    targets: Targets

    @classmethod
    def of(cls, p: Prediction, targets: Targets, omega: FloatArray, shares: FloatArray | None) -> _Rows:
        std = np.column_stack([p.component_stds, p.std])
        means = np.column_stack([p.means, p.mean])
        with np.errstate(divide="ignore"):
            return cls((targets.y[:, None] - means) / std, np.log(p.weights), np.log(std), omega, shares, targets)

    def take(self, which: AnyArray) -> _Rows:
        shares = None if self.shares is None else self.shares[which]
        targets, omega = self.targets.take(which), self.omega[which]
        return _Rows(self.t[which], self.log_weight[which], self.log_std[which], omega, shares, targets)

    def trust(self, parameters: FloatArray) -> FloatArray:
        """Probability that targets are right, (n,)."""
        wrong, log_wrong = self.targets.wrong, self.targets.log_wrong
        if wrong is None or log_wrong is None:
            return np.ones(len(self.t))
        return labels.trust(self._log_density(parameters, False), log_wrong, wrong)

    def _log_scale(self, parameters: FloatArray) -> FloatArray:
        local = 0.0 if self.shares is None else self.shares @ parameters[3:]
        return np.asarray(parameters[0] + local + np.zeros(len(self.t)))[:, None]

    def log_pdf(self, parameters: FloatArray, has_wings: bool) -> FloatArray:
        """Log-likelihood of the targets after the change, (n,); they may be wrong."""
        density, log_wrong = self._log_density(parameters, has_wings), self.targets.log_wrong
        return density if log_wrong is None else labels.log_likelihood(density, log_wrong, self.targets.wrong)

    def _log_density(self, parameters: FloatArray, has_wings: bool) -> FloatArray:
        log_scale, log_weight = self._changed(parameters, has_wings)
        exponent = -0.5 * (self.t * np.exp(-log_scale)) ** 2
        return np.asarray(logsumexp(log_weight - self.log_std - log_scale + exponent - 0.5 * LOG_2PI, axis=1))

    def _changed(self, parameters: FloatArray, has_wings: bool) -> tuple[FloatArray, FloatArray]:
        """Log factors of the standard deviations and log weights, each (n, K + 1)."""
        log_scale = np.repeat(self._log_scale(parameters), self.t.shape[1], axis=1)
        wing, own = np.full((len(self.t), 1), -np.inf), self.log_weight
        if has_wings:
            log_scale[:, -1] += parameters[2]
            wing[:] = np.log(expit(parameters[1]))
            own = own + np.log(expit(-parameters[1]))
        if (
            self.targets.y_std is not None
        ):  # errors of the targets widen what is compared with them, and stay as they are
            error = self.targets.y_std[:, None] * np.exp(-self.log_std)
            log_scale = 0.5 * np.log(np.exp(2.0 * log_scale) + error**2)
        return log_scale, np.hstack([own, wing])

    def cdf(self, parameters: FloatArray, has_wings: bool) -> FloatArray:
        """PIT values after the change, (n,)."""
        log_scale, log_weight = self._changed(parameters, has_wings)
        return np.asarray((np.exp(log_weight) * ndtr(self.t * np.exp(-log_scale))).sum(axis=1))


def _fit(rows: _Rows, has_wings: bool) -> FloatArray:
    """Return ln s, logit of the wings' weight, ln r, and local changes of ln s, by maximum a posteriori."""
    n_local = 0 if rows.shares is None else rows.shares.shape[1]
    free = np.array([True, has_wings, has_wings, *[True] * n_local])
    start = np.concatenate([START, np.zeros(n_local)])
    total = rows.omega.sum()

    def objective(values: FloatArray) -> float:
        parameters = start.copy()
        parameters[free] = values
        prior = 0.5 * np.sum((parameters[:3] - START) ** 2) + 0.5 * np.sum((parameters[3:] / LOCAL_WIDTH) ** 2)
        return float((prior - rows.omega @ rows.log_pdf(parameters, has_wings)) / total)

    bounds = np.array([(-3.0, 3.0), (-7.0, 0.0), (0.1, 3.0), *[(-1.0, 1.0)] * n_local])[free]
    result = minimize(objective, start[free], method="L-BFGS-B", bounds=bounds, options={"maxiter": 60})
    parameters = start.copy()
    parameters[free] = result.x
    return parameters


def _uniformity(pit: FloatArray, omega: FloatArray) -> float:
    """Kolmogorov-Smirnov distance of PIT values from uniform ones."""
    order = np.argsort(pit)
    reached = np.cumsum(omega[order]) / omega.sum()
    below = np.concatenate([[0.0], reached[:-1]])
    return float(max(np.max(reached - pit[order]), np.max(pit[order] - below)))
