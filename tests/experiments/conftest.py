from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from experiments.data import Source
from experiments.paper.bench import Bench
from experiments.paper.run import quick_bench
from experiments.rivals.base import Effort


@pytest.fixture
def tiny(tmp_path: Path) -> Bench:
    """A bench on which every experiment takes a second or two; results say nothing."""
    bench = quick_bench(Bench(Source(150), Effort(0, n_threads=1), tmp_path))
    return replace(bench, effort=Effort(0, 3, 1), size=5, complexities=(5,))
