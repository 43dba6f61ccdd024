"""Metrics of the paper's section 6.3 and of the field, each a function of (z_spec, prediction).

Point metrics judge `Prediction.z_phot`, which is the mean unless the prediction quotes another redshift; `point`
chooses another one. `sample_weight` of shape (n,) turns means into weighted means. Input with NaN, of different
lengths or without objects raises ValueError.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpzed._types import FloatArray
from gpzed.evaluation import _checks, _table
from gpzed.evaluation._table import METRICS, PointEstimate
from gpzed.prediction import Prediction


def _named(name: str, z_spec: npt.ArrayLike, prediction: Prediction, sample_weight: npt.ArrayLike | None) -> float:
    """Return the metric `name` after checking the input."""
    z, weight = _checks.truth_and_weights(z_spec, prediction, sample_weight)
    metric = _table.lookup(name)
    return metric.reduce(metric.per_object(z, prediction), weight)


def _residual(
    z_spec: npt.ArrayLike,
    prediction: Prediction,
    sample_weight: npt.ArrayLike | None,
    point: PointEstimate,
) -> tuple[FloatArray, FloatArray]:
    """Return normalised residuals (n,) and weights (n,) after checking the input."""
    z, weight = _checks.truth_and_weights(z_spec, prediction, sample_weight)
    return _table.normalised_residual(z, prediction, point), weight


def mll(z_spec: npt.ArrayLike, prediction: Prediction, *, sample_weight: npt.ArrayLike | None = None) -> float:
    """Return the mean log likelihood; for mixtures the mean log of the mixture density.

    Parameters
    ----------
    z_spec : array-like of shape (n,)
        True redshifts.
    prediction : Prediction
        Predictive distributions of the same n objects.
    sample_weight : array-like of shape (n,), optional
        Weights; equal by default.

    Returns
    -------
    float
        Higher is better; -inf if an object lies below the truncation of its density.

    Examples
    --------
    >>> from gpzed.prediction import Prediction
    >>> round(mll([0.5], Prediction.gaussian([0.5], [0.5], [0.5])), 4)
    -0.9189
    """
    return _named("mll", z_spec, prediction, sample_weight)


def rmse(
    z_spec: npt.ArrayLike,
    prediction: Prediction,
    *,
    sample_weight: npt.ArrayLike | None = None,
    point: PointEstimate = "z_phot",
) -> float:
    """Return the root mean square of ``(z_spec - z_phot) / (1 + z_spec)`` (Eq. 6.2)."""
    z, weight = _checks.truth_and_weights(z_spec, prediction, sample_weight)
    return _table.root_average(_table.squared_error(z, prediction, point), weight)


def fraction_retained(
    z_spec: npt.ArrayLike,
    prediction: Prediction,
    *,
    threshold: float = 0.15,
    sample_weight: npt.ArrayLike | None = None,
    point: PointEstimate = "z_phot",
) -> float:
    """Return FR_e, the percentage of objects with ``|z_spec - z_phot| / (1 + z_spec) < threshold``."""
    dz, weight = _residual(z_spec, prediction, sample_weight, point)
    if not threshold > 0:
        raise ValueError(f"`threshold` is {threshold}; expected a positive number such as 0.15.")
    return _table.average(np.where(np.abs(dz) < threshold, 100.0, 0.0), weight)


def bias(
    z_spec: npt.ArrayLike,
    prediction: Prediction,
    *,
    sample_weight: npt.ArrayLike | None = None,
    point: PointEstimate = "z_phot",
) -> float:
    """Return the mean of ``(z_spec - z_phot) / (1 + z_spec)``: positive where z_phot is too low."""
    return _table.average(*_residual(z_spec, prediction, sample_weight, point))


def sigma_nmad(
    z_spec: npt.ArrayLike,
    prediction: Prediction,
    *,
    sample_weight: npt.ArrayLike | None = None,
    point: PointEstimate = "z_phot",
) -> float:
    """Return 1.4826 median |dz - median(dz)| with ``dz = (z_spec - z_phot) / (1 + z_spec)``."""
    return _table.scaled_deviation(*_residual(z_spec, prediction, sample_weight, point))


def outlier_fraction(
    z_spec: npt.ArrayLike,
    prediction: Prediction,
    *,
    threshold: float | None = 0.15,
    sample_weight: npt.ArrayLike | None = None,
    point: PointEstimate = "z_phot",
) -> float:
    """Return the fraction (0 to 1) of objects with ``|z_spec - z_phot| / (1 + z_spec) >= threshold``.

    ``threshold=None`` stands for three times sigma_NMAD of the same objects.
    """
    dz, weight = _residual(z_spec, prediction, sample_weight, point)
    if threshold is None:
        return _table.three_sigma_share(dz, weight)
    return _table.average((np.abs(dz) >= threshold).astype(np.float64), weight)


def crps(z_spec: npt.ArrayLike, prediction: Prediction, *, sample_weight: npt.ArrayLike | None = None) -> float:
    """Return the mean continuous ranked probability score, in units of redshift; lower is better."""
    return _named("crps", z_spec, prediction, sample_weight)


def cde_loss(z_spec: npt.ArrayLike, prediction: Prediction, *, sample_weight: npt.ArrayLike | None = None) -> float:
    r"""Return the conditional density loss :math:`E \int p^2 - 2 E\, p(z_{spec})` (Izbicki & Lee 2017).

    In closed form, truncation included; lower is better.
    """
    return _named("cde_loss", z_spec, prediction, sample_weight)


def brier(
    z_spec: npt.ArrayLike,
    prediction: Prediction,
    *,
    edges: npt.ArrayLike | None = None,
    sample_weight: npt.ArrayLike | None = None,
) -> float:
    """Return the Brier score, the mean over objects of ``sum_bins (P_bin - 1[z_spec in bin])^2``.

    Parameters
    ----------
    z_spec, prediction, sample_weight
        As in `mll`.
    edges : array-like of shape (b + 1,), optional
        Bin edges, by default 0 to 6 in steps of 0.1. The first and the last bin are open: they take
        all that lies beyond.

    Returns
    -------
    float
        Between 0 (best) and 2.
    """
    z, weight = _checks.truth_and_weights(z_spec, prediction, sample_weight)
    bins = _table.BRIER_EDGES if edges is None else _checks.edges("edges", edges)
    return _table.average(_table.brier_score(z, prediction, bins), weight)


def pit(z_spec: npt.ArrayLike, prediction: Prediction) -> FloatArray:
    """Return the probability integral transform ``cdf(z_spec)`` of each object, shape (n,)."""
    return _table.probability_transform(_checks.truth(z_spec, prediction), prediction)


def pit_ks(z_spec: npt.ArrayLike, prediction: Prediction, *, sample_weight: npt.ArrayLike | None = None) -> float:
    """Return the Kolmogorov-Smirnov distance of the PIT values from the uniform distribution."""
    return _named("pit_ks", z_spec, prediction, sample_weight)


def pit_cvm(z_spec: npt.ArrayLike, prediction: Prediction, *, sample_weight: npt.ArrayLike | None = None) -> float:
    """Return the Cramer-von Mises statistic of the PIT values, scipy's, which grows with n."""
    return _named("pit_cvm", z_spec, prediction, sample_weight)


