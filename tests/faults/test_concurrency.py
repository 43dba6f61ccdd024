"""One case of every way to share a model."""

from __future__ import annotations

import numpy as np

from faults import concurrency


def test_one_case_each(tmp_path):
    cases = list(concurrency.run(len(concurrency.FAULTS), np.random.default_rng(0), tmp_path))
    assert all(case.held for case in cases), cases
    assert {case.outcome for case in cases} <= {"identical", "the same but for rounding"}
