"""Hypothesis strategies: small problems of any shape, and points of parameter space."""

from __future__ import annotations

from hypothesis import strategies as st

from helpers import CODES, make_problem

seeds = st.integers(0, 2**32 - 1)
codes = st.sampled_from(CODES)


@st.composite
def problems(draw, code=codes, max_n=25):
    """Problems with n from 1, d from 1 and m from 1 upwards (m may exceed n), all options."""
    weights = draw(st.booleans())
    return make_problem(
        draw(code),
        draw(seeds),
        n=draw(st.integers(1, max_n)),
        d=draw(st.integers(1, 4)),
        m=draw(st.integers(1, 6)),
        weights=weights,
        weighted_precision=weights and draw(st.booleans()),
        heteroscedastic=draw(st.booleans()),
        relevance=draw(st.booleans()),
        mean_function=draw(st.sampled_from(["zero", "constant", "linear"])),
    )
