"""Check the files that go out, sdist and wheels: `python tests/distribution.py dist/gpzed-*`, in `nox -s build`."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

TOP = {
    "src", "tests", "experiments", "faults", "benchmarks", "docs", "PKG-INFO", "pyproject.toml", "hatch_build.py",
    "hatch_version.py", "noxfile.py", "Makefile", "requirements-dev.lock", "README.md", "LICENSE", "CHANGELOG.md",
    "CITATION.cff", "ARCHITECTURE.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md", "VISION.md",
}  # fmt: skip
"""What an sdist holds."""


def check_sdist(path: Path) -> list[str]:
    """Return what is wrong with an sdist."""
    with tarfile.open(path) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    problems = [f"{name} does not belong there" for name in {name.partition("/")[0] for name in names} - TOP]
    problems += [f"{name} is missing" for name in TOP - {name.partition("/")[0] for name in names}]
    unwanted = re.compile(r"\.gitignore$|\.so$|\.pyc$|__pycache__|(^|/)\.venv|_build/")
    problems += [f"{name} does not belong there" for name in names if unwanted.search(name)]
    return problems + _licences(names)


def check_wheel(path: Path) -> list[str]:
    """Return what is wrong with a wheel."""
    with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory() as folder:
        names = archive.namelist()
        problems = [f"{name} does not belong there" for name in names if re.search(r"\.(c|pyc)$|/_\w+\.h$", name)]
        libraries = [name for name in names if name.endswith(".so")]
        if path.name.endswith("-none-any.whl") != (not libraries):
            problems.append(f"the tag and the libraries {libraries} disagree")
        for name in libraries:
            problems += _library(archive.extract(name, folder))
    return problems + _licences(names)


def _licences(names: list[str]) -> list[str]:
    found = [name for name in names if name.endswith("plotly-LICENSE.txt")]
    return [] if len(found) == 1 else [f"the licence of plotly.js is there {len(found)} times: {found}"]


def _library(path: str) -> list[str]:
    """Return what is wrong with a library: it must know nothing of Python, and hold nothing for debuggers."""
    if sys.platform != "linux" or shutil.which("nm") is None:
        return []
    needed = subprocess.run(["nm", "-D", "--undefined-only", path], capture_output=True, text=True, check=True).stdout
    problems = [
        f"{Path(path).name} needs {line.split()[-1]}" for line in needed.splitlines() if " Py" in line or " _Py" in line
    ]
    symbols = subprocess.run(["nm", path], capture_output=True, text=True, check=False).stdout
    if symbols.strip():
        problems.append(f"{Path(path).name} is not stripped")
    return problems


def main() -> None:
    """Check all files that are named; the exit code tells whether they are all right."""
    wrong = False
    for path in map(Path, sys.argv[1:]):
        for problem in check_sdist(path) if path.name.endswith(".tar.gz") else check_wheel(path):
            print(f"{path.name}: {problem}")
            wrong = True
    sys.exit(wrong)


if __name__ == "__main__":
    main()
