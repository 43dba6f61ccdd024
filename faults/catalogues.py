"""Damaged and hostile catalogues: each is read, or refused by an error of ours, in bounded memory and time.

Files of every format are made, then mutated: values in headers and footers, the format's own means to reach elsewhere
or to grow (links, entities, tags, compression), raw bytes, length.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from astropy.io import fits, votable
from astropy.table import Table

from faults.campaign import Case
from faults.hostile_catalogues import CANARY, CANARY_NUMBER, Hostile, crafted, texts_of_any_length
from faults.trials import in_children
from gpzed.catalog import Catalog, catalog_info, iter_catalog, write_catalog
from gpzed.errors import GPzError

CASES = 2500
SECONDS, MEGABYTES = 20.0, 640
CHUNK_ROWS = 500
MAX_ROWS = 2_000_000
"""Rows after which a file counts as read: mutants may well be large and valid."""


def run(cases: int, rng: np.random.Generator, folder: Path) -> Iterator[Case]:
    """Read mutants of all formats, the same for the same generator."""
    seeds = make_seeds(folder)
    special = crafted(folder)
    files = [*special, *(mutant(seeds, rng) for _ in range(cases - len(special)))][:cases]
    yield from try_files(files, folder)


def try_files(files: list[Hostile], folder: Path) -> Iterator[Case]:
    """Read each file and say what came of it."""
    answers = in_children(Attempt(folder), files, seconds=SECONDS, megabytes=MEGABYTES)
    for file, answer in zip(files, answers, strict=True):
        outcome, _, detail = answer.partition(": ")
        yield Case(file.fault, outcome, outcome in ("read", "refused"), f"{file.name}: {detail}")


class Attempt:
    """Read one file the way a workflow does, and say how it went."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._watched: list[str] = []
        self._hooked = False

    def __call__(self, mutant: Hostile) -> str:
        if not self._hooked:
            sys.addaudithook(self._notice)
            self._hooked = True
        path = self._folder / f"case{mutant.name}"
        path.write_bytes(mutant.data)
        self._watched.clear()
        try:
            answer = "read" if self._read(path) else "read from elsewhere: the canary is in the table"
        except GPzError as error:
            answer = f"refused: {error}" if CANARY not in str(error) else f"read from elsewhere: {error}"
        except BaseException as error:
            answer = f"foreign error: {type(error).__name__}: {error}"
        path.unlink()
        return f"read from elsewhere: {self._watched[0]}" if self._watched else answer

    def _read(self, path: Path) -> bool:
        info = catalog_info(path)
        seen = json.dumps([info.metadata, info.units, info.names], default=str, skipkeys=True)
        rows = 0
        for chunk in iter_catalog(path, chunk_rows=CHUNK_ROWS):
            rows += len(chunk)
            for name in chunk.names:
                values = chunk[name]
                if values.dtype.kind == "U":
                    seen += str(values[:20])
                elif values.dtype.kind in "iuf" and CANARY_NUMBER in getattr(values, "values", values):
                    return False
            if rows > MAX_ROWS:
                break
        return CANARY not in seen

    def _notice(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.system", "urllib.Request"):
            self._watched.append(f"{event} {arguments}")
        if event == "open" and CANARY in str(arguments[0]):
            self._watched.append(f"open {arguments[0]}")


def example(n: int = 60) -> Catalog:
    """Return a table with a column of every kind."""
    rng = np.random.default_rng(n)
    return Catalog(
        {
            "id": np.arange(n, dtype=np.int64) + 2**53,
            "mag_g": rng.normal(22, 1, n).astype(np.float32),
            "mag_err_g": rng.gamma(2, 0.1, n),
            "flag": rng.integers(0, 3, n).astype(np.uint8),
            "star": rng.random(n) < 0.5,
            "name": np.array(["NGC 1", "µ", "", "a,b\n"])[rng.integers(0, 4, n)],
        },
        masks={"id": rng.random(n) < 0.1, "mag_g": rng.random(n) < 0.1},
        units={"mag_g": "mag"},
        metadata={"survey": "x", "list": [1, None]},
    )


def make_seeds(folder: Path) -> dict[str, list[bytes]]:
    """Return whole files by suffix: those that gpzed writes, and foreign ones."""
    seeds: dict[str, list[bytes]] = {}
    for suffix in (".fits", ".parquet", ".hdf5", ".csv", ".csv.gz"):
        write_catalog(example(), folder / f"seed{suffix}")
        seeds[suffix] = [(folder / f"seed{suffix}").read_bytes()]
    table = Table({name: np.ma.MaskedArray(example()[name], example().mask(name)) for name in example().names})
    table["mag_g"].unit = "mag"
    table.meta["comments"] = ["by hand"]
    for suffix, name in ((".ecsv", "ascii.ecsv"), (".csv", "ascii.csv")):
        table.write(folder / f"foreign{suffix}", format=name, overwrite=True)
        seeds.setdefault(suffix, []).append((folder / f"foreign{suffix}").read_bytes())
    seeds[".hdf5"].append(texts_of_any_length(folder))
    # text by the writer in Python: the one in C writes past its buffer (astropy issue 20419)
    votable.from_table(table).to_xml(str(folder / "foreign.vot"), _debug_python_based_parser=True)
    seeds[".vot"] = [(folder / "foreign.vot").read_bytes()]
    for name in ("binary", "binary2"):
        part = table if name == "binary2" else table["mag_g", "mag_err_g", "flag", "name"]  # no nulls in the first
        part.write(folder / "binary.vot", format="votable", tabledata_format=name, overwrite=True)
        seeds[".vot"].append((folder / "binary.vot").read_bytes())
    seeds[".fits"].append(_foreign_fits())
    seeds[".fits.gz"] = [gzip.compress(data) for data in seeds[".fits"]]
    with h5py.File(folder / "foreign.hdf5", "w") as file:
        file["compound"] = np.array([(1, 2.5, b"x")] * 60, dtype=[("a", "i4"), ("b", "f8"), ("c", "S3")])
    seeds[".hdf5"].append((folder / "foreign.hdf5").read_bytes())
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(120.0)), 2)
    words = pa.array(["a", None, "b"] * 20).dictionary_encode()
    pq.write_table(pa.table({"list": lists, "word": words}), folder / "foreign.parquet", compression="zstd")
    seeds[".parquet"].append((folder / "foreign.parquet").read_bytes())
    return seeds


