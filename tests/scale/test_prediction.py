"""Prediction for folders of Parquet files: file by file, repeated, resumed, with workers that die."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import threading
import time

import numpy as np
import pytest

from gpzed.catalog import read_catalog, write_catalog
from gpzed.config import PredictConfig
from gpzed.errors import CatalogError, ConfigError, GPzWarning
from gpzed.workflows import predict, train
from workflows.galaxy_files import galaxies, quick_config, with_sentinels, write


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("partitions")
    write(galaxies(300), path / "train.parquet")
    train(path / "train.parquet", path / "model.gpzed", quick_config())
    whole = with_sentinels(galaxies(500, seed=5))
    write(whole, path / "whole.parquet")
    (path / "survey" / "deep").mkdir(parents=True)
    for name, (start, stop) in {"a": (0, 200), "b": (200, 201), "deep/c": (201, 201), "deep/d": (201, 500)}.items():
        write_catalog(whole.slice(start, stop), path / "survey" / f"{name}.parquet")
    return path


def tree(root):
    return {
        str(file.relative_to(root)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in root.rglob("*")
        if file.is_file()
    }


def test_one_file_for_every_file_with_the_rows_of_plain_prediction(client, folder, tmp_path):
    options = PredictConfig(quantiles=(0.16,), chunk_rows=64)
    report = predict(folder / "model.gpzed", folder / "survey", tmp_path / "out", options, cluster=client)
    assert set(tree(tmp_path / "out")) == {"a.parquet", "b.parquet", "deep/c.parquet", "deep/d.parquet"}
    assert not (tmp_path / "out.parts").exists()
    plain = predict(folder / "model.gpzed", folder / "whole.parquet", tmp_path / "plain.parquet", options)
    assert (report.n_rows, report.n_resumed, report.flags) == (500, 0, plain.flags)
    assert report.sentinels.to_dict() == plain.sentinels.to_dict()
    expected, found = read_catalog(tmp_path / "plain.parquet"), read_catalog(tmp_path / "out")
    assert found.names == expected.names
    for name in expected.names:
        if expected[name].dtype.kind == "f":  # BLAS may add in another order for a file of one row
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-6)
        else:
            np.testing.assert_array_equal(found[name], expected[name])


def test_again_is_nothing_new_and_another_run_is_refused(client, folder, tmp_path):
    arguments = (folder / "model.gpzed", folder / "survey", tmp_path / "out")
    with pytest.warns(GPzWarning, match=r"nothing to resume: there is no '.*out\.parts'; the run starts"):
        first = predict(*arguments, cluster=client, resume=True)
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "out").rglob("*.parquet")}
    again = predict(*arguments, cluster=client)
    assert again.n_resumed == again.n_rows == 500
    assert again.flags == first.flags
    assert {file: file.stat().st_mtime_ns for file in before} == before
    with pytest.raises(ConfigError, match="from another model, catalogue or other options"):
        predict(*arguments, PredictConfig(quantiles=(0.5,)), cluster=client)


def test_a_damaged_file_stops_the_run_and_leaves_what_is_finished(client, folder, tmp_path):
    arguments = (folder / "model.gpzed", folder / "survey")
    predict(*arguments, tmp_path / "smooth", cluster=client)
    out = tmp_path / "out"
    (tmp_path / "damaged").mkdir()
    for file in (folder / "survey").rglob("*.parquet"):
        copy = tmp_path / "damaged" / file.relative_to(folder / "survey")
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(file.read_bytes())
    bad = tmp_path / "damaged" / "deep" / "d.parquet"
    payload = bytearray(bad.read_bytes())
    half = len(payload) // 2
    payload[20:half] = bytes(half - 20)
    bad.write_bytes(payload)
    with pytest.raises(CatalogError, match=r"d\.parquet"):
        predict(folder / "model.gpzed", tmp_path / "damaged", out, cluster=client)
    with pytest.raises(ConfigError, match="--resume"):
        predict(folder / "model.gpzed", tmp_path / "damaged", out, cluster=client)
    assert not (out / "deep" / "d.parquet").exists()
    for file in out.rglob("*.parquet"):  # what is there is whole
        assert len(read_catalog(file)) == len(read_catalog(tmp_path / "smooth" / file.relative_to(out)))


def test_a_file_that_changes_meanwhile_is_noticed(client, folder, tmp_path):
    shutil.copytree(folder / "survey", tmp_path / "survey")
    out, changed = tmp_path / "out", tmp_path / "survey" / "deep" / "d.parquet"
    many = galaxies(300_000)  # still being predicted when d turns out changed
    write_catalog(many, tmp_path / "survey" / "a.parquet")

    def change(*_):
        other = write(galaxies(299, seed=6), tmp_path / "other.parquet")
        changed.write_bytes(other.read_bytes())

    with pytest.raises(CatalogError, match=r"changed while it was in use.*what was made from it is removed"):
        predict(folder / "model.gpzed", tmp_path / "survey", out, cluster=client, on_plan=change)
    time.sleep(2.0)  # nobody writes any more
    assert not list(out.rglob("*.parquet"))
    assert not (tmp_path / "out.parts").exists()


def test_arguments_that_do_not_fit(client, folder, tmp_path):
    with pytest.raises(ConfigError, match=r"is not a folder.*leave out --dask"):
        predict(folder / "model.gpzed", folder / "whole.parquet", tmp_path / "out", cluster=client)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="is a file"):
        predict(folder / "model.gpzed", folder / "survey", tmp_path / "file", cluster=client)


@pytest.mark.slow
def test_a_worker_killed_in_mid_prediction_changes_nothing(own_client, folder, tmp_path):
    survey = tmp_path / "survey"
    survey.mkdir()
    for index in range(12):
        write_catalog(galaxies(4000, seed=index), survey / f"{index:02d}.parquet")
    options = PredictConfig(chunk_rows=100)
    predict(folder / "model.gpzed", survey, tmp_path / "smooth", options, cluster=own_client)
    pids = sorted(own_client.run(os.getpid).values())
    killed = []

    def kill() -> None:
        while not list((tmp_path / "out").glob("*.parquet")):
            time.sleep(0.005)
        os.kill(pids[0], signal.SIGKILL)
        killed.append(len(list((tmp_path / "out").glob("*.parquet"))))

    thread = threading.Thread(target=kill)
    thread.start()
    predict(folder / "model.gpzed", survey, tmp_path / "out", options, cluster=own_client)
    thread.join()
    assert 1 <= killed[0] < 12
    assert tree(tmp_path / "out") == tree(tmp_path / "smooth")


@pytest.mark.slow
def test_killed_and_resumed_by_the_command_line(folder, tmp_path):
    import subprocess
    import sys

    survey = tmp_path / "survey"
    survey.mkdir()
    for index in range(8):
        write_catalog(galaxies(3000, seed=index), survey / f"{index}.parquet")
    command = [sys.executable, "-m", "gpzed", "predict", str(folder / "model.gpzed"), str(survey)]
    command += ["--dask", "local:1", "--chunk-rows", "100", "-o", str(tmp_path / "out")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 120
    while not list((tmp_path / "out").glob("*.parquet")) and time.monotonic() < end:
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert 1 <= len(list((tmp_path / "out").glob("*.parquet"))) < 8
    time.sleep(3.0)  # its worker notices
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "--resume" in refused.stderr
    done = subprocess.run([*command, "--resume"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(tree(tmp_path / "out")) == {f"{index}.parquet" for index in range(8)}
    with_threads = subprocess.run([*command, "--threads", "2"], capture_output=True, text=True, check=False)
    assert with_threads.returncode == 2
