"""Priors on the shapes and on eta that keep training from over-fitting; they vanish where the paper has none.

The evidence integrates the weights out but *optimises* the centres and shapes, which can therefore over-fit: a
basis function with a shape of its own may close in on a handful of rows. Two terms are added to Eq. 5.6.

Shapes are drawn towards a common one. A Wishart prior ``Lambda_j ~ W(Lambda_0)`` with strength kappa, the common
``Lambda_0`` at its best value (the mean of all), leaves

    -kappa/2 (m ln |mean_j Lambda_j| - sum_j ln |Lambda_j|)  <=  0,

zero exactly when all shapes agree, so the term is absent from GL, GD and GC. It does not depend on the units of
the inputs nor on rotations ``Gamma -> Q Gamma``.

The neurons of appendix B have no shapes; kappa is then the penalty ``-kappa/2 sum_j p_j p_j'`` on their weights that
networks have (Eq. B.1).

``eta`` gets the exponential prior ``-rate eta``: Eq. 5.6 alone grows without bound as ``u_j -> 0, eta_j -> inf``.
"""

from __future__ import annotations

import numpy as np

from gpzed._types import FloatArray
from gpzed.compiled.fastmath import is_compiled
from gpzed.compiled.fastshapes import wishart
from gpzed.gp.parameters import Layout, Parameters

ETA_RATE = 1e-3
"""Bounds eta at about 500: noise weights of less than 0.05 in ln beta count as none."""


def _log_det(Lambda: FloatArray) -> FloatArray:
    return np.asarray(np.log(Lambda).sum(axis=1) if Lambda.ndim == 2 else np.linalg.slogdet(Lambda)[1])


def _inverse(Lambda: FloatArray) -> FloatArray:
    return np.asarray(1.0 / Lambda if Lambda.ndim == 2 else np.linalg.inv(Lambda), dtype=np.float64)


def shape_prior(Gamma: FloatArray, layout: Layout, kappa: float) -> tuple[float, FloatArray]:
    """Log density of the hierarchical prior on shapes, and its gradient for ``Gamma``.

    Parameters
    ----------
    Gamma : ndarray, shape by structure
    layout : Layout
    kappa : float
        Strength: the number of rows' worth of evidence by which each shape is held to the common one.
    """
    if kappa == 0.0 or layout.structure.is_global or layout.structure.is_sigmoid or layout.m == 1:
        return 0.0, np.zeros_like(Gamma)
    Lambda = layout.structure.expand(Gamma, layout.d)
    compiled = wishart(Lambda, kappa) if is_compiled() and layout.structure.is_full else None
    if compiled is not None:
        return compiled[0], layout.structure.fold(Gamma, compiled[1])
    Lambda_0 = Lambda.mean(axis=0, keepdims=True)
    value = -0.5 * kappa * float(layout.m * _log_det(Lambda_0)[0] - _log_det(Lambda).sum())
    grad_Lambda = -0.5 * kappa * (_inverse(Lambda_0) - _inverse(Lambda))
    return value, layout.structure.fold(Gamma, grad_Lambda)


def log_prior(parameters: Parameters, layout: Layout, kappa: float) -> tuple[float, Parameters]:
    """Sum of the priors of this module and its gradient.

    Returns
    -------
    value : float
    gradient : Parameters
    """
    shape_value, grad_Gamma = shape_prior(parameters.Gamma, layout, kappa)
    decay = kappa if layout.structure.is_sigmoid else 0.0
    eta = np.exp(parameters.log_eta) if layout.heteroscedastic else np.zeros(layout.m)
    gradient = Parameters(
        P=-decay * parameters.P,
        Gamma=grad_Gamma,
        u=np.zeros_like(parameters.u),
        b=0.0,
        log_alpha=np.zeros_like(parameters.log_alpha),
        log_eta=-ETA_RATE * eta,
    )
    decay_value = -0.5 * decay * float(np.sum(parameters.P**2))  # cf. Eq. B.1
    return shape_value + decay_value - ETA_RATE * float(eta.sum()), gradient
