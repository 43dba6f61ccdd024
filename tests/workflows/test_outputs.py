"""Outputs that are inputs, cannot be written, or were left half-finished."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpzed import _files
from gpzed._files import Lock, write_atomically
from gpzed.catalog import Catalog
from gpzed.cli import main
from gpzed.config import PredictConfig
from gpzed.errors import CatalogError, ConfigError, GPzWarning
from gpzed.workflows import Progress, predict, train
from workflows.galaxy_files import galaxies, quick_config, write

train_module = import_module("gpzed.workflows.train")
predict_module = import_module("gpzed.workflows.predict")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("outputs")
    write(galaxies(300), path / "in.parquet")
    train(path / "in.parquet", path / "model.gpzed", quick_config())
    predict(path / "model.gpzed", path / "in.parquet", path / "out.parquet")
    arguments = (path / "model.gpzed", path / "in.parquet", path / "points.parquet", PredictConfig(pdf="mixture"))
    predict(*arguments, pdf_file=path / "densities.parquet")
    (path / "run.toml").write_text("seed = 1\n")
    return path


COMMANDS = {
    "train": ("train {in} -o {OUT}", ["in.parquet"]),
    "train config": ("train {in} --config {run} -o {OUT}", ["run.toml"]),
    "train target": ("train {in} --target {out} -o {OUT}", ["out.parquet"]),
    "train checkpoint": ("train {in} --checkpoint {OUT} --resume -o {new}", ["in.parquet"]),
    "predict": ("predict {model} {in} -o {OUT}", ["model.gpzed", "in.parquet"]),
    "predict config": ("predict {model} {in} --config {run} -o {OUT}", ["run.toml"]),
    "predict densities": ("predict {model} {in} -o {new} --pdf mixture --pdf-file {OUT}", ["in.parquet"]),
    "select": ("select {out} --keep 0.5 -o {OUT}", ["out.parquet"]),
    "report": ("report {out} -o {OUT}", ["out.parquet"]),
    "nz": ("nz {out} -o {OUT}", ["out.parquet"]),
    "nz of densities": ("nz {points} -o {OUT}", ["densities.parquet"]),
    "select by densities": ("select {points} --keep 0.5 -o {OUT}", ["densities.parquet"]),
    "nz realisations": ("nz {out} --realisations {OUT}", ["out.parquet"]),
    "nz figure": ("nz {out} --figure {OUT}", ["out.parquet"]),
    "survey": ("survey {model} {in} -o {OUT}", ["model.gpzed", "in.parquet"]),
    "survey objects": ("survey {model} {in} --objects {OUT}", ["model.gpzed", "in.parquet"]),
    "survey figure": ("survey {model} {in} --figure {OUT}", ["in.parquet"]),
}
LINKS: dict[str, Callable[[Path, Path], None]] = {
    "itself": lambda source, link: None,
    "symbolic": lambda source, link: link.symlink_to(source),
    "hard": lambda source, link: link.hardlink_to(source),
}
CASES = [
    (command, name, link)
    for command, (_, names) in COMMANDS.items()
    for name in names
    for link in LINKS
    if (command, link) != ("report", "itself")  # a page ends in .html
]


@pytest.mark.parametrize(("command", "name", "link"), CASES)
def test_no_command_overwrites_its_inputs(
    command: str, name: str, link: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    suffix = ".html" if command == "report" else Path(name).suffix
    output = folder / name if link == "itself" else tmp_path / f"link{suffix}"
    LINKS[link](folder / name, output)
    files = {path.stem: str(path) for path in folder.iterdir()}
    words = COMMANDS[command][0].format_map({**files, "OUT": str(output), "new": str(tmp_path / "new.parquet")}).split()
    assert main(words) == 2
    assert "would overwrite" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_an_output_inside_the_folder_that_is_read_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    source = write(galaxies(30), tmp_path / "many" / "a.parquet")
    with pytest.raises(ConfigError, match="would overwrite"):
        predict(folder / "model.gpzed", tmp_path / "many", tmp_path / "many" / "out.parquet")
    (tmp_path / "link.parquet").hardlink_to(source)
    with pytest.raises(ConfigError, match="would overwrite"):
        predict(folder / "model.gpzed", tmp_path / "many", tmp_path / "link.parquet")


def test_two_outputs_must_not_be_the_same(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "new.csv")
    words = ["survey", str(folder / "model.gpzed"), str(folder / "in.parquet"), "-o", out, "--objects", out]
    assert main(words) == 2
    assert "would overwrite" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="no such pipes")
def test_pipes_are_neither_read_nor_replaced(folder: Path, tmp_path: Path) -> None:
    """Renaming a file to the name of a device would replace it, if root does so."""
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match="is no file but a pipe or device, which would be replaced"):
        predict(folder / "model.gpzed", folder / "in.parquet", pipe)
    with pytest.raises(CatalogError, match="is no file but a pipe or device, which cannot be read twice"):
        predict(folder / "model.gpzed", pipe, tmp_path / "out.csv")
    with pytest.raises(CatalogError, match="is no file but a pipe or device"):
        train(pipe, tmp_path / "model.gpzed", quick_config())
    assert list(tmp_path.iterdir()) == [pipe]
    assert pipe.is_fifo()


def test_train_refuses_an_output_that_cannot_be_written_before_training(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train_module, "_prepare", None)  # no work is done
    with pytest.raises(ConfigError, match="is a folder; give the name of a file"):
        train(folder / "in.parquet", tmp_path, quick_config())

    def read_only(target: Path) -> Path:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(_files, "create_beside", read_only)
    with pytest.raises(ConfigError, match=r"nothing can be written to folder .*Read-only file system"):
        train(folder / "in.parquet", tmp_path / "model.gpzed", quick_config())


def test_temporary_files_of_killed_processes_are_removed_but_not_those_of_others(tmp_path: Path) -> None:
    target = tmp_path / "a.csv"
    killed = "from gpzed import _files; import os, pathlib, sys; _files.create_beside(pathlib.Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", killed, str(target)], check=True)
    alive, other = _files.create_beside(target), _files.create_beside(tmp_path / "a.csv.checkpoint")
    foreign = tmp_path / ".a.csv.0123abcd.part"
    foreign.touch()
    write_atomically(target, b"whole")
    assert set(tmp_path.iterdir()) == {target, alive, other, foreign}


def test_a_lock_is_free_when_its_process_is_gone_and_only_then(tmp_path: Path) -> None:
    path = tmp_path / "lock.json"
    code = "import pathlib; from gpzed._files import Lock; Lock(pathlib.Path('lock.json')); print(flush=True); input()"
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, **pipes) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(ConfigError, match=f"in use by process {process.pid} on"):
            Lock(path)
        path.write_text("")  # as if it had only just been created
        with pytest.raises(ConfigError, match="in use by another process"):
            Lock(path)
        process.kill()
    Lock(path).release()
    assert not path.exists()


class Listener(Progress):
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def cut(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    payload = bytearray(path.read_bytes())
    payload[len(payload) // 2] ^= 4
    path.write_bytes(payload)


def garble(path: Path) -> None:
    path.write_bytes(np.random.default_rng(0).bytes(500))


@pytest.mark.parametrize("damage", [cut, flip, garble])
@pytest.mark.parametrize("name", ["00000001.npy", "manifest"])
def test_damaged_parts_are_computed_again(
    name: str, damage: Callable[[Path], None], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, listener = PredictConfig(chunk_rows=50), Listener()
    arguments = (folder / "model.gpzed", folder / "in.parquet")
    predict(*arguments, tmp_path / "smooth.parquet", options)
    out = tmp_path / "bumpy.parquet"
    with monkeypatch.context() as patch:
        patch.setattr(predict_module.FinishedChunks, "remove", lambda self: None)
        predict(*arguments, out, options)
    out.unlink()
    damage(tmp_path / "bumpy.parquet.parts" / name)
    report = predict(*arguments, out, options, resume=True, progress=listener)
    assert len(listener.warnings) == 1
    assert name in listener.warnings[0]
    assert report.n_resumed == (0 if name == "manifest" else 250)
    assert out.read_bytes() == (tmp_path / "smooth.parquet").read_bytes()
    assert not (tmp_path / "bumpy.parquet.parts").exists()


def test_a_run_keeps_others_out_until_all_its_parts_are_gone(tmp_path: Path) -> None:
    arguments = (tmp_path / "out.parquet", {"rows": 3}, False, pytest.fail)
    first = predict_module.FinishedChunks(*arguments)
    first.store(0, np.zeros(3))
    first.remove()
    with pytest.raises(ConfigError, match="in use by process"):  # it would find parts that are being deleted
        predict_module.FinishedChunks(*arguments)
    first.release()
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_called_that(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(temporary: Path, target: Path, *, tidy: bool = True) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(_files, "commit", full)
    assert main(["report", str(folder / "out.parquet"), "-o", str(tmp_path / "page.html")]) == 1
    assert f"'{tmp_path / 'page.html'}' cannot be read or written: the disk is full" in capsys.readouterr().err
    assert (
        main(["predict", str(folder / "model.gpzed"), str(folder / "in.parquet"), "-o", str(tmp_path / "x.csv")]) == 1
    )
    assert "could not be written: the disk is full" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("when", [0, 2, 5])
def test_an_input_that_changes_during_predict_is_noticed(
    when: int, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    survey, other = write(galaxies(300, seed=1), tmp_path / "in.csv"), galaxies(300, seed=2)
    original, calls = predict_module.PredictionRun._compute, []

    def compute(self: Any, table: Any) -> Any:
        calls.append(table)
        if len(calls) == when + 1:  # in place: the same file, with other rows
            survey.write_bytes(write(other, tmp_path / "other.csv").read_bytes())
        return original(self, table)

    monkeypatch.setattr(predict_module.PredictionRun, "_compute", compute)
    with pytest.raises(CatalogError, match=r"in.csv' changed while it was in use.*what was made from it is removed"):
        predict(folder / "model.gpzed", survey, tmp_path / "out.csv", PredictConfig(chunk_rows=50))
    assert {path.name for path in tmp_path.iterdir()} == {"in.csv", "other.csv"}


class FakeCatalogue:
    """Stands for a catalogue of LSDB: knows its columns, and writes a folder."""

    columns = ("ra", "dec", "mag_u", "mag_err_u", "mag_g", "mag_err_g", "mag_r", "mag_err_r")
    hc_structure = SimpleNamespace(
        catalog_info=SimpleNamespace(ra_column="ra", dec_column="dec"), catalog_base_dir="nowhere"
    )
    fails = False

    def __len__(self) -> int:
        return 7

    def get_healpix_pixels(self) -> list[int]:
        return []  # nothing to look at before the work

    def map_partitions(self, *arguments: Any) -> FakeCatalogue:
        return self

    def write_catalog(self, target: Path, **options: Any) -> None:
        target.mkdir(exist_ok=True)
        if FakeCatalogue.fails:
            raise OSError("power cut")
        (target / "dataset").mkdir()
        write(Catalog({"z_flags": np.array([0, 2, 2], dtype=np.uint32)}), target / "dataset" / "a.parquet")


def test_a_hats_catalogue_is_resumed_only_by_the_same_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("dask")
    module = import_module("gpzed.distributed.lsdb")
    monkeypatch.setattr(module, "_require_lsdb", lambda: SimpleNamespace(open_catalog=lambda *a, **k: FakeCatalogue()))
    survey, out = tmp_path / "hats", tmp_path / "out"
    monkeypatch.setattr(FakeCatalogue.hc_structure, "catalog_base_dir", out)
    survey.mkdir()
    (survey / "hats.properties").touch()
    write(galaxies(10), survey / "a.parquet")
    monkeypatch.setattr(FakeCatalogue, "fails", True)
    with (
        pytest.raises(OSError, match="power cut"),
        pytest.warns(GPzWarning, match=r"nothing to resume: there is no '.*out\.parts'; the run starts"),
    ):
        predict(folder / "model.gpzed", survey, out, resume=True)
    monkeypatch.setattr(FakeCatalogue, "fails", False)
    with pytest.raises(ConfigError, match="left from an interrupted run; add --resume"):
        predict(folder / "model.gpzed", survey, out)
    with pytest.raises(ConfigError, match="belongs to another run: `point` is not the same"):
        predict(folder / "model.gpzed", survey, out, PredictConfig(point="mode"), resume=True)
    report = predict(folder / "model.gpzed", survey, out, resume=True)
    assert (report.n_rows, report.flags) == (7, {"NOT_DETECTED": 2})
    assert not (tmp_path / "out.parts").exists()
    with pytest.raises(ConfigError, match="is there already, and is not left from an interrupted run"):
        predict(folder / "model.gpzed", survey, out, resume=True)
