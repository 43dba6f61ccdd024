"""Catalogues that use the means of their formats against the reader: links, entities, tags, bombs, sizes."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CANARY = "canary-5fd1c09e"
CANARY_NUMBER = 7_316_509
"""Text and number that stand in files no catalogue has any business to open."""


class Hostile(NamedTuple):
    """A file to read: what was done to it, its suffix and its bytes."""

    fault: str
    name: str
    data: bytes


def crafted(folder: Path) -> list[Hostile]:
    """Return files that use the means of their formats against the reader."""
    canary = folder / CANARY
    canary.write_text(f"{CANARY}\n" * 100)
    with h5py.File(folder / f"{CANARY}.hdf5", "w") as file:
        file["t/z"] = np.full(60, float(CANARY_NUMBER))
    return [
        *_hostile_votables(canary),
        *_hostile_ecsv(canary),
        *_hostile_hdf5(folder, canary),
        *_hostile_fits(),
        *_hostile_parquet(),
        *_hostile_csv(),
    ]


def _bomb(before: bytes = b"", after: bytes = b"", filler: bytes = b" ") -> bytes:
    """Return a gzip file of a few megabytes that unpacks to one gigabyte."""
    block = gzip.compress(filler * ((1 << 24) // len(filler)), mtime=0)
    return gzip.compress(before, mtime=0) + block * 64 + gzip.compress(after, mtime=0)


_VOTABLE = """<?xml version="1.0"?>{doctype}
<VOTABLE version="1.4" xmlns="http://www.ivoa.net/xml/VOTable/v1.3"><RESOURCE><TABLE {table}>
<FIELD name="a" datatype="{kind}" {field}/><DESCRIPTION>{text}</DESCRIPTION><DATA>{data}</DATA></TABLE></RESOURCE>
</VOTABLE>
"""


def _votable(**parts: str) -> bytes:
    rows = "<TABLEDATA><TR><TD>1</TD></TR></TABLEDATA>"
    usual = {"doctype": "", "table": "", "kind": "char", "field": 'arraysize="*"', "text": "", "data": rows}
    return _VOTABLE.format(**{**usual, **parts}).encode()


def _hostile_votables(canary: Path) -> list[Hostile]:
    external = f'<!DOCTYPE VOTABLE [<!ENTITY x SYSTEM "file://{canary}">]>'
    parameter = f'<!DOCTYPE VOTABLE [<!ENTITY % x SYSTEM "file://{canary}"> %x;]>'
    laughs = "".join(f'<!ENTITY l{k} "{f"&l{k - 1};" * 10}">' for k in range(1, 12))
    bomb = f'<!DOCTYPE VOTABLE [<!ENTITY l0 "{"ha" * 100}">{laughs}]>'
    cell = "<TABLEDATA><TR><TD>{}</TD></TR></TABLEDATA>".format
    stream = '<BINARY><STREAM href="{}" encoding="base64"/></BINARY>'.format
    deep = "<GROUP>" * 20000 + "</GROUP>" * 20000
    files = {
        "external entity": _votable(doctype=external, data=cell("&x;"), text="&x;"),
        "parameter entity": _votable(doctype=parameter),
        "entity bomb": _votable(doctype=bomb, data=cell("&l11;"), text="&l11;"),
        "external DTD": _votable(doctype=f'<!DOCTYPE VOTABLE SYSTEM "file://{canary}">'),
        "stream of a file": _votable(data=stream(f"file://{canary}"), kind="unsignedByte", field=""),
        "stream of a URL": _votable(data=stream("http://127.0.0.1:9/x"), kind="unsignedByte", field=""),
        "stream of FITS": _votable(data=f'<FITS extnum="1"><STREAM href="file://{canary}"/></FITS>'),
        "include": _votable(data=f'<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="file://{canary}"/>'),
        "huge arraysize": _votable(kind="double", field='arraysize="99999999999"'),
        "huge binary array": _votable(
            kind="double",
            field='arraysize="*"',
            data="<BINARY><STREAM encoding='base64'>f////w==</STREAM></BINARY>",
        ),
        "huge nrows": _votable(table='nrows="999999999999"'),
        "nested deeply": _votable(data=deep),
        "gzip bomb": _bomb(*_votable(text="@@").split(b"@@")),
    }
    return [Hostile(f"vot {name}", ".vot", data) for name, data in files.items()]


_ECSV = """# %ECSV 1.0
# ---
# datatype:
# - {{name: a, datatype: {kind}{column}}}
{meta}# schema: astropy-2.0
a
{cell}
"""


def _hostile_ecsv(canary: Path) -> list[Hostile]:
    def ecsv(meta: str = "", kind: str = "int64", column: str = "", cell: str = "1") -> bytes:
        head = "".join(f"# {line}\n" for line in meta.splitlines())
        return _ECSV.format(kind=kind, column=column, meta=head, cell=cell).encode()

    touch = f"open({str(canary)!r}).read()"
    aliases = "\n".join(f"  l{k}: &l{k} [{', '.join([f'*l{k - 1}'] * 9)}]" for k in range(1, 25))
    mixin = "meta: !!omap\n- __serialized_columns__:\n    a:\n      __class__: {}\n      value: 1"
    files = {
        "python object": ecsv(f"meta: !!python/object/apply:builtins.eval ['{touch}']"),
        "python name": ecsv("meta: {x: !!python/name:os.system }"),
        "python module": ecsv("meta: {x: !!python/module:antigravity }"),
        "serialized class": ecsv(mixin.format("os.system")),
        "serialized popen": ecsv(mixin.format("subprocess.Popen")),
        "alias bomb": ecsv(f"meta:\n  l0: &l0 [ha, ha]\n{aliases}"),
        "alias cycle": ecsv("meta: &a {x: *a, y: [*a]}"),
        "huge text type": ecsv(kind="string[999999999999]"),
        "unknown type": ecsv(kind="float128"),
        "object column": ecsv(kind="string", column=", subtype: json", cell='"[1, [2]]"'),
        "huge subtype": ecsv(kind="string", column=", subtype: 'float64[999999999,999999999]'", cell='"[1]"'),
        "deep JSON": ecsv(kind="string", column=", subtype: json", cell=f'"{"[" * 50000}"'),
        "deep YAML": ecsv(f"meta: {'[' * 5000}"),
        "ndarray tag": ecsv(
            "meta:\n  x: !numpy.ndarray\n    buffer: !!binary AAAA\n    dtype: object\n    shape: [99999999]"
        ),
        "gzip bomb": _bomb(ecsv(), filler=b"1\n"),
    }
    return [Hostile(f"ecsv {name}", ".ecsv", data) for name, data in files.items()]


def _hostile_hdf5(folder: Path, canary: Path) -> list[Hostile]:
    elsewhere = f"{canary}.hdf5"

    def external_link(file: Any) -> None:
        file["z"] = h5py.ExternalLink(elsewhere, "/t/z")

    def linked_group(file: Any) -> None:
        file["t"] = h5py.ExternalLink(elsewhere, "/t")

    def linked_mask(file: Any) -> None:
        file["t/a"] = np.arange(60)
        file["_gpzed_mask"] = h5py.ExternalLink(elsewhere, "/t")

    def detour(file: Any) -> None:
        file["t/a"] = h5py.SoftLink("/other/t/z")
        file["other"] = h5py.ExternalLink(elsewhere, "/")

    def external_storage(file: Any) -> None:
        file.create_dataset("z", (60,), "u1", external=[(str(canary), 0, 60)])

    def external_text(file: Any) -> None:
        file.create_dataset("text", (10,), "S16", external=[(str(canary), 0, 160)])

    def virtual(file: Any) -> None:
        layout = h5py.VirtualLayout((60,), "f8")
        layout[:] = h5py.VirtualSource(elsewhere, "/t/z", (60,))
        file.create_virtual_dataset("z", layout)

    def soft_cycle(file: Any) -> None:
        file["a"], file["b"] = h5py.SoftLink("/b"), h5py.SoftLink("/a")

    def group_cycle(file: Any) -> None:
        group = file.create_group("g")
        group["again"] = group
        group["up"] = file["/"]
        group["x"] = np.arange(5)

    def huge(file: Any) -> None:
        file.create_dataset("z", (2**50,), "f8", chunks=(1024,))

    def huge_contiguous(file: Any) -> None:
        file.create_dataset("z", (2**45,), "f8")

    def huge_width(file: Any) -> None:
        file.create_dataset("z", (1, 2**40), "f8", chunks=(1, 1024))

    def huge_chunk(file: Any) -> None:
        file.create_dataset("z", (2**24,), "f8", chunks=(2**24,), compression="gzip")[:1] = 1.0

    def huge_text(file: Any) -> None:
        file.create_dataset("z", (10,), "S2000000000", chunks=(1,))

    def many_groups(file: Any) -> None:
        for k in range(3000):
            file.create_group(f"g{k}")

    def deep_groups(file: Any) -> None:
        file.create_group("/".join("g" * 3000))["x"] = np.arange(3)

    def strange_types(file: Any) -> None:
        file["ref"] = np.array([file.ref] * 3, dtype=h5py.ref_dtype)
        file.create_dataset("vlen", (3,), h5py.vlen_dtype(int))
        file.create_dataset("empty", data=h5py.Empty("f8"))
        file["enum"] = np.zeros(3, dtype=h5py.enum_dtype({"a": 0}))
        file["order"] = np.arange(3)
        file.attrs["gpzed_columns"] = [1.5, 2.5]
        file.attrs["gpzed_metadata"] = "[" * 40000
        file.attrs["unit"] = h5py.Empty("S1")

    makers = (
        external_link, linked_group, linked_mask, detour, external_storage, external_text, virtual, soft_cycle,
        group_cycle, huge, huge_contiguous, huge_width, huge_chunk, huge_text, many_groups, deep_groups, strange_types,
    )  # fmt: skip
    found = [Hostile(f"hdf5 {maker.__name__.replace('_', ' ')}", ".hdf5", _hdf5(folder, maker)) for maker in makers]
    return [*found, Hostile("hdf5 endless text", ".hdf5", endless(texts_of_any_length(folder)))]


def texts_of_any_length(folder: Path) -> bytes:
    """Return a file with texts in a heap of HDF5, where other programs put them."""

    def fill(file: Any) -> None:
        file["z"] = np.arange(6.0)
        file.create_dataset("name", data=["one", "two", "", "and", "many", "more"], dtype=h5py.string_dtype())
        file["z"].attrs["unit"] = np.bytes_("Jy")

    return _hdf5(folder, fill)


def endless(data: bytes) -> bytes:
    """Take from the free space of the heaps its size, without which the library looks for an end for ever."""
    heaps = [place for place in range(len(data)) if data.startswith(b"GCOL", place)]
    changed = bytearray(data)
    for place in heaps:
        at = place + 16
        while int.from_bytes(data[at : at + 2], "little"):  # the number of an object; 0 is the free space
            at += 16 + -(-int.from_bytes(data[at + 8 : at + 16], "little") // 8) * 8
        changed[at + 8 : at + 16] = bytes(8)
    return bytes(changed)


def _hdf5(folder: Path, fill: Callable[[Any], None]) -> bytes:
    path = folder / "crafted.hdf5"
    with h5py.File(path, "w") as file:
        fill(file)
    return path.read_bytes()


def _hostile_fits() -> list[Hostile]:
    def table(cards: dict[str, str], data: bytes = b"\0" * 2880, more: bytes = b"") -> bytes:
        usual = {
            "XTENSION": "'BINTABLE'", "BITPIX": "8", "NAXIS": "2", "NAXIS1": "8", "NAXIS2": "10", "PCOUNT": "0",
            "GCOUNT": "1", "TFIELDS": "1", "TTYPE1": "'a'", "TFORM1": "'D'",
        }  # fmt: skip
        primary = {"SIMPLE": "T", "BITPIX": "8", "NAXIS": "0", "EXTEND": "T"}
        header = b""
        for part, extra in ((primary, b""), ({**usual, **cards}, more)):
            text = b"".join(f"{key:8}= {value:>20}".ljust(80).encode() for key, value in part.items()) + extra
            text += b"END".ljust(80)
            header += text + b" " * (-len(text) % 2880)
        return header + data

    endless = b"COMMENT x".ljust(80) * 36
    files = {
        "huge NAXIS2": table({"NAXIS2": "999999999999999"}),
        "huge NAXIS1": table({"NAXIS1": "999999999999999"}),
        "negative NAXIS2": table({"NAXIS2": "-5"}),
        "rows of no width": table({"NAXIS1": "0", "NAXIS2": "999999999999", "TFORM1": "'0D'"}),
        "huge TFORM": table({"TFORM1": "'999999999999D'", "NAXIS1": "7999999999992"}),
        "many fields": table({"TFIELDS": "999"}),
        "huge TFIELDS": table({"TFIELDS": "999999999999"}),
        "huge TDIM": table({"TDIM1": "'(999999,999999,999999)'"}),
        "huge heap": table({"PCOUNT": "999999999999999", "TFORM1": "'1PD(999999999)'"}),
        "huge null": table({"TFORM1": "'J'", "NAXIS1": "4", "TNULL1": "999999999999999999999"}),
        "text for null": table({"TFORM1": "'J'", "NAXIS1": "4", "TNULL1": "'x'"}),
        "infinite scale": table({"TFORM1": "'J'", "NAXIS1": "4", "TZERO1": "1E400", "TSCAL1": "0"}),
        "deep metadata": table({}, more=_long_card("[" * 30000)),
        "endless header": b"SIMPLE  =                    T".ljust(80) + endless * 400,
        "gzip bomb": _bomb(table({"NAXIS2": "134217728"}, b""), filler=b"\0"),
        "gzip bomb of a header": _bomb(b"SIMPLE  =                    T".ljust(80), filler=endless),
        "gzip bomb of one row": _bomb(
            table({"NAXIS1": "1073741824", "NAXIS2": "1", "TFORM1": "'134217728D'"}, b""), filler=b"\0"
        ),
    }
    suffixes = {name: ".fits.gz" if name.startswith("gzip") else ".fits" for name in files}
    return [Hostile(f"fits {name}", suffixes[name], data) for name, data in files.items()]


def _long_card(text: str) -> bytes:
    pieces = [text[k : k + 60] for k in range(0, len(text), 60)]
    first = f"GPZED_ME= '{pieces[0]}&'".ljust(80)
    return "".join([first, *(f"CONTINUE  '{piece}&'".ljust(80) for piece in pieces[1:])]).encode()


def _hostile_parquet() -> list[Hostile]:
    def written(table: Any, **options: Any) -> bytes:
        stream = io.BytesIO()
        pq.write_table(table, stream, **options)
        return stream.getvalue()

    plain, odd = pa.table({"a": [1.0, 2.0]}), {"unit": b"\xff"}
    deep: Any = pa.float64()
    for _ in range(90):
        deep = pa.list_(deep)
    many = pa.table({f"c{k}": [1.0] for k in range(3000)})
    files = {
        "deep metadata": written(plain.replace_schema_metadata({"gpzed_metadata": "[" * 100_000})),
        "bad Arrow schema": written(plain.replace_schema_metadata({"ARROW:schema": "AAAA", "pandas": "{"})),
        "bytes in metadata": written(plain.replace_schema_metadata({b"\xff\xfe": b"\xff", b"unit": b"\xff"})),
        "nested lists": written(pa.table({"a": pa.nulls(3, deep), "b": [1, 2, 3]})),
        "many columns": written(many),
        "rows of nothing": written(pa.table({"a": pa.nulls(1 << 24)}), compression="zstd"),
        "same names": written(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])),
        "empty name": written(pa.table({"": [1], "b": [2]})),
        "big decimals": written(pa.table({"a": pa.array([10**70], pa.decimal256(76, 0))})),
        "odd unit": written(pa.table([pa.array([1.0])], pa.schema([pa.field("a", pa.float64(), metadata=odd)]))),
        "wide lists": written(pa.table({"a": pa.nulls(4, pa.list_(pa.float64(), 1_000_000))})),
        "huge footer": b"PAR1" + b"\0" * 100 + b"\xff\xff\xff\x7fPAR1",
        "negative footer": b"PAR1" + b"\0" * 100 + b"\xff\xff\xff\xffPAR1",
    }  # fmt: skip
    return [Hostile(f"parquet {name}", ".parquet", data) for name, data in files.items()]


def _hostile_csv() -> list[Hostile]:
    def declared(dtype: str, cell: str = "1", more: str = "") -> bytes:
        return f'# gpzed_columns: {{"a": {{"dtype": {dtype}{more}}}}}\na\n{cell}\n'.encode()

    files = {
        "object type": declared('"O"'),
        "void type": declared('"V99999999"'),
        "wide text": declared('"U999999999"', cell="x"),
        "structure": declared('"i4,f8"'),
        "time stamps": declared('"datetime64[as]"', cell="2020-01-01"),
        "complex": declared('"complex128"'),
        "list for type": declared("[1, 2]"),
        "number for column": b'# gpzed_columns: {"a": 5}\na\n1\n',
        "deep metadata": b"# gpzed_metadata: " + b"[" * 100_000 + b"\na\n1\n",
        "long line": b"a,b\n" + b"x" * (1 << 27) + b"\n",
        "long header": b"x" * (1 << 27),
        "many columns": ",".join(f"c{k}" for k in range(200_000)).encode() + b"\n",
        "open quote": b'a,b\n1,"' + b"x\n" * (1 << 24),
        "no line ends": b"a,b\r1,2\r3,4\r",
        "nothing but comments": b"# x\n" * 1000,
        "null bytes": b"a,b\n" + b"\0" * 10000,
        "UTF-16": "a,b\n1,2\n".encode("utf-16"),
    }
    bombs = {
        "gzip bomb of one line": _bomb(b"a\n", filler=b"1"),
        "gzip bomb of a header": _bomb(filler=b"a"),
        "gzip bomb of comments": _bomb(filler=b"# x\n"),
        "gzip bomb of quotes": _bomb(b'a,b\n1,"', filler=b"x\n"),
    }
    return [Hostile(f"csv {name}", ".csv", data) for name, data in files.items()] + [
        Hostile(f"csv {name}", ".csv.gz", data) for name, data in bombs.items()
    ]
