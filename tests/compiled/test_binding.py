"""The binding: what the header says is what Python fills; twins have the arguments of the functions they stand for."""

from __future__ import annotations

import ctypes
import inspect
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

from gpzed.compiled import TWINS, binding, substitute


def resolve(path):
    module, name = path.rsplit(".", 1)
    return getattr(import_module(module), name)


@pytest.mark.parametrize(("path", "twin"), TWINS.items())
def test_twins_have_the_same_arguments(path, twin):
    names = [list(inspect.signature(resolve(one)).parameters) for one in (path, twin)]
    assert names[0] == names[1]


def test_functions_without_a_twin_are_their_own(route):
    assert substitute(resolve) is resolve
    path, twin = next(iter(TWINS.items()))
    assert substitute(resolve(path)) is resolve(twin if route == "compiled" else path)


def test_structs_are_those_of_the_header():
    structs = binding.read_structs(
        """
        /* A part; of course. */
        struct part {
            size_t n, m; /* sizes */
            ptrdiff_t step;
        };
        struct whole {
            struct part part;
            const double *x, *y;
            double *out, scale;
            const struct part *parts;
        };
        """
    )
    assert structs["part"]._fields_ == [("n", ctypes.c_size_t), ("m", ctypes.c_size_t), ("step", ctypes.c_ssize_t)]
    pointer = ctypes.c_void_p
    assert structs["whole"]._fields_ == [
        ("part", structs["part"]), ("x", pointer), ("y", pointer), ("out", pointer), ("scale", ctypes.c_double),
        ("parts", pointer),
    ]  # fmt: skip
    assert structs["whole"].read_only == {"x", "y", "parts"}


def test_every_function_of_the_header_is_called():
    header = binding.HEADER.read_text()
    functions = set(re.findall(r"int gpzed_(\w+)\(", header))
    calls = "".join(path.read_text() for path in binding.HEADER.parent.glob("*.py"))
    assert functions == set(re.findall(r'call\(\s*"(\w+)"', calls))


def test_results_that_would_be_written_to_a_copy_are_refused(kernels):
    with pytest.raises(AssertionError, match=r"points\.points must be contiguous"):
        binding.fill("points", points=np.zeros((4, 4)).T[1:])


def test_a_library_that_cannot_be_loaded_is_not_used(monkeypatch, tmp_path):
    header = binding.HEADER.read_text()
    broken = tmp_path / "_kernels.so"
    broken.write_bytes(b"not a library")
    monkeypatch.setattr(binding, "HEADER", tmp_path / "gpzed.h")
    assert binding._load(header) is None
    broken.unlink()
    assert binding._load(header) is None


def test_a_library_of_another_header_is_not_used(kernels):
    header = binding.HEADER.read_text()
    assert binding._load(header) is not None
    assert binding._load(header + " ") is None


def test_arrays_that_are_read_get_the_type_that_the_header_says():
    given = np.arange(6, dtype=np.int32)[::2]
    for struct, field, dtype in (("adam", "order", np.int64), ("adam", "schedule", float), ("descent", "theta", None)):
        if dtype is None:  # written to
            with pytest.raises(AssertionError, match="theta must be contiguous, of type"):
                binding.fill(struct, **{field: given})
            continue
        (held,) = binding.fill(struct, **{field: given}).owned
        assert held.dtype == dtype
        np.testing.assert_array_equal(held, [0, 2, 4])
    with pytest.raises(TypeError, match="Cannot cast"):
        binding.fill("adam", order=np.ones(3))


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
@pytest.mark.skipif("GPZED_NO_KERNELS" in os.environ, reason="no kernels are wanted")
def test_kernels_are_built_where_there_is_a_compiler():
    assert binding.is_compiled(), "tests of the compiled kernels would all be skipped: run `python hatch_build.py`"


def test_missing_kernels_are_said_once_when_the_estimator_is_imported() -> None:
    code = (
        "import gpzed.compiled.binding as b; b._library = None; import gpzed; gpzed.GPzRegressor; gpzed.GPzRegressor()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count("SpeedWarning: gpzed runs without its compiled kernels: training takes") == 1


@pytest.mark.usefixtures("kernels")
def test_nothing_is_said_where_kernels_are() -> None:
    code = "import gpzed; gpzed.GPzRegressor()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "SpeedWarning" not in done.stderr
