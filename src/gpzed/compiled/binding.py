"""The compiled library as Python sees it, derived from its header `gpzed.h`.

Every function takes one struct; `call` fills it from keyword arguments, allots the work memory that the function asks
for, and runs it without Python's lock. Where the library was not compiled, or for another version of the header,
`is_compiled` is false and NumPy does the work.
"""

from __future__ import annotations

import ctypes
import re
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpzed.errors import NumericalError

if TYPE_CHECKING:
    from gpzed._types import FloatArray
    from gpzed.engine.blocks import Scratch

HEADER = Path(__file__).with_name("gpzed.h")
MAX_SIZE, MAX_ROWS = 2**20, 2**40
"""Most basis functions, features, heads and so on; most rows, or pairs. The C code multiplies two or three sizes, of
which one counts rows at most: the products stay below 2^63."""
_ARRAYS = {"double": np.dtype(np.float64).str, "float": np.dtype(np.float32).str, "int64_t": np.dtype(np.int64).str}
_SCALARS = {
    "size_t": ctypes.c_size_t,
    "ptrdiff_t": ctypes.c_ssize_t,
    "double": ctypes.c_double,
    "float": ctypes.c_float,
}


def is_compiled() -> bool:
    """Whether the compiled functions can be used."""
    return _library is not None


def call(function: str, scratch: Scratch | None = None, **fields: Any) -> bool:
    """Run a compiled function, named without its prefix, on the struct of its name; tell whether it succeeded.

    The fields of the struct are numbers, arrays or None, and structs of `fill`; arrays that are only read may be of any
    layout, results must be contiguous. Work memory comes from `scratch`, if given.
    """
    assert _library is not None
    struct = fill(function, **fields)
    pointer = ctypes.byref(struct)
    if hasattr(struct, "work"):
        size = (getattr(_library, f"gpzed_{function}_work_size")(pointer),)
        work = np.empty(size) if scratch is None else scratch.array("work", size)
        struct.work = work.__array_interface__["data"][0]
    return not getattr(_library, f"gpzed_{function}")(pointer)


def fill(name: str, **fields: Any) -> Any:
    """Return a struct of the header that is filled with numbers, arrays and other structs, which live as long as it."""
    kind: Any = STRUCTS[name]
    owned = []  # a struct of C holds addresses alone
    for field, value in fields.items():
        if isinstance(value, np.ndarray):
            about = value.__array_interface__  # all at once: small calls spend much of their time here
            if about["strides"] is not None or about["typestr"] != kind.arrays[field]:
                assert field in kind.read_only, f"{name}.{field} must be contiguous, of type {kind.arrays[field]}"
                value = value.astype(kind.arrays[field], order="C", casting="same_kind")
                about = value.__array_interface__
            owned.append(value)
            fields[field] = about["data"][0]
        elif field in kind.sizes:
            most = MAX_ROWS if field in ("n", "count") else MAX_SIZE
            if not 0 <= value <= most:
                raise NumericalError(
                    f"`{name}.{field}` is {value}; expected 0 to {most}. Use fewer of them, or NumPy alone."
                )
        elif isinstance(value, ctypes.Structure):
            owned.append(value)
        elif isinstance(value, ctypes.Array):
            owned.append(value)
            fields[field] = ctypes.addressof(value)
    struct: Any = kind(**fields)
    struct.owned = owned
    return struct


def array_of(name: str, structs: list[Any]) -> Any:
    """Return structs one after the other, as C has an array of them."""
    array: Any = (STRUCTS[name] * len(structs))(*structs)
    array.owned = structs
    return array


def inputs(Xt: FloatArray) -> Any:
    """Return inputs (d, n) of any strides as a struct."""
    Xt = np.asarray(Xt, dtype=np.float64)
    (d, n), (stride_feature, stride_row) = Xt.shape, Xt.strides
    struct = fill("inputs", n=n, d=d, stride_feature=stride_feature // 8, stride_row=stride_row // 8)
    struct.Xt = Xt.__array_interface__["data"][0]
    struct.owned.append(Xt)
    return struct


def kept_size(n: int, n_weights: int) -> int:
    """Return the numbers that `forward` keeps of n rows for `backward`."""
    assert _library is not None
    struct: Any = STRUCTS["forward"]()
    struct.inputs.n, struct.basis.m = n, n_weights
    return int(_library.gpzed_kept_size(ctypes.byref(struct)))


def read_structs(header: str) -> dict[str, type[ctypes.Structure]]:
    """Return the structs of a header by name, each with what it only reads, the types of its arrays, and its sizes."""
    header = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    structs: dict[str, type[ctypes.Structure]] = {}
    for name, body in re.findall(r"struct (\w+) \{(.*?)\};", header, flags=re.DOTALL):
        fields: list[tuple[str, Any]] = []
        read_only, sizes = set(), set()
        arrays: dict[str, str] = {}
        for declaration in filter(None, map(str.strip, body.split(";"))):
            const, struct, kind, names = re.fullmatch(r"(const )?(struct )?(\w+) (.+)", declaration).groups()  # type: ignore[union-attr]
            for field in map(str.strip, names.split(",")):
                scalar = structs[kind] if struct and "*" not in field else _SCALARS.get(kind)
                fields.append((field.strip("*"), ctypes.c_void_p if "*" in field else scalar))
                read_only |= {field.strip("*")} if const else set()
                arrays |= {field.strip("*"): _ARRAYS[kind]} if "*" in field and kind in _ARRAYS else {}
                sizes |= {field} if kind == "size_t" and "*" not in field else set()
        known = {"read_only": read_only, "arrays": arrays, "sizes": sizes}
        structs[name] = type(name, (ctypes.Structure,), {"_fields_": fields, **known})
    return structs


def _load(header: str, path: Path | None = None) -> ctypes.CDLL | None:
    """Load the compiled functions; None where they were not compiled, or for another machine or version."""
    try:
        library = ctypes.CDLL(str(path or HEADER.with_name("_kernels.so")))
        if library.gpzed_checksum() & 0xFFFFFFFF != zlib.crc32(header.encode()):
            return None
        for result, name, struct in re.findall(
            r"^(int|size_t) gpzed_(\w+)\(const struct (\w+) \*", header, re.MULTILINE
        ):
            function = getattr(library, f"gpzed_{name}")
            function.argtypes = [ctypes.POINTER(STRUCTS[struct])]
            function.restype = ctypes.c_size_t if result == "size_t" else ctypes.c_int
        library.gpzed_set_lanes.argtypes = [ctypes.c_size_t]
    except (OSError, AttributeError):
        return None
    return library


_text = HEADER.read_text()
STRUCTS = read_structs(_text)
CONSTANTS = {name: int(value) for name, value in re.findall(r"^#define (\w+) (\d+)", _text, re.MULTILINE)}
_library = _load(_text)
