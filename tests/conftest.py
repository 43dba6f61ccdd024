"""Options, profiles and shared, read-only data of the whole test suite."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import numpy as np
import pytest

from gpzed.compiled import binding
from gpzed.engine.blocks import Scratch

ROOT = Path(__file__).resolve().parents[1]

_NOT_NOW = [hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.function_scoped_fixture]
hypothesis.settings.register_profile("dev", deadline=None, suppress_health_check=_NOT_NOW)
hypothesis.settings.register_profile(
    "ci", deadline=None, derandomize=True, print_blob=True, suppress_health_check=_NOT_NOW
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--run-slow", action="store_true", help="run tests marked slow")
    parser.addoption("--run-real", action="store_true", help="run tests on the real catalogues")
    parser.addoption("--kernels", type=Path, help="compiled library to test instead of the one in the package")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--kernels")
    if path is not None:
        binding._library = binding._load(binding.HEADER.read_text(), path)
        assert binding._library is not None, f"'{path}' cannot be loaded"
        Scratch.array = lambda self, name, shape: np.empty(shape)  # type: ignore[method-assign]  # exact bounds


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for mark in ("slow", "real"):
        if config.getoption(f"--run-{mark}"):
            continue
        skip = pytest.mark.skip(reason=f"marked {mark}: run with --run-{mark}")
        for item in items:
            if mark in item.keywords:
                item.add_marker(skip)


@pytest.fixture
def kernels() -> None:
    """Skip where the compiled kernels are not; a test asserts that they are there where cc is."""
    if not binding.is_compiled():
        pytest.skip("the compiled kernels were not built")


@pytest.fixture(params=["numpy", "compiled"])
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways that everything is computed."""
    if request.param == "numpy":
        monkeypatch.setattr(binding, "_library", None)
    else:
        request.getfixturevalue("kernels")
    return str(request.param)


@pytest.fixture(params=[0, 4, 2], ids=["widest", "avx2", "narrow"])
def lanes(request: pytest.FixtureRequest, kernels: None) -> Iterator[None]:
    """All widths of vectors that the compiled kernels may use."""
    library = binding._library
    assert library is not None
    library.gpzed_set_lanes(request.param)
    yield
    library.gpzed_set_lanes(0)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the real catalogues: $GPZED_DATA, or ../shared/data beside the project."""
    path = Path(os.environ.get("GPZED_DATA", ROOT.parent / "shared" / "data"))
    if not path.is_dir():
        pytest.skip(f"no real catalogues in {path}; set GPZED_DATA to the folder that holds them")
    return path


def read_only(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    for array in arrays:
        array.setflags(write=False)
    return arrays


@pytest.fixture(scope="session")
def wave() -> tuple[np.ndarray, np.ndarray]:
    """300 rows of a smooth function of two features with constant noise of 0.1; read-only."""
    rng = np.random.default_rng(42)
    X = rng.uniform(-2.0, 2.0, size=(300, 2))
    y = np.sin(1.5 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.standard_normal(300)
    X, y = read_only(X, y)
    return X, y


@pytest.fixture(scope="session")
def funnel() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """2000 rows of one feature whose noise grows from 0.05 to about 0.6: X, y and the true noise variance."""
    rng = np.random.default_rng(7)
    X = rng.uniform(-2.0, 2.0, size=(2000, 1))
    variance = np.exp(-3.5 + 1.2 * X[:, 0])
    y = np.sin(2.0 * X[:, 0]) + np.sqrt(variance) * rng.standard_normal(2000)
    X, y, variance = read_only(X, y, variance)
    return X, y, variance
