"""`Prediction`: what the model says about n objects, and every question one may ask of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal, SupportsIndex

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from gpzed._types import FloatArray
from gpzed.prediction import checks as check
from gpzed.prediction import quantiles, reduce, scores
from gpzed.prediction.combine import joined, mixed
from gpzed.prediction.compact import SLOTS
from gpzed.prediction.components import Components
from gpzed.prediction.mixture import Mixture, Moments, cdf, log_pdf, uncut_moments
from gpzed.prediction.point import FAR_COST, best_points
from gpzed.prediction.qpform import to_qp

POINTS = ("best", "safe", "mean", "median", "mode")
"""Numbers that may stand for a density."""
_USE_GRID = "For the same {0} for all objects use {1}."


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Prediction:
    r"""Predictive distributions of n objects, each a mixture of K Gaussians.

    .. math:: p(z) = \sum_k \pi_k\, N(z; \mu_k, \nu_k + \beta_k^{-1} + \iota_k)

    K = 1 is the paper's model (Eq. 5.8-5.10). Arrays are checked and copied here, once, and read-only;
    `Prediction.of` takes `Components` that were checked before.

    Parameters
    ----------
    weights : array-like of shape (n, K)
        Mixture weights; rows sum to 1 (sums within 1e-6 of 1 are renormalised).
    means : array-like of shape (n, K)
        Component means.
    model_variances, noise_variances, input_variances : array-like of shape (n, K)
        Parts of each component's variance: uncertainty of the function (Eq. 3.13), intrinsic noise
        (Eq. 5.10), missing or noisy photometry (zeros by default). Their sum must be positive.
    member : array-like of int of shape (K,), optional
        Which model gave a component; those of one model stand together. By default each is of another one.
    input : array-like of int of shape (K,), optional
        For which of the inputs that may be behind what was observed of an object a component is; all for the same one
        by default.
    lower : float, optional
        Exact truncation: the density is zero below `lower` and renormalised above.
    coverage : array-like of shape (n,), optional
        How well the training set covers the object, from 0 (not at all) to 1.
    flags : array-like of shape (n,), optional
        Bit flags, stored as uint32.
    point : {"mean", "best", "safe", "median", "mode"} or array-like of shape (n,)
        What is quoted as the redshift of each object, `z_phot`: a number taken from its density, or one given.

    Attributes
    ----------
    components : Components
        The Gaussians: weights, means, parts of the variance, and labels.
    known : Moments or None
        Mean and parts of the variance where they are known better than from the Gaussians, as in files.

    Notes
    -----
    The variance splits into three parts that sum to it: weighted means over the components, and the variance of
    their means. The distance between components of one model for the same inputs, which says that the object may be
    at either, counts as noise; that between parts for different inputs as input variance; the disagreement
    between models as model variance. With truncation, mean and variance are those of the truncated mixture. Its
    components are truncated Gaussians with weights proportional to ``weights`` times their probability above the cut;
    truncation shrinks the variance of component k by a factor r_k <= 1, all three parts of which shrink by the same
    factor.

    Examples
    --------
    >>> p = Prediction.gaussian([0.5, 1.2], [0.01, 0.04], [0.03, 0.05])
    >>> p.variance
    array([0.04, 0.09])
    >>> float(p.cdf(0.5)[0])
    0.5
    >>> len(p[p.std < 0.25])
    1
    """

    components: Components
    lower: float | None
    coverage: FloatArray | None
    flags: npt.NDArray[np.uint32] | None
    point: str | FloatArray
    known: Moments | None

    def __init__(
        self,
        weights: ArrayLike,
        means: ArrayLike,
        model_variances: ArrayLike,
        noise_variances: ArrayLike,
        input_variances: ArrayLike | None = None,
        *,
        member: ArrayLike | None = None,
        input: ArrayLike | None = None,
        lower: float | None = None,
        coverage: ArrayLike | None = None,
        flags: ArrayLike | None = None,
        point: str | ArrayLike = "mean",
    ) -> None:
        checked = Components.checked(weights, means, model_variances, noise_variances, input_variances, member, input)
        self._set(components=checked, lower=lower, coverage=coverage, flags=flags, point=point)

    def _set(
        self, *, components: Components, lower: Any, coverage: Any, flags: Any, point: Any, known: Moments | None = None
    ) -> None:
        """Set all attributes; those that are one number per object are checked."""
        n = len(components)
        ready: dict[str, Any] = {
            "components": components,
            "lower": None if lower is None else check.finite("lower", lower),
            "coverage": None if coverage is None else check.read_only(check.coverage(coverage, n)),
            "flags": None if flags is None else check.read_only(check.flags(flags, n)),
            "point": check.point("point", point, POINTS, n),
            "known": known,
        }
        if isinstance(ready["point"], np.ndarray):
            check.read_only(ready["point"])
        for name, value in ready.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(
        cls,
        components: Components,
        *,
        lower: float | None = None,
        coverage: ArrayLike | None = None,
        flags: ArrayLike | None = None,
        point: str | ArrayLike = "mean",
        known: Moments | None = None,
    ) -> Prediction:
        """Make predictions of components that need no check; the rest as in the class."""
        made = object.__new__(Prediction)
        made._set(components=components, lower=lower, coverage=coverage, flags=flags, point=point, known=known)
        return made

    def changed(self, **changes: Any) -> Prediction:
        """Return the same predictions with other `components`, `lower`, `coverage`, `flags`, `point` or `known`."""
        old = {field.name: getattr(self, field.name) for field in fields(self)}
        if "components" in changes or changes.get("lower", self.lower) != self.lower:
            old["known"] = None
        return Prediction.of(**old | changes)

    @classmethod
    def gaussian(
        cls,
        mean: ArrayLike,
        model_variance: ArrayLike,
        noise_variance: ArrayLike,
        input_variance: ArrayLike | None = None,
        *,
        lower: float | None = None,
        coverage: ArrayLike | None = None,
        flags: ArrayLike | None = None,
    ) -> Prediction:
        """Make one Gaussian per object, the paper's model.

        Parameters
        ----------
        mean : array-like of shape (n,)
            Predictive mean (Eq. 5.8).
        model_variance, noise_variance, input_variance : array-like of shape (n,) or scalar
            Parts of the variance (Eq. 5.9); `input_variance` is zero by default.
        lower, coverage, flags
            As in the class.
        """
        centre = check.as_float("mean", mean)
        if centre.ndim != 1:
            raise ValueError(f"`mean` has shape {centre.shape}; expected (n,), one mean per object.")
        parts = {"model_variance": model_variance, "noise_variance": noise_variance}
        parts["input_variance"] = 0.0 if input_variance is None else input_variance
        columns = (check.points(name, value, len(centre), "")[:, None] for name, value in parts.items())
        ones = np.ones((len(centre), 1))
        return cls(ones, centre[:, None], *columns, lower=lower, coverage=coverage, flags=flags)

    @classmethod
    def from_cut(
        cls,
        mean: FloatArray,
        model_variance: FloatArray,
        noise_variance: FloatArray,
        input_variance: FloatArray,
        *,
        lower: float,
    ) -> Prediction:
        """Make Gaussians cut at `lower` that have this mean and these parts of the variance, (n,), after the cut."""
        total = model_variance + noise_variance + input_variance
        centre, variance = uncut_moments(mean, total, lower)
        parts = (part * variance / total for part in (model_variance, noise_variance, input_variance))
        return cls.gaussian(centre, *parts, lower=lower)

    @classmethod
    def mixture(cls, predictions: Sequence[Prediction], weights: ArrayLike | None = None) -> Prediction:
        """Combine the members of a committee, all predicting the same n objects.

        Parameters
        ----------
        predictions : sequence of M Prediction
            Members; all with the same `lower`.
        weights : array-like of shape (M,) or (n, M), optional
            Members' weights, normalised here; equal by default.

        Returns
        -------
        Prediction
            The mixture of the members' densities. `coverage` is the weighted mean of the members'
            (None unless all have it), `flags` the union of theirs.
        """
        return cls.of(**mixed(predictions, weights))

    @classmethod
    def concatenate(cls, predictions: Sequence[Prediction]) -> Prediction:
        """Join predictions for different objects; fewer components are padded with weight zero."""
        return cls.of(**joined(predictions))

    def truncate(self, lower: float | None) -> Prediction:
        """Return the same mixture cut at `lower` (None removes the cut); a `point` that was given is the mean then."""
        return self.changed(lower=lower, point=self.point if isinstance(self.point, str) else "mean")

    def __len__(self) -> int:
        return len(self.components)

    def __repr__(self) -> str:
        return f"Prediction(n={len(self)}, n_components={self.n_components}, lower={self.lower})"

    def __getitem__(self, index: SupportsIndex | slice | ArrayLike) -> Prediction:
        """Return a Prediction for some of the objects; an integer gives one of length 1."""
        rows = check.row_index(index, len(self))
        return self.changed(
            components=self.components.take(rows),
            coverage=None if self.coverage is None else self.coverage[rows],
            flags=None if self.flags is None else self.flags[rows],
            point=self.point if isinstance(self.point, str) else self.point[rows],
            known=None if self.known is None else Moments(*(part[rows] for part in self.known)),
        )

    @property
    def n_components(self) -> int:
        """Number K of components per object."""
        return self.components.n_components

    @property
    def weights(self) -> FloatArray:
        """Mixture weights before truncation, shape (n, K)."""
        return self.components.weights

    @property
    def means(self) -> FloatArray:
        """Mean of each component before truncation, shape (n, K)."""
        return self.components.means

    @property
    def component_stds(self) -> FloatArray:
        """Standard deviation of each component before truncation, shape (n, K)."""
        return self.components.stds

    def _per_object(self, kernel: Callable[[Mixture, slice], FloatArray], cost: int = 1) -> FloatArray:
        """Fill an (n,) array chunk by chunk."""
        out = np.empty(len(self))
        for rows, part in self.components.rows(self.lower, cost):
            out[rows] = kernel(part, rows)
        return out

    def _on_grid(self, grid: ArrayLike, kernel: Callable[[Mixture, FloatArray], FloatArray]) -> FloatArray:
        """Fill an (n, g) array chunk by chunk."""
        at = check.grid("grid", grid)
        out = np.empty((len(self), len(at)))
        for rows, part in self.components.rows(self.lower, len(at)):
            out[rows] = kernel(part, np.broadcast_to(at, out[rows].shape))
        return out

    @cached_property
    def _moments(self) -> Moments:
        return self.components.moments(self.lower) if self.known is None else self.known

    @property
    def mean(self) -> FloatArray:
        """Mean of each object, shape (n,) (Eq. 5.8)."""
        return self._moments.mean

    @property
    def model_variance(self) -> FloatArray:
        """Variance from the uncertainty of the function and from disagreeing models, shape (n,)."""
        return self._moments.model_variance

    @property
    def noise_variance(self) -> FloatArray:
        """Variance from the intrinsic noise, several possible values included, shape (n,)."""
        return self._moments.noise_variance

    @property
    def input_variance(self) -> FloatArray:
        """Variance from missing or noisy inputs, shape (n,)."""
        return self._moments.input_variance

    @property
    def variance(self) -> FloatArray:
        """Total variance, the sum of the three parts, shape (n,) (Eq. 5.9)."""
        return self.model_variance + self.noise_variance + self.input_variance

    @property
    def std(self) -> FloatArray:
        """Square root of the total variance, shape (n,)."""
        return np.sqrt(self.variance)

    def log_pdf(self, z: ArrayLike) -> FloatArray:
        """Log density at z, a scalar or one value per object, shape (n,); -inf below `lower`."""
        at = check.points("z", z, len(self), _USE_GRID.format("redshifts", "pdf_grid"))
        return self._per_object(lambda part, rows: log_pdf(part, at[rows, None])[:, 0])

    def pdf(self, z: ArrayLike) -> FloatArray:
        """Density at z, a scalar or one value per object, shape (n,)."""
        return np.exp(self.log_pdf(z))

    def cdf(self, z: ArrayLike) -> FloatArray:
        """Probability below z, a scalar or one value per object, shape (n,)."""
        at = check.points("z", z, len(self), _USE_GRID.format("redshifts", "cdf_grid"))
        return self._per_object(lambda part, rows: cdf(part, at[rows, None])[:, 0])

    def pdf_grid(self, grid: ArrayLike) -> FloatArray:
        """Density of every object at every point of a grid (g,), shape (n, g)."""
        return self._on_grid(grid, lambda part, z: np.exp(log_pdf(part, z)))

    def cdf_grid(self, grid: ArrayLike) -> FloatArray:
        """Probability below every point of a grid (g,), shape (n, g)."""
        return self._on_grid(grid, cdf)

    def quantile(self, q: ArrayLike) -> FloatArray:
        """Redshift below which the probability is q, a scalar or one value per object, shape (n,).

        Closed form for K = 1; otherwise bracketed Newton, to about 1e-12 of the distribution's width.
        """
        at = check.probabilities("q", q, len(self), _USE_GRID.format("levels", "quantile_grid"))
        return self._per_object(lambda part, rows: quantiles.quantile(part, at[rows]))

    def quantile_grid(self, levels: ArrayLike) -> FloatArray:
        """Quantiles of every object at the levels (g,), shape (n, g)."""
        columns = [self.quantile(float(q)) for q in check.grid("levels", levels)]
        return np.column_stack(columns)

    @property
    def median(self) -> FloatArray:
        """Median of each object, shape (n,)."""
        return self.quantile(0.5)

    @property
    def mode(self) -> FloatArray:
        """Highest point of each density, shape (n,)."""
        return self._per_object(lambda part, _: quantiles.mode(part), cost=quantiles.MODE_STARTS)

    @cached_property
    def best(self) -> FloatArray:
        """Redshift of least expected loss, shape (n,): Huber's, of the relative error ``(z - best) / (1 + z)``.

        The loss is quadratic up to 0.05, linear beyond. Where a density is narrow this is nearly its mean; of two peaks
        it keeps to the heavier one. By quadrature, of as few Gaussians as say the same: good to 2 % of `std` if the
        density is cut at zero.
        """
        return self._least_loss(0.0)

    @cached_property
    def safe(self) -> FloatArray:
        """The same with a penalty for errors beyond 0.2, as much as one of 0.2 costs: few objects are off by far."""
        return self._least_loss(FAR_COST)

    def _least_loss(self, far_cost: float) -> FloatArray:
        points, sharing = np.empty(len(self)), min(self.components.n_always, SLOTS)
        for rows, few in self.components.mixtures(self.lower):
            stds = np.sqrt(few.variances)
            points[rows] = best_points(few.weights, few.means, stds, self.lower, sharing, far_cost=far_cost)
        return check.read_only(points)

    @property
    def z_phot(self) -> FloatArray:
        """Redshift quoted for each object, shape (n,); see `point`."""
        quoted: FloatArray = getattr(self, self.point) if isinstance(self.point, str) else self.point
        return quoted

    def interval(self, level: float = 0.68) -> tuple[FloatArray, FloatArray]:
        """Return the ends (n,), (n,) of the central interval, equal probability left out on each side."""
        tail = 0.5 * (1 - check.level(level))
        return self.quantile(tail), self.quantile(1 - tail)

    def sample(self, size: int = 1, random_state: int | np.random.Generator | None = None) -> FloatArray:
        """Draw `size` redshifts for every object, shape (n, size)."""
        if size < 1:
            raise ValueError(f"`size` is {size}; expected at least one draw per object.")
        rng = np.random.default_rng(random_state)
        which, where = rng.random((len(self), size)), rng.random((len(self), size))
        for rows, part in self.components.rows(self.lower, size):
            where[rows] = quantiles.draw(part, which[rows], where[rows])
        return where

    def crps(self, z: ArrayLike) -> FloatArray:
        """Continuous ranked probability score at z, shape (n,), in closed form (Grimit et al. 2006).

        Truncated densities have a closed form too (with Owen's T function); those with less than 1 % of
        the mixture above the cut are integrated numerically, to about 1e-10.
        """
        at = check.points("z", z, len(self), "")
        return self._per_object(lambda part, rows: scores.crps(part, at[rows]), cost=scores.COST)

    def squared_density_integral(self) -> FloatArray:
        """Integral of the squared density, shape (n,), in closed form (for the CDE loss)."""
        return self._per_object(lambda part, _: scores.squared_density_integral(part), cost=self.n_components)

    def stacked_pdf(self, grid: ArrayLike, sample_weight: ArrayLike | None = None) -> FloatArray:
        """Weighted mean of all densities on a grid (g,), an estimate of n(z), shape (g,)."""
        at = check.grid("grid", grid)
        weight = check.weights(sample_weight, len(self))
        total = np.zeros(len(at))
        for rows, part in self.components.rows(self.lower, len(at)):
            density = np.exp(log_pdf(part, np.broadcast_to(at, (len(weight[rows]), len(at)))))
            total += weight[rows] @ density
        out: FloatArray = total / weight.sum()
        return out

    def reduced(self, *, without_cut: bool = False) -> Prediction:
        """Return mixtures of at most eight Gaussians each, as few as they need, in float32.

        Means and variances, and what is quoted, stay as they were. With `without_cut` densities have these moments
        without being cut.
        """
        few = reduce.reduced(self.components, self.lower)
        weights, means, variances = (np.asarray(a, dtype=np.float64) for a in (few.weights, few.means, few.stds))
        variances = variances**2
        if without_cut and self.lower is not None:
            weights, means, variances = reduce.above_cut(weights, means, variances, self.lower)
        nothing, label = np.zeros_like(weights), np.zeros(reduce.MOST, dtype=np.intp)
        return self.changed(
            components=Components(weights, means, nothing, variances, nothing, label, label),
            lower=None if without_cut else self.lower,
            point=self.z_phot,
            known=self._moments,
        )

    def to_qp(self, grid: ArrayLike | None = None, *, kind: Literal["mixmod", "norm"] = "mixmod") -> Any:
        """Return a qp ensemble.

        Parameters
        ----------
        grid : array-like of shape (g,), optional
            If given, the densities on this grid, as ``qp.interp``, which is undefined outside it.
        kind : {"mixmod", "norm"}
            Without a grid: the mixture as it is, or one Gaussian for each object, ``qp.stats.norm``: that with the mean
            and the variance of the mixture where there are several. If truncated, ``qp.stats.truncnorm``; ``qp.mixmod``
            cannot be truncated.
        """
        return to_qp(self, grid, kind)