def _foreign_fits() -> bytes:
    columns = [
        fits.Column("SCALED", "I", array=np.arange(60, dtype=np.int16), null=7),
        fits.Column("FLUX", "3E", array=np.ones((60, 3)), unit="nJy"),
        fits.Column("BITS", "8X", array=np.ones((60, 8), bool)),
        fits.Column("VARIABLE", "PE()", array=np.array([np.ones(k % 3) for k in range(60)], dtype=object)),
        fits.Column("TEXT", "6A2", array=["abcd"] * 60),
    ]
    stream = io.BytesIO()
    fits.HDUList([fits.PrimaryHDU(np.zeros((4, 4))), fits.BinTableHDU.from_columns(columns)]).writeto(stream)
    return stream.getvalue()


def mutant(seeds: dict[str, list[bytes]], rng: np.random.Generator) -> Hostile:
    """Return one of the files, changed in one or two ways."""
    suffix = list(seeds)[rng.integers(len(seeds))]
    data = seeds[suffix][rng.integers(len(seeds[suffix]))]
    packed = suffix.endswith(".gz") and rng.random() < 0.7
    if packed:
        data = gzip.decompress(data)
    makers: list[Callable[[bytes, np.random.Generator], bytes]] = [_flip, _truncate, _overwrite, _splice]
    structural = _STRUCTURAL.get(suffix.removesuffix(".gz"))
    if structural is not None and (packed or not suffix.endswith(".gz")):
        makers += [structural] * 6
    maker = makers[rng.integers(len(makers))]
    data = maker(data, rng)
    if rng.random() < 0.2:
        data = makers[rng.integers(len(makers))](data, rng)
    data = gzip.compress(data, mtime=0) if packed else data
    what = "header" if maker is structural else maker.__name__.strip("_")
    return Hostile(f"{suffix.lstrip('.')} {what}", suffix, data or b"\0")


def _flip(data: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.integers(1, 9)):
        changed[rng.integers(len(changed))] ^= 1 << rng.integers(8)
    return bytes(changed)


def _truncate(data: bytes, rng: np.random.Generator) -> bytes:
    return data[: rng.integers(1, len(data))]


