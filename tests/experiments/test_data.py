from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.data import Source, load_sets
from gpzed.config import RunConfig
from gpzed.errors import CatalogError, ConfigError
from workflows.galaxy_files import galaxies, write


def test_simulated_sets_are_disjoint_and_repeatable(tmp_path: Path) -> None:
    first = load_sets(Source(120, seed=3), tmp_path / "rows.npz")
    again = load_sets(Source(120, seed=3))
    cached = load_sets(Source(120, seed=3), tmp_path / "rows.npz")
    assert first.sha256 == again.sha256 == cached.sha256
    assert first.sha256 != load_sets(Source(120, seed=4)).sha256
    assert [len(rows) for rows in (first.train, first.valid, first.test)] == [120, 120, 120]
    assert first.names[:2] == ("mag_u", "mag_g")
    assert first.names[-1] == "ln_err_z"
    assert len(np.unique(np.concatenate([first.train.z, first.valid.z, first.test.z]))) == 360


def test_one_catalogue_is_split_in_three(tmp_path: Path) -> None:
    path = str(write(galaxies(330), tmp_path / "all.parquet"))
    sets = load_sets(Source(100, catalogues=(path,)))
    assert [len(rows) for rows in (sets.train, sets.valid, sets.test)] == [100, 100, 100]
    whole = load_sets(Source(100_000, catalogues=(path,)))
    assert len(whole.train) == 110
    assert whole.validation_data is not None


def test_catalogues_to_train_on_and_to_judge_by(tmp_path: Path) -> None:
    paths = [str(write(galaxies(n, seed=n), tmp_path / f"{n}.parquet")) for n in (110, 120, 130)]
    config = RunConfig().override("split", min_redshift=0.05)
    source = Source(1000, catalogues=tuple(paths[:2]), tests=tuple(paths[2:]), config=config)
    sets = load_sets(source)
    expected = [
        sum(int((galaxies(n, seed=n).floats("z_spec") > 0.05).sum()) for n in part) for part in ((110, 120), (130,))
    ]
    assert [len(sets.train), len(sets.test)] == expected
    assert sets.validation_data is None
    assert source.identity()["redshifts"] == [0.05, None]
    assert source.identity() != Source(1000, catalogues=tuple(paths[:2]), tests=tuple(paths[2:])).identity()


def test_bad_sources_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="`size` is 10; expected at least 100"):
        Source(10)
    with pytest.raises(ConfigError, match="none to train on"):
        Source(tests=("a.parquet",))
    path = str(write(galaxies(120), tmp_path / "few.parquet"))
    with pytest.raises(CatalogError, match="40 rows to train on and 40 to judge by are left"):
        load_sets(Source(catalogues=(path,)))


def test_different_photometry_does_not_mix(tmp_path: Path) -> None:
    table = galaxies(150)
    other = table.select([name for name in table.names if not name.endswith("_r")])
    paths = (str(write(table, tmp_path / "a.parquet")), str(write(other, tmp_path / "b.parquet")))
    with pytest.raises(CatalogError, match="choose common bands with --bands"):
        load_sets(Source(catalogues=paths))


def test_errors_may_be_left_out_of_the_inputs() -> None:
    source = Source(100, errors=False)
    sets = load_sets(source)
    assert sets.names == ("mag_u", "mag_g", "mag_r", "mag_i", "mag_z")
    assert source.identity() != Source(100).identity()
