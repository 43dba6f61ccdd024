"""A few cases of the campaign, to keep it in working order."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from faults import disks

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="the file layer that fails is compiled")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # forking with threads about
def test_a_few_cases_hold(tmp_path: Path) -> None:
    found = list(disks.run(4, np.random.default_rng(0), tmp_path))
    assert len(found) == 4
    assert [case for case in found if not case.held] == []
