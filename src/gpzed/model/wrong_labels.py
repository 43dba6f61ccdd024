"""How many targets are wrong: learned from the rows whose neighbours agree best, and tried on held-out ones.

A wrong target looks like a rare but true one. What tells them apart is where they are: targets are wrong anywhere,
while true ones that surprise are where inputs tell little. So the rate is read off where inputs tell most: among the
rows with the least scatter of their neighbours' targets, those that lie far from all of that are wrong, up to the few
that a wrong target would hit by chance. Where that finds any, two small models are compared: held-out targets, some of
them wrong too, must be more likely as a mixture of what a model says that doubts them and of wrong ones drawn from
anywhere than by a model that learns them all. True outliers have places of their own, which the latter finds.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial import cKDTree
from sklearn.base import clone

from gpzed._types import AnyArray, BoolArray, FloatArray
from gpzed.errors import DataWarning
from gpzed.gp.labels import log_anywhere, log_likelihood
from gpzed.incomplete.patterns import RawRows
from gpzed.prediction import Components, Prediction

if TYPE_CHECKING:
    from gpzed.model.estimator import GPzRegressor

MAX_ROWS = 20_000
MIN_ROWS = 500
"""Rows from which a rate can be learned at least; no target is called wrong where there are fewer."""
NEIGHBOURS = 20
SECURE, MIN_SECURE = 0.2, 40
"""Part of the rows, those with the least scatter among neighbours, that the rate is read off; their least number."""
FAR, LEAST_FAR = 8.0, 0.25
"""Distance from the neighbours' median, in units of their scatter and of that of all targets, from which on a target
cannot be explained by noise."""
EDGE = 4.0
MIN_RATE, MAX_RATE = 0.01, 0.3
"""Lower rates are none: what is left of true surprises among secure rows is of this order (benchmarks/labels.py has
catalogues on which to see it)."""
MIN_FAR = 5
"""Targets of secure rows that must lie far from their neighbours': a few do in any catalogue."""
TRIAL_ROWS = 12_000
"""Rows of the trial: the models are trained on one half and judged by the other, in turn."""


def with_wrong_rate(rows: RawRows, rate: float) -> RawRows:
    """Give a rate to rows of which it is not known (NaN) whether their targets are wrong."""
    if rows.wrong is None:
        return rows._replace(wrong=np.full(len(rows.y), rate)) if rate > 0.0 else rows
    return rows._replace(wrong=np.where(np.isnan(rows.wrong), rate, rows.wrong))


def settle_rate(model: GPzRegressor, rows: RawRows) -> float:
    """Return the rate of wrong targets that a model is to be trained with: its own, or learned and tried."""
    if model.wrong_labels != "auto":
        return float(model.wrong_labels)
    if model.weighting == "precision":
        return 0.0
    rng = np.random.default_rng(0)
    rate = learn_rate(rows, rng)
    if not rate or not _gains(model, rows.take(rng.permutation(len(rows.y))[:TRIAL_ROWS]), rate):
        return 0.0
    warnings.warn(
        f"about {100 * rate:.0f} % of the targets look wrong: far from those of similar rows, and held-out targets are "
        "more likely if some are doubted. Training finds out which, and predicts as if they were not there. Check the "
        "targets; `wrong_labels` (section [model]) of 0 takes all for right.",
        DataWarning,
        stacklevel=2,
    )
    return rate


def _gains(model: GPzRegressor, rows: RawRows, rate: float) -> bool:
    """Say whether held-out targets are more likely, by more than a standard error, if some are taken for wrong.

    The second half is not tried where the first does not gain: it would have to make up for that.
    """
    gain, omega = np.empty(0), np.empty(0)
    for half in (0, 1):
        held = np.arange(len(rows.y)) % 2 == half
        trusted, doubted = (_trial_scores(model, with_wrong_rate(rows, q), held, q) for q in (0.0, rate))
        gain, omega = np.append(gain, doubted - trusted), np.append(omega, rows.omega[held])
        if np.average(gain, weights=omega) <= 0.0:
            return False
    return bool(np.average(gain, weights=omega) > gain.std() / np.sqrt(len(gain)))


