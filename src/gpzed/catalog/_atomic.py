"""Files that appear under their name only when whole."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path


def create_beside(target: Path) -> Path:
    """Create an empty file with a new name in the folder of `target`, and return its path.

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
