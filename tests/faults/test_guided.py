"""Inputs that the guided fuzzer found worth keeping: each is refused or sound, as on the day it was found."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.guided import CORPUS, FOLLOWED, target_of


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("target", FOLLOWED)
def test_the_corpus_holds(target: str, tmp_path: Path) -> None:
    files = sorted((CORPUS / target).iterdir())
    assert len(files) > 10
    attempt = target_of(target, tmp_path)
    cases = {file.name: attempt(file.read_bytes()) for file in files}
    assert {name: case for name, case in cases.items() if not case.held} == {}


@pytest.mark.slow
def test_a_few_guided_inputs_hold(tmp_path: Path) -> None:
    pytest.importorskip("atheris")
    import numpy as np

    from faults import guided

    with pytest.warns(UserWarning, match="max_iter"):  # of the models to begin with
        cases = list(guided.run(400, np.random.default_rng(0), tmp_path))
    assert [case for case in cases if not case.held] == []
    assert {case.fault for case in cases} == {"guided model", "guided ecsv"}
    assert len(cases) >= 400
