"""Linear maps that bring the inputs to zero mean and unit variance (section 6.2), and their inverse use."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gpzed._types import FloatArray
from gpzed.errors import DataWarning, NumericalError

WhiteningMethod = Literal["pca", "scale", "none"]
WHITENING_METHODS: tuple[WhiteningMethod, ...] = ("pca", "scale", "none")

MIN_RELATIVE_VARIANCE = 1e-12
"""A direction with less than this share of the largest variance counts as constant."""
MAX_SIZE, MIN_SCALE = 1e7, 0.1
"""Of inputs that are not whitened: their scatter, and their mean in units of that scatter and this. Coefficients of
basis functions are squares of these, and rounding is 1e-16 of them."""


@dataclass(frozen=True)
class Whitening:
    """The affine map ``x -> (x - mean) matrix``."""

    mean: FloatArray  # (d,)
    matrix: FloatArray  # (d, d)

    def __call__(self, X: FloatArray) -> FloatArray:
        """Map inputs of shape (n, d)."""
        return (X - self.mean) @ self.matrix


@dataclass
class Moments:
    """Weighted first and second moments, which may be gathered chunk by chunk."""

    weight: float
    mean: FloatArray
    scatter: FloatArray

    @classmethod
    def of(cls, X: FloatArray, omega: FloatArray) -> Moments:
        """Moments of the rows of X with weights omega."""
        weight = float(omega.sum())
        mean = omega @ X / weight
        centred = X - mean
        return cls(weight, mean, (centred * omega[:, None]).T @ centred)

    def as_rows(self) -> tuple[FloatArray, FloatArray]:
        """Few rows with these moments, (1 + 2 d, d), and their weights."""
        d, scale = len(self.mean), np.sqrt(np.diagonal(self.scatter))
        scale = np.where(scale > 0.0, scale, 1.0)  # without which features of large numbers drown those of small ones
        variance, directions = np.linalg.eigh(self.scatter / scale[:, None] / scale)
        root = (directions * np.sqrt(np.maximum(variance, 0.0) * (0.5 + d) / self.weight)).T * scale
        rows = self.mean + np.concatenate([np.zeros((1, d)), root, -root])
        return rows, np.full(len(rows), self.weight / len(rows))

    def __add__(self, other: Moments) -> Moments:
        weight = self.weight + other.weight
        shift = other.mean - self.mean
        mean = self.mean + shift * (other.weight / weight)
        between = np.outer(shift, shift) * (self.weight * other.weight / weight)
        return Moments(weight, mean, self.scatter + other.scatter + between)


def fit_whitening(moments: Moments, method: WhiteningMethod) -> Whitening:
    """Find the map for inputs with given moments.

    It brings principal components to unit variance, all kept (the paper's choice), or each feature; or does nothing.
    Directions without variance are left unscaled; constant features draw a warning.
    """
    covariance = moments.scatter / moments.weight
    d = len(covariance)
    scale = np.sqrt(np.diagonal(covariance))
    if method == "none":
        is_off = (np.abs(moments.mean) > MAX_SIZE * (scale + MIN_SCALE)) | (scale > MAX_SIZE)
        if is_off.any():
            first = int(np.flatnonzero(is_off)[0])
            raise NumericalError(
                f"feature {first} (counted from 0) has a mean of {moments.mean[first]:.3g} and a scatter of "
                f"{scale[first]:.3g}, where basis functions drown in rounding; without whitening inputs of about zero "
                'mean and unit variance are expected. Use whitening="pca" or "scale", or scale them.'
            )
        return Whitening(np.zeros(d), np.eye(d))
    is_constant = scale <= MIN_RELATIVE_VARIANCE * np.abs(moments.mean)  # rounding noise, or exactly zero
    scale = np.where(is_constant, 1.0, scale)
    if is_constant.any():
        numbers = ", ".join(map(str, np.flatnonzero(is_constant)))
        named = (
            f"features {numbers} (counted from 0) are"
            if is_constant.sum() > 1
            else f"feature {numbers} (counted from 0) is"
        )
        warnings.warn(
            f"{named} constant in the training rows and cannot inform the fit; leave out what is constant, or expect "
            "objects with another value there to be predicted as far from the training data.",
            DataWarning,
            stacklevel=4,
        )
    if method == "scale":
        return Whitening(moments.mean, np.diag(1.0 / scale))
    correlation = covariance / np.outer(scale, scale)
    correlation[is_constant] = correlation[:, is_constant] = 0.0  # else rounding would be scaled to unit variance
    variance, directions = np.linalg.eigh(correlation)
    variance, directions = variance[::-1], directions[:, ::-1]
    sign = np.sign(directions[np.abs(directions).argmax(axis=0), np.arange(d)])
    variance = np.where(variance > MIN_RELATIVE_VARIANCE * variance[0], variance, 1.0)
    return Whitening(moments.mean, directions * sign / np.sqrt(variance) / scale[:, None])
