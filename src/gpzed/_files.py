"""Files that appear under their name only when whole, outputs checked before the work begins, and locks."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import platform
import re
import secrets
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self

from gpzed.errors import ConfigError

if sys.platform != "win32":
    import fcntl

_MACHINE = hashlib.sha256(platform.node().encode()).hexdigest()[:4]


def write_atomically(path: str | os.PathLike[str], payload: bytes, *, tidy: bool = True) -> None:
    """Write bytes under a temporary name, flush them to disk and rename: a crash leaves the old file or the new one."""
    with replacing(path, tidy=tidy) as temporary:
        temporary.write_bytes(payload)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, tidy: bool = True) -> Iterator[Path]:
    """Give a temporary file to write to, which gets the name `path` at the end, and is removed after an error."""
    target = Path(path)
    temporary = create_beside(target)
    try:
        yield temporary
        commit(temporary, target, tidy=tidy)
    except OSError as error:
        discard(temporary)
        raise OSError(error.errno, reason(error), os.fspath(path)) from error
    except BaseException:
        discard(temporary)
        raise


def create_beside(target: Path) -> Path:
    """Create an empty file in the folder of `target`, and return its path.

    The name starts with a dot and ends in ``.part``: directory readers pass over it. It also holds machine and process.
    """
    temporary = target.with_name(f".{target.name}.{_MACHINE}{secrets.token_hex(2)}-{os.getpid()}.part")
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    return temporary


def commit(temporary: Path, target: Path, *, tidy: bool = True) -> None:
    """Flush `temporary` to disk and give it the name `target`, replacing what was there.

    With `tidy`, temporary files of killed processes that were to become `target` are removed.
    """
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
    if tidy:
        discard_leftovers(target)


def discard(temporary: Path) -> None:
    """Remove the temporary file if it is there."""
    with contextlib.suppress(OSError):
        temporary.unlink()


def discard_leftovers(target: Path) -> None:
    """Remove temporary files of `target` that killed processes of this machine left behind."""
    pattern = re.compile(rf"\.{re.escape(target.name)}\.{_MACHINE}[0-9a-f]{{4}}-(\d+)\.part")
    with contextlib.suppress(OSError):
        for name in os.listdir(target.parent):
            found = pattern.fullmatch(name)
            if found and not _is_running(int(found[1])):
                discard(target.with_name(name))


def _is_running(pid: int) -> bool:
    if sys.platform == "win32":
        return True  # asking would end the process there
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True


AnyPath = str | os.PathLike[str]


def reason(error: OSError) -> str:
    """Say why the system refused."""
    if error.errno == errno.ENOSPC or "No space left" in str(error):
        return "the disk is full"
    return error.strerror or " ".join(str(error).split()) or type(error).__name__


def refuse_overwriting(path: AnyPath, what: str, others: Iterable[AnyPath | None]) -> None:
    """Refuse an output that is one of the other files of a command, also through links, or lies in such a folder."""
    for other in others:
        if other is not None and _is_same(Path(path), Path(other)):
            raise ConfigError(f"'{path}' would overwrite '{other}'; write {what} elsewhere")


def check_output(path: AnyPath, what: str, others: Iterable[AnyPath | None] = (), *, is_folder: bool = False) -> None:
    """Refuse, before any work, an output that cannot be written, or that is one of the other files of a command."""
    if "://" in os.fspath(path):
        raise ConfigError(
            f"'{path}' is an address, where {what} cannot be written; write a file here, then copy it there"
        )
    refuse_overwriting(path, what, others)
    target = Path(path)
    if target.is_dir() and not is_folder:
        raise ConfigError(f"'{target}' is a folder; give the name of a file to write {what} to")
    if target.exists() and not target.is_dir() and not target.is_file():
        raise ConfigError(
            f"'{target}' is no file but a pipe or device, which would be replaced; write {what} to a file"
        )
    if is_folder and target.exists() and not target.is_dir():
        raise ConfigError(f"'{target}' is a file; give the name of a folder to write {what} to")
    if not target.parent.is_dir():
        raise ConfigError(f"folder '{target.parent}' does not exist; create it, or write {what} elsewhere")
    try:
        discard(create_beside(target))
    except OSError as error:
        raise ConfigError(
            f"nothing can be written to folder '{target.parent}' ({reason(error)}); write {what} elsewhere"
        ) from error


def nothing_to_resume(path: AnyPath, state: AnyPath) -> str:
    """Return the words for a run that is to be resumed but has left no `state`, and so begins anew."""
    replaced = f", and '{path}', which is there, will be replaced" if Path(path).is_file() else ""
    return f"nothing to resume: there is no '{state}'; the run starts from the beginning{replaced}"


def _is_same(target: Path, source: Path) -> bool:
    """Tell whether two names stand for one file, or the target is a file of the folder `source`."""
    if os.path.realpath(target) == os.path.realpath(source):
        return True
    if not source.is_dir():
        return target.exists() and source.exists() and target.samefile(source)
    if target.resolve().is_relative_to(source.resolve()):
        return True
    return target.is_file() and any(target.samefile(file) for file in files_of(source))


class Lock:
    """A lock file, held by one process until it is released or the process ends, however it ends.

    Parameters
    ----------
    path : Path
        The file; its folder is made if need be.
    what : path, optional
        What it stands for in messages; its folder by default.

    Raises
    ------
    ConfigError
        If another process holds it.
    """

    def __init__(self, path: Path, what: AnyPath | None = None) -> None:
        self.path, self.what = path, what or path.parent
        while True:
            path.parent.mkdir(exist_ok=True)
            try:
                self._descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
            except FileNotFoundError:  # the folder has just been removed
                continue
            try:
                self._take()
                if path.exists() and os.path.samestat(os.fstat(self._descriptor), path.stat()):
                    break
            except BaseException:
                os.close(self._descriptor)
                raise
            os.close(self._descriptor)  # of a file that its owner has just removed
        os.ftruncate(self._descriptor, 0)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        os.write(self._descriptor, json.dumps({"pid": os.getpid(), "machine": platform.node()}).encode())

    def _take(self) -> None:
        """Lock the file; locks of another machine may not be seen here, so its file always counts."""
        try:
            owner = json.loads(os.read(self._descriptor, 1000))
            pid, machine = int(owner["pid"]), str(owner["machine"])
            who = f"process {pid} on {machine}"
        except (ValueError, KeyError, TypeError):
            pid, machine, who = 0, platform.node(), "another process"
        try:
            if sys.platform == "win32":
                raise OSError("no such locks")
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_held = False
        except BlockingIOError:
            is_held = True
        except OSError:  # this file system has no locks
            is_held = pid > 0 and _is_running(pid)
        if is_held or machine != platform.node():
            raise ConfigError(
                f"'{self.what}' is in use by {who}; let it finish, or stop it and add --resume (if there is no "
                f"such process, delete '{self.path}')"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.release()

    def release(self) -> None:
        """Remove the file, and let others have it."""
        discard(self.path)
        os.close(self._descriptor)
        if sys.platform == "win32":
            discard(self.path)  # an open file cannot be removed there


def files_of(path: str | os.PathLike[str]) -> list[Path]:
    """Return a file, or the files of a folder in the order of their names."""
    root = Path(path)
    return sorted(file for file in root.rglob("*") if file.is_file()) if root.is_dir() else [root]


def file_hash(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file, or of the files of a folder in the order of their names."""
    digest = hashlib.sha256()
    for file in files_of(path):
        try:
            with file.open("rb") as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
        except OSError as error:
            raise OSError(error.errno, reason(error), os.fspath(file)) from error
    return digest.hexdigest()
