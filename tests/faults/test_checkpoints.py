"""A few garbled checkpoints: refused, or training ends with a sound model."""

from __future__ import annotations

import numpy as np

from faults import checkpoints


def test_garbled_checkpoints_are_refused_or_harmless(tmp_path):
    cases = list(checkpoints.run(40, np.random.default_rng(3), tmp_path))
    assert [case for case in cases if not case.held] == []
    assert {"refused", "identical after resume"} <= {case.outcome for case in cases}
