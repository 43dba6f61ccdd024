"""Catalogues at an address, through fsspec: fetched whole into a temporary folder, results sent when they are whole."""

from __future__ import annotations

import atexit
import importlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpzed.errors import CatalogError, ConfigError, GPzError, MissingDependencyError

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*(?:::[A-Za-z][A-Za-z0-9+.\-]*)*://")
WEB = ("http://", "https://")
BUCKETS = ("s3://", "s3a://", "gs://", "gcs://", "az://", "abfs://")
"""Addresses whose first part is a bucket of an object store."""
_fetched: dict[tuple[str, str], Path] = {}  # local copies of this process, by address and state
_folders: list[str] = []


def is_address(path: Any) -> bool:
    """Tell whether something is an address like ``s3://bucket/file.parquet``, and not a path.

    Examples
    --------
    >>> is_address("https://example.org/a.csv"), is_address("data/a.csv")
    (True, False)
    """
    return isinstance(path, str) and _ADDRESS.match(path) is not None


def local_path(path: Any) -> Any:
    """Return where something can be read: a copy of what is at an address, everything else as it is.

    A copy serves this process until what is at the address changes, and is removed when the process ends.

    Examples
    --------
    >>> from gpzed.catalog import local_path
    >>> local_path("survey.parquet")
    'survey.parquet'
    """
    if not is_address(path):
        return path
    with _reaching(path):
        system, place = _open(path)
        state = f"{system.ukey(place)} {_info(system, place)}"
        if (path, state) not in _fetched:
            _fetched[path, state] = _fetch(system, place, path)
    return _fetched[path, state]


def address_of(path: str | os.PathLike[str]) -> str:
    """Return a path as the user gave it: the address, if it is a copy of what is there.

    Examples
    --------
    >>> from gpzed.catalog import address_of
    >>> address_of("survey.parquet")
    'survey.parquet'
    """
    given = {os.fspath(copy): address for (address, _), copy in _fetched.items()}
    return given.get(os.fspath(path), os.fspath(path))


@contextmanager
def sent_to(address: str, what: str) -> Iterator[Path]:
    """Give a local path to write to; what is there in the end is sent to the address, if there was no error.

    Examples
    --------
    >>> from gpzed.catalog import sent_to
    >>> with sent_to("s3://bucket/redshifts.csv", "the output") as path:  # doctest: +SKIP
    ...     path.write_text("z_phot")
    """
    name = address.rstrip("/").rpartition("/")[2]
    if not name:
        raise CatalogError(f"'{address}' names no file; end it with the name of {what}")
    if address.startswith(WEB):
        raise ConfigError(f"'{address}' can be read only; write {what} to a file here, then copy it there")
    folder = _new_folder()
    target = Path(folder) / name
    with _reaching(address):
        system, place = _open(address)
        bucket = place.partition("/")[0]
        if address.startswith(BUCKETS) and not system.exists(bucket):  # else it would be made, under a wrong name
            raise ConfigError(f"'{address}': there is no bucket '{bucket}'; check the name, or make it first")
    yield target
    try:
        with _reaching(address):
            system.put(os.fspath(target), place, recursive=target.is_dir())
    except GPzError as error:
        _folders.remove(folder)
        raise CatalogError(f"{error}; the finished file is kept here, as '{target}'") from error


def _info(system: Any, place: str) -> dict[str, Any]:
    """Return what a server tells of a file that changes with it; servers of HTTP know no better."""
    try:
        found = system.info(place)
    except FileNotFoundError:
        return {}
    return {key: str(found[key]) for key in ("size", "ETag", "LastModified", "mtime") if key in found}


def _fetch(system: Any, place: str, address: str) -> Path:
    name = place.rstrip("/").rpartition("/")[2] or "catalogue"
    target = Path(_new_folder()) / name
    if address.startswith(WEB):  # asked for a folder, fsspec would read the whole file and look for links in it
        if system.info(place).get("mimetype") == "text/html":
            raise CatalogError(
                f"'{address}' is a web page, not a catalogue; give the address of a file, and fetch folders (HATS "
                "catalogues, say) yourself, with `wget --recursive` for example"
            )
        system.get_file(place, os.fspath(target))
    elif system.isdir(place):
        system.get(place.rstrip("/") + "/", os.fspath(target) + os.sep, recursive=True)
    elif system.exists(place):
        system.get_file(place, os.fspath(target))
    else:
        raise CatalogError(f"'{address}' does not exist; check the address")
    return target


def _open(address: str) -> tuple[Any, str]:
    try:
        core = importlib.import_module("fsspec.core")
    except ImportError:
        raise MissingDependencyError(
            f"'{address}' is an address, which needs fsspec; install it with `pip install gpzed[remote]`, or fetch the "
            "file first"
        ) from None
    system, place = core.url_to_fs(address)
    return system, place


@contextmanager
def _reaching(address: str) -> Iterator[None]:
    """Turn whatever a library raises over an address into one error."""
    try:
        yield
    except GPzError:
        raise
    except ImportError as error:
        raise MissingDependencyError(f"'{address}' cannot be opened: {error}; or fetch the file first") from None
    except Exception as error:
        cause = error.__cause__ if isinstance(error.__cause__, OSError) else error  # as when a server is off
        if isinstance(cause, FileNotFoundError):
            raise CatalogError(f"'{address}' does not exist; check the address") from None
        reason = " ".join(str(cause).split()) or type(cause).__name__
        raise CatalogError(
            f"'{address}' cannot be reached: {reason}; check address, network and credentials"
        ) from error


def _new_folder() -> str:
    if not _folders:
        atexit.register(_remove_folders)
    _folders.append(tempfile.mkdtemp(prefix="gpzed-"))
    return _folders[-1]


def _remove_folders() -> None:
    for folder in _folders:
        shutil.rmtree(folder, ignore_errors=True)
