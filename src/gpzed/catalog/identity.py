"""Whether a catalogue is still the one that was opened: size, time of change, inode and a sample of the bytes."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from gpzed._files import reason
from gpzed.catalog._format import require_existing
from gpzed.catalog._parquet import parquet_files
from gpzed.catalog.remote import local_path
from gpzed.errors import CatalogError

_END_BYTES = 1 << 16
"""Bytes at either end of a file that are hashed: they hold the headers and footers of all formats."""
_SAMPLES, _SAMPLE_BYTES = 64, 1 << 10
"""Blocks between the ends that are hashed, at equal distances, and their size."""


class FileIdentity(NamedTuple):
    """What tells one file from others and from other states of itself."""

    name: str
    size: int
    mtime_ns: int
    inode: int
    sample: str  # SHA-256 of both ends and of blocks in between


@dataclass(frozen=True)
class Identity:
    """The identity of a catalogue file, or of all the files of a folder that are read; made by `identify`."""

    path: str
    files: tuple[FileIdentity, ...]

    def check_unchanged(self, *, sample: bool = True) -> None:
        """Raise `CatalogError` unless the files are as they were; without `sample` ask the file system only."""
        root = Path(self.path)
        names = [_name(file, root) for file in _files(root)]
        known = [file.name for file in self.files]
        if names != known:
            strange = sorted(set(names) ^ set(known))[0]
            self._refuse(f"'{strange}' was {'removed' if strange in known else 'added'}")
        for before in self.files:
            file = root / before.name if root.is_dir() else root
            now = _state(file, before.name, before.sample if not sample else None)
            differing = [item for item in before._fields if getattr(before, item) != getattr(now, item)]
            if differing:
                item = differing[0]
                words = {"mtime_ns": "time of change", "sample": "content"}.get(item, item)
                values = "" if item == "sample" else f" ({getattr(before, item)}, now {getattr(now, item)})"
                self._refuse(f"the {words} of '{before.name}' is no longer the same{values}")

    def of_file(self, file: Path) -> Identity:
        """Return the identity of one of the files of a folder."""
        name = _name(file, Path(self.path))
        (found,) = [known for known in self.files if known.name == name]
        return Identity(os.fspath(file), (found._replace(name=file.name),))

    def _refuse(self, what: str) -> None:
        raise CatalogError(
            f"'{self.path}' changed while it was in use: {what}; nothing made from it can be trusted: "
            "let whatever writes to it finish, then run again"
        )

    def to_list(self) -> list[list[Any]]:
        """Return the identity as plain JSON types, to be compared later."""
        return [[os.path.realpath(self.path)], *([*file] for file in self.files)]


def identify(path: str | os.PathLike[str]) -> Identity:
    """Return the identity of a catalogue: of the file, or of the Parquet files of a folder.

    Every way to write to a file changes its size, its time of change or its inode. The sample, some hundred kilobytes
    however large the file, also finds changes that hide from the file system: times set back, clocks that stand still.

    Examples
    --------
    >>> from gpzed.catalog import Catalog, identify, write_catalog
    >>> write_catalog(Catalog({"mag_g": [20.1, 21.5], "z_spec": [0.1, 0.3]}), "galaxies.csv")
    >>> first = identify("galaxies.csv")
    >>> identify("galaxies.csv") == first
    True
    """
    path = local_path(path)
    root = Path(path)
    return Identity(os.fspath(path), tuple(_state(file, _name(file, root)) for file in _files(root)))


def _files(root: Path) -> list[Path]:
    """Return the files that are read: the margins of a HATS catalogue too, which its rows are not counted with."""
    require_existing(root)
    files = parquet_files(root)
    if not root.is_dir():
        return files
    margins = {file for file in root.rglob("Norder=*/Dir=*/**/*.parquet") if file.name[0] not in "._"}
    return sorted(margins.union(files))


def _name(file: Path, root: Path) -> str:
    return file.name if file == root else file.relative_to(root).as_posix()


def _state(file: Path, name: str, sample: str | None = None) -> FileIdentity:
    """Return what the file system says now, and a sample unless it is given."""
    try:
        found = file.stat()
        sample = _sampled(file, found.st_size) if sample is None else sample
    except OSError as error:
        raise CatalogError(f"'{file}' cannot be read: {reason(error)}; check the file and the disk") from error
    return FileIdentity(name, found.st_size, found.st_mtime_ns, found.st_ino, sample)


def _sampled(file: Path, size: int) -> str:
    digest = hashlib.sha256()
    middle = max(size - 2 * _END_BYTES, 0)
    step = max(middle // _SAMPLES, _SAMPLE_BYTES)
    with file.open("rb") as stream:
        digest.update(stream.read(_END_BYTES))
        for start in range(_END_BYTES, _END_BYTES + middle, step):
            stream.seek(start)
            digest.update(stream.read(_SAMPLE_BYTES))
        stream.seek(max(size - _END_BYTES, 0))
        digest.update(stream.read())
    return digest.hexdigest()
