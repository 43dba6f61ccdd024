"""Priors on the shapes and on eta that keep training from over-fitting; they vanish where the paper has none.

The evidence integrates the weights out but *optimises* the centres and shapes, which can therefore over-fit: a
basis function with an individual shape may close in on a handful of rows. Two terms are added to Eq. 5.6.

Shapes are drawn towards a common one. A Wishart prior ``Lambda_j ~ W(Lambda_0)`` with strength kappa, the common
``Lambda_0`` at its best value (the mean of all), leaves

    -kappa/2 (m ln |mean_j Lambda_j| - sum_j ln |Lambda_j|)  <=  0,

zero exactly when all shapes agree, so the term is absent from GL, GD and GC. It does not depend on the units of
the inputs nor on rotations ``Gamma -> Q Gamma``.

``eta`` gets the exponential prior ``-rate eta``: Eq. 5.6 alone grows without bound as ``u_j -> 0, eta_j -> inf``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gpzed._types import FloatArray
from gpzed.gp.linalg import inverse_stack

if TYPE_CHECKING:
    from gpzed.gp.parameters import Layout, Parameters

ETA_RATE = 1e-3
"""Bounds eta at about 500: noise weights of less than 0.05 in ln beta count as none."""


def log_prior(parameters: Parameters, layout: Layout, kappa: float) -> tuple[float, Parameters]:
    """Return the sum of the priors of this module and its gradient.

    The strength kappa is the number of rows' worth of evidence by which each shape is held to the common one.
    """
    value, grad_P, grad_Gamma = layout.structure.log_prior(parameters.P, parameters.Gamma, kappa)
    eta = np.exp(parameters.log_eta) if layout.heteroscedastic else np.zeros(layout.m)
    gradient = replace(
        parameters,
        P=grad_P,
        Gamma=grad_Gamma,
        u=np.zeros_like(parameters.u),
        b=0.0,
        log_alpha=np.zeros_like(parameters.log_alpha),
        log_eta=-ETA_RATE * eta,
    )
    return value - ETA_RATE * float(eta.sum()), gradient


def common_shape(Lambda: FloatArray, kappa: float) -> tuple[float, FloatArray]:
    """Return the log density of the prior that draws shapes together, and its gradient for Lambda, diagonal or full."""
    Lambda_0 = Lambda.mean(axis=0, keepdims=True)
    gradient = -0.5 * kappa * (_inverse(Lambda_0) - _inverse(Lambda))
    return -0.5 * kappa * float(len(Lambda) * _log_det(Lambda_0)[0] - _log_det(Lambda).sum()), gradient


def _log_det(Lambda: FloatArray) -> FloatArray:
    return np.asarray(np.log(Lambda).sum(axis=1) if Lambda.ndim == 2 else np.linalg.slogdet(Lambda)[1])


def _inverse(Lambda: FloatArray) -> FloatArray:
    return np.asarray(1.0 / Lambda if Lambda.ndim == 2 else inverse_stack(Lambda))
