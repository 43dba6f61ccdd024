"""Files written so that they appear under their name only when whole, and what identifies a file that is read."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from pathlib import Path
from typing import Any

from gpzed.errors import ConfigError


def write_atomically(path: str | os.PathLike[str], payload: bytes) -> None:
    """Write bytes under a temporary name, flush them to disk and rename: a crash leaves the old file or the new one."""
    target = Path(path)
    temporary = create_beside(target)
    try:
        temporary.write_bytes(payload)
        commit(temporary, target)
    except BaseException:
        discard(temporary)
        raise


def create_beside(target: Path) -> Path:
    """Create an empty file with a unique name in the folder of `target`, and return its path.

    The name starts with a dot and ends in ``.part``: directory readers pass over it.
    """
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    return temporary


def commit(temporary: Path, target: Path) -> None:
    """Flush `temporary` to disk and give it the name `target`, replacing what was there."""
    descriptor = os.open(temporary, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(temporary, target)
    with contextlib.suppress(OSError):  # some file systems cannot fsync a folder
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def discard(temporary: Path) -> None:
    """Remove the temporary file if it is there."""
    with contextlib.suppress(OSError):
        temporary.unlink()


def discard_leftovers(target: Path) -> None:
    """Remove temporary files of `target` that a killed process left behind."""
    for file in target.parent.iterdir():
        if file.name.startswith(f".{target.name}.") and file.suffix == ".part":
            discard(file)


def require_folder(path: str | os.PathLike[str], what: str) -> None:
    """Refuse an output file in a folder that does not exist, before any work is done."""
    folder = Path(path).parent
    if not folder.is_dir():
        raise ConfigError(f"folder '{folder}' does not exist; create it, or write {what} elsewhere")


def file_hash(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file, or of the files of a folder in the order of their names."""
    digest = hashlib.sha256()
    root = Path(path)
    for file in sorted(p for p in root.rglob("*") if p.is_file()) if root.is_dir() else [root]:
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def file_identity(path: str | os.PathLike[str]) -> list[list[Any]]:
    """Return name, size and time of change of a file, or of the files of a folder: changes when they do."""
    root = Path(path)
    files = sorted(p for p in root.rglob("*") if p.is_file()) if root.is_dir() else [root]
    return [[str(p.resolve()), p.stat().st_size, p.stat().st_mtime_ns] for p in files]
