"""A few cases of the campaign, to keep it in working order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from faults import signals


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # forking with threads about
def test_a_few_cases_hold(tmp_path: Path) -> None:
    found = list(signals.run(3, np.random.default_rng(0), tmp_path))
    assert len(found) == 3
    assert [case for case in found if not case.held] == []
