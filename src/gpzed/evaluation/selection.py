"""Choosing a reliable subsample by predicted variance: completeness traded for accuracy."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from gpzed._types import BoolArray, FloatArray, IntArray
from gpzed.evaluation import _checks
from gpzed.evaluation.metrics import lookup, per_object_values, squared_error
from gpzed.evaluation.rejection import count_kept, order_by_variance
from gpzed.evaluation.risk import order_by_risk, outlier_risk
from gpzed.prediction import Prediction

REPORTED = ("rmse", "bias", "sigma_nmad", "fr_0.15", "fr_0.05")
"""Metrics of all and of the chosen objects."""


@dataclass(frozen=True)
class Selection:
    """The objects chosen, and what was traded for what.

    Attributes
    ----------
    mask : ndarray of shape (n,)
        True for the objects chosen; `completeness` is their fraction.
    max_std : float
        Largest predicted standard deviation among them.
    predicted_rmse : tuple of float
        RMSE of dz/(1+z) expected from the predicted variances, before and after.
    binding : str
        The criterion that set the limit.
    before, after : dict of str to float
        Metrics of all and of the chosen objects; empty without `z_spec`.
    """

    mask: BoolArray
    completeness: float
    max_std: float
    predicted_rmse: tuple[float, float]
    binding: str
    before: dict[str, float] = field(default_factory=dict)
    after: dict[str, float] = field(default_factory=dict)

    @property
    def indices(self) -> IntArray:
        """Positions of the objects chosen, increasing."""
        return np.flatnonzero(self.mask)


def select(
    prediction: Prediction,
    *,
    z_spec: ArrayLike | None = None,
    keep: float | None = None,
    max_std: float | None = None,
    max_rmse: float | None = None,
    max_risk: float | None = None,
    min_completeness: float | None = None,
    by_risk: bool = False,
) -> Selection:
    """Choose the most certain objects, as many as all criteria allow.

    Parameters
    ----------
    prediction : Prediction
    z_spec : array-like of shape (n,), optional
        True redshifts; with them `max_rmse` is measured and the metrics before and after are given.
    keep : float, optional
        Keep at most this fraction of the objects.
    max_std : float, optional
        Keep objects whose predicted standard deviation is not above this.
    max_rmse : float, optional
        Keep the largest number of objects whose RMSE of dz/(1+z) is not above this: measured with `z_spec`,
        the one expected from the predicted variances without.
    max_risk : float, optional
        Keep objects whose predicted risk of a catastrophic outlier (`outlier_risk`) is not above this.
    min_completeness : float, optional
        Refuse to keep less than this fraction; alone, keep just this fraction.
    by_risk : bool
        Whether objects of least risk are kept, instead of least variance; `max_risk` implies it.

    Raises
    ------
    ValueError
        If no criterion is given, or no sample satisfies them all; the message says what is possible.

    Examples
    --------
    >>> from gpzed.prediction import Prediction
    >>> p = Prediction.gaussian([0.5, 0.6, 0.7], [0.02, 0.01, 0.03], [0.0, 0.0, 0.0])
    >>> select(p, keep=0.67).indices
    array([0, 1])
    """
    n = len(prediction)
    if n == 0:
        raise ValueError("the prediction has no objects; there is nothing to select.")
    z = None if z_spec is None else _checks.truth(z_spec, prediction)
    by_risk = by_risk or max_risk is not None
    if by_risk and max_std is not None:
        raise ValueError("`max_std` is given, but objects are ordered by risk; use `max_risk`, or order by variance.")
    order = order_by_risk(prediction) if by_risk else order_by_variance(prediction)
    limits = _limits(prediction, z, order, keep, max_std, max_rmse)
    if max_risk is not None:
        limits["max_risk"] = int(np.count_nonzero(outlier_risk(prediction) <= max_risk))
    floor = 0
    if min_completeness is not None:
        floor = int(np.ceil(_checks.fractions("min_completeness", min_completeness)[0] * n - 1e-9))
        limits = limits or {"min_completeness": floor}
    if not limits:
        raise ValueError("no criterion given; use `keep`, `max_std`, `max_rmse`, `max_risk` or `min_completeness`.")
    binding = min(limits, key=lambda name: limits[name])
    n_kept = limits[binding]
    if n_kept == 0:
        raise ValueError(f"no object satisfies `{binding}`; relax it.")
    if n_kept < floor:
        raise ValueError(
            f"`{binding}` leaves {n_kept} of {n} objects, completeness {n_kept / n:.4g}, below "
            f"`min_completeness` = {min_completeness}; relax one of the two."
        )
    mask = np.zeros(n, dtype=np.bool_)
    mask[order[:n_kept]] = True
    return _record(prediction, z, mask, binding)


def _limits(
    prediction: Prediction,
    z: FloatArray | None,
    order: IntArray,
    keep: float | None,
    max_std: float | None,
    max_rmse: float | None,
) -> dict[str, int]:
    """Return the largest number of objects that each given criterion allows."""
    for name, value in (("max_std", max_std), ("max_rmse", max_rmse)):
        if value is not None and not value > 0:
            raise ValueError(f"`{name}` is {value}; expected a positive redshift difference.")
    n = len(order)
    limits = {}
    if keep is not None:
        limits["keep"] = int(count_kept(n, _checks.fractions("keep", keep))[0])
    if max_std is not None:
        limits["max_std"] = int(np.count_nonzero(prediction.std <= max_std))
    if max_rmse is not None:
        squared = expected_squared_error(prediction) if z is None else squared_error(z, prediction)
        rmse = np.sqrt(np.cumsum(squared[order]) / np.arange(1, n + 1))
        allowed = np.flatnonzero(rmse <= max_rmse)
        limits["max_rmse"] = int(allowed[-1]) + 1 if allowed.size else 0
    return limits


def expected_squared_error(prediction: Prediction) -> FloatArray:
    """Return the expected squared error of z_phot over (1 + z)^2, with z_phot for z there, where it is positive."""
    z_phot = prediction.z_phot
    expected = prediction.variance + (prediction.mean - z_phot) ** 2
    return np.asarray(expected / (1.0 + np.maximum(z_phot, 0.0)) ** 2)


def _record(prediction: Prediction, z: FloatArray | None, mask: BoolArray, binding: str) -> Selection:
    """Return the selection with its figures before and after."""
    square = expected_squared_error(prediction)
    expected = (float(np.sqrt(square.mean())), float(np.sqrt(square[mask].mean())))
    before: dict[str, float] = {}
    after: dict[str, float] = {}
    if z is not None:
        values = per_object_values(REPORTED, z, prediction)
        ones = np.ones(len(z))
        for name, column in values.items():
            reduce = lookup(name).reduce
            before[name] = reduce(column, ones)
            after[name] = reduce(column[mask], ones[mask])
    std = float(np.sqrt(prediction.variance[mask].max()))
    return Selection(mask, float(mask.mean()), std, expected, binding, before, after)
