"""Results as JSON files: written atomically, with what they depend on, and not computed twice."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.results.epochs import current
from experiments.results.records import origin
from gpzed.errors import GPzError
from gpzed.workflows import Progress

DIGITS = 6
"""Significant digits of the numbers in the files."""


class ResultError(GPzError):
    """A result file is missing or damaged."""


@dataclass(frozen=True)
class Part:
    """A piece of work whose result is kept."""

    name: str  # stem of its file
    # everything the result depends on, as JSON types; a stored result of the same inputs is reused
    inputs: Mapping[str, Any]
    compute: Callable[[], dict[str, Any]]

    @property
    def key(self) -> str:
        """Fingerprint of the inputs and of the epochs of what is measured."""
        text = json.dumps([[current("paper"), current("kernels")], plain(self.inputs)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def file_name(self) -> str:
        """Name of the file of its result."""
        return f"{self.name}-{self.key[:10]}.json"


def plain(value: Any) -> Any:
    """Return a value as JSON types: arrays as lists, numbers rounded, those that are not finite as None."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value


def floats(values: Any) -> Any:
    """Return lists of a file as an array of float64, None as NaN."""
    return np.array(values, dtype=np.float64)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file of results, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(json.dumps(plain(content), separators=(",", ":")) + "\n", encoding="utf-8")
    partial.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    """Read a file of results."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ResultError(f"there is no '{path}'; run the experiment first") from None
    except ValueError as reason:
        raise ResultError(f"'{path}' is no JSON ({reason}); delete it and run the experiment again") from None
    if not isinstance(content, dict):
        raise ResultError(f"'{path}' holds no JSON object; delete it and run the experiment again")
    return content


def obtain(part: Part, folder: Path, progress: Progress) -> dict[str, Any]:
    """Return what is stored of a part and its result, or compute and store it."""
    path = folder / part.file_name
    if path.exists():
        stored = read_json(path)
        if stored.get("key") == part.key:
            progress.say(f"{part.name}: done before")
            return stored
    progress.say(f"{part.name}: running")
    started = time.perf_counter()
    result = part.compute()
    seconds = time.perf_counter() - started
    content = {
        "part": part.name,
        "key": part.key,
        "inputs": part.inputs,
        "provenance": origin(),
        "seconds": seconds,
        "result": result,
    }
    write_json(path, content)
    progress.say(f"{part.name}: {seconds:.1f} s")
    return plain(content)  # type: ignore[no-any-return]