def _overwrite(data: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(data)
    start = int(rng.integers(len(changed)))
    fill = [b"\0", b"\xff", b"\x7f", b"9", b"<"][rng.integers(5)]
    length = min(int(rng.integers(1, 64)), len(changed) - start)
    changed[start : start + length] = fill * length
    return bytes(changed)


def _splice(data: bytes, rng: np.random.Generator) -> bytes:
    a, b = sorted(rng.integers(len(data), size=2))
    c = int(rng.integers(len(data)))
    return data[:c] + data[a : min(b, a + 4096)] + data[c:]


_HOSTILE = [
    "-1", "0", "1", "2147483648", "9223372036854775807", "99999999999999999999999", "-9223372036854775809",
    "1E400", "NaN", "T", "''", "'x'", "'1J'", "'0A'", "'99999999999A'", "'9223372036854775807E'", "'-1J'", "'1PE(99)'",
    "'1QD(9999999999)'", "'16A'", "'(99999999,99999999)'", "'(-1,2)'", "'(0)'", "'BINTABLE'", "'IMAGE'", "'TABLE'",
    "'[[[[[[['", "'1M'", "'7X'", "'rD'", "1.5",
]  # fmt: skip


def _change_card(data: bytes, rng: np.random.Generator) -> bytes:
    """Give a card of the header another value, take it away or repeat it."""
    end = data.rfind(b"END" + b" " * 77)
    n_cards = max(end // 80, 1)
    k = int(rng.integers(n_cards))
    card = data[80 * k : 80 * k + 80]
    action = rng.random()
    if action < 0.75 and b"=" in card:
        value = _HOSTILE[rng.integers(len(_HOSTILE))]
        card = (card[:8] + b"= " + value.rjust(20).encode()).ljust(80)[:80]
        return data[: 80 * k] + card + data[80 * k + 80 :]
    if action < 0.9:
        return data[: 80 * k] + b" " * 80 + data[80 * k + 80 :]
    return data[: 80 * k] + card + data[80 * k : 80 * max(n_cards - 1, k)] + data[80 * max(n_cards, k + 1) :]


def _change_footer(data: bytes, rng: np.random.Generator) -> bytes:
    """Change bytes of the Parquet footer, among them numbers made as large as they can be."""
    changed = bytearray(data)
    length = int.from_bytes(data[-8:-4], "little")
    start = max(len(data) - 8 - length, 0)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(start, len(data) - 4))
        if rng.random() < 0.5:
            changed[at] = int(rng.integers(256))
        else:
            changed[at : at + 1] = b"\xff" * int(rng.integers(1, 10)) + b"\x7f"
    if rng.random() < 0.5:
        changed[-8:-4] = max(len(changed) - 8 - start, 0).to_bytes(4, "little")
    return bytes(changed)


def _change_hdf5(data: bytes, rng: np.random.Generator) -> bytes:
    """Change sizes, addresses and versions: eight-byte numbers where the metadata are."""
    changed = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(min(len(data) - 8, 4096)))
        value = [0, 1, 2**31, 2**63 - 1, 2**64 - 1, len(data), int(rng.integers(2**40))][rng.integers(7)]
        changed[at : at + 8] = value.to_bytes(8, "little")
    return bytes(changed)


_WORDS = [
    b'"', b"\n", b",", b"#", b"\0", b"\xff\xfe", b"[" * 3000, b'{"a":' * 3000, b"9" * 400, b"nan", b"1e999", b"--",
    b"!!python/object/apply:os.system ['id']", b"&a [*a,*a]", b"<!ENTITY a 'b'>", b"&lol;", b'arraysize="999999999999"',
    b'arraysize="*"', b'arraysize="-1x2"', b'nrows="99999999999"', b'datatype="floatComplex"', b'datatype="bit"',
    b'"dtype": "U999999999"', b'"dtype": "O"', b'"dtype": "V99"', b'"dtype": "complex128"',
    b'"dtype": "datetime64[as]"', b"object", b"float128", b"string[99999999999]", b"</TABLE>", b"<TD>", b"]]>",
    b"<FIELD name='x' datatype='int'/>",
]  # fmt: skip


def _change_text(data: bytes, rng: np.random.Generator) -> bytes:
    """Put a word that means something to the format in place of another, at the top more often than not."""
    reach = len(data) if rng.random() < 0.3 else min(len(data), 1500)
    at = int(rng.integers(reach))
    word = _WORDS[rng.integers(len(_WORDS))]
    return data[:at] + word + data[at + int(rng.integers(len(word) + 1)) :]


_STRUCTURAL: dict[str, Callable[[bytes, np.random.Generator], bytes]] = {
    ".fits": _change_card,
    ".parquet": _change_footer,
    ".hdf5": _change_hdf5,
    ".csv": _change_text,
    ".ecsv": _change_text,
    ".vot": _change_text,
}
