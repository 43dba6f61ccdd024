"""A few garbled model files: refused, or sound predictions."""

from __future__ import annotations

import numpy as np
import pytest

from faults import models
from faults.files import FAULTS, Parts


def test_garbled_models_are_refused_or_sound(tmp_path):
    cases = list(models.run(60, np.random.default_rng(5), tmp_path))
    assert [case for case in cases if not case.held] == []
    assert {case.outcome for case in cases} == {"refused", "sound predictions"}
    assert len({case.fault for case in cases}) > len(FAULTS) // 2


@pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")
def test_a_file_without_a_fault_is_sound(tmp_path):
    for path in models.make_models(tmp_path):
        assert models.judge("none", path, "").outcome == "sound predictions"


@pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")
@pytest.mark.parametrize("key", ["bands", "magnitudes", "colours", "undetected", "unobserved"])
def test_magnitudes_of_training_for_too_few_bands_are_refused(tmp_path, key):
    """Predictions broke down over them."""
    parts = Parts.of(models.make_models(tmp_path)[-1].read_bytes(), "model")
    parts.header["pipeline"]["scale"][key].pop()
    (tmp_path / "short.gpzed").write_bytes(parts.sealed())
    assert models.judge("short", tmp_path / "short.gpzed", "").outcome == "refused"


@pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")
@pytest.mark.parametrize("garbled", [{"rows": -1}, {"rows": {"read": 300}}, {"redshift_range": [0.1]}, {"date": 5}])
def test_a_model_that_does_not_say_where_it_comes_from_is_refused(tmp_path, garbled):
    """Predictions looked for the number of its rows, `gpzed info` for all."""
    parts = Parts.of(models.make_models(tmp_path)[-1].read_bytes(), "model")
    parts.header["pipeline"]["provenance"] |= garbled
    (tmp_path / "garbled.gpzed").write_bytes(parts.sealed())
    assert models.judge("garbled", tmp_path / "garbled.gpzed", "").outcome == "refused"


@pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")
def test_a_softening_that_no_survey_has_is_refused(tmp_path):
    """Magnitudes were infinite, and scikit-learn refused them when the model predicted."""
    parts = Parts.of(models.make_models(tmp_path)[-1].read_bytes(), "model")
    parts.header["pipeline"]["features"]["softening"][2] = 1e-320
    (tmp_path / "garbled.gpzed").write_bytes(parts.sealed())
    assert models.judge("garbled", tmp_path / "garbled.gpzed", "").outcome == "refused"
