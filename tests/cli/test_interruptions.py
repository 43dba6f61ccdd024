"""Killed in the middle, then resumed: in processes of their own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gpzed.catalog import read_catalog
from workflows.galaxy_files import galaxies, write

CLI = (sys.executable, "-m", "gpzed")
PATIENCE_SECONDS = 60.0


def start(*arguments: object) -> subprocess.Popen[str]:
    """Start the command line, open to Ctrl-C even where the tests run in the background of a shell."""
    return subprocess.Popen(
        [*CLI, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)


def finish(*arguments: object) -> str:
    done = subprocess.run([*CLI, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize("suffix", ["parquet", "fits"])
def test_predict_killed_and_resumed_is_the_same_byte_for_byte(suffix: str, folder: Path, tmp_path: Path) -> None:
    survey = write(galaxies(3000, seed=3), tmp_path / "survey.parquet")
    arguments = ("predict", folder / "model.gpzed", survey, "--chunk-rows", 30, "--quantiles", "0.16", "-o")
    finish(*arguments, tmp_path / f"smooth.{suffix}")
    out = tmp_path / f"killed.{suffix}"
    parts = tmp_path / f"killed.{suffix}.parts"
    process = start(*arguments, out)
    wait_for(lambda: len(list(parts.glob("*.npy"))) >= 5, process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert not out.exists()
    refused = subprocess.run([*CLI, *map(str, arguments), str(out)], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "--resume" in refused.stderr
    message = finish(*arguments, out, "--resume")
    assert "resuming: " in message
    assert re.search(r"of the [\d,]+ rows computed in this run \(flags: of all 3,000 rows\):", message)
    assert out.read_bytes() == (tmp_path / f"smooth.{suffix}").read_bytes()
    assert not parts.exists()
    assert not [p.name for p in tmp_path.iterdir() if p.name.startswith(".killed")]


@pytest.fixture
def slow_run(tmp_path: Path) -> tuple[object, ...]:
    write(galaxies(3000), tmp_path / "train.parquet")
    (tmp_path / "run.toml").write_text(
        "[model]\nn_members = 1\nn_heads = 1\nn_basis = 30\n[training]\nmax_iter = 60\npatience = 1000\ntol = 0.0\n"
    )
    options = ("--config", tmp_path / "run.toml", "--checkpoint-every", 1)
    return ("train", tmp_path / "train.parquet", *options, "-o")


def predictions(model: Path) -> np.ndarray:
    out = model.with_suffix(".csv")
    finish("predict", model, model.parent / "train.parquet", "-o", out)
    return read_catalog(out)["z_phot"]


def test_train_killed_and_resumed_predicts_the_same(slow_run: tuple[object, ...], tmp_path: Path) -> None:
    finish(*slow_run, tmp_path / "smooth.gpzed")
    model, state = tmp_path / "killed.gpzed", tmp_path / "killed.gpzed.checkpoint"
    process = start(*slow_run, model)
    wait_for(state.exists, process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert not model.exists()
    finish(*slow_run, model, "--resume")
    assert not state.exists()
    np.testing.assert_array_equal(predictions(model), predictions(tmp_path / "smooth.gpzed"))


def test_ctrl_c_in_training_leaves_a_checkpoint_and_says_how_to_go_on(
    slow_run: tuple[object, ...], tmp_path: Path
) -> None:
    model, state = tmp_path / "stopped.gpzed", tmp_path / "stopped.gpzed.checkpoint"
    process = start(*slow_run, model)
    wait_for(state.exists, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert "--resume" in err
    assert "Traceback" not in err
    assert state.exists()
    assert not model.exists()
    finish(*slow_run, model, "--resume")
    assert model.exists()


def test_ctrl_c_in_predicting_says_how_to_go_on(folder: Path, tmp_path: Path) -> None:
    survey = write(galaxies(60000, seed=3), tmp_path / "survey.parquet")
    out = tmp_path / "out.parquet"
    process = start("predict", folder / "model.gpzed", survey, "-o", out, "--chunk-rows", 20)
    wait_for(lambda: len(list((tmp_path / "out.parquet.parts").glob("*.npy"))) >= 3, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert "--resume" in err
    assert not out.exists()


def test_an_interrupt_in_text_that_runs_as_code_leaves_the_exit_code(tmp_path):
    """While dataclasses were being imported it made `python -m gpzed` end with Python's own signal."""
    (tmp_path / "sitecustomize.py").write_text(
        "import gpzed.cli\n"
        "def main():\n"
        "    try:\n        exec('raise KeyboardInterrupt')\n"
        "    except KeyboardInterrupt:\n        return 1\n"
        "gpzed.cli.main = main\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-m", "gpzed"], env=environment, check=False)
    assert done.returncode == 1
