"""Compiled algebra on shapes of basis functions: small for each of them, and slow in NumPy, with Python's lock held."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpzed._types import FloatArray
from gpzed.compiled.binding import call, fill
from gpzed.gp import prior
from gpzed.gp.covariance import full_precision
from gpzed.gp.linalg import not_finite
from gpzed.incomplete.blur import BlurredBasis


def common_shape(Lambda: FloatArray, kappa: float) -> tuple[float, FloatArray]:
    """Prior that draws shapes together, see `gpzed.gp.prior.common_shape`."""
    value, grad_Lambda = np.zeros(()), np.zeros(Lambda.shape)
    if Lambda.ndim == 2:
        return prior.common_shape(Lambda, kappa)
    m, d, _ = Lambda.shape
    arrays: dict[str, Any] = {"Lambda": Lambda, "value": value, "grad_Lambda": grad_Lambda}
    if not call("shape_prior", m=m, d=d, kappa=kappa, **arrays):
        return prior.common_shape(Lambda, kappa)
    return float(value), grad_Lambda


def blurred_coefficients(blurred: BlurredBasis) -> FloatArray:
    """Coefficients of expected basis functions, see `gpzed.incomplete.blur.blurred_coefficients`."""
    m, d = blurred.P.shape
    Ct = np.empty((m, 1 + d + d * (d + 1) // 2))
    if not call("blur", shapes=_shapes(blurred), Ct=Ct):
        raise not_finite()
    return Ct


def blurred_pull_back(blurred: BlurredBasis, grad_C: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Gradients for P and full Lambda, see `gpzed.incomplete.blur.blurred_pull_back`."""
    m, d = blurred.P.shape
    grad_P, grad_Lambda = np.zeros((m, d)), np.zeros((len(blurred.Lambda), d, d))
    arrays: dict[str, Any] = {"grad_C": grad_C, "grad_P": grad_P, "grad_Lambda": grad_Lambda}
    if not call("blur_gradient", shapes=_shapes(blurred), **arrays):
        raise not_finite()
    return grad_P, grad_Lambda


def shapes_struct(P: FloatArray, Lambda: FloatArray, r: int, V: FloatArray | None = None) -> Any:
    """Return the shapes of basis functions, and what blurs their inputs, as a struct."""
    (m, d), Lambda = P.shape, full_precision(Lambda)
    return fill("shapes", m=m, d=d, r=r, is_shared=len(Lambda) != m, P=P, Lambda=Lambda, V=V)


def _shapes(blurred: BlurredBasis) -> Any:
    return shapes_struct(blurred.P, blurred.Lambda, blurred.V.shape[1], blurred.V)
