"""Finished chunks of a prediction run, kept on disk so that a killed run can be resumed.

The folder ``OUT.parts`` holds a manifest that says what the run is, and one NumPy file per finished chunk with the
computed columns. Each is written atomically and ends in its checksum: what is damaged is computed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gpzed._files import Lock, discard, nothing_to_resume, reason, write_atomically
from gpzed._types import AnyArray
from gpzed.errors import CatalogError, ConfigError, GPzWarning

MANIFEST = "manifest"
LOCK = "lock.json"
"""Holds the process that writes to the folder, and its machine."""
DIGEST_BYTES = 32


class FinishedChunks:
    """The folder of finished chunks of a run that writes to `output`; only one process at a time may have it.

    The `manifest` is what decides the result, to the byte, in plain JSON types. With `resume`, a folder that an
    interrupted run left is used, if its manifest is the same; `warn` is told of what is damaged in it.
    """

    def __init__(self, output: Path, manifest: dict[str, Any], resume: bool, warn: Callable[[str], None]) -> None:
        self.output = output
        self.folder = output.with_name(output.name + ".parts")
        self._warn = warn
        try:
            self._lock = Lock(self.folder / LOCK)
        except OSError as error:
            raise self._failure(self.folder, error) from error
        try:
            self._settle(manifest, resume)
        except BaseException:
            self.release()
            raise

    @staticmethod
    def is_there(output: Path) -> bool:
        """Tell whether a run that writes to `output` was interrupted, or is under way."""
        return (output.with_name(output.name + ".parts") / MANIFEST).exists()

    def _settle(self, manifest: dict[str, Any], resume: bool) -> None:
        """Check the manifest that is there, or write it."""
        path = self.folder / MANIFEST
        if path.exists() and not resume:
            raise ConfigError(
                f"'{self.folder}' is left from an interrupted run; add --resume to resume it, or delete the folder to "
                "start afresh"
            )
        is_new = not path.exists()
        payload = self._load(path)
        self.is_resumed = payload is not None
        if payload is None:
            for part in self.folder.glob("*.npy"):  # nobody knows of which run
                part.unlink()
            self._store(path, json.dumps(manifest, indent=1, sort_keys=True).encode())
            if resume and is_new and not self.output.is_dir():  # whose files are kept, or refused
                warnings.warn(nothing_to_resume(self.output, self.folder), GPzWarning, stacklevel=4)
            return
        old, new = json.loads(payload), json.loads(json.dumps(manifest))
        changed = next((key for key in {**old, **new} if old.get(key) != new.get(key)), None)
        if changed is not None:
            raise ConfigError(
                f"'{self.folder}' belongs to another run: `{changed}` is not the same; give the same model, catalogue "
                "and options to resume it, or delete the folder to start afresh"
            )

    @property
    def n_done(self) -> int:
        """Number of finished chunks."""
        return len(list(self.folder.glob("*.npy")))

    def load(self, index: int) -> AnyArray | None:
        """Return the columns of a finished chunk as a structured array, None if there is no such chunk."""
        payload = self._load(self._path(index))
        if payload is None:
            return None
        values: AnyArray = np.load(io.BytesIO(payload), allow_pickle=False)
        return values

    def store(self, index: int, values: AnyArray) -> None:
        """Keep the columns of a finished chunk."""
        stream = io.BytesIO()
        np.save(stream, values, allow_pickle=False)
        self._store(self._path(index), stream.getvalue())

    def release(self) -> None:
        """Give the folder back, for a later run to resume; it goes if there is nothing in it."""
        self._lock.release()
        with contextlib.suppress(OSError):  # it is not empty
            self.folder.rmdir()

    def remove(self) -> None:
        """Delete all that the folder holds but the lock: until `release`, another run would meet what is half gone."""
        with contextlib.suppress(OSError):  # somebody else has deleted it
            for path in self.folder.iterdir():
                if path != self._lock.path:
                    discard(path)

    def _path(self, index: int) -> Path:
        return self.folder / f"{index:08d}.npy"

    def _load(self, path: Path) -> bytes | None:
        """Return what was stored in a file, None if it is not there or not as it was."""
        try:
            stored = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(f"'{path}' cannot be read ({error.strerror}); it is computed again")
            return None
        payload, digest = stored[:-DIGEST_BYTES], stored[-DIGEST_BYTES:]
        if hashlib.sha256(payload).digest() == digest:
            return payload
        self._warn(f"'{path}' is damaged; what it held is computed again")
        return None

    def _store(self, path: Path, payload: bytes) -> None:
        try:
            write_atomically(path, payload + hashlib.sha256(payload).digest(), tidy=False)
        except OSError as error:
            raise self._failure(path, error) from error

    @staticmethod
    def _failure(path: Path, error: OSError) -> CatalogError:
        return CatalogError(
            f"'{path}' could not be written: {reason(error)}; free some space or check the disk, then add --resume"
        )
