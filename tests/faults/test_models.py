"""A few garbled model files: refused, or sound predictions."""

from __future__ import annotations

import numpy as np
import pytest

from faults import models
from faults.files import FAULTS


def test_garbled_models_are_refused_or_sound(tmp_path):
    cases = list(models.run(60, np.random.default_rng(5), tmp_path))
    assert [case for case in cases if not case.held] == []
    assert {case.outcome for case in cases} == {"refused", "sound predictions"}
    assert len({case.fault for case in cases}) > len(FAULTS) // 2


@pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")
def test_a_file_without_a_fault_is_sound(tmp_path):
    for path in models.make_models(tmp_path):
        assert models.judge("none", path, "").outcome == "sound predictions"
