"""`gpzed train --dask`: files that the workers read themselves."""

from __future__ import annotations

import numpy as np
import pytest

from gpzed import Run
from gpzed.catalog import write_catalog
from gpzed.cli import main
from gpzed.config import RunConfig
from gpzed.distributed import train as train_cluster
from gpzed.distributed.train import Source
from gpzed.errors import ConfigError
from gpzed.workflows import load_photoz_model, train
from workflows.galaxy_files import galaxies, quick_config, write


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("training")
    whole = galaxies(600)
    z = whole["z_spec"].copy()
    z[::50] = np.nan
    whole = whole.with_columns({"z_spec": z, "w": np.linspace(0.5, 2.0, 600)})
    write(whole, path / "whole.parquet")
    (path / "files").mkdir()
    for name, (start, stop) in {"a": (0, 100), "b": (100, 450), "c": (450, 600)}.items():
        write_catalog(whole.slice(start, stop), path / "files" / f"{name}.parquet")
    return path


def redshifts(model, seed=9):
    trained = load_photoz_model(model)
    from gpzed.workflows import predict_table

    return predict_table(trained, galaxies(200, seed=seed))[0].mean


def test_a_file_is_spread_and_gives_the_same_model(client, folder, tmp_path, monkeypatch):
    monkeypatch.setattr("gpzed.distributed.data.MIN_SPREAD_ROWS", 0)
    config = quick_config()
    train(folder / "whole.parquet", tmp_path / "here.gpzed", config)
    train(folder / "whole.parquet", tmp_path / "there.gpzed", config, run=Run(cluster=client))
    np.testing.assert_allclose(redshifts(tmp_path / "there.gpzed"), redshifts(tmp_path / "here.gpzed"), rtol=1e-6)


@pytest.mark.parametrize(
    "sections", [{}, {"weights": {"method": "redshift"}, "split": {"test": 0.2, "validation": 0.2}}]
)
def test_a_folder_is_read_by_the_workers(client, folder, tmp_path, sections):
    said = []
    model = train(
        folder / "files",
        tmp_path / "model.gpzed",
        quick_config(**sections),
        run=Run(cluster=client),
        on_plan=said.append,
    )
    counts = said[0].counts
    assert (counts["read"], counts["no redshift"]) == (600, 12)
    parts = sections.get("split", {"test": 0.0})
    assert counts["test"] == pytest.approx(588 * parts["test"], abs=40)
    truth = galaxies(200, seed=9)["z_spec"]
    assert np.std(redshifts(tmp_path / "model.gpzed") - truth) < 0.1
    assert model.report.scores["train"]["rmse"] < 0.1
    assert load_photoz_model(tmp_path / "model.gpzed").n_components == model.n_components


def test_sample_and_workers_agree_on_the_split(folder):
    config = RunConfig.from_dict({"split": {"test": 0.3, "validation": 0.1}})
    source = Source(("z_spec",), None, config)
    whole = source.read(folder / "whole.parquet", 0)
    pieces = [
        source.read(folder / "files" / f"{name}.parquet", start) for name, start in (("a", 0), ("b", 100), ("c", 450))
    ]
    codes = whole[train_cluster.SPLIT_COLUMN]
    np.testing.assert_array_equal(np.concatenate([piece[train_cluster.SPLIT_COLUMN] for piece in pieces]), codes)
    assert np.bincount(codes) == pytest.approx([360, 60, 180], abs=40)
    some = source.read(folder / "whole.parquet", 0, 0.25)
    assert len(some) == pytest.approx(150, abs=40)


def test_weights_that_need_all_rows_are_refused(client, folder, tmp_path):
    with pytest.raises(ConfigError, match="on a cluster use one of none, redshift, column"):
        train(folder / "files", tmp_path / "m", quick_config(weights={"method": "balanced"}), run=Run(cluster=client))


def test_by_the_command_line(client, folder, tmp_path, capsys):
    arguments = ["train", str(folder / "files"), "--n-basis", "5", "--max-iter", "3", "-o", str(tmp_path / "m.gpzed")]
    assert main([*arguments, "--dask", client.scheduler.address]) == 0
    captured = capsys.readouterr()
    assert "3 files with 600 rows" in captured.err
    assert main([*arguments, "--dask", "nonsense"]) == 2
    assert "local:N" in capsys.readouterr().err


def test_a_target_needs_the_rows_here(client, folder, tmp_path):
    config = quick_config(target={"catalogue": str(folder / "whole.parquet")})
    with pytest.raises(ConfigError, match="cannot be made to look like a target"):
        train(folder / "files", tmp_path / "m.gpzed", config, run=Run(cluster=client))
