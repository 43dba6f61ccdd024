#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox>=2024.4"]
# ///
"""Sessions that need an environment of their own: `nox -s NAME`, `nox -l` for the list; `pip install nox` first.

`make test` stays the way to work; these check what a release promises: every Python, the lowest and the newest versions
of the packages we use, no compiler, nothing but what is required, and the files that go out.
"""

from __future__ import annotations

import glob
import tomllib
from pathlib import Path

import nox

nox.needs_version = ">=2024.4"
nox.options.default_venv_backend = "uv|virtualenv"

PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
ROOT = Path(__file__).resolve().parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
MATHEMATICS = ["tests/gp", "tests/mixture", "tests/incomplete", "tests/engine", "tests/compiled", "tests/model"]


def install(session: nox.Session, *extras: str, groups: tuple[str, ...] = ("test",), editable: bool = True) -> None:
    """Install gpzed with some extras, and groups of development packages."""
    wanted = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
    group_options = [option for group in groups for option in ("--group", group)]
    session.install(*(["-e"] if editable else []), wanted, *group_options)


def pytest(session: nox.Session, *paths: str, env: dict[str, str] | None = None) -> None:
    """Run tests: those that the command line names, or `paths`."""
    session.run("python", "-m", "pytest", "-n", "auto", *(session.posargs or paths), env={**ONE_THREAD, **(env or {})})


@nox.session(python="3.11")
def lint(session: nox.Session) -> None:
    """Ruff, mypy, import rules."""
    install(session, "all", groups=("test", "lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports", env={"PYTHONPATH": "."})


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """The test suite, with everything installed."""
    install(session, "all")
    pytest(session)


@nox.session(python="3.11", default=False)
def lowest(session: nox.Session) -> None:
    """The lowest versions that pyproject.toml allows."""
    floors = [*PROJECT["project"]["dependencies"]]
    for extra in ("fits", "parquet", "hdf5", "plot"):
        floors += PROJECT["project"]["optional-dependencies"][extra]
    floors += [line for line in PROJECT["project"]["optional-dependencies"]["cli"] if not line.startswith("gpzed")]
    session.install(*(line.replace(">=", "==") + (".*" if line.count(".") < 2 else "") for line in floors))
    session.install("--no-deps", "-e", str(ROOT))
    session.install("pytest", "pytest-xdist", "hypothesis", "pyparsing<3.3")  # of which matplotlib 3.8 uses old names
    pytest(session, *MATHEMATICS, "tests/catalog", "tests/features", "tests/workflows", "tests/cli")


@nox.session(python="3.13", default=False)
def newest(session: nox.Session) -> None:
    """The newest versions, release candidates included."""
    session.install("--pre", "--upgrade", "-e", f"{ROOT}[all]", "--group", "test")
    pytest(session)


@nox.session(python="3.11", default=False)
def no_compiler(session: nox.Session) -> None:
    """Without the compiled kernels: NumPy does the same."""
    session.env["GPZED_NO_KERNELS"] = "1"
    install(session, "all", editable=False)
    check = "from gpzed.compiled.binding import is_compiled; assert not is_compiled()"
    session.run("python", "-W", "ignore", "-c", check)
    session.chdir(session.create_tmp())  # away from the sources, beside which kernels may be
    paths = [str(ROOT / path) for path in MATHEMATICS]
    pytest(session, "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), *paths)


@nox.session(python="3.13", default=False)
def minimal(session: nox.Session) -> None:
    """Nothing but what is required: the estimator works, and what is missing is said."""
    session.install(str(ROOT), "pytest", "hypothesis", "pytest-xdist", "scoringrules")
    pytest(session, "tests/gp", "tests/mixture", "tests/engine", "tests/prediction")


@nox.session(python="3.11", default=False)
def rail(session: nox.Session) -> None:
    """The RAIL plugin."""
    session.install("-e", f"{ROOT}[hdf5,parquet,cli]", "-e", f"{ROOT}/plugins/rail")
    session.install("--group", "plugins/rail/pyproject.toml:test")
    pytest(session, "-c", "plugins/rail/pyproject.toml", "plugins/rail/tests")


@nox.session(python="3.11", default=False)
def docs(session: nox.Session) -> None:
    """The documentation site; warnings are errors."""
    install(session, "all", groups=("docs", "test"))
    session.run("python", "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", "docs/_build/html")


@nox.session(default=False)
def build(session: nox.Session) -> None:
    """The sdist, a wheel from it, and what can be checked without publishing them."""
    session.install("build", "twine", "check-wheel-contents", "abi3audit", "validate-pyproject", "packaging")
    session.run("validate-pyproject", "pyproject.toml")
    for old in glob.glob("dist/gpzed-*"):
        Path(old).unlink()
    session.run("python", "-m", "build")
    files = sorted(glob.glob("dist/gpzed-*"))
    session.run("twine", "check", "--strict", *files)
    wheels = [file for file in files if file.endswith(".whl")]
    session.run("check-wheel-contents", *wheels)
    session.run("python", "tests/distribution.py", *files)


@nox.session(default=False)
def review(session: nox.Session) -> None:
    """The guidelines of the Scientific Python community; what we leave out is explained in pyproject.toml."""
    session.install("sp-repo-review[cli]", "pyyaml", "zizmor")
    session.run("repo-review", ".")
    session.run("zizmor", "--offline", ".github")


if __name__ == "__main__":
    nox.main()
