"""`GriddedPrediction`: densities tabulated on a grid, as other codes give them, with the interface of `Prediction`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NoReturn, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from gpzed._types import FloatArray, IntArray
from gpzed.prediction import checks as check
from gpzed.prediction.combine import joined_point, joined_values
from gpzed.prediction.distribution import Prediction
from gpzed.prediction.mixture import row_chunks
from gpzed.prediction.point import best_of_table
from gpzed.prediction.qpform import load_qp


class GriddedPrediction(Prediction):
    r"""Predictive densities that are linear between the points of a grid and zero outside it.

    Such a density is a mixture of the pieces between grid points: `weights`, `means` and `noise_variances` are those of
    the pieces, so that moments are exact; all other answers are in closed form too. All of the variance counts as
    noise, since a table does not tell its parts.

    Parameters
    ----------
    grid : array-like of shape (g,)
        Redshifts, strictly increasing, at least two.
    density : array-like of shape (n, g)
        Densities at these redshifts; not negative, not all zero; normalised here.
    flags, point
        As in `Prediction`.

    Examples
    --------
    >>> p = GriddedPrediction([0.0, 1.0, 2.0], [[0.0, 1.0, 0.0]])
    >>> float(p.mean[0]), float(p.cdf(1.0)[0]), float(p.quantile(0.125)[0])
    (1.0, 0.5, 0.5)
    """

    grid: FloatArray
    density: FloatArray

    def __init__(
        self, grid: ArrayLike, density: ArrayLike, flags: ArrayLike | None = None, point: str | ArrayLike = "mean"
    ) -> None:
        x, f = _checked(grid, density)
        width = np.diff(x)
        area = 0.5 * (f[:, 1:] + f[:, :-1]) * width
        total = area.sum(axis=1, keepdims=True)
        total[np.abs(total - 1.0) <= check.WEIGHT_SUM_EXACT] = 1.0  # so that slicing never changes a number
        f, area = f / total, area / total
        tilt = np.divide(f[:, 1:] - f[:, :-1], f[:, 1:] + f[:, :-1], out=np.zeros_like(area), where=area > 0.0)
        middle = 0.5 * (x[1:] + x[:-1])
        super().__init__(
            weights=area,
            means=middle + tilt * width / 6.0,
            model_variances=np.zeros_like(area),
            noise_variances=width**2 * (1.0 / 12.0 - tilt**2 / 36.0),
            flags=flags,
            point=point,
        )
        below = np.concatenate([np.zeros((len(f), 1)), np.cumsum(area, axis=1)], axis=1)
        for name, value in (("grid", x), ("density", f), ("_below", below / below[:, -1:])):
            value.flags.writeable = False
            object.__setattr__(self, name, value)

    _below: FloatArray  # probability below each grid point, (n, g)

    def __repr__(self) -> str:
        ends = f"{self.grid[0]:g} to {self.grid[-1]:g}"
        return f"GriddedPrediction(n={len(self)}, grid={ends} in {len(self.grid)} points)"

    def __getitem__(self, index: SupportsIndex | slice | ArrayLike) -> GriddedPrediction:
        """Return a prediction for some of the objects; an integer gives one of length 1."""
        rows = check.row_index(index, len(self))
        flags = None if self.flags is None else self.flags[rows]
        point = self.point if isinstance(self.point, str) else self.point[rows]
        return GriddedPrediction(self.grid, self.density[rows], flags, point)

    def changed(self, **changes: Any) -> GriddedPrediction:
        """Return the same densities with other `flags` or `point`."""
        given = {"flags": self.flags, "point": self.point} | changes
        if len(given) > 2:
            raise TypeError(f"tabulated densities have no {sorted(changes)} to change; expected `flags` or `point`.")
        return GriddedPrediction(self.grid, self.density, **given)

    @classmethod
    def mixture(cls, predictions: Sequence[Prediction], weights: ArrayLike | None = None) -> NoReturn:
        """Refuse: members are combined before they are tabulated."""
        raise TypeError("tabulated densities have no members to combine; combine them before they are tabulated.")

    @classmethod
    def concatenate(cls, predictions: Sequence[Prediction]) -> GriddedPrediction:
        """Join predictions for different objects, all on the same grid."""
        parts = [part for part in predictions if isinstance(part, GriddedPrediction)]
        if len(parts) != len(predictions) or not parts or any(not np.array_equal(p.grid, parts[0].grid) for p in parts):
            raise ValueError("predictions are not all tabulated on the same grid; give such ones.")
        density = np.concatenate([part.density for part in parts])
        return cls(parts[0].grid, density, joined_values("flags", parts), joined_point(parts))

    def truncate(self, lower: float | None) -> GriddedPrediction:
        """Return the same densities cut at `lower` and normalised again (None: as they are)."""
        if lower is None or lower <= self.grid[0]:
            return self
        if lower >= self.grid[-1]:
            raise ValueError(f"`lower` is {lower} but the grid ends at {self.grid[-1]}; give a redshift below that.")
        above = self.grid > lower
        density = np.concatenate([self.pdf_grid([lower]), self.density[:, above]], axis=1)
        point = self.point if isinstance(self.point, str) else "mean"
        return GriddedPrediction(np.concatenate([[lower], self.grid[above]]), density, self.flags, point)

    @property
    def model_variance(self) -> FloatArray:
        """Zeros, shape (n,): a table does not tell what part of the variance is due to the model."""
        return np.zeros(len(self))

    @property
    def noise_variance(self) -> FloatArray:
        """All of the variance, shape (n,)."""
        return np.asarray(self._moments.model_variance + self._moments.noise_variance)

    def _piece(self, z: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the piece that each z falls in, and how far into it; the nearest end outside the grid."""
        i = np.clip(np.searchsorted(self.grid, z, side="right") - 1, 0, len(self.grid) - 2)
        return i, np.clip(z, self.grid[0], self.grid[-1]) - self.grid[i]

    def _density_at(self, rows: IntArray | slice, z: FloatArray) -> FloatArray:
        i, t = self._piece(z)
        left, right = self.density[rows, i], self.density[rows, i + 1]
        inside = (z >= self.grid[0]) & (z <= self.grid[-1])
        return np.where(inside, left + (right - left) * (t / np.diff(self.grid)[i]), 0.0)

    def _probability_below(self, rows: IntArray | slice, z: FloatArray) -> FloatArray:
        i, t = self._piece(z)
        left, right = self.density[rows, i], self.density[rows, i + 1]
        return np.clip(self._below[rows, i] + t * (left + 0.5 * (right - left) * (t / np.diff(self.grid)[i])), 0.0, 1.0)

    def pdf(self, z: ArrayLike) -> FloatArray:
        """Density at z, a scalar or one value per object, shape (n,)."""
        at = check.points("z", z, len(self), "For the same redshifts for all objects use pdf_grid.")
        return self._density_at(np.arange(len(self)), at)

    def log_pdf(self, z: ArrayLike) -> FloatArray:
        """Log density at z, a scalar or one value per object, shape (n,); -inf where the density is zero."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.pdf(z)))

    def cdf(self, z: ArrayLike) -> FloatArray:
        """Probability below z, a scalar or one value per object, shape (n,)."""
        at = check.points("z", z, len(self), "For the same redshifts for all objects use cdf_grid.")
        return self._probability_below(np.arange(len(self)), at)

    def pdf_grid(self, grid: ArrayLike) -> FloatArray:
        """Density of every object at every point of a grid (k,), shape (n, k)."""
        return self._density_at(slice(None), check.grid("grid", grid))

    def cdf_grid(self, grid: ArrayLike) -> FloatArray:
        """Probability below every point of a grid (k,), shape (n, k)."""
        return self._probability_below(slice(None), check.grid("grid", grid))

    def quantile(self, q: ArrayLike) -> FloatArray:
        """Redshift below which the probability is q, a scalar or one value per object, shape (n,)."""
        at = check.probabilities("q", q, len(self), "For the same levels for all objects use quantile_grid.")
        out = np.empty(len(self))
        width = np.diff(self.grid)
        for rows in row_chunks(len(self), len(self.grid)):
            below, level = self._below[rows], at[rows]
            i = np.clip((below <= level[:, None]).sum(axis=1) - 1, 0, len(width) - 1)
            line = np.arange(len(level))
            left, slope = self.density[rows][line, i], (self.density[rows][line, i + 1] - self.density[rows][line, i])
            rest = np.maximum(level - below[line, i], 0.0)
            root = left + np.sqrt(np.maximum(left**2 + 2.0 * rest * slope / width[i], 0.0))
            step = np.divide(2.0 * rest, root, out=np.zeros_like(rest), where=root > 0.0)
            out[rows] = self.grid[i] + np.minimum(step, width[i])
        return out

    def _least_loss(self, far_cost: float) -> FloatArray:
        """Return the redshift of least expected loss to within the spacing of the grid."""
        out = np.empty(len(self))
        for rows in row_chunks(len(self), 4 * len(self.grid)):
            out[rows] = best_of_table(self.means[rows], self.weights[rows], far_cost)
        return check.read_only(out)

    @property
    def mode(self) -> FloatArray:
        """Highest point of each density, shape (n,)."""
        return np.asarray(self.grid[np.argmax(self.density, axis=1)])

    def sample(self, size: int = 1, random_state: int | np.random.Generator | None = None) -> FloatArray:
        """Draw `size` redshifts for every object, shape (n, size)."""
        if size < 1:
            raise ValueError(f"`size` is {size}; expected at least one draw per object.")
        rng = np.random.default_rng(random_state)
        return np.column_stack([self.quantile(rng.random(len(self))) for _ in range(size)])

    def crps(self, z: ArrayLike) -> FloatArray:
        """Continuous ranked probability score at z, shape (n,)."""
        at = check.points("z", z, len(self), "")
        out = np.empty(len(self))
        width = np.diff(self.grid)
        for rows in row_chunks(len(self), 4 * len(self.grid)):
            f, below, truth = self.density[rows], self._below[rows], at[rows]
            slope = 0.5 * np.diff(f, axis=1) / width
            i, t = self._piece(truth)
            line = np.arange(len(truth))
            left = _squared_integral(below[:, :-1], f[:, :-1], slope, width)
            right = _squared_integral(below[:, :-1] - 1.0, f[:, :-1], slope, width)
            pieces = np.arange(len(width))
            score = np.where(pieces < i[:, None], left, 0.0).sum(axis=1)
            score += np.where(pieces > i[:, None], right, 0.0).sum(axis=1)
            here = (f[line, i], slope[line, i])
            score += _squared_integral(below[line, i], *here, t)
            score += right[line, i] - _squared_integral(below[line, i] - 1.0, *here, t)
            out[rows] = score + np.abs(truth - np.clip(truth, self.grid[0], self.grid[-1]))
        return out

    def squared_density_integral(self) -> FloatArray:
        """Integral of the squared density, shape (n,)."""
        left, right = self.density[:, :-1], self.density[:, 1:]
        return np.asarray(((left**2 + left * right + right**2) * (np.diff(self.grid) / 3.0)).sum(axis=1))

    def stacked_pdf(self, grid: ArrayLike, sample_weight: ArrayLike | None = None) -> FloatArray:
        """Weighted mean of all densities on a grid (k,), an estimate of n(z), shape (k,)."""
        weight = check.weights(sample_weight, len(self))
        return np.asarray(weight @ self.pdf_grid(grid) / weight.sum())

    def to_qp(self, grid: ArrayLike | None = None, *, kind: Literal["mixmod", "norm"] = "mixmod") -> Any:
        """Return a qp ensemble: ``qp.interp``, or one Gaussian of the same mean and variance with ``kind="norm"``."""
        if kind == "norm" and grid is None:
            return Prediction.gaussian(self.mean, 0.0, self.variance).to_qp(kind="norm")
        qp = load_qp()
        at = np.array(self.grid if grid is None else check.grid("grid", grid))
        return qp.Ensemble(qp.interp, data={"xvals": at, "yvals": self.pdf_grid(at)})


def _squared_integral(a: FloatArray, b: FloatArray, c: FloatArray, t: FloatArray) -> FloatArray:
    """Return the integral of (a + b s + c s^2)^2 over s from 0 to t."""
    return t * (a**2 + t * (a * b + t * ((b**2 + 2.0 * a * c) / 3.0 + t * (0.5 * b * c + t * 0.2 * c**2))))


def _checked(grid: ArrayLike, density: ArrayLike) -> tuple[FloatArray, FloatArray]:
    x = check.grid("grid", grid).astype(np.float64)
    if len(x) < 2 or not np.all(np.diff(x) > 0.0):
        raise ValueError("`grid` must be two or more strictly increasing redshifts.")
    f = np.array(density, dtype=np.float64)
    if f.ndim != 2 or f.shape[1] != len(x):
        raise ValueError(f"`density` has shape {f.shape}; expected (n, {len(x)}), one value per grid point.")
    check.require(np.isfinite(f) & (f >= 0.0), f, "density", "is negative or not finite", "give densities >= 0")
    total = f.sum(axis=1)
    check.require(total > 0.0, total, "density", "is zero on the whole grid", "leave such objects out")
    return x, f
