"""Finished chunks of a prediction run, kept on disk so that a killed run can be resumed.

The folder ``OUT.parts`` holds a manifest that says what the run is, and one NumPy file per finished chunk with the
computed columns, each written atomically: a file that is there is whole.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from gpzed._files import write_atomically
from gpzed._types import AnyArray
from gpzed.errors import CatalogError, ConfigError

MANIFEST = "manifest.json"
LOCK = "lock.json"
"""Holds the process that writes to the folder, and its machine."""
_held: set[str] = set()  # locks of this process


class FinishedChunks:
    """The folder of finished chunks."""

    def __init__(self, output: Path, manifest: dict[str, Any], resume: bool) -> None:
        self.folder = output.with_name(output.name + ".parts")
        text = json.dumps(manifest, indent=1, sort_keys=True)
        if self.folder.exists():
            self._refuse_if_held()
            self._check(text, resume)
        try:
            self.folder.mkdir(exist_ok=True)
            self._hold()
            if not (self.folder / MANIFEST).exists():
                write_atomically(self.folder / MANIFEST, text.encode())
        except OSError as error:
            raise CatalogError(
                f"'{self.folder}' cannot be written: {error.strerror}; check the folder and the disk"
            ) from error

    def _check(self, text: str, resume: bool) -> None:
        stored = self.folder / MANIFEST
        if not resume:
            raise ConfigError(
                f"'{self.folder}' is left from an interrupted run; add --resume to resume it, or delete the folder to "
                "start afresh"
            )
        if stored.exists() and stored.read_text() != text:
            changed = _difference(json.loads(stored.read_text()), json.loads(text))
            raise ConfigError(
                f"'{self.folder}' belongs to another run: {changed} is not the same; give the same model, catalogue "
                "and options to resume it, or delete the folder to start afresh"
            )

    def _hold(self) -> None:
        """Take the lock, or that of a process that is gone."""
        path = self.folder / LOCK
        owner = json.dumps({"pid": os.getpid(), "machine": platform.node()}).encode()
        for _ in range(2):
            try:
                descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
            except FileExistsError:
                self._refuse_if_held()
                path.unlink(missing_ok=True)
            else:
                break
        else:  # another process was quicker
            raise ConfigError(f"'{self.folder}' is in use by another run; let it finish")
        try:
            os.write(descriptor, owner)
        finally:
            os.close(descriptor)
        _held.add(str(path.resolve()))

    def _refuse_if_held(self) -> None:
        path = self.folder / LOCK
        try:
            owner = json.loads(path.read_text())
            pid, machine = int(owner["pid"]), str(owner["machine"])
        except (OSError, ValueError, KeyError, TypeError):
            return  # no lock, or one that a killed process did not finish
        if machine == platform.node() and not _is_running(pid, str(path.resolve())):
            return
        raise ConfigError(
            f"'{self.folder}' is in use by process {pid} on {machine}; let it finish, or stop it and add "
            f"--resume (if there is no such process, delete '{path}')"
        )

    def release(self) -> None:
        """Give the folder back, for a later run to resume."""
        path = self.folder / LOCK
        _held.discard(str(path.resolve()))
        with contextlib.suppress(OSError):
            path.unlink()

    @property
    def n_done(self) -> int:
        """Number of finished chunks."""
        return len(list(self.folder.glob("*.npy")))

    def load(self, index: int) -> AnyArray | None:
        """Return the columns of a finished chunk as a structured array, None if it is not finished."""
        path = self._path(index)
        if not path.exists():
            return None
        try:
            values: AnyArray = np.load(path, allow_pickle=False)
        except (OSError, ValueError):  # damaged: compute it again
            return None
        return values

    def store(self, index: int, values: AnyArray) -> None:
        """Keep the columns of a finished chunk."""
        path = self._path(index)
        stream = io.BytesIO()
        np.save(stream, values, allow_pickle=False)
        try:
            write_atomically(path, stream.getvalue())
        except OSError as error:
            raise CatalogError(
                f"'{path}' could not be written: {error.strerror}; free some space or check the disk, then add --resume"
            ) from error

    def remove(self) -> None:
        """Delete the folder; the run is complete."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, index: int) -> Path:
        return self.folder / f"{index:08d}.npy"


def _is_running(pid: int, lock: str) -> bool:
    if pid == os.getpid():  # ours, or left by a process that had the same number
        return lock in _held
    if os.name == "nt":
        return True  # asking would end the process there
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True


def _difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    return next((f"`{key}`" for key in {**old, **new} if old.get(key) != new.get(key)), "the manifest")
