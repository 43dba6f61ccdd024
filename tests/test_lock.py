"""The packages of `make test` are pinned by version and hash, and the pins are those that pyproject.toml asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements-dev.lock"
if not LOCK.is_file():
    pytest.skip("the lock is not part of this distribution", allow_module_level=True)
PINNED = re.compile(r"(?m)^([\w.-]+)==([\w.+!-]+)[^\n]*((?:\n    --hash=sha256:[0-9a-f]{64}[^\n]*)+)")


def wanted() -> list[Requirement]:
    """Return what the extra `all` and the group `dev` ask for, those they include among them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras, groups = project["project"]["optional-dependencies"], project["dependency-groups"]
    todo = [*project["project"]["dependencies"], "gpzed[all]", {"include-group": "dev"}]
    found = []
    for item in todo:  # grows on the way
        if isinstance(item, dict):
            todo += groups[item["include-group"]]
        elif (requirement := Requirement(item)).name == "gpzed":
            todo += [entry for extra in sorted(requirement.extras) for entry in extras[extra]]
        else:
            found.append(requirement)
    return found


def test_every_line_of_the_lock_is_a_version_with_hashes():
    text = LOCK.read_text(encoding="utf-8")
    assert "".join(re.sub(PINNED, "", text).split()) == ""


@pytest.mark.parametrize("requirement", wanted(), ids=str)
def test_the_lock_has_what_the_project_asks_for(requirement):
    pins: dict[str, list[str]] = {}
    for name, version, _ in PINNED.findall(LOCK.read_text(encoding="utf-8")):
        pins.setdefault(canonicalize_name(name), []).append(version)
    versions = pins.get(canonicalize_name(requirement.name), [])
    assert versions, f"{requirement} is not in requirements-dev.lock; run `make lock`"
    assert all(requirement.specifier.contains(version, prereleases=True) for version in versions)
