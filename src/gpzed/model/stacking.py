r"""How much of a committee's mixture belongs to its networks: stacking by log score on held-out rows.

Members that were trained on the same rows come in pairs, a GP and a network, and are compared on the rows that neither
was trained on. Of the mixture :math:`(1 - s)\,p_\mathrm{GP} + s\,p_\mathrm{network}` that share s is taken under which
these rows are most likely, with a weak prior that draws it to one half where rows are few.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from gpzed._types import FloatArray

PRIOR_ROWS = 5.0
"""Rows on either side that the prior is worth."""
STEPS = 200
MAX_RATIO = 50.0
"""Of log scores: one row does not decide alone."""


def network_share(difference: FloatArray, omega: FloatArray) -> float:
    """Return the share of networks, given log scores of networks less those of GPs and weights of held-out rows, (n,).

    Found by expectation maximisation, which takes few rows to few steps and is always within 0 and 1.
    """
    if not len(difference):
        return 0.5
    ratio, weight = np.clip(difference, -MAX_RATIO, MAX_RATIO), omega / omega.mean()
    share = 0.5
    for _ in range(STEPS):
        membership = expit(ratio + np.log(share / (1.0 - share)))
        share = float((PRIOR_ROWS + weight @ membership) / (2.0 * PRIOR_ROWS + weight.sum()))
    return share
