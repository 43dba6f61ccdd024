"""A few cases of the campaign, to keep it in working order."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from faults import signals
from faults.children import Child


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # forking with threads about
def test_a_few_cases_hold(tmp_path: Path) -> None:
    found = list(signals.run(3, np.random.default_rng(0), tmp_path))
    assert len(found) == 3
    assert [case for case in found if not case.held] == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("fresh", [False, True])
def test_commands_heed_signals_that_the_campaign_ignores(tmp_path: Path, fresh: bool) -> None:
    """Under nohup all hang-ups were ignored, and every case passed."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        child = Child(["config", "--template"], tmp_path / "log.txt", prepare=lambda: time.sleep(60.0), fresh=fresh)
        time.sleep(0.0 if fresh else 1.0)  # a fork heeds signals when it has begun
        os.kill(child.pid, signal.SIGHUP)
        assert child.end().code == -signal.SIGHUP
    finally:
        signal.signal(signal.SIGHUP, before)
