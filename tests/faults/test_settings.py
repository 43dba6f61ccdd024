"""A few hostile configurations; the campaign itself is `python -m faults settings`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from faults import settings
from gpzed.config import RunConfig, as_config, load_config
from gpzed.errors import ConfigError


def test_hostile_configurations_are_refused_by_name_or_accepted_and_valid(tmp_path: Path) -> None:
    cases = list(settings.run(300, np.random.default_rng(0), tmp_path))
    assert len(cases) == 300
    assert [case for case in cases if not case.held] == []
    assert {case.outcome for case in cases} == {"accepted", "refused"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[model]\nn_members = 1000000000000", r"`n_members` is 1000000000000; .* number >= 1, at most 1000"),
        ("[model]\nn_basis = 1000000000", r'`n_basis` is 1000000000; .* or "auto", at most 100000'),
        ("[training]\nn_epochs = 99999999999", "`n_epochs` is 99999999999; .* at most 1000000"),
        ("[target]\nn_neighbours = 99999999999", "`n_neighbours` is 99999999999; .* at most a million"),
        ("[predict]\nchunk_rows = 99999999999", "`chunk_rows` is 99999999999; .* at most a billion"),
        (f"seed = {10**25}", "`seed` is or holds a number of 84 bits"),
        (f"[training]\ntol = {10**400}", "`training.tol` is or holds a number of 1329 bits"),
        ("[split]\nmin_redshift = inf", "`split.min_redshift` is or holds inf; expected finite numbers"),
        ("[weights]\nmax_weight = nan", "`weights.max_weight` is or holds nan"),
        ("[sentinels]\nlimits = {u = nan}", "`sentinels.limits` is or holds nan"),
        ("[model]\ncovariance = '" + "x" * 5000 + "'", "`model.covariance` has a text of 5000 characters; expected"),
        ("[model]\nn_heads = " + "[" * 50 + "]" * 50, "`model.n_heads` has more than 10000 entries, or lists within"),
        ("[model]\nn_heads = " + "[" * 5000 + "]" * 5000, "is not valid TOML: lists within lists go too deep"),
        ("[model]\nn_heads = " + "9" * 5000, "is not valid TOML: .*limit"),
        ("model = [1, 2]", r"`model` is \[1, 2\]; expected a section"),
    ],
)  # fmt: skip
def test_once_foreign_errors_or_accepted(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "run.toml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_config(tmp_path / "run.toml")


def test_options_from_python_are_checked_alike() -> None:
    with pytest.raises(ConfigError, match="`n_members` is 1000000000000; expected a whole number >= 1, at most 1000"):
        as_config(None, {"n_members": 10**12})
    nested: list[object] = []
    for _ in range(5000):
        nested = [nested]
    with pytest.raises(ConfigError, match=r"`model.n_heads` has more than 10000 entries"):
        RunConfig.from_dict({"model": {"n_heads": nested}})
    with pytest.raises(ConfigError, match=r"`model` is \[\[.*\.\.\.\]+; expected a section"):
        RunConfig.from_dict({"model": nested})