def pit_ad(z_spec: npt.ArrayLike, prediction: Prediction, *, sample_weight: npt.ArrayLike | None = None) -> float:
    """Return the Anderson-Darling statistic A^2 of the PIT values, which grows with n.

    PIT values are kept 2^-53 away from 0 and 1, so that one hopeless outlier cannot make it infinite.
    """
    return _named("pit_ad", z_spec, prediction, sample_weight)


def coverage(
    z_spec: npt.ArrayLike,
    prediction: Prediction,
    *,
    level: float = 0.68,
    sample_weight: npt.ArrayLike | None = None,
) -> float:
    """Return the fraction (0 to 1) of objects inside their central interval of probability `level`."""
    z, weight = _checks.truth_and_weights(z_spec, prediction, sample_weight)
    inside = np.abs(prediction.cdf(z) - 0.5) <= 0.5 * _checks.level(level)
    return _table.average(inside.astype(np.float64), weight)


def evaluate(
    z_spec: npt.ArrayLike, prediction: Prediction, sample_weight: npt.ArrayLike | None = None
) -> dict[str, float]:
    """Return every metric of `METRICS` by name, and the number of objects as ``n``.

    Parameters
    ----------
    z_spec : array-like of shape (n,)
        True redshifts.
    prediction : Prediction
        Predictive distributions of the same n objects.
    sample_weight : array-like of shape (n,), optional
        Weights; equal by default.

    Returns
    -------
    dict of str to float
        ``fr_0.15`` and ``fr_0.05`` are percentages; outliers and coverages are fractions.

    Examples
    --------
    >>> from gpzed.prediction import Prediction
    >>> scores = evaluate([0.5, 0.7], Prediction.gaussian([0.5, 0.6], [0.01, 0.01], [0.01, 0.01]))
    >>> round(scores["rmse"], 4), scores["n"]
    (0.0416, 2)
    """
    z, weight = _checks.truth_and_weights(z_spec, prediction, sample_weight)
    values = _table.per_object_values(list(METRICS), z, prediction)
    scores = {name: METRICS[name].reduce(values[name], weight) for name in METRICS}
    return {**scores, "n": len(z)}
