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

from gpzed.errors import CatalogError, GPzError, MissingDependencyError

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*(?:::[A-Za-z][A-Za-z0-9+.\-]*)*://")
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
    """
    if not is_address(path):
        return path
    with _reaching(path):
        system, place = _open(path)
        state = str(system.ukey(place))
        if (path, state) not in _fetched:
            _fetched[path, state] = _fetch(system, place, path)
    return _fetched[path, state]


@contextmanager
def sent_to(address: str, what: str) -> Iterator[Path]:
    """Give a local path to write to; what is there in the end is sent to the address, if there was no error."""
    name = address.rstrip("/").rpartition("/")[2]
    if not name:
        raise CatalogError(f"'{address}' names no file; end it with the name of {what}")
    target = Path(_new_folder()) / name
    with _reaching(address):
        system, place = _open(address)
    yield target
    with _reaching(address):
        system.makedirs(place.rpartition("/")[0], exist_ok=True)
        system.put(os.fspath(target), place, recursive=target.is_dir())


def _fetch(system: Any, place: str, address: str) -> Path:
    name = place.rstrip("/").rpartition("/")[2] or "catalogue"
    target = Path(_new_folder()) / name
    if system.isdir(place):
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
    except FileNotFoundError:
        raise CatalogError(f"'{address}' does not exist; check the address") from None
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
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
