"""Posterior of the weights (Eq. 5.3 and 5.4). Its Sigma is a *precision*: here ``S``, with Cholesky factor L."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpzed._types import FloatArray
from gpzed.gp.linalg import Factor, cholesky


@dataclass(frozen=True)
class Posterior:
    """Gaussian posterior of the weights w."""

    w_mean: FloatArray  # (m + k,) posterior mean
    factor: Factor  # Cholesky factor of the posterior precision ``S``


def weight_posterior(PhiT_B_Phi: FloatArray, PhiT_B_y: FloatArray, alpha: FloatArray) -> Posterior:
    """Posterior from sums over rows, (M, M) and (M,), and the prior precisions alpha (M,)."""
    S = PhiT_B_Phi.copy()
    S[np.diag_indices_from(S)] += alpha  # Eq. 5.4
    factor = cholesky(S)
    return Posterior(factor.solve(PhiT_B_y), factor)  # Eq. 5.3
