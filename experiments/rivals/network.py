"""A network with one hidden layer (appendix B) as a basis function model: sigmoids in the place of Gaussians.

``phi_j(x) = 1 / (1 + exp(-t_j))`` with ``t_j = x p_j' + gamma_j``: the weights of a neuron are in the place of the
centre and its bias in that of Gamma. Importing this module makes `covariance="ANN"` known to `GPzRegressor`, which then
trains the network by the evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpzed._types import FloatArray
from gpzed.gp.basis import Basis
from gpzed.gp.covariance import STRUCTURES, Structure

STEEPNESS = 2.0
"""Typical norm of a neuron's weights at the start: it goes from 0.1 to 0.9 over about two standard deviations."""


@dataclass(frozen=True)
class Sigmoids(Basis):
    """Neurons: sigmoids of a linear function of the inputs."""

    def map(self, Xt: FloatArray, out: FloatArray) -> FloatArray:
        """Fill the linear map [1, x]."""
        out[0], out[1:] = 1.0, Xt
        return out

    def respond(self, Zt: FloatArray, out: FloatArray) -> FloatArray:
        """Fill the sigmoids of ``C' Z``."""
        log_sigmoid(np.matmul(self.Ct, Zt, out=out))
        return np.exp(out, out=out)

    def chain(self, G: FloatArray, Psi: FloatArray, sqrt_B: FloatArray) -> FloatArray:
        """Turn ``dL / d ln Phi`` into ``dL / dt``: the slope of ln phi is 1 - phi."""
        return G * (1.0 - Psi / sqrt_B)


class Network(Structure):
    """Weights and biases of neurons in the place of centres and shapes."""

    def gamma_shape(self, m: int, d: int) -> tuple[int, ...]:
        """Return the shape of the biases."""
        return (m,)

    def n_shape(self, d: int) -> int:
        """Count one bias for each neuron."""
        return 1

    def basis(self, P: FloatArray, Gamma: FloatArray) -> Basis:
        """Return the neurons at a point in parameter space."""
        return Sigmoids(np.column_stack([Gamma, P]))

    def pull_back(
        self, grad_C: FloatArray, P: FloatArray, Gamma: FloatArray, more: Sequence[FloatArray] = ()
    ) -> tuple[FloatArray, FloatArray]:
        """Turn ``dL/dC`` into gradients for weights and biases."""
        return np.ascontiguousarray(grad_C[1:].T), grad_C[0].copy()

    def log_prior(self, P: FloatArray, Gamma: FloatArray, kappa: float) -> tuple[float, FloatArray, FloatArray]:
        """Return the penalty ``-kappa/2 sum_j p_j p_j'`` on the weights that networks have (Eq. B.1)."""
        return -0.5 * kappa * float(np.sum(P**2)), -kappa * P, np.zeros_like(Gamma)

    def start(self, X: FloatArray, P: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Return weights and biases of neurons that are steepest at the centres P, in random directions."""
        weights = rng.standard_normal(P.shape) * (STEEPNESS / np.sqrt(P.shape[1]))
        return weights, -np.einsum("md,md->m", weights, P)


def log_sigmoid(t: FloatArray) -> None:
    """Replace t by the logarithm of its sigmoid, in place and without overflow."""
    np.logaddexp(0.0, np.negative(t, out=t), out=t)
    np.negative(t, out=t)


def _no_covariance(*_: object) -> FloatArray:
    raise ValueError(
        '`covariance` is "ANN", whose neurons have no expected response in closed form: missing (NaN) or noisy inputs, '
        'and mixtures, are not supported. Give complete rows with `n_heads=1`, or choose a covariance such as "VC".'
    )


NETWORK = Network("ANN", False, False, _no_covariance, _no_covariance, _no_covariance)
STRUCTURES[NETWORK.code] = NETWORK