def _trial_scores(model: GPzRegressor, rows: RawRows, held: BoolArray, rate: float) -> FloatArray:
    """Return log-likelihoods of held-out targets by one member that was trained on the others."""
    X, y, omega, X_std, y_std, wrong = rows.take(~held)
    calibrate = "noise" if model.calibrate in ("global", "local") else model.calibrate  # of iterates, not of densities
    plain = {"n_members": 1, "coverage": False, "calibrate": calibrate, "random_state": 0}
    trial = clone(model).set_params(wrong_labels=rate, **plain)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the model that counts is trained later
        trial.fit(X, y, omega, X_std=X_std, y_std=y_std, y_wrong=wrong)
    judged = rows.take(held)
    predicted = trial.predict_distribution(judged.X, X_std=judged.X_std).components
    return log_scores(predicted, judged, float(y.mean()), float(y.std()))


def log_scores(components: Components, rows: RawRows, y_mean: float, y_scale: float) -> FloatArray:
    """Return log scores of targets, with their errors and the probability that they are wrong."""
    if rows.y_std is not None:  # which predictions do not include
        components = replace(components, noise_variances=components.noise_variances + rows.y_std[:, None] ** 2)
    log_density = Prediction.of(components).log_pdf(rows.y)
    return log_likelihood(log_density, log_wrong_density(rows.y, y_mean, y_scale), rows.wrong)


def log_wrong_density(y: FloatArray, y_mean: float, y_scale: float) -> FloatArray:
    """Return the log density of targets that are wrong, given mean and scale of all."""
    return log_anywhere((y - y_mean) / y_scale) - float(np.log(y_scale))


def learn_rate(rows: RawRows, rng: np.random.Generator) -> float:
    """Return the rate of wrong targets among rows of which it is not known; 0 if it is too small to be told."""
    unknown = np.ones(len(rows.y), dtype=bool) if rows.wrong is None else np.isnan(rows.wrong)
    if not unknown.any():
        return 0.0
    std = None if rows.y_std is None else rows.y_std[unknown]
    (rate,) = class_rates(rows.X[unknown], rows.y[unknown], np.zeros(int(unknown.sum())), rng, std).values()
    return rate


def class_rates(
    X: FloatArray, y: FloatArray, classes: AnyArray, rng: np.random.Generator, y_std: FloatArray | None = None
) -> dict[Any, float]:
    """Return the rate of wrong targets of every class of rows; 0 where it is too small, or rows too few, to tell.

    What errors `y_std` of the targets explain is not wrong.
    """
    rates = dict.fromkeys(np.unique(classes).tolist(), 0.0)
    chosen = rng.permutation(len(y))[:MAX_ROWS]
    if len(chosen) < MIN_ROWS:
        return rates
    X, y, classes = _comparable(X[chosen]), y[chosen], classes[chosen]
    _, nearest = cKDTree(X).query(X, NEIGHBOURS + 1)
    low, median, high = np.percentile(y[nearest[:, 1:]], [25, 50, 75], axis=1)
    scatter = (high - low) / 1.349
    own_scatter = scatter if y_std is None else np.hypot(scatter, y_std[chosen])
    limit = np.maximum(FAR * own_scatter, LEAST_FAR * np.subtract(*np.percentile(y, [84, 16])) / 2.0)
    is_far, by_chance = np.abs(y - median) > limit, np.abs(rng.choice(y, len(y)) - median) > limit
    for value in rates:
        own = np.flatnonzero(classes == value)
        secure = own[np.argsort(scatter[own], kind="stable")][: round(SECURE * len(own))]
        if len(secure) >= MIN_SECURE:
            rate = float(is_far[secure].mean()) / max(float(by_chance[secure].mean()), 0.1)
            is_clear = rate >= MIN_RATE and is_far[secure].sum() >= MIN_FAR
            rates[value] = min(rate, MAX_RATE) if is_clear else 0.0
    return rates


def _comparable(X: FloatArray) -> FloatArray:
    """Return inputs in which distances mean something: scaled, gaps at the median, differences beside the values.

    Differences of neighbouring inputs are colours where inputs are magnitudes, which tell more than these.
    """
    X = np.column_stack([np.diff(X, axis=1), X.mean(axis=1)]) if X.shape[1] > 1 else X
    low, median, high = np.nanpercentile(X, [16, 50, 84], axis=0)
    spread = np.where(high > low, high - low, 1.0)
    return np.asarray(np.nan_to_num(np.clip((X - median) / spread, -EDGE, EDGE)))
