"""The version, from the tag: read by hatchling when the package is built (`[tool.hatch.version]` in pyproject.toml).

A checkout at the tag v0.2.0 is version 0.2.0; n commits later it is 0.2.1.devn+ghash, and before the first tag a
development version of `FIRST`. An sdist says its version itself, and so does an archive that git made of a commit.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

FIRST = "0.2.0"
"""The release to come while there is no tag yet."""
ROOT = Path(__file__).resolve().parent
DESCRIBED = re.compile(r"v(\d+)\.(\d+)\.(\d+)((?:a|b|rc)\d+)?(?:-(\d+)-g([0-9a-f]+))?")


def version() -> str:
    """Return the version of this tree."""
    return _of_sdist() or _of_archive() or _of_checkout() or f"{FIRST}.dev0"


def from_description(text: str) -> str | None:
    """Return the version that ``git describe --tags --long`` tells, None if it tells none.

    Examples
    --------
    >>> from_description("v0.2.0"), from_description("v0.2.0-0-g1a2b3c4"), from_description("v0.2.0-3-g1a2b3c4")
    ('0.2.0', '0.2.0', '0.2.1.dev3+g1a2b3c4')
    >>> from_description("v0.3.0rc1-2-g1a2b3c4")
    '0.3.0rc2.dev2+g1a2b3c4'
    """
    match = DESCRIBED.fullmatch(text.strip())
    if match is None:
        return None
    major, minor, patch, pre, distance, commit = match.groups()
    if not int(distance or 0):
        return f"{major}.{minor}.{patch}{pre or ''}"
    if pre:
        kind, number = re.fullmatch(r"([a-z]+)(\d+)", pre).groups()  # type: ignore[union-attr]
        return f"{major}.{minor}.{patch}{kind}{int(number) + 1}.dev{distance}+g{commit}"
    return f"{major}.{minor}.{int(patch) + 1}.dev{distance}+g{commit}"


def _of_sdist() -> str | None:
    info = ROOT / "PKG-INFO"
    match = re.search(r"(?m)^Version: (\S+)$", info.read_text(encoding="utf-8")) if info.is_file() else None
    return match[1] if match else None


def _of_archive() -> str | None:
    """Read what `git archive` wrote into .git_archival.txt in place of its formats."""
    file = ROOT / ".git_archival.txt"
    match = re.search(r"(?m)^describe-name: (v\S+)$", file.read_text(encoding="utf-8")) if file.is_file() else None
    return from_description(match[1]) if match else None


def _of_checkout() -> str | None:
    if not (ROOT / ".git").exists():  # a folder inside another repository is not ours
        return None
    described = _git("describe", "--tags", "--long", "--abbrev=7", "--match", "v[0-9]*")
    if described:
        return from_description(described)
    count, commit = _git("rev-list", "--count", "HEAD"), _git("rev-parse", "--short=7", "HEAD")
    return f"{FIRST}.dev{count}+g{commit}" if count and commit else None


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
